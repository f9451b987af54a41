//! The judge of a task's answers: a method of `dyno-metrics`, its references, and the figures that
//! decide.

use std::collections::BTreeMap;
use std::path::PathBuf;

use dyno_loadgen::settings::Scenario;
use dyno_metrics::payload::element_named;
use dyno_metrics::{DataError, Inputs, Method, Scorer};

use crate::card::{Bound, Quality, Unit};
use crate::features::FeatureNetworks;
use crate::files::{Files, OpenError};

/// The method that scores answers, with its references and targets.
#[derive(Debug, Clone)]
pub struct Judge {
    /// The scoring method.
    pub method: &'static Method,
    /// References and choices of the method.
    pub inputs: Inputs,
    /// Name of the figure that decides.
    pub metric: String,
    /// Unit of the figure.
    pub unit: Unit,
    /// Targets; that of the figure that decides comes first.
    pub targets: Vec<Target>,
    /// Networks that compute the features of images, if the method scores features.
    pub networks: Option<FeatureNetworks>,
}

/// A bound that a figure must meet.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Name of the figure.
    pub metric: String,
    /// The bound.
    pub bound: Bound,
    /// The only scenario to which the target applies; `None` means all.
    pub scenario: Option<Scenario>,
}

impl Judge {
    /// Returns the targets of a scenario.
    pub fn targets_in(&self, scenario: Scenario) -> impl Iterator<Item = &Target> {
        let applies = move |only: &Scenario| *only == scenario;
        self.targets.iter().filter(move |target| target.scenario.as_ref().is_none_or(applies))
    }

    /// Returns a new scorer. Feature networks are loaded by the ONNX Runtime of this process and
    /// use all cores.
    ///
    /// # Errors
    /// References cannot be read, or networks do not load.
    pub fn scorer(&self) -> Result<Box<dyn Scorer>, DataError> {
        let scorer = self.references()?;
        match &self.networks {
            None => Ok(scorer),
            Some(networks) => networks.feature_scorer(scorer),
        }
    }

    /// Returns a scorer of answers in the form that the method takes, without feature networks.
    pub(crate) fn references(&self) -> Result<Box<dyn Scorer>, DataError> {
        (self.method.open)(&self.inputs)
    }
}

/// Returns the judge of a card. `references` are files that a reader of samples derived; they take
/// precedence over the card's files.
///
/// # Errors
/// A file of the card is missing or wrong.
pub(crate) fn judge(
    quality: &Quality,
    files: &Files<'_>,
    mut references: BTreeMap<String, PathBuf>,
) -> Result<Judge, OpenError> {
    let method = Method::named(&quality.method).expect("cards name methods that there are");
    for (need, file) in &quality.with {
        // A derived file replaces the card's file.
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
        inputs: Inputs { files: references, element, choices: quality.choose.clone() },
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
