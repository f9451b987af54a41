//! A sample library of tensors: what an ONNX model is fed with.
//!
//! Samples are held in memory as a whole, or come from a [`Source`] that prepares
//! them when they are loaded. Either way a library knows inputs only: it has no
//! place for an answer, so that no answer can be looked up by its sample.

mod cut;
mod error;
mod given;
mod loaded;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};
use dyno_loadgen::rng::Mt19937;
use dyno_loadgen::sut::QuerySample;
use dyno_tensors::npy::Npy;
use half::{bf16, f16};

use self::cut::Cut;
use crate::engine::Port;

pub use dyno_tensors::{Element, Elements, Scalar, each_type};
pub use error::TensorError;
pub(crate) use loaded::{Loaded, Sample};

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

    fn sample(&self, index: usize) -> SampleTensor {
        let range = index * self.sample_len()..(index + 1) * self.sample_len();
        let elements = each_type!(&self.elements, all => Scalar::wrap(all[range].to_vec().into()));
        SampleTensor { shape: self.sample_shape.clone(), elements }
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
    /// Type of the elements; one of [`Elements::TYPES`].
    pub element: Element,
    /// Dimensions; `None` is one that each run chooses.
    pub shape: Vec<Option<usize>>,
}

impl From<&ModelInput> for Port {
    fn from(input: &ModelInput) -> Self {
        let element = input.element.to_string();
        Self { name: input.name.clone(), element, shape: input.shape.clone() }
    }
}

/// The integers that random samples have in some elements of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Elements of a sample, row by row; of the last span it is all that are left.
    pub elements: usize,
    /// The least.
    pub from: i64,
    /// One more than the greatest.
    pub to: i64,
}

/// Spans of the integers of inputs by their names, each for all elements of a sample.
pub type Spans<'a> = BTreeMap<&'a str, &'a [Span]>;

impl Span {
    /// In all elements numbers from 0 to below this one.
    #[must_use]
    pub const fn below(to: i64) -> Self {
        Self { elements: usize::MAX, from: 0, to }
    }

    /// In all elements the same number.
    #[must_use]
    pub const fn always(number: i64) -> Self {
        Self { elements: usize::MAX, from: number, to: number + 1 }
    }

    /// That of an element of a sample.
    fn at(spans: &[Self], element: usize) -> Self {
        let mut left = element;
        for span in spans {
            match left.checked_sub(span.elements) {
                Some(rest) => left = rest,
                None => return *span,
            }
        }
        spans.last().copied().unwrap_or(Self::below(2))
    }
}

/// Samples, with labels if there are any.
///
/// Those of files and random ones are read when the library is made, so that
/// loading and unloading do nothing; those of a [`Source`] are prepared when they
/// are loaded and freed when they are unloaded.
#[derive(Debug, Clone)]
pub struct TensorLibrary {
    name: String,
    samples: usize,
    performance_samples: usize,
    labels: Option<Vec<i64>>,
    store: Store,
    tell: Option<Tell>,
}

/// Who is told of samples that could not be prepared.
#[derive(Clone)]
struct Tell(Arc<TellFn>);

type TellFn = dyn Fn(&[String]) + Send + Sync;

impl fmt::Debug for Tell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tell")
    }
}

