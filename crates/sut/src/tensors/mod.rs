//! Sample library of tensors, the input of ONNX models.
//!
//! Samples are either all in memory, or come from a [`Source`] that prepares them when they are
//! loaded. A library holds only inputs. It has no place for answers, so that no answer can be
//! looked up by its sample.

mod checks;
mod error;
mod loaded;
mod synthetic;
mod trimmed;
mod view;

use std::borrow::Cow;
use std::fmt;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};
use dyno_loadgen::sut::QuerySample;
use dyno_tensors::npy::{Npy, NpyError};

use self::trimmed::TrimmedSamples;
use crate::engine::Port;

pub use dyno_tensors::{Element, Elements, Scalar, each_type};
pub use error::TensorError;
pub(crate) use loaded::{LoadedSamples, Sample};
pub(crate) use synthetic::ones;
pub use synthetic::{Span, Spans};
pub use view::SampleView;

/// One input of all samples: `[samples, sample_shape...]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Name of the model's input.
    pub name: String,
    /// Shape of one sample.
    pub sample_shape: Vec<usize>,
    /// Elements of all samples, one sample after the other.
    pub elements: Elements<'static>,
}

impl Tensor {
    /// Returns the number of elements of one sample.
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
    /// Shape without a batch dimension. Samples of one library may have different shapes.
    pub shape: Vec<usize>,
    /// Elements in row-major order.
    pub elements: Elements<'static>,
}

/// Data set whose samples are prepared when they are loaded, such as files with preprocessing that
/// is not timed.
pub trait Source: Send + Sync + fmt::Debug {
    /// Returns the name of the data set, for the logs.
    fn name(&self) -> &str;
    /// Returns the number of samples.
    fn count(&self) -> usize;
    /// Returns the names of the inputs, in the order of [`Source::sample`].
    fn inputs(&self) -> &[String];
    /// Reads a sample and prepares it.
    ///
    /// # Errors
    /// A sentence that names the file and its problem.
    fn sample(&self, index: SampleIndex) -> Result<Vec<SampleTensor>, String>;
}

/// An input as the model declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInput {
    /// Name of the input.
    pub name: String,
    /// Type of the elements; one of [`Elements::TYPES`].
    pub element: Element,
    /// Dimensions; `None` is a dynamic dimension.
    pub shape: Vec<Option<usize>>,
}

impl From<&ModelInput> for Port {
    fn from(input: &ModelInput) -> Self {
        let element = input.element.to_string();
        Self { name: input.name.clone(), element, shape: input.shape.clone() }
    }
}

/// Sample library of tensors, with optional labels.
///
/// Samples of files and random samples are read when the library is created, so that loading and
/// unloading do nothing. Samples of a [`Source`] are prepared when they are loaded and freed when
/// they are unloaded.
///
/// ```
/// use dyno_loadgen::qsl::SampleLibrary;
/// use dyno_sut::tensors::{Elements, Tensor, TensorLibrary};
///
/// let elements = Elements::F32(vec![0.1, 0.2, 0.3, 0.4].into());
/// let tensor = Tensor { name: "x".into(), sample_shape: vec![2], elements };
/// let library = TensorLibrary::new("pairs", vec![tensor], Some(vec![0, 1]))?;
/// assert_eq!((library.total_sample_count(), library.labels()), (2, Some(&[0, 1][..])));
/// let sample = library.sample(1).expect("there are two samples");
/// assert_eq!(&*sample[0].1.elements.to_f32(), [0.3, 0.4]);
/// # Ok::<(), dyno_sut::tensors::TensorError>(())
/// ```
#[derive(Debug, Clone)]
pub struct TensorLibrary {
    name: String,
    samples: usize,
    performance_samples: usize,
    labels: Option<Vec<i64>>,
    store: Store,
    reporter: Option<SampleReporter>,
}

/// Function that receives the problems of samples that could not be prepared.
#[derive(Clone)]
struct SampleReporter(Arc<ReportFunction>);

type ReportFunction = dyn Fn(&[String]) + Send + Sync;

impl fmt::Debug for SampleReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SampleReporter")
    }
}

/// Storage of the samples of a library.
#[derive(Debug, Clone)]
pub(crate) enum Store {
    /// All samples are in memory.
    Memory(Vec<Tensor>),
    /// Samples come from a source; loaded ones are in memory.
    Source(Arc<LoadedSamples>),
}

