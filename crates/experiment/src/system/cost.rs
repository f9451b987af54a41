//! Operations of a system per sample, if known.

use std::path::{Path, PathBuf};

use dyno_onnx::{Cost, Model, Weights, count};
use dyno_sut::digits;
use dyno_task::shape;

use crate::options::RunOptions;

/// Operations of the built-in perceptron per image.
const DIGITS: f64 = 2.0 * (digits::HIDDEN * (digits::PIXELS + digits::CLASSES)) as f64;

/// Operations of the built-in LSTM per image: the products of each row, then ten scores.
const LSTM: f64 = 2.0
    * (digits::ROWS * 4 * digits::UNITS * (digits::ROW + digits::UNITS)
        + digits::CLASSES * digits::UNITS) as f64;

/// Returns the operations per sample of the system that `--system` names, two for each
/// multiply-accumulate: those of its ONNX file, or of the graph of a shape task. `None` if a part
/// of the model cannot be counted.
pub fn operations(run: &RunOptions) -> Option<f64> {
    let spec = run.system.as_deref().unwrap_or("digits");
    let (name, argument) = spec.split_once(':').unwrap_or((spec, ""));
    match (name, argument) {
        ("digits", _) | ("task", "digits") => Some(DIGITS),
        ("digits-lstm", _) | ("task", "digits-lstm") => Some(LSTM),
        ("onnx" | "tract", "") => of_file(run.model.as_deref()?),
        ("onnx" | "tract", file) => of_file(&PathBuf::from(file)),
        ("tuned", text) => of_file(&super::tuned::model(text).or_else(|| run.model.clone())?),
        ("task", task) => {
            let model = (shape::graph(task)?.build)(Weights::seeded(1)).ok()?;
            whole(&count(&model))
        }
        _ => None,
    }
}

fn of_file(path: &Path) -> Option<f64> {
    whole(&count(&Model::read(path).ok()?))
}

fn whole(cost: &Cost) -> Option<f64> {
    let operations = cost.operations();
    (cost.uncounted.is_empty() && operations > 0).then_some(operations as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_those_of_the_graph_and_none_where_there_is_none() {
        let of = |system: &str| {
            operations(&RunOptions { system: Some(system.into()), ..RunOptions::default() })
        };
        assert_eq!(of("digits"), Some(7104.0));
        assert_eq!(of("task:digits"), of("digits"));
        // 8 rows of 4 x 32 sums of 8 + 32 products, and 10 of 32.
        assert_eq!(of("task:digits-lstm"), Some(82_560.0));
        // 0.57 G multiply-accumulates, as the paper of MobileNet has it.
        let mobilenet = of("task:mobilenet-v1-shape").unwrap();
        assert!((1.13e9..1.15e9).contains(&mobilenet), "{mobilenet}");
        assert_eq!([of("null"), of("task:none"), of("onnx:none.onnx"), of("onnx")], [None; 4]);
    }
}