/// Where the samples of a library are.
#[derive(Debug, Clone)]
pub(crate) enum Store {
    /// All in memory.
    Memory(Vec<Tensor>),
    /// Some in memory, the others in a source.
    Source(Arc<Loaded>),
}

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
            _ => Ok(Self {
                name: name.into(),
                samples,
                performance_samples: samples,
                labels,
                store: Store::Memory(tensors),
                tell: None,
            }),
        }
    }

    /// A library of a data set, of which `performance_samples` fit in memory at
    /// once. Its first sample is prepared now and kept, so that a model can be
    /// matched with it and tried.
    ///
    /// # Errors
    /// [`TensorError`] if there are no samples, not one label for each, or the first
    /// one cannot be prepared.
    pub fn from_source(
        source: Arc<dyn Source>,
        performance_samples: NonZero<usize>,
        labels: Option<Vec<i64>>,
    ) -> Result<Self, TensorError> {
        let (name, samples) = (source.name().to_owned(), source.count());
        if samples == 0 || source.inputs().is_empty() {
            return Err(TensorError::Empty);
        }
        match labels.as_ref().map(Vec::len) {
            Some(labels) if labels != samples => {
                return Err(TensorError::LabelCount { samples, labels });
            }
            _ => {}
        }
        let loaded = Loaded::open(source)
            .map_err(|why| TensorError::FirstSample { name: name.clone(), why })?;
        let performance_samples = performance_samples.get().min(samples);
        let store = Store::Source(Arc::new(loaded));
        Ok(Self { name, samples, performance_samples, labels, store, tell: None })
    }

    /// Reads each input's `.npy` array `[samples, ...]` and, if given, the labels'.
    ///
    /// # Errors
    /// [`TensorError`] if a file cannot be read, the counts differ, a number is not finite, or
    /// a label is no class.
    pub fn open(
        name: impl Into<String>,
        inputs: &[(String, PathBuf)],
        labels: Option<&Path>,
    ) -> Result<Self, TensorError> {
        let tensor = |(name, path): &(String, PathBuf)| {
            let Npy { shape, elements } = read(path)?;
            let Some((_, sample_shape)) = shape.split_first() else {
                return Err(TensorError::Scalar { path: path.clone() });
            };
            given::check_finite(path, &shape, &elements)?;
            Ok(Tensor { name: name.clone(), sample_shape: sample_shape.to_vec(), elements })
        };
        let tensors = inputs.iter().map(tensor).collect::<Result<_, _>>()?;
        let labels = labels.map(|path| given::labels(path, &read(path)?));
        Self::new(name, tensors, labels.transpose()?)
    }

    /// The same samples, which were padded along their first axis: of each only so much. They are copied when
    /// they are loaded, and samples of different lengths share no call. Those of a [`Source`] stay as it
    /// prepares them.
    ///
    /// # Errors
    /// [`TensorError`] if there is not a length that all inputs have for each sample.
    pub fn cut(self, lengths: &[usize]) -> Result<Self, TensorError> {
        let samples = self.samples;
        if lengths.len() != samples {
            return Err(TensorError::LengthCount { samples, lengths: lengths.len() });
        }
        let Store::Memory(tensors) = self.store else { return Ok(self) };
        let most = Cut::most(&tensors);
        if let Some(found) = lengths.iter().copied().find(|n| !(1..=most).contains(n)) {
            return Err(TensorError::Length { most, found });
        }
        let cut = Cut::new(self.name, tensors, lengths.to_vec());
        let all = NonZero::new(samples).ok_or(TensorError::Empty)?;
        Self::from_source(Arc::new(cut), all, self.labels)
    }

    /// Bytes of a random sample of a model (>= 1).
    #[must_use]
    pub fn bytes_of_random(inputs: &[ModelInput], dynamic: usize) -> usize {
        let bytes = |input: &ModelInput| {
            // The first dimension, if it is open, is the batch's.
            let open = input.shape.iter().skip(1).map(|n| n.unwrap_or(dynamic));
            let first = input.shape.first().copied().flatten().unwrap_or(1);
            open.fold(first, usize::saturating_mul).saturating_mul(input.element.size())
        };
        inputs.iter().map(bytes).fold(0, usize::saturating_add).max(1)
    }

    /// Random samples for a model: floats uniform in [0, 1), integers of eight bits
    /// in all of their range, other integers as `spans` say of the input of that name,
    /// else 0 or 1, which are valid positions in any table, and booleans. Attention masks
    /// without a span are 1 throughout: a random one would hide parts of each sample.
    ///
    /// A dynamic first dimension is the batch's; any other becomes `dynamic`.
    /// Such samples show speed and never accuracy: there are no labels.
    ///
    /// # Errors
    /// [`TensorError::Empty`] if `samples` is 0 or the model has no inputs, and
    /// [`TensorError::Memory`].
    pub fn synthetic(
        inputs: &[ModelInput],
        samples: usize,
        dynamic: usize,
        spans: &Spans<'_>,
        seed: u64,
    ) -> Result<Self, TensorError> {
        let bytes = samples.saturating_mul(Self::bytes_of_random(inputs, dynamic));
        if Vec::<u8>::new().try_reserve_exact(bytes).is_err() {
            return Err(TensorError::Memory { samples, bytes });
        }
        let mut rng = Mt19937::new(seed);
        let tensor = |input: &ModelInput| {
            let fixed = |dimension: &Option<usize>| dimension.unwrap_or(dynamic);
            let shape = match input.shape.split_first() {
                Some((None | Some(1), rest)) => rest,
                _ => &input.shape,
            };
            let sample_shape: Vec<usize> = shape.iter().map(fixed).collect();
            let each = sample_shape.iter().product::<usize>();
            let total = samples * each;
            let spans = spans.get(input.name.as_str()).copied();
            if spans.is_none() && is_mask(input) {
                let elements = ones(input.element, total);
                return Tensor { name: input.name.clone(), sample_shape, elements };
            }
            let spans = spans.unwrap_or_default();
            let mut below = |n: f64| (rng.canonical() * n).floor();
            let integer = |n: usize, below: &mut dyn FnMut(f64) -> f64| {
                let Span { from, to, .. } = Span::at(spans, n % each.max(1));
                from + below((to - from).max(1) as f64) as i64
            };
            let mut at = 0..total;
            let mut next = || at.next().unwrap_or_default();
            let elements = match input.element {
                Element::I64 => filled(total, || integer(next(), &mut below)),
                Element::I32 => filled(total, || integer(next(), &mut below) as i32),
                Element::I8 => filled(total, || (below(256.0) - 128.0) as i8),
                Element::U8 => filled(total, || below(256.0) as u8),
                Element::Bool => filled(total, || below(2.0) > 0.0),
                real => {
                    let mut float = || below(16_777_216.0) / 16_777_216.0;
                    match real {
                        Element::F16 => filled(total, || f16::from_f64(float())),
                        Element::BF16 => filled(total, || bf16::from_f64(float())),
                        Element::F64 => filled(total, float),
                        Element::F32 => filled(total, || float() as f32),
                        other => unreachable!("no input of a model is of type {other}"),
                    }
                }
            };
            Tensor { name: input.name.clone(), sample_shape, elements }
        };
        let tensors = inputs.iter().map(tensor).collect();
        Self::new("synthetic", tensors, None)
    }

    /// The names of the inputs, and each input of the first sample.
    pub(crate) fn first(&self) -> Vec<(&str, SampleTensor)> {
        self.sample(0).expect("a library has a first sample since it was made")
    }

    /// One label per sample, if there are labels.
    #[must_use]
    pub fn labels(&self) -> Option<&[i64]> {
        self.labels.as_deref()
    }

    /// The inputs of a sample by their names, copied, whether it is loaded or not.
    ///
    /// # Errors
    /// Why it cannot be prepared, or that it does not exist.
    pub fn sample(&self, index: SampleIndex) -> Result<Vec<(&str, SampleTensor)>, String> {
        if index as usize >= self.samples {
            return Err(self.no_such_sample(index.into()));
        }
        match &self.store {
            Store::Memory(tensors) => {
                let input = |tensor: &'_ Tensor| tensor.sample(index as usize);
                Ok(tensors.iter().map(|tensor| (tensor.name.as_str(), input(tensor))).collect())
            }
            Store::Source(loaded) => {
                let sample = loaded.sample(index)?;
                Ok(loaded.names().zip(sample.iter().cloned()).collect())
            }
        }
    }

    /// The inputs of a sample that is loaded, in the order of their names: nothing of a
    /// source is prepared here, as the clock may run.
    ///
    /// # Errors
    /// Why it could not be prepared, or that it is not loaded or does not exist.
    pub fn loaded(&self, index: u64) -> Result<Arc<[SampleTensor]>, String> {
        let known = u32::try_from(index).ok().filter(|index| (*index as usize) < self.samples);
        let known = known.ok_or_else(|| self.no_such_sample(index))?;
        match &self.store {
            Store::Memory(tensors) => {
                Ok(tensors.iter().map(|tensor| tensor.sample(known as usize)).collect())
            }
            Store::Source(loaded) => loaded.loaded(known),
        }
    }

    /// The same, which tells what is wrong with samples that could not be prepared, a
    /// sentence each, as soon as they are loaded: before any query asks for them, and
    /// fails. Those that are loaded are told in the order of their indices.
    #[must_use]
    pub fn telling(self, tell: impl Fn(&[String]) + Send + Sync + 'static) -> Self {
        Self { tell: Some(Tell(Arc::new(tell))), ..self }
    }

    /// What is said of a sample that is not there.
    pub(crate) fn no_such_sample(&self, index: u64) -> String {
        format!("sample {index} is not in {}, which has {} samples", self.name, self.samples)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// One input of these samples of a library in memory, one after the other: borrowed
    /// when they follow each other in it, else gathered in `scratch`, whose memory is
    /// used again. `None` if a sample does not exist, or if samples come from a source.
    #[must_use]
    pub fn gather<'a>(
        &'a self,
        input: usize,
        samples: &[QuerySample],
        scratch: &'a mut Elements<'static>,
    ) -> Option<Elements<'a>> {
        let Store::Memory(tensors) = &self.store else { return None };
        let tensor = tensors.get(input)?;
        let len = tensor.sample_len();
        if samples.iter().any(|sample| sample.index >= self.samples as u64) {
            return None;
        }
        Some(each_type!(&tensor.elements, all => Scalar::wrap(rows(all, len, samples, scratch))))
    }
}

