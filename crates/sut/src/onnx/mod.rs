//! ONNX models as engines: through ONNX Runtime, found on the machine and
//! loaded while the program runs ([`ort`]), or through tract, compiled in
//! (`tract`, behind the feature of that name).

pub mod answer;
mod feed;
pub mod ort;
pub mod runtime;
#[cfg(feature = "tract")]
pub mod tract;
pub mod tuned;
pub mod windows;

use std::fmt;
use std::path::PathBuf;

use crate::tensors::{Element, Elements};

pub use answer::{Answer, Outputs};
pub use runtime::RuntimeMissing;

/// How an engine answers.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// What the answer is.
    pub answer: Answer,
    /// Samples in one call of the model at most (>= 1), where its first
    /// dimension is dynamic.
    pub largest_batch: usize,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { answer: Answer::Output, largest_batch: 64 }
    }
}

/// Why a model cannot be loaded or does not fit its samples.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnnxError {
    /// ONNX Runtime is not there.
    Runtime(RuntimeMissing),
    /// The engine refuses the model.
    Model {
        /// The model's file.
        path: PathBuf,
        /// The engine's message.
        why: String,
    },
    /// An input's elements are of a type that samples cannot have.
    InputType {
        /// The input.
        name: String,
        /// Its type.
        found: String,
    },
    /// The library has no tensor for an input.
    InputMissing {
        /// The input.
        name: String,
        /// Tensors of the library.
        available: Vec<String>,
    },
    /// The tensor for an input has elements of another type.
    ElementType {
        /// The input.
        name: String,
        /// The model's.
        expected: Element,
        /// The library's.
        found: Element,
    },
    /// The tensor for an input has another shape.
    Shape {
        /// The input.
        name: String,
        /// The model's; `None` is any.
        expected: Vec<Option<usize>>,
        /// Of one sample in the library.
        sample: Vec<usize>,
    },
    /// The model fails on the first sample.
    Trial {
        /// The engine's message.
        why: String,
    },
}

impl fmt::Display for OnnxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runtime(missing) => missing.fmt(f),
            Self::Model { path, why } => write!(f, "cannot load {}: {why}", path.display()),
            Self::InputType { name, found } => write!(
                f,
                "input '{name}' has elements of type {found}; {} can be fed",
                Elements::TYPES.iter().map(|element| element.name()).collect::<Vec<_>>().join(", ")
            ),
            Self::InputMissing { name, available } => write!(
                f,
                "no samples for input '{name}'; the sample library has {}",
                available.join(", ")
            ),
            Self::ElementType { name, expected, found } => {
                write!(f, "input '{name}' takes {expected}, the samples are {found}")
            }
            Self::Shape { name, expected, sample } => {
                let dimension = |n: &Option<usize>| n.map_or("?".into(), |n| n.to_string());
                let expected: Vec<String> = expected.iter().map(dimension).collect();
                write!(
                    f,
                    "input '{name}' takes [{}], which samples of shape {sample:?} do not fit",
                    expected.join(", ")
                )
            }
            Self::Trial { why } => write!(f, "the model fails on sample 0: {why}"),
        }
    }
}

impl std::error::Error for OnnxError {}

impl From<RuntimeMissing> for OnnxError {
    fn from(missing: RuntimeMissing) -> Self {
        Self::Runtime(missing)
    }
}
