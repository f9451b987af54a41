//! Cards of the shape tasks, one for each graph.

use super::{Card, Data, Input, Tier};
use crate::graphs::GRAPHS;

/// Suffix of the names of shape tasks, which follows the name of the graph.
pub(crate) const SHAPE_SUFFIX: &str = "-shape";

/// Returns the card of each graph.
pub(super) fn cards() -> impl Iterator<Item = Card> {
    GRAPHS.iter().map(|graph| {
        let (model, problem) = graph.title.split_once(", ").unwrap_or((graph.title, "inference"));
        let input = |&(name, shape): &(&str, &[usize])| Input {
            name: name.to_owned(),
            also: Vec::new(),
            element: "as the model declares it".to_owned(),
            shape: shape.to_vec(),
        };
        let samples = graph.random_samples();
        Card {
            name: format!("{}{SHAPE_SUFFIX}", graph.name),
            tier: Tier::Shape,
            problem: problem.to_owned(),
            model: model.to_owned(),
            publication: "see the official task of the same model".to_owned(),
            rules: None,
            weights: Vec::new(),
            data: Data {
                name: "random samples".to_owned(),
                inputs: graph.inputs.iter().map(input).collect(),
                accuracy_samples: samples,
                performance_samples: samples,
                calibration: None,
                files: Vec::new(),
                untimed: Vec::new(),
                timed: Vec::new(),
            },
            system: None,
            quality: None,
        }
    })
}