impl TensorLibrary {
    /// Returns a library of these tensors.
    ///
    /// # Errors
    /// [`TensorError`] if the numbers of samples or labels differ, or are 0.
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
                reporter: None,
            }),
        }
    }

    /// Returns a library of a data set. `performance_samples` samples fit in memory at once. The
    /// first sample is prepared now and kept, so that a model can be matched with it and tried.
    ///
    /// # Errors
    /// [`TensorError`] if there are no samples, the number of labels differs, or the first sample
    /// cannot be prepared.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use dyno_loadgen::qsl::SampleLibrary;
    /// use dyno_sut::tensors::{Elements, SampleTensor, Source, TensorLibrary};
    ///
    /// /// Sample `n` is the number `n`.
    /// #[derive(Debug)]
    /// struct Counter(Vec<String>);
    ///
    /// impl Source for Counter {
    ///     fn name(&self) -> &str {
    ///         "counter"
    ///     }
    ///     fn count(&self) -> usize {
    ///         10
    ///     }
    ///     fn inputs(&self) -> &[String] {
    ///         &self.0
    ///     }
    ///     fn sample(&self, index: u32) -> Result<Vec<SampleTensor>, String> {
    ///         let elements = Elements::F32(vec![index as f32].into());
    ///         Ok(vec![SampleTensor { shape: vec![1], elements }])
    ///     }
    /// }
    ///
    /// let source = Arc::new(Counter(vec!["x".into()]));
    /// let library = TensorLibrary::from_source(source, 4.try_into().expect("not 0"), None)?;
    /// assert!(library.loaded_sample(3).is_err());
    /// library.load(&[3]);
    /// assert_eq!(&*library.loaded_sample(3).expect("loaded")[0].elements.to_f32(), [3.0]);
    /// # Ok::<(), dyno_sut::tensors::TensorError>(())
    /// ```
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
        let loaded = LoadedSamples::open(source)
            .map_err(|why| TensorError::FirstSample { name: name.clone(), why })?;
        let performance_samples = performance_samples.get().min(samples);
        let store = Store::Source(Arc::new(loaded));
        Ok(Self { name, samples, performance_samples, labels, store, reporter: None })
    }

    /// Reads a `.npy` array `[samples, ...]` for each input and, if given, the labels.
    ///
    /// # Errors
    /// [`TensorError`] if a file cannot be read, the numbers of samples differ, a number is not
    /// finite, or a label is not a class.
    ///
    /// ```
    /// use dyno_loadgen::qsl::SampleLibrary;
    /// use dyno_sut::tensors::TensorLibrary;
    /// use dyno_tensors::npy;
    ///
    /// let path = std::env::temp_dir().join(format!("dyno-open-{}.npy", std::process::id()));
    /// npy::write(&mut std::fs::File::create(&path)?, &[2, 3], &[0.5_f32; 6])?;
    /// let library = TensorLibrary::open("halves", &[("x".into(), path.clone())], None)?;
    /// std::fs::remove_file(path)?;
    /// assert_eq!(library.total_sample_count(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(
        name: impl Into<String>,
        inputs: &[(String, PathBuf)],
        labels: Option<&Path>,
    ) -> Result<Self, TensorError> {
        let (library, odd) = Self::open_any(name, inputs, labels)?;
        odd.map_or(Ok(library), Err)
    }

    /// Reads files as [`TensorLibrary::open`] does, also with numbers that are not finite: NaN is the usual
    /// missing value. Returns the first such number as a [`TensorError::NotFinite`].
    ///
    /// # Errors
    /// Those of [`TensorLibrary::open`] but this one.
    ///
    /// ```
    /// use dyno_sut::tensors::TensorLibrary;
    /// use dyno_tensors::npy;
    ///
    /// let path = std::env::temp_dir().join(format!("dyno-any-{}.npy", std::process::id()));
    /// npy::write(&mut std::fs::File::create(&path)?, &[2, 1], &[0.5_f32, f32::NAN])?;
    /// let files = [("x".into(), path.clone())];
    /// let (strict, any) =
    ///     (TensorLibrary::open("x", &files, None), TensorLibrary::open_any("x", &files, None));
    /// std::fs::remove_file(path)?;
    /// assert_eq!(strict.err(), any?.1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_any(
        name: impl Into<String>,
        inputs: &[(String, PathBuf)],
        labels: Option<&Path>,
    ) -> Result<(Self, Option<TensorError>), TensorError> {
        let mut odd = None;
        let tensor = |(name, path): &(String, PathBuf)| {
            let Npy { shape, elements } = read(path, Npy::parse)?;
            let Some((_, sample_shape)) = shape.split_first() else {
                return Err(TensorError::Scalar { path: path.clone() });
            };
            odd = odd.take().or(checks::check_finite(path, &shape, &elements).err());
            Ok(Tensor { name: name.clone(), sample_shape: sample_shape.to_vec(), elements })
        };
        let tensors = inputs.iter().map(tensor).collect::<Result<_, _>>()?;
        let labels = labels.map(|path| checks::labels(path, &read(path, Npy::parse_integers)?));
        Ok((Self::new(name, tensors, labels.transpose()?)?, odd))
    }

    /// Reads labels from a file, one for each of `samples` samples.
    ///
    /// # Errors
    /// Those of [`TensorLibrary::open`] for labels.
    pub fn read_labels(path: &Path, samples: usize) -> Result<Vec<i64>, TensorError> {
        let labels = checks::labels(path, &read(path, Npy::parse_integers)?)?;
        if labels.len() == samples {
            Ok(labels)
        } else {
            Err(TensorError::LabelCount { samples, labels: labels.len() })
        }
    }

    /// Removes padding: keeps the first `lengths[i]` elements of the first axis of sample `i`.
    /// Samples are copied when they are loaded, and samples of different lengths do not share a
    /// call. Samples of a [`Source`] stay as they are.
    ///
    /// # Errors
    /// [`TensorError`] if the number of lengths differs, or a length is 0 or exceeds the first axis
    /// of an input.
    pub fn without_padding(self, lengths: &[usize]) -> Result<Self, TensorError> {
        let samples = self.samples;
        if lengths.len() != samples {
            return Err(TensorError::LengthCount { samples, lengths: lengths.len() });
        }
        let Store::Memory(tensors) = self.store else { return Ok(self) };
        let most = TrimmedSamples::most(&tensors);
        if let Some(found) = lengths.iter().copied().find(|n| !(1..=most).contains(n)) {
            return Err(TensorError::Length { most, found });
        }
        let cut = TrimmedSamples::new(self.name, tensors, lengths.to_vec());
        let all = NonZero::new(samples).ok_or(TensorError::Empty)?;
        Self::from_source(Arc::new(cut), all, self.labels)
    }

    /// Returns the inputs of the first sample with their names.
    pub(crate) fn first_sample(&self) -> Vec<(&str, SampleTensor)> {
        self.sample(0).expect("a library has a first sample since it was made")
    }

    /// Returns one label per sample, if there are labels.
    pub fn labels(&self) -> Option<&[i64]> {
        self.labels.as_deref()
    }

    /// Returns a copy of the inputs of a sample with their names, whether it is loaded or not.
    ///
    /// # Errors
    /// The reason why it cannot be prepared, or that it does not exist.
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

    /// Returns the inputs of a loaded sample, in the order of their names. Nothing is prepared,
    /// because the clock may be running.
    ///
    /// # Errors
    /// The reason why it could not be prepared, or that it is not loaded or does not exist.
    pub fn loaded_sample(&self, index: u64) -> Result<Arc<[SampleTensor]>, String> {
        let valid = u32::try_from(index).ok().filter(|index| (*index as usize) < self.samples);
        let index = valid.ok_or_else(|| self.no_such_sample(index))?;
        match &self.store {
            Store::Memory(tensors) => {
                Ok(tensors.iter().map(|tensor| tensor.sample(index as usize)).collect())
            }
            Store::Source(loaded) => loaded.loaded(index),
        }
    }

    /// Sets a function that receives one sentence for each loaded sample that could not be
    /// prepared, by ascending index. It is called as soon as samples are loaded, before queries for
    /// them fail.
    #[must_use]
    pub fn on_broken_samples(self, reporter: impl Fn(&[String]) + Send + Sync + 'static) -> Self {
        Self { reporter: Some(SampleReporter(Arc::new(reporter))), ..self }
    }

    /// Returns the message for a sample that does not exist.
    pub(crate) fn no_such_sample(&self, index: u64) -> String {
        format!("sample {index} is not in {}, which has {} samples", self.name, self.samples)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Returns one input of these samples, concatenated. Consecutive samples are borrowed from the
    /// library; others are gathered in `scratch`, whose memory is reused. Returns `None` if a
    /// sample does not exist, or samples come from a source.
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

fn read(path: &Path, parse: fn(&[u8]) -> Result<Npy, NpyError>) -> Result<Npy, TensorError> {
    let bytes = dyno_tensors::files::read(path).map_err(|error| TensorError::Unreadable {
        path: path.to_path_buf(),
        why: error.to_string(),
    })?;
    parse(&bytes).map_err(|problem| TensorError::Npy { path: path.to_path_buf(), problem })
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
            let broken = self.reporter.as_ref().map(|reporter| (reporter, loaded.broken()));
            if let Some((SampleReporter(reporter), broken)) =
                broken.filter(|(_, broken)| !broken.is_empty())
            {
                reporter(&broken);
            }
        }
    }

    fn unload(&self, samples: &[SampleIndex]) {
        if let Store::Source(loaded) = &self.store {
            loaded.unload(samples);
        }
    }
}
