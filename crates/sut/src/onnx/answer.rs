//! Answers to samples, made from the outputs of a call.

use std::fmt;
use std::sync::Arc;

use dyno_loadgen::sut::QuerySample;
use smallvec::SmallVec;

use super::windows::Windows;
use crate::tensors::Elements;

/// How the answer to a sample is made.
///
/// Making the answer is part of the call and is therefore timed.
#[derive(Clone, Default)]
pub enum Answer {
    /// The sample's part of the first output that is passed, as little-endian bytes.
    #[default]
    Output,
    /// The class of the sample's part of the first output that is passed, encoded by
    /// [`crate::top1::encode`]: the position of the greatest element, or the element itself if it is
    /// a single integer. A part with NaN has no class, and its answer has no bytes.
    Argmax,
    /// The result of a function of all outputs of the call.
    Function(Arc<AnswerFn>),
    /// One label per voxel of a volume that the model sees in windows, in several calls per sample.
    Windows(Windows),
}

/// Appends the answer to the sample at this position of the call to the bytes. Returns its number
/// of tokens; 0 for answers without tokens.
///
/// The function is called once for each sample of a call, on the thread that computed the call.
/// Several threads call it at once. An error fails all samples of the call.
pub type AnswerFn = dyn Fn(&Outputs<'_>, usize, &mut Vec<u8>) -> Result<i64, String> + Send + Sync;

impl Answer {
    /// Returns an answer that is made by a function of all outputs of the call.
    ///
    /// ```
    /// use dyno_sut::onnx::Answer;
    ///
    /// // The sum of the sample's part of the output `loss`.
    /// let answer = Answer::from_fn(|outputs, position, bytes| {
    ///     let part = outputs.named("loss")?.part(position)?;
    ///     let sum: f32 = part.elements.to_f32().iter().sum();
    ///     bytes.extend_from_slice(&sum.to_le_bytes());
    ///     Ok(0)
    /// });
    /// assert!(matches!(answer, Answer::Function(_)));
    /// ```
    pub fn from_fn<F>(make: F) -> Self
    where
        F: Fn(&Outputs<'_>, usize, &mut Vec<u8>) -> Result<i64, String> + Send + Sync + 'static,
    {
        Self::Function(Arc::new(make))
    }

    /// Returns how many of the passed outputs of a call it reads, from the first one.
    pub(super) fn outputs(&self) -> usize {
        match self {
            Self::Output | Self::Argmax | Self::Windows(_) => 1,
            Self::Function(_) => usize::MAX,
        }
    }

    /// Appends the answer to the sample at `position`. Returns its number of tokens.
    pub(super) fn write(
        &self,
        outputs: &Outputs<'_>,
        position: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<i64, String> {
        match self {
            Self::Output => outputs.first()?.part(position)?.elements.write(bytes),
            Self::Argmax => {
                if let Some(class) = outputs.first()?.part(position)?.elements.class() {
                    bytes.extend_from_slice(&class.to_le_bytes());
                }
            }
            Self::Function(make) => return make(outputs, position, bytes),
            Self::Windows(_) => unreachable!("an answer of several calls cannot be split"),
        }
        Ok(0)
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Output => "Output",
            Self::Argmax => "Argmax",
            Self::Function(_) => "Function",
            Self::Windows(_) => "Windows",
        })
    }
}

/// All outputs of a call.
///
/// ```
/// use dyno_sut::onnx::Outputs;
/// use dyno_sut::onnx::answer::Output;
/// use dyno_sut::tensors::Elements;
///
/// let elements = Ok(Elements::F32(vec![0.25, 0.75, 1.0, 0.0].into()));
/// let output = Output { name: "scores", shape: vec![2, 2], elements, samples: 2 };
/// let outputs = Outputs::new([output]);
/// let part = outputs.named("scores")?.part(1)?;
/// assert_eq!((part.shape, &*part.elements.to_f32()), (&[2][..], &[1.0, 0.0][..]));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct Outputs<'a> {
    all: SmallVec<[Output<'a>; 2]>,
    samples: &'a [QuerySample],
}

/// One output of a call, for all samples of the call.
#[derive(Debug)]
pub struct Output<'a> {
    /// Name in the model.
    pub name: &'a str,
    /// All dimensions.
    pub shape: Vec<usize>,
    /// Elements in row-major order; an error if the output is not a tensor of a supported type.
    pub elements: Result<Elements<'a>, String>,
    /// Number of samples in the call.
    pub samples: usize,
}

/// The part of an output that belongs to one sample.
#[derive(Debug, PartialEq)]
pub struct Part<'a> {
    /// Dimensions without the batch.
    pub shape: &'a [usize],
    /// Elements in row-major order.
    pub elements: Elements<'a>,
}

