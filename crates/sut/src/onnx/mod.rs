//! ONNX models as engines: on ONNX Runtime, which is found on the machine and loaded at run time
//! ([`ort`]), on Dyno's own executor ([`graph`]), on tract, which is compiled in (`tract`, behind the
//! feature of that name), or in number formats of few bits ([`tuned`]).

pub mod answer;
mod feed;
pub mod graph;
mod optional;
pub mod ort;
pub mod runtime;
#[cfg(feature = "tract")]
pub mod tract;
pub mod tuned;
pub mod windows;

use std::path::PathBuf;

use thiserror::Error;

use crate::tensors::{Element, Elements};

pub use answer::{Answer, Outputs};
pub use runtime::RuntimeError;

/// Options of an engine.
///
/// ```
/// use dyno_sut::onnx::{Answer, EngineOptions};
///
/// let options = EngineOptions { answer: Answer::Argmax, ..EngineOptions::default() };
/// assert_eq!(options.largest_batch, 64);
/// ```
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// How answers are made.
    pub answer: Answer,
    /// Maximum number of samples per call, at least 1. It applies to models with a dynamic first
    /// dimension.
    pub largest_batch: usize,
    /// Index in the model of the output of which answers are made. [`Answer::Function`] reads all
    /// outputs by name.
    pub output: usize,
    /// Why samples must not share a call, if the model is known to combine them, or not known to keep
    /// them apart. Each sample is then computed alone.
    pub separate: Option<String>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { answer: Answer::Output, largest_batch: 64, output: 0, separate: None }
    }
}

/// Error: a model cannot be loaded or does not fit its samples.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// ONNX Runtime is not available.
    #[error("{0}")]
    Runtime(#[from] RuntimeError),
    /// The engine does not load the model.
    #[error("cannot load {}: {why}", .path.display())]
    Model {
        /// File of the model.
        path: PathBuf,
        /// Message of the engine.
        why: String,
    },
    /// An input has elements of a type that is not supported.
    #[error("input '{name}' has elements of type {found}; expected {}", supported_types())]
    InputType {
        /// Name of the input.
        name: String,
        /// Type of the elements.
        found: String,
    },
    /// The output of which answers are made is not a tensor of numbers.
    #[error("output '{name}' is {found}, not a tensor of numbers{}", selectable(.numeric))]
    OutputType {
        /// Name of the output.
        name: String,
        /// Type of the output.
        found: String,
        /// Names of the outputs that are tensors of numbers.
        numeric: Vec<String>,
    },
    /// The library has no tensor for an input.
    #[error(
        "no samples for input '{name}'; the sample library has {}",
        .available.join(", ")
    )]
    InputMissing {
        /// Name of the input.
        name: String,
        /// Names of the tensors of the library.
        available: Vec<String>,
    },
    /// The tensor for an input has elements of another type.
    #[error("input '{name}' expects {expected}, but the samples are {found}")]
    ElementType {
        /// Name of the input.
        name: String,
        /// Type of the model.
        expected: Element,
        /// Type of the library.
        found: Element,
    },
    /// The tensor for an input has another shape.
    #[error(
        "input '{name}' expects [{}], but the samples have the shape {sample:?}",
        dimensions(.expected)
    )]
    Shape {
        /// Name of the input.
        name: String,
        /// Shape of the model; `None` is a dynamic dimension.
        expected: Vec<Option<usize>>,
        /// Shape of one sample of the library.
        sample: Vec<usize>,
    },
    /// Samples of one call influence each other.
    #[error(
        "an output of a sample depends on the other samples of its call, so the first dimension \
         of the model is not a batch: {why}; with --batch 1, each sample is computed alone"
    )]
    Mixed {
        /// What differs.
        why: String,
    },
    /// The model fails on the first sample.
    #[error("the model fails on sample 0: {why}")]
    Trial {
        /// Message of the engine.
        why: String,
    },
}

/// How to export a model whose outputs are not tensors.
pub const WITH_TENSORS: &str =
    "export the model with tensors, such as with the option zipmap=False of skl2onnx";

fn selectable(numeric: &[String]) -> String {
    if numeric.is_empty() {
        return String::new();
    }
    format!("; output=NAME selects one of {}", numeric.join(", "))
}

fn supported_types() -> String {
    Elements::TYPES.iter().map(|element| element.name()).collect::<Vec<_>>().join(", ")
}

fn dimensions(shape: &[Option<usize>]) -> String {
    let dimension = |n: &Option<usize>| n.map_or("?".into(), |n| n.to_string());
    shape.iter().map(dimension).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_without_numbers_is_answered_with_those_that_have_numbers() {
        let error = |numeric: &[&str]| {
            let numeric = numeric.iter().map(|name| (*name).to_owned()).collect();
            let (name, found) = ("maps".into(), "Sequence<Map<i64, f32>>".into());
            OnnxError::OutputType { name, found, numeric }.to_string()
        };
        let problem = "output 'maps' is Sequence<Map<i64, f32>>, not a tensor of numbers";
        assert_eq!(error(&[]), problem);
        let selected = format!("{problem}; output=NAME selects one of label, scores");
        assert_eq!(error(&["label", "scores"]), selected);
    }
}
