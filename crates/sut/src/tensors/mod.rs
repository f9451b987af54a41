//! A sample library of tensors: what an ONNX model is fed with.

mod npy;

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};
use dyno_loadgen::rng::Mt19937;
use dyno_loadgen::sut::QuerySample;

use crate::engine::Port;

pub use npy::{Npy, NpyProblem};

/// Type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ElementType {
    F32,
    I64,
    U8,
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "float32",
            Self::I64 => "int64",
            Self::U8 => "uint8",
        })
    }
}

/// Elements, row by row: the library's own, or borrowed from it.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Elements<'a> {
    F32(Cow<'a, [f32]>),
    I64(Cow<'a, [i64]>),
    U8(Cow<'a, [u8]>),
}

impl Elements<'_> {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::U8(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their type.
    #[must_use]
    pub fn element(&self) -> ElementType {
        match self {
            Self::F32(_) => ElementType::F32,
            Self::I64(_) => ElementType::I64,
            Self::U8(_) => ElementType::U8,
        }
    }
}

/// One input of all samples: `[samples, sample_shape...]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Name of the model's input.
    pub name: String,
    /// Shape of one sample.
    pub sample_shape: Vec<usize>,
    /// All samples, one after the other.
    pub elements: Elements<'static>,
}

impl Tensor {
    /// Elements of one sample.
    #[must_use]
    pub fn sample_len(&self) -> usize {
        self.sample_shape.iter().product()
    }
}

/// One input of one sample.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleTensor {
    /// Without a dimension for the batch; samples of one library may differ in it.
    pub shape: Vec<usize>,
    /// Row by row.
    pub elements: Elements<'static>,
}

/// Where the samples of a library come from when they are loaded: a data set on
/// disk with what is done to its samples before they are timed.
pub trait Source: Send + Sync + fmt::Debug {
    /// Name of the data set, for the logs.
    fn name(&self) -> &str;
    /// Samples in it.
    fn count(&self) -> usize;
    /// The inputs of a sample, in the order in which [`Source::sample`] gives them.
    fn inputs(&self) -> &[String];
    /// Reads a sample and prepares it.
    ///
    /// # Errors
    /// What is wrong with its file, as a sentence that names it.
    fn sample(&self, index: SampleIndex) -> Result<Vec<SampleTensor>, String>;
}

/// An input as the model declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInput {
    /// Name.
    pub name: String,
    /// Type of the elements.
    pub element: ElementType,
    /// Dimensions; `None` is one that each run chooses.
    pub shape: Vec<Option<usize>>,
}

impl From<&ModelInput> for Port {
    fn from(input: &ModelInput) -> Self {
        let element = input.element.to_string();
        Self { name: input.name.clone(), element, shape: input.shape.clone() }
    }
}

/// Samples held in memory, with labels if there are any.
///
/// Everything is read when the library is opened, before any run, so loading
/// and unloading do nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorLibrary {
    name: String,
    samples: usize,
    tensors: Vec<Tensor>,
    labels: Option<Vec<i64>>,
}

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
        problem: NpyProblem,
    },
    /// No tensors, or no samples.
    Empty,
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
    /// Not one label per sample.
    LabelCount {
        /// Samples.
        samples: usize,
        /// Labels.
        labels: usize,
    },
}

impl fmt::Display for TensorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, why } => write!(f, "cannot read {}: {why}", path.display()),
            Self::Npy { path, problem } => write!(f, "{}: {problem}", path.display()),
            Self::Empty => f.write_str("the sample library has no samples"),
            Self::SampleCount { name, expected, sample_len, elements } => write!(
                f,
                "input '{name}' has {elements} elements where {expected} samples of {sample_len} \
                 elements are expected; all inputs need the same first dimension"
            ),
            Self::LabelCount { samples, labels } => {
                write!(f, "{labels} labels for {samples} samples; give one label per sample")
            }
        }
    }
}

impl std::error::Error for TensorError {}

impl TensorLibrary {
    /// A library of these tensors.
    ///
    /// # Errors
    /// [`TensorError`] if counts of samples or labels differ, or are 0.
    pub fn new(
        name: impl Into<String>,
        tensors: Vec<Tensor>,
        labels: Option<Vec<i64>>,
    ) -> Result<Self, TensorError> {
        let first = tensors.first().ok_or(TensorError::Empty)?;
        let samples = first.elements.len().checked_div(first.sample_len()).unwrap_or(0);
        if samples == 0 {
            return Err(TensorError::Empty);
        }
        for tensor in &tensors {
            let (sample_len, elements) = (tensor.sample_len(), tensor.elements.len());
            if sample_len * samples != elements {
                let name = tensor.name.clone();
                return Err(TensorError::SampleCount {
                    name,
                    expected: samples,
                    sample_len,
                    elements,
                });
            }
        }
        match labels.as_ref().map(Vec::len) {
            Some(labels) if labels != samples => Err(TensorError::LabelCount { samples, labels }),
            _ => Ok(Self { name: name.into(), samples, tensors, labels }),
        }
    }

