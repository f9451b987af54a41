//! How samples enter a model and answers leave it, the same for all engines.

use std::sync::{Arc, OnceLock};

use dyno_loadgen::clock::{Clock, Nanos};
use dyno_loadgen::record::Failure;
use dyno_loadgen::sut::{QuerySample, ResponseId};

use super::{Answer, EngineOptions, OnnxError};
use crate::engine::{Answers, Engine};
use crate::tensors::{Elements, ModelInput, Tensor, TensorLibrary};
use crate::top1;

/// A library matched with a model's inputs.
#[derive(Debug, Clone)]
pub(super) struct Feed {
    library: Arc<TensorLibrary>,
    /// Per input of the model: its tensor, and the shape of a call with one
    /// sample.
    inputs: Vec<(Tensor, Vec<usize>)>,
    /// Samples in a call at most; 1 where the model has a place for one only.
    batch: usize,
    answer: Answer,
    trouble: OnceLock<String>,
}

/// The first output of a call.
pub(super) enum Output<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    I64(&'a [i64]),
    I32(&'a [i32]),
    U8(&'a [u8]),
}

/// One call of a model: the shape and the elements of each input go in, the
/// first output comes out.
pub(super) type Call<'c> = dyn FnMut(Vec<(Vec<usize>, Elements<'_>)>, &mut dyn FnMut(Output<'_>)) -> Result<(), String>
    + 'c;

impl Feed {
    /// Matches by name, or by position where both have exactly one.
    pub(super) fn new(
        model: &[ModelInput],
        library: &Arc<TensorLibrary>,
        options: EngineOptions,
    ) -> Result<Self, OnnxError> {
        let tensors = library.tensors();
        let mut inputs = Vec::new();
        let mut batched = true;
        for input in model {
            let tensor = match (model, tensors) {
                ([_], [only]) => only,
                _ => tensors.iter().find(|t| t.name == input.name).ok_or_else(|| {
                    let available = tensors.iter().map(|tensor| tensor.name.clone()).collect();
                    OnnxError::InputMissing { name: input.name.clone(), available }
                })?,
            };
            let (expected, found) = (input.element, tensor.elements.element());
            if expected != found {
                return Err(OnnxError::ElementType { name: input.name.clone(), expected, found });
            }
            let shape = call_shape(&input.shape, &tensor.sample_shape).ok_or_else(|| {
                let (expected, sample) = (input.shape.clone(), tensor.sample_shape.clone());
                OnnxError::Shape { name: input.name.clone(), expected, sample }
            })?;
            // One input whose first dimension is fixed, or is the sample's own,
            // and the model takes one sample a call.
            let grows = input.shape.first() == Some(&None);
            batched &= grows && shape.len() == tensor.sample_shape.len() + 1;
            // Only the shape travels with the feed; the elements stay in the library.
            let elements = match &tensor.elements {
                Elements::F32(_) => Elements::F32((&[]).into()),
                Elements::I64(_) => Elements::I64((&[]).into()),
                Elements::U8(_) => Elements::U8((&[]).into()),
            };
            inputs.push((Tensor { elements, ..tensor.clone() }, shape));
        }
        let batch = if batched { options.largest_batch.max(1) } else { 1 };
        Ok(Self {
            library: Arc::clone(library),
            inputs,
            batch,
            answer: options.answer,
            trouble: OnceLock::new(),
        })
    }

    /// Whether a call may hold several samples.
    #[cfg(feature = "tract")]
    pub(super) fn is_batched(&self) -> bool {
        self.batch > 1
    }

    /// The shape of each input of a call with one sample.
    #[cfg(feature = "tract")]
    pub(super) fn shapes(&self) -> impl Iterator<Item = &[usize]> {
        self.inputs.iter().map(|(_, shape)| &shape[..])
    }

    /// Splits the samples into calls, runs them, and notes what comes of it.
    ///
    /// `call` gets each input's shape and elements, and passes the first output
    /// on to its last argument.
    pub(super) fn answer(
        &self,
        samples: &[QuerySample],
        answers: &mut Answers,
        call: &mut Call<'_>,
    ) {
        for samples in samples.chunks(self.batch) {
            if let Err((failure, why)) = self.answer_call(samples, answers, call) {
                for sample in samples {
                    answers.fail(sample.id, failure);
                }
                self.trouble.get_or_init(|| why);
            }
        }
    }

    fn answer_call(
        &self,
        samples: &[QuerySample],
        answers: &mut Answers,
        call: &mut Call<'_>,
    ) -> Result<(), (Failure, String)> {
        let inputs = self.inputs(samples);
        let inputs = inputs.ok_or((Failure::Rejected, "a sample is not in the library".into()))?;
        let mut answered = false;
        call(inputs, &mut |output| answered = self.note(samples, &output, answers))
            .map_err(|why| (Failure::Internal, why))?;
        if answered {
            return Ok(());
        }
        let n = samples.len();
        let why = format!("the first output has no equal part for each of {n} samples");
        Err((Failure::Internal, why))
    }

    /// Why the first sample that failed did so.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.get().map(String::as_str)
    }

    /// Answers sample 0, so that a model that cannot run is told before a run.
    /// Returns how long that took.
    pub(super) fn trial(&self, engine: &dyn Engine) -> Result<Nanos, OnnxError> {
        let first = QuerySample { id: ResponseId(1), index: 0 };
        let clock = Clock::start();
        engine.answer(&[first], &mut Answers::new());
        let took = clock.now();
        self.trouble().map_or(Ok(took), |why| Err(OnnxError::Trial { why: why.to_owned() }))
    }

    /// Samples in a call at most.
    pub(super) fn largest_batch(&self) -> usize {
        self.batch
    }

    fn inputs(&self, samples: &[QuerySample]) -> Option<Vec<(Vec<usize>, Elements<'_>)>> {
        let input = |(tensor, shape): &(Tensor, Vec<usize>)| {
            let mut shape = shape.clone();
            if self.batch > 1 {
                shape[0] = samples.len();
            }
            Some((shape, self.library.gather(tensor, samples)?))
        };
        self.inputs.iter().map(input).collect()
    }

    /// Whether the output had an equal part for each sample.
    fn note(&self, samples: &[QuerySample], output: &Output<'_>, answers: &mut Answers) -> bool {
        match *output {
            Output::F32(all) => self.parts(samples, all, answers, f32::to_le_bytes, top1::argmax),
            Output::F64(all) => self.parts(samples, all, answers, f64::to_le_bytes, |part| {
                top1::argmax(&part.iter().map(|&x| x as f32).collect::<Vec<_>>())
            }),
            Output::I64(all) => self.parts(samples, all, answers, i64::to_le_bytes, greatest),
            Output::I32(all) => self.parts(samples, all, answers, i32::to_le_bytes, greatest),
            Output::U8(all) => self.parts(samples, all, answers, u8::to_le_bytes, greatest),
        }
    }

    fn parts<T: Copy, const SIZE: usize>(
        &self,
        samples: &[QuerySample],
        all: &[T],
        answers: &mut Answers,
        bytes: fn(T) -> [u8; SIZE],
        class: fn(&[T]) -> usize,
    ) -> bool {
        let len = all.len() / samples.len();
        if len == 0 || len * samples.len() != all.len() {
            return false;
        }
        for (sample, part) in samples.iter().zip(all.chunks_exact(len)) {
            match self.answer {
                Answer::Argmax => answers.push(sample.id, &top1::encode(class(part))),
                Answer::Output => {
                    let part: Vec<u8> = part.iter().flat_map(|&value| bytes(value)).collect();
                    answers.push(sample.id, &part);
                }
            }
        }
        true
    }
}

/// The class that integers tell: a single one is the class itself.
fn greatest<T: Copy + Into<i64>>(part: &[T]) -> usize {
    if let [class] = part {
        return usize::try_from((*class).into()).unwrap_or(usize::MAX);
    }
    let key = |&at: &usize| (part[at].into(), std::cmp::Reverse(at));
    (0..part.len()).max_by_key(key).unwrap_or(0)
}

/// The shape of a call with one sample: the sample's own shape if it has all of
/// the model's dimensions, or the same with a first dimension of 1.
fn call_shape(model: &[Option<usize>], sample: &[usize]) -> Option<Vec<usize>> {
    let whole = sample.to_vec();
    let one = [&[1], sample].concat();
    let fits = |shape: &Vec<usize>| {
        let pairs = || model.iter().zip(shape);
        shape.len() == model.len() && pairs().all(|(m, s)| m.is_none_or(|m| m == *s))
    };
    [one, whole].into_iter().find(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_enter_with_or_without_a_first_dimension_of_one() {
        let any = None;
        assert_eq!(call_shape(&[any, Some(64)], &[64]), Some(vec![1, 64]));
        assert_eq!(call_shape(&[Some(1), Some(5)], &[5]), Some(vec![1, 5]));
        assert_eq!(call_shape(&[any, Some(3), any], &[1, 3, 9]), Some(vec![1, 3, 9]));
        assert_eq!(call_shape(&[Some(2), Some(5)], &[2, 5]), Some(vec![2, 5]));
        assert_eq!(call_shape(&[Some(2), Some(5)], &[5]), None);
    }

    #[test]
    fn integers_are_a_class_or_scores() {
        assert_eq!(greatest(&[7_i64]), 7);
        assert_eq!(greatest(&[1_u8, 9, 9]), 1);
    }
}
