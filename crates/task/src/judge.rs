//! How the answers of a task are judged: a method of `dyno-mlperf`, its references, and the
//! figures that decide.

use std::collections::BTreeMap;
use std::path::PathBuf;

use dyno_mlperf::accuracy::payload::Element;
use dyno_mlperf::accuracy::{DataError, Inputs, Method, Scorer};

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
    /// What is asked for, of each figure; that of the metric first.
    pub bounds: Vec<(String, Bound)>,
    /// What makes the features that the method takes of images that are answered.
    pub networks: Option<Networks>,
}

impl Judge {
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
        .map(|name| Element::named(name).expect("cards name types that there are"));
    Ok(Judge {
        method,
        inputs: Inputs { files: references, element, chosen: quality.choose.clone() },
        metric: quality.metric.clone(),
        unit: quality.unit,
        networks: None,
        bounds: quality.bound().map(|bound| (quality.metric.clone(), bound)).into_iter().collect(),
    })
}
