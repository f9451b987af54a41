//! Errors of samples, their labels and their lengths.

use std::path::PathBuf;

use dyno_tensors::npy::NpyError;
use thiserror::Error;

/// Error: a library cannot be created.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TensorError {
    /// A file cannot be read.
    #[error("cannot read {}: {why}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Message of the operating system.
        why: String,
    },
    /// A file is not a supported array.
    #[error("{}: {problem}", .path.display())]
    Npy {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: NpyError,
    },
    /// An array has no dimension that could count samples.
    #[error(
        "{}: a scalar has no samples; the first dimension counts them",
        .path.display()
    )]
    Scalar {
        /// The file.
        path: PathBuf,
    },
    /// There are no tensors, or no samples.
    #[error("the sample library has no samples")]
    Empty,
    /// The first sample of a source cannot be prepared.
    #[error("sample 0 of {name} cannot be prepared: {why}")]
    FirstSample {
        /// Name of the data set.
        name: String,
        /// The reason.
        why: String,
    },
    /// A tensor has another number of samples than the first one, or its elements are not a whole
    /// number of samples.
    #[error(
        "input '{name}' has {elements} elements where {expected} samples of {sample_len} elements \
         are expected; all inputs need the same first dimension"
    )]
    SampleCount {
        /// Name of the tensor.
        name: String,
        /// Samples of the first tensor.
        expected: usize,
        /// Elements of one sample of this tensor.
        sample_len: usize,
        /// Elements of this tensor.
        elements: usize,
    },
    /// There is not enough memory for this many random samples.
    #[error(
        "{samples} random samples need {bytes} bytes, which exceeds the memory; lower \
         --samples"
    )]
    Memory {
        /// Number of samples.
        samples: usize,
        /// Bytes of all samples.
        bytes: usize,
    },
    /// The number of labels differs from the number of samples.
    #[error("{labels} labels for {samples} samples; give one label per sample")]
    LabelCount {
        /// Number of samples.
        samples: usize,
        /// Number of labels.
        labels: usize,
    },
    /// A number is NaN or infinite.
    #[error("{}: {value} at {index:?}; samples must hold finite numbers", .path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// Indices of the first such number, one per axis.
        index: Vec<usize>,
        /// The value.
        value: String,
    },
    /// The labels are not a list.
    #[error(
        "{}: the labels have the shape {shape:?}, expected [samples]; of scores or one-hot rows \
         save array.argmax(-1)",
        .path.display()
    )]
    LabelShape {
        /// The file.
        path: PathBuf,
        /// Shape of the array.
        shape: Vec<usize>,
    },
    /// A label is not a class.
    #[error(
        "{}: label {found} at [{index}], expected {}",
        .path.display(), expected_labels(*.classes)
    )]
    Label {
        /// The file.
        path: PathBuf,
        /// First sample with such a label.
        index: usize,
        /// Its label.
        found: String,
        /// Number of classes, if known.
        classes: Option<usize>,
    },
    /// The number of lengths differs from the number of samples.
    #[error("{lengths} lengths for {samples} samples; give one length per sample")]
    LengthCount {
        /// Number of samples.
        samples: usize,
        /// Number of lengths.
        lengths: usize,
    },
    /// A length is 0 or exceeds the first axis of an input.
    #[error("expected lengths from 1 to {most}, found {found}")]
    Length {
        /// Maximum length, which all inputs have.
        most: usize,
        /// The length.
        found: usize,
    },
}

fn expected_labels(classes: Option<usize>) -> String {
    match classes {
        Some(n) => format!("a class from 0 to {}", n.saturating_sub(1)),
        None => "a whole number of at least 0".into(),
    }
}