impl<'a> Outputs<'a> {
    /// Returns the outputs of a call, in the order of the model.
    pub fn new(all: impl IntoIterator<Item = Output<'a>>) -> Self {
        Self { all: all.into_iter().collect(), samples: &[] }
    }

    /// Sets the samples of the call.
    #[must_use]
    pub fn for_samples(self, samples: &'a [QuerySample]) -> Self {
        Self { samples, ..self }
    }

    /// Returns the index in the data set of the sample at this position of the call. Answers of
    /// detectors contain it.
    ///
    /// The index does not allow answers that were not computed: the outputs are those of this call,
    /// a library holds only inputs, and the function that makes answers exists before the samples
    /// are known.
    ///
    /// # Errors
    /// If the call has no sample at this position.
    pub fn index(&self, position: usize) -> Result<u64, String> {
        let sample = self.samples.get(position).map(|sample| sample.index);
        sample.ok_or_else(|| format!("the call has {} samples", self.samples.len()))
    }

    /// Returns all outputs, in the order of the model.
    pub fn all(&self) -> &[Output<'a>] {
        &self.all
    }

    /// Returns the first output.
    ///
    /// # Errors
    /// If the model has no outputs.
    pub fn first(&self) -> Result<&Output<'a>, String> {
        self.all.first().ok_or_else(|| "the model has no outputs".into())
    }

    /// Returns the output with this name.
    ///
    /// # Errors
    /// A message with the names of all outputs.
    pub fn named(&self, name: &str) -> Result<&Output<'a>, String> {
        self.all.iter().find(|output| output.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.all.iter().map(|output| output.name).collect();
            format!("the model has no output '{name}'; it has {}", names.join(", "))
        })
    }
}

impl Output<'_> {
    /// Returns the whole output, for all samples of the call.
    ///
    /// # Errors
    /// If the output is not a tensor of a supported type.
    pub fn elements(&self) -> Result<&Elements<'_>, String> {
        let unread = |why: &String| format!("output '{}' {why}", self.name);
        self.elements.as_ref().map_err(unread)
    }

    /// Returns the part of the sample at this position of the call. If the first dimension counts
    /// the samples, it is a row. In a call with one sample it is the whole output with all
    /// dimensions, or the row of an output `[1, ...]`.
    ///
    /// If the first dimension is something else, as in the boxes `[boxes, 7]` of non-maximum
    /// suppression, the output has no rows in a call with several samples. With one sample per call
    /// (`largest_batch` 1) the part is the whole output. A single box has the shape `[7]` and the
    /// same elements.
    ///
    /// # Errors
    /// If the output cannot be read, or has no part for each sample.
    pub fn part(&self, position: usize) -> Result<Part<'_>, String> {
        let elements = self.elements()?;
        let (shape, samples) = (&self.shape[..], self.samples);
        match shape.split_first() {
            Some((&rows, rest)) if rows == samples && position < samples => {
                let len = elements.len() / samples;
                let elements = elements.slice(position * len..(position + 1) * len);
                Ok(Part { shape: rest, elements })
            }
            _ if samples == 1 && position == 0 => {
                Ok(Part { shape, elements: elements.slice(0..elements.len()) })
            }
            _ => Err(format!(
                "output '{}' of shape {shape:?} has no equal part for each of {samples} samples; \
                 compute one sample in a call (--batch 1)",
                self.name
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(shape: &[usize], samples: usize) -> Output<'static> {
        let elements: Vec<i32> = (0..shape.iter().product::<usize>() as i32).collect();
        let elements = Ok(Elements::I32(elements.into()));
        Output { name: "boxes", shape: shape.to_vec(), elements, samples }
    }

    #[test]
    fn parts_are_rows_or_the_whole_of_a_single_sample() {
        let rows = output(&[2, 3], 2);
        let part = rows.part(1).unwrap();
        assert_eq!((part.shape, part.elements.to_f64()), (&[3][..], vec![3.0, 4.0, 5.0]));
        let boxes = output(&[2, 7], 1);
        assert_eq!(boxes.part(0).unwrap().shape, [2, 7]);
        assert_eq!(output(&[0, 7], 1).part(0).unwrap().elements.len(), 0);
        assert_eq!(output(&[], 1).part(0).unwrap().elements.len(), 1);
        let ragged = output(&[3, 7], 2);
        let why = ragged.part(0).unwrap_err();
        assert!(why.contains("output 'boxes' of shape [3, 7]"), "{why}");
        assert!(rows.part(2).is_err());
    }

    #[test]
    fn a_name_that_is_no_output_is_told_with_those_that_are() {
        let outputs = Outputs::new(vec![output(&[1], 1)]);
        assert_eq!(outputs.named("boxes").unwrap().shape, [1]);
        let why = outputs.named("scores").unwrap_err();
        assert_eq!(why, "the model has no output 'scores'; it has boxes");
    }
}
