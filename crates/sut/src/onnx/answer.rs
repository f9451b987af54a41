//! What the answer to a sample is, made of the outputs of a call.

use std::fmt;
use std::sync::Arc;

use dyno_loadgen::sut::QuerySample;

use super::windows::Windows;
use crate::tensors::Elements;

/// What the answer to a sample is.
///
/// Whatever makes it is part of the call and therefore timed.
#[derive(Clone, Default)]
pub enum Answer {
    /// The sample's part of the first output, as little-endian bytes.
    #[default]
    Output,
    /// The class that this part tells, as [`crate::top1::encode`] writes it: the
    /// position of the greatest element, or the element itself if it is a single
    /// integer.
    Argmax,
    /// What a function makes of all outputs of the call.
    Made(Arc<AnswerFn>),
    /// A label a voxel of a volume that the model sees in windows, several calls a sample.
    Windows(Windows),
}

/// Appends the answer to the sample at this position of the call to the bytes, and
/// returns its count of tokens (0 where it has none).
///
/// It is called once for each sample of a call, by the thread that computed it, and
/// several threads call it at once. An error fails the samples of the call.
pub type AnswerFn = dyn Fn(&Outputs<'_>, usize, &mut Vec<u8>) -> Result<i64, String> + Send + Sync;

impl Answer {
    /// What `make` makes of all outputs of a call.
    ///
    /// ```
    /// use dyno_sut::onnx::Answer;
    /// // The sum of the sample's part of the output `loss`.
    /// let answer = Answer::made(|outputs, position, bytes| {
    ///     let part = outputs.named("loss")?.part(position)?;
    ///     let sum: f32 = part.elements.to_f32().iter().sum();
    ///     bytes.extend_from_slice(&sum.to_le_bytes());
    ///     Ok(0)
    /// });
    /// # let _ = answer;
    /// ```
    pub fn made(
        make: impl Fn(&Outputs<'_>, usize, &mut Vec<u8>) -> Result<i64, String> + Send + Sync + 'static,
    ) -> Self {
        Self::Made(Arc::new(make))
    }

    /// Appends the answer to the sample at `position`; returns its count of tokens.
    pub(super) fn write(
        &self,
        outputs: &Outputs<'_>,
        position: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<i64, String> {
        match self {
            Self::Output => outputs.first()?.part(position)?.elements.write(bytes),
            Self::Argmax => {
                let class = outputs.first()?.part(position)?.elements.class();
                bytes.extend_from_slice(&class.to_le_bytes());
            }
            Self::Made(make) => return make(outputs, position, bytes),
            Self::Windows(_) => unreachable!("an answer of several calls is of none of them"),
        }
        Ok(0)
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Output => "Output",
            Self::Argmax => "Argmax",
            Self::Made(_) => "Made",
            Self::Windows(_) => "Windows",
        })
    }
}

/// All outputs of a call.
#[derive(Debug)]
pub struct Outputs<'a> {
    all: Vec<Output<'a>>,
    samples: &'a [QuerySample],
}

/// One output of a call, for all of its samples.
#[derive(Debug)]
pub struct Output<'a> {
    /// As the model names it.
    pub name: &'a str,
    /// All dimensions.
    pub shape: Vec<usize>,
    /// Row by row; an error for what is no tensor of a type that is read.
    pub elements: Result<Elements<'a>, String>,
    /// Samples in the call.
    pub samples: usize,
}

/// A sample's part of an output.
#[derive(Debug, PartialEq)]
pub struct Part<'a> {
    /// Its dimensions, without that of the batch.
    pub shape: &'a [usize],
    /// Row by row.
    pub elements: Elements<'a>,
}

impl<'a> Outputs<'a> {
    /// The outputs of a call, in the order of the model.
    #[must_use]
    pub fn new(all: Vec<Output<'a>>) -> Self {
        Self { all, samples: &[] }
    }

    /// The same, of a call with these samples.
    #[must_use]
    pub fn of(self, samples: &'a [QuerySample]) -> Self {
        Self { samples, ..self }
    }

    /// The place in the data set of the sample at this position of the call, for answers
    /// that name it, as those of detectors do.
    ///
    /// It is a number to be written, and opens no way to an answer that was not computed:
    /// outputs are those of this call alone, a library holds inputs only, and whoever
    /// makes answers is made before the samples are known.
    ///
    /// # Errors
    /// If the call has no sample there.
    pub fn index(&self, position: usize) -> Result<u64, String> {
        let sample = self.samples.get(position).map(|sample| sample.index);
        sample.ok_or_else(|| format!("the call has {} samples", self.samples.len()))
    }

    /// All of them, in the order of the model.
    #[must_use]
    pub fn all(&self) -> &[Output<'a>] {
        &self.all
    }

    /// The first one.
    ///
    /// # Errors
    /// If there is none.
    pub fn first(&self) -> Result<&Output<'a>, String> {
        self.all.first().ok_or_else(|| "the model has no outputs".into())
    }

    /// The one of this name.
    ///
    /// # Errors
    /// Which names there are.
    pub fn named(&self, name: &str) -> Result<&Output<'a>, String> {
        self.all.iter().find(|output| output.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.all.iter().map(|output| output.name).collect();
            format!("the model has no output '{name}'; it has {}", names.join(", "))
        })
    }
}

impl Output<'_> {
    /// The whole output, for all samples of the call.
    ///
    /// # Errors
    /// If it is no tensor of a type that is read.
    pub fn elements(&self) -> Result<&Elements<'_>, String> {
        let unread = |why: &String| format!("output '{}' {why}", self.name);
        self.elements.as_ref().map_err(unread)
    }

    /// The part of the sample at this position of the call: a row, where the first
    /// dimension counts the samples. The whole output, with all of its dimensions,
    /// belongs to the only sample of a call; of an output `[1, ...]` that is its row.
    ///
    /// An output whose first dimension is something else, such as the boxes
    /// `[boxes, 7]` that non-maximum suppression leaves, has no rows in a call of
    /// several samples. With one sample in a call (`largest_batch` 1) its part is the
    /// output; a single box has the shape `[7]`, and the same elements.
    ///
    /// # Errors
    /// If it cannot be read, or has no part for each sample.
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
