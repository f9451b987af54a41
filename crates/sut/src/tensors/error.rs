//! What is wrong with samples, their labels and their lengths.

use std::fmt;
use std::path::PathBuf;

use dyno_tensors::npy::NpyError;

/// Why a library cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorError {
    /// A file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's message.
        why: String,
    },
    /// A file is not an array that is understood.
    Npy {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: NpyError,
    },
    /// An array without a dimension that could count samples.
    Scalar {
        /// The file.
        path: PathBuf,
    },
    /// No tensors, or no samples.
    Empty,
    /// The first sample of a source cannot be prepared.
    FirstSample {
        /// The data set.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A tensor does not have as many samples as the first one, or elements that
    /// are no whole number of samples.
    SampleCount {
        /// The tensor.
        name: String,
        /// Samples of the first tensor.
        expected: usize,
        /// Elements of one sample of this tensor.
        sample_len: usize,
        /// Elements of this tensor.
        elements: usize,
    },
    /// There is no memory for so many random samples.
    Memory {
        /// How many.
        samples: usize,
        /// What they take.
        bytes: usize,
    },
    /// Not one label per sample.
    LabelCount {
        /// Samples.
        samples: usize,
        /// Labels.
        labels: usize,
    },
    /// A number that is NaN or infinite.
    NotFinite {
        /// The file.
        path: PathBuf,
        /// Where the first one stands, an index for each axis.
        index: Vec<usize>,
        /// What stands there.
        value: String,
    },
    /// Labels that are no list.
    LabelShape {
        /// The file.
        path: PathBuf,
        /// Shape of its array.
        shape: Vec<usize>,
    },
    /// A label that is no class.
    Label {
        /// The file.
        path: PathBuf,
        /// The first sample with such a label.
        index: usize,
        /// Its label.
        found: String,
        /// How many classes there are, where it is known.
        classes: Option<usize>,
    },
    /// Not one length per sample.
    LengthCount {
        /// Samples.
        samples: usize,
        /// Lengths.
        lengths: usize,
    },
    /// More is meant of a sample than there is, or nothing.
    Length {
        /// The most that all inputs have.
        most: usize,
        /// What is said.
        found: usize,
    },
}

impl fmt::Display for TensorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, why } => write!(f, "cannot read {}: {why}", path.display()),
            Self::Npy { path, problem } => write!(f, "{}: {problem}", path.display()),
            Self::Scalar { path } => write!(
                f,
                "{}: a scalar has no samples; the first dimension counts them",
                path.display()
            ),
            Self::Empty => f.write_str("the sample library has no samples"),
            Self::FirstSample { name, why } => {
                write!(f, "sample 0 of {name} cannot be prepared: {why}")
            }
            Self::SampleCount { name, expected, sample_len, elements } => write!(
                f,
                "input '{name}' has {elements} elements where {expected} samples of {sample_len} \
                 elements are expected; all inputs need the same first dimension"
            ),
            Self::Memory { samples, bytes } => {
                write!(
                    f,
                    "{samples} random samples take {bytes} bytes, for which there is no memory"
                )
            }
            Self::LabelCount { samples, labels } => {
                write!(f, "{labels} labels for {samples} samples; give one label per sample")
            }
            Self::NotFinite { path, index, value } => write!(
                f,
                "{}: {value} at {index:?}; samples must hold finite numbers",
                path.display()
            ),
            Self::LabelShape { path, shape } => write!(
                f,
                "{}: the labels have the shape {shape:?}, expected [samples]; of scores or one-hot \
                 rows save array.argmax(-1)",
                path.display()
            ),
            Self::Label { path, index, found, classes } => {
                let most =
                    classes.map_or(String::new(), |n| format!(" to {}", n.saturating_sub(1)));
                let from = if most.is_empty() { "a whole number from 0" } else { "a class from 0" };
                write!(f, "{}: label {found} at [{index}], expected {from}{most}", path.display())
            }
            Self::LengthCount { samples, lengths } => {
                write!(f, "{lengths} lengths for {samples} samples; give one length per sample")
            }
            Self::Length { most, found } => {
                write!(f, "expected lengths from 1 to {most}, found {found}")
            }
        }
    }
}

impl std::error::Error for TensorError {}
