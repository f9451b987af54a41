//! How the answers of a task are judged: a method of `dyno-metrics`, its references, and the
//! figures that decide.

use std::collections::BTreeMap;
use std::path::PathBuf;

use dyno_loadgen::settings::Scenario;
use dyno_metrics::payload::element_named;
use dyno_metrics::{DataError, Inputs, Method, Scorer};

use crate::card::{Bound, Quality, Unit};
use crate::features::Networks;
use crate::files::{Files, OpenError};

/// How answers are judged.
#[derive(Debug, Clone)]
pub struct Judge {
    /// The way to score.
    pub method: &'static Method,
    /// References and choices.
    pub inputs: Inputs,
    /// The figure that decides.
    pub metric: String,
    /// Of the figure.
    pub unit: Unit,
    /// What is asked for; of the figure that decides first.
    pub targets: Vec<Target>,
    /// What makes the features that the method takes of images that are answered.
    pub networks: Option<Networks>,
}

/// What is asked for of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The figure.
    pub metric: String,
    /// What it must be.
    pub bound: Bound,
    /// The only scenario that asks for it.
    pub scenario: Option<Scenario>,
}

impl Judge {
    /// What a scenario asks for.
    pub fn targets_in(&self, scenario: Scenario) -> impl Iterator<Item = &Target> {
        let of_all = move |of: &Scenario| *of == scenario;
        self.targets.iter().filter(move |target| target.scenario.as_ref().is_none_or(of_all))
    }

    /// A scorer that has seen nothing yet. Networks are loaded by the ONNX Runtime of this
    /// process, and compute on all cores.
    ///
    /// # Errors
    /// References that do not read, or networks that do not load.
    pub fn scorer(&self) -> Result<Box<dyn Scorer>, DataError> {
        let scorer = self.references()?;
        match &self.networks {
            None => Ok(scorer),
            Some(networks) => networks.before(scorer),
        }
    }

    /// The same, of answers that the method takes as they are.
    pub(crate) fn references(&self) -> Result<Box<dyn Scorer>, DataError> {
        (self.method.open)(&self.inputs)
    }
}

/// The judge that a card asks for; `references` are those that a reader of samples made.
///
/// # Errors
/// A file of the card that is missing or wrong.
pub(crate) fn judge(
    quality: &Quality,
    files: &Files<'_>,
    mut references: BTreeMap<String, PathBuf>,
) -> Result<Judge, OpenError> {
    let method = Method::named(&quality.method).expect("cards name methods that there are");
    for (need, file) in &quality.with {
        // What a reader made of the file stands for it.
        if !references.contains_key(need) {
            references.insert(need.clone(), files.path(file)?);
        }
    }
    let element = quality
        .element
        .as_deref()
        .map(|name| element_named(name).expect("cards name types that there are"));
    Ok(Judge {
        method,
        inputs: Inputs { files: references, element, chosen: quality.choose.clone() },
        metric: quality.metric.clone(),
        unit: quality.unit,
        networks: None,
        targets: quality
            .bound()
            .map(|bound| Target { metric: quality.metric.clone(), bound, scenario: None })
            .into_iter()
            .collect(),
    })
}