    /// Reads each input's `.npy` array `[samples, ...]` and, if given, the labels'.
    ///
    /// # Errors
    /// [`TensorError`] if a file cannot be read or the counts differ.
    pub fn open(
        name: impl Into<String>,
        inputs: &[(String, PathBuf)],
        labels: Option<&Path>,
    ) -> Result<Self, TensorError> {
        let tensor = |(name, path): &(String, PathBuf)| {
            let Npy { shape, elements } = read(path)?;
            let Some((_, sample_shape)) = shape.split_first() else {
                return Err(TensorError::Npy { path: path.clone(), problem: NpyProblem::Scalar });
            };
            Ok(Tensor { name: name.clone(), sample_shape: sample_shape.to_vec(), elements })
        };
        let tensors = inputs.iter().map(tensor).collect::<Result<_, _>>()?;
        let labels = labels.map(|path| match read(path)?.elements {
            Elements::I64(labels) => Ok(labels.into_owned()),
            Elements::U8(labels) => Ok(labels.iter().map(|&label| label.into()).collect()),
            Elements::F32(_) => {
                let problem = NpyProblem::Element("<f4 (labels are integers)".into());
                Err(TensorError::Npy { path: path.to_path_buf(), problem })
            }
        });
        Self::new(name, tensors, labels.transpose()?)
    }

    /// Random samples for a model: floats uniform in [0, 1), bytes in 0..=255,
    /// integers 0 or 1, which are valid positions in any table.
    ///
    /// A dynamic first dimension is the batch's; any other becomes `dynamic`.
    /// Such samples show speed and never accuracy: there are no labels.
    ///
    /// # Errors
    /// [`TensorError::Empty`] if `samples` is 0 or the model has no inputs.
    pub fn synthetic(
        inputs: &[ModelInput],
        samples: usize,
        dynamic: usize,
        seed: u64,
    ) -> Result<Self, TensorError> {
        let mut rng = Mt19937::new(seed);
        let tensor = |input: &ModelInput| {
            let fixed = |dimension: &Option<usize>| dimension.unwrap_or(dynamic);
            let shape = match input.shape.split_first() {
                Some((None | Some(1), rest)) => rest,
                _ => &input.shape,
            };
            let sample_shape: Vec<usize> = shape.iter().map(fixed).collect();
            let total = samples * sample_shape.iter().product::<usize>();
            let mut below = |n: f64| (rng.canonical() * n).floor();
            let elements = match input.element {
                ElementType::F32 => Elements::F32(
                    (0..total).map(|_| (below(16_777_216.0) / 16_777_216.0) as f32).collect(),
                ),
                ElementType::I64 => Elements::I64((0..total).map(|_| below(2.0) as i64).collect()),
                ElementType::U8 => Elements::U8((0..total).map(|_| below(256.0) as u8).collect()),
            };
            Tensor { name: input.name.clone(), sample_shape, elements }
        };
        let tensors = inputs.iter().map(tensor).collect();
        Self::new("synthetic", tensors, None)
    }

    /// The inputs.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// One label per sample, if there are labels.
    #[must_use]
    pub fn labels(&self) -> Option<&[i64]> {
        self.labels.as_deref()
    }

    /// One input of these samples, one after the other; borrowed when they
    /// follow each other in the library. `None` if a sample does not exist.
    #[must_use]
    pub fn gather(&self, tensor: &Tensor, samples: &[QuerySample]) -> Option<Elements<'_>> {
        let tensor = self.tensors.iter().find(|own| own.name == tensor.name)?;
        let len = tensor.sample_len();
        if samples.iter().any(|sample| sample.index >= self.samples as u64) {
            return None;
        }
        Some(match &tensor.elements {
            Elements::F32(all) => Elements::F32(rows(all, len, samples)),
            Elements::I64(all) => Elements::I64(rows(all, len, samples)),
            Elements::U8(all) => Elements::U8(rows(all, len, samples)),
        })
    }
}

fn rows<'a, T: Copy>(all: &'a [T], len: usize, samples: &[QuerySample]) -> Cow<'a, [T]> {
    let start = samples.first().map_or(0, |sample| sample.index as usize * len);
    if samples.windows(2).all(|pair| pair[0].index + 1 == pair[1].index) {
        return Cow::Borrowed(&all[start..][..len * samples.len()]);
    }
    let row = |sample: &QuerySample| &all[sample.index as usize * len..][..len];
    let mut gathered = Vec::with_capacity(len * samples.len());
    for sample in samples {
        gathered.extend_from_slice(row(sample));
    }
    Cow::Owned(gathered)
}

fn read(path: &Path) -> Result<Npy, TensorError> {
    let bytes = std::fs::read(path).map_err(|error| TensorError::Unreadable {
        path: path.to_path_buf(),
        why: error.to_string(),
    })?;
    Npy::parse(&bytes).map_err(|problem| TensorError::Npy { path: path.to_path_buf(), problem })
}

impl SampleLibrary for TensorLibrary {
    fn name(&self) -> &str {
        &self.name
    }

    fn total_sample_count(&self) -> usize {
        self.samples
    }

    fn performance_sample_count(&self) -> usize {
        self.samples
    }

    fn load(&self, _samples: &[SampleIndex]) {}

    fn unload(&self, _samples: &[SampleIndex]) {}
}