/// Whether an input says which elements of a sample count: `attention_mask` of any type,
/// and integers or booleans with "mask" in their name.
fn is_mask(input: &ModelInput) -> bool {
    let name = input.name.to_ascii_lowercase();
    let is_whole = matches!(
        input.element,
        Element::I64 | Element::I32 | Element::I8 | Element::U8 | Element::Bool
    );
    name == "attention_mask" || is_whole && name.contains("mask")
}

fn ones(element: Element, count: usize) -> Elements<'static> {
    match element {
        Element::F32 => filled(count, || 1.0_f32),
        Element::F64 => filled(count, || 1.0_f64),
        Element::F16 => filled(count, || f16::ONE),
        Element::BF16 => filled(count, || bf16::ONE),
        Element::I64 => filled(count, || 1_i64),
        Element::I32 => filled(count, || 1_i32),
        Element::I8 => filled(count, || 1_i8),
        Element::U8 => filled(count, || 1_u8),
        Element::Bool => filled(count, || true),
        other => unreachable!("no input of a model is of type {other}"),
    }
}

fn filled<T: Scalar>(count: usize, mut element: impl FnMut() -> T) -> Elements<'static> {
    T::wrap((0..count).map(|_| element()).collect())
}

fn rows<'a, T: Scalar>(
    all: &'a [T],
    len: usize,
    samples: &[QuerySample],
    scratch: &'a mut Elements<'static>,
) -> Cow<'a, [T]> {
    let start = samples.first().map_or(0, |sample| sample.index as usize * len);
    if samples.windows(2).all(|pair| pair[0].index + 1 == pair[1].index) {
        return Cow::Borrowed(&all[start..][..len * samples.len()]);
    }
    let gathered = scratch.emptied();
    for sample in samples {
        gathered.extend_from_slice(&all[sample.index as usize * len..][..len]);
    }
    Cow::Borrowed(gathered)
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
        self.performance_samples
    }

    fn load(&self, samples: &[SampleIndex]) {
        if let Store::Source(loaded) = &self.store {
            loaded.load(samples);
            let broken = self.tell.as_ref().map(|tell| (tell, loaded.broken()));
            if let Some((Tell(tell), broken)) = broken.filter(|(_, broken)| !broken.is_empty()) {
                tell(&broken);
            }
        }
    }

    fn unload(&self, samples: &[SampleIndex]) {
        if let Store::Source(loaded) = &self.store {
            loaded.unload(samples);
        }
    }
}
