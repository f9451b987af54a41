//! How samples enter a model and answers leave it, the same for all engines.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use dyno_loadgen::clock::{Clock, Nanos};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::record::Failure;
use dyno_loadgen::sut::{QuerySample, ResponseId};
use smallvec::SmallVec;

use super::answer::{Answer, Outputs};
use super::windows::Windows;
use super::{EngineOptions, OnnxError};
use crate::engine::{Answers, Engine};
use crate::tensors::{
    Elements, Loaded, ModelInput, Sample, SampleTensor, Scalar, Store, TensorLibrary, each_type,
};

/// A library matched with a model's inputs.
///
/// Nothing here is kept from one call to the next but the first trouble: an answer
/// is made of the outputs of its own call, for every query anew, and there is no
/// table in which an answer could be found by its sample.
#[derive(Debug, Clone)]
pub(super) struct Feed {
    library: Arc<TensorLibrary>,
    /// Per input of the model, the position of its tensor in the library.
    inputs: Vec<(ModelInput, usize)>,
    /// How samples of the first one's shape are computed.
    first: Shapes,
    /// What the first sample has for each input.
    first_sample: Vec<Vec<usize>>,
    largest_batch: usize,
    answer: Answer,
    /// While a sample is tried, one call shows that the model runs.
    is_tried: Arc<AtomicBool>,
    trouble: OnceLock<String>,
}

/// How samples of one shape are computed.
#[derive(Debug, Clone)]
struct Shapes {
    /// The shape of each input in a call with one sample.
    inputs: Vec<Vec<usize>>,
    /// Samples in a call at most; 1 where the model has a place for one only.
    batch: usize,
}

/// One call of a model: the shape and the elements of each input, and the samples in
/// it, go in; all outputs come out.
pub(super) type Call<'c> = dyn FnMut(
        CallInputs<'_>,
        &[QuerySample],
        &mut dyn FnMut(&Outputs<'_>) -> Result<(), String>,
    ) -> Result<(), String>
    + 'c;

/// Shape and elements of each input of a call. Few models have more than four, and a call
/// of a small one takes microseconds.
pub(super) type CallInputs<'a> = SmallVec<[CallInput<'a>; 4]>;

/// Shape and elements of one input.
pub(super) type CallInput<'a> = (Cow<'a, [usize]>, Elements<'a>);

/// Samples of one shape, and their tensors.
type Group = (Vec<QuerySample>, Vec<Arc<[SampleTensor]>>);

thread_local! {
    /// Per input, memory to gather samples in.
    static SCRATCH: RefCell<Vec<Elements<'static>>> = RefCell::default();
}

/// Why samples were not answered.
type Refusal = (Failure, String);

impl Feed {
    /// Matches by name, or by position where both have exactly one.
    pub(super) fn new(
        model: &[ModelInput],
        library: &Arc<TensorLibrary>,
        options: EngineOptions,
    ) -> Result<Self, OnnxError> {
        let available = library.first();
        let mut inputs = Vec::new();
        for input in model {
            let at =
                match (model, &available[..]) {
                    ([_], [_]) => 0,
                    _ => available.iter().position(|(name, _)| *name == input.name).ok_or_else(
                        || OnnxError::InputMissing {
                            name: input.name.clone(),
                            available: available
                                .iter()
                                .map(|(name, _)| (*name).to_owned())
                                .collect(),
                        },
                    )?,
                };
            inputs.push((input.clone(), at));
        }
        let tensors: Vec<SampleTensor> = available.into_iter().map(|(_, tensor)| tensor).collect();
        let largest_batch = options.largest_batch.max(1);
        let first = shapes(&inputs, &tensors, largest_batch, windows(&options.answer))?;
        let first_sample = inputs.iter().map(|(_, at)| tensors[*at].shape.clone()).collect();
        Ok(Self {
            library: Arc::clone(library),
            inputs,
            first,
            first_sample,
            largest_batch,
            answer: options.answer,
            is_tried: Arc::default(),
            trouble: OnceLock::new(),
        })
    }

    /// Whether a call may hold several samples.
    #[cfg(feature = "tract")]
    pub(super) fn is_batched(&self) -> bool {
        self.first.batch > 1
    }

    /// The shape of each input of a call with one sample.
    #[cfg(feature = "tract")]
    pub(super) fn shapes(&self) -> impl Iterator<Item = &[usize]> {
        self.first.inputs.iter().map(|shape| &shape[..])
    }

    /// Splits the samples into calls, runs them, and notes what comes of it. A sample
    /// that cannot be computed fails, and with it, where the call itself fails, those
    /// of its call.
    pub(super) fn answer(
        &self,
        samples: &[QuerySample],
        answers: &mut Answers,
        call: &mut Call<'_>,
    ) {
        // A batch is large enough for the allocator to ask the system for its memory,
        // and to hand it back, in every call.
        let mut scratch = SCRATCH.take();
        if scratch.len() != self.inputs.len() {
            scratch.resize(self.inputs.len(), Elements::U8(Cow::Borrowed(&[])));
        }
        match self.library.store() {
            Store::Memory(_) => {
                for samples in samples.chunks(self.at_once(&self.first)) {
                    let inputs = self.gathered(samples, &mut scratch);
                    let answered = inputs.and_then(|inputs| {
                        self.answer_call(samples, inputs, &self.first, answers, call)
                    });
                    self.note(samples, answered, answers);
                }
            }
            Store::Source(loaded) => {
                self.answer_loaded(loaded, samples, &mut scratch, answers, call);
            }
        }
        SCRATCH.set(scratch);
    }

    /// Samples whose shapes differ cannot share a call.
    fn answer_loaded(
        &self,
        loaded: &Loaded,
        samples: &[QuerySample],
        scratch: &mut [Elements<'static>],
        answers: &mut Answers,
        call: &mut Call<'_>,
    ) {
        let mut groups: Vec<Group> = Vec::new();
        for sample in samples {
            let tensors = match self.loaded(loaded, sample) {
                Ok(tensors) => tensors,
                Err(why) => {
                    self.note(&[*sample], Err((Failure::Rejected, why)), answers);
                    continue;
                }
            };
            match groups.iter_mut().find(|(_, group)| is_alike(&group[0], &tensors)) {
                Some((samples, group)) => {
                    samples.push(*sample);
                    group.push(tensors);
                }
                None => groups.push((vec![*sample], vec![tensors])),
            }
        }
        for (samples, tensors) in groups {
            let windows = windows(&self.answer);
            let shapes = match shapes(&self.inputs, &tensors[0], self.largest_batch, windows) {
                Ok(shapes) => shapes,
                Err(error) => {
                    let why = format!("sample {}: {error}", samples[0].index);
                    self.note(&samples, Err((Failure::Rejected, why)), answers);
                    continue;
                }
            };
            let at_once = self.at_once(&shapes);
            let calls = samples.chunks(at_once).zip(tensors.chunks(at_once));
            for (samples, tensors) in calls {
                let mut inputs = CallInputs::new();
                let fed = self.inputs.iter().zip(scratch.iter_mut());
                for (input, ((_, at), scratch)) in fed.enumerate() {
                    let shape = match windows {
                        Some(_) => Cow::Borrowed(&tensors[0][*at].shape[..]),
                        None => shapes.of_call(input, samples.len()),
                    };
                    inputs.push((shape, joined(tensors, *at, scratch)));
                }
                let answered = self.answer_call(samples, inputs, &shapes, answers, call);
                self.note(samples, answered, answers);
            }
        }
    }

    fn loaded(&self, loaded: &Loaded, sample: &QuerySample) -> Sample {
        match u32::try_from(sample.index) {
            Ok(index) => loaded.loaded(index),
            Err(_) => Err(self.library.no_such_sample(sample.index)),
        }
    }

    fn gathered<'a>(
        &'a self,
        samples: &[QuerySample],
        scratch: &'a mut [Elements<'static>],
    ) -> Result<CallInputs<'a>, Refusal> {
        let mut inputs = CallInputs::new();
        for (input, ((_, at), scratch)) in self.inputs.iter().zip(scratch).enumerate() {
            let Some(elements) = self.library.gather(*at, samples, scratch) else {
                let count = self.library.total_sample_count() as u64;
                let foreign = samples.iter().find(|sample| sample.index >= count);
                let index = foreign.map_or(0, |sample| sample.index);
                return Err((Failure::Rejected, self.library.no_such_sample(index)));
            };
            let shape = match windows(&self.answer) {
                Some(_) => Cow::Borrowed(&self.first_sample[input][..]),
                None => self.first.of_call(input, samples.len()),
            };
            inputs.push((shape, elements));
        }
        Ok(inputs)
    }

    /// Samples that share a call; none do where one takes several.
    fn at_once(&self, shapes: &Shapes) -> usize {
        windows(&self.answer).map_or(shapes.batch, |_| 1)
    }

    fn answer_call(
        &self,
        samples: &[QuerySample],
        inputs: CallInputs<'_>,
        shapes: &Shapes,
        answers: &mut Answers,
        call: &mut Call<'_>,
    ) -> Result<(), Refusal> {
        let mark = answers.mark();
        if let Some(windows) = windows(&self.answer) {
            let (shape, elements) = &inputs[0];
            let (volume, window) = ((&shape[..], elements), (&shapes.inputs[0][..], shapes.batch));
            let calls = if self.is_tried.load(Ordering::Relaxed) { 1 } else { usize::MAX };
            let answered = answers.push_with(samples[0].id, |bytes| {
                windows.label(volume, window, samples[0], calls, call, bytes).map(|()| 0)
            });
            return answered.map_err(|why| {
                answers.back_to(mark);
                (Failure::Internal, why)
            });
        }
        let answered = call(inputs, samples, &mut |outputs| {
            for (position, sample) in samples.iter().enumerate() {
                answers
                    .push_with(sample.id, |bytes| self.answer.write(outputs, position, bytes))?;
            }
            Ok(())
        });
        answered.map_err(|why| {
            answers.back_to(mark);
            (Failure::Internal, why)
        })
    }

    /// Fails the samples that were not answered.
    fn note(&self, samples: &[QuerySample], answered: Result<(), Refusal>, answers: &mut Answers) {
        let Err((failure, why)) = answered else { return };
        for sample in samples {
            answers.fail(sample.id, failure);
        }
        self.trouble.get_or_init(|| why);
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
        self.is_tried.store(true, Ordering::Relaxed);
        engine.answer(&[first], &mut Answers::new());
        self.is_tried.store(false, Ordering::Relaxed);
        let took = clock.now();
        self.trouble().map_or(Ok(took), |why| Err(OnnxError::Trial { why: why.to_owned() }))
    }

    /// How many outputs of a call its answers are made of, from the first one on.
    pub(super) fn outputs(&self) -> usize {
        self.answer.outputs()
    }

    /// Samples in a call at most.
    pub(super) fn largest_batch(&self) -> usize {
        self.first.batch
    }
}

impl Shapes {
    fn of_call(&self, input: usize, samples: usize) -> Cow<'_, [usize]> {
        let shape = &self.inputs[input];
        if self.batch == 1 || shape[0] == samples {
            return Cow::Borrowed(shape);
        }
        let mut shape = shape.clone();
        shape[0] = samples;
        Cow::Owned(shape)
    }
}

/// The windows in which the model sees samples, if it does not see them whole.
fn windows(answer: &Answer) -> Option<&Windows> {
    match answer {
        Answer::Windows(windows) => Some(windows),
        Answer::Output | Answer::Argmax | Answer::Made(_) => None,
    }
}

/// How samples such as this one, or windows of it, enter the model.
fn shapes(
    inputs: &[(ModelInput, usize)],
    sample: &[SampleTensor],
    largest_batch: usize,
    windows: Option<&Windows>,
) -> Result<Shapes, OnnxError> {
    let mut batched = true;
    let mut shapes = Vec::new();
    for (input, at) in inputs {
        let tensor = &sample[*at];
        let (expected, found) = (input.element, tensor.elements.element());
        if expected != found {
            return Err(OnnxError::ElementType { name: input.name.clone(), expected, found });
        }
        let unfit = |expected: Vec<Option<usize>>, sample: &[usize]| {
            let (name, sample) = (input.name.clone(), sample.to_vec());
            OnnxError::Shape { name, expected, sample }
        };
        let seen = match windows {
            None => tensor.shape.clone(),
            Some(windows) => windows
                .shape(&tensor.shape)
                .ok_or_else(|| unfit(windows.expected(), &tensor.shape))?,
        };
        let shape = call_shape(&input.shape, &seen);
        let shape = shape.ok_or_else(|| unfit(input.shape.clone(), &seen))?;
        // One input whose first dimension is fixed, or is the sample's own, and the
        // model takes one sample a call.
        let grows = input.shape.first() == Some(&None);
        batched &= grows && shape.len() == seen.len() + 1;
        shapes.push(shape);
    }
    Ok(Shapes { inputs: shapes, batch: if batched { largest_batch } else { 1 } })
}

/// Whether both may share a call.
fn is_alike(a: &[SampleTensor], b: &[SampleTensor]) -> bool {
    let alike = |(a, b): (&SampleTensor, &SampleTensor)| {
        a.shape == b.shape && a.elements.element() == b.elements.element()
    };
    a.len() == b.len() && a.iter().zip(b).all(alike)
}

/// One input of samples of one shape and type, one after the other: borrowed of a
/// single sample, else gathered in `scratch`.
fn joined<'a>(
    samples: &'a [Arc<[SampleTensor]>],
    input: usize,
    scratch: &'a mut Elements<'static>,
) -> Elements<'a> {
    fn gathered<'a, T: Scalar>(
        _first: &[T],
        samples: &[Arc<[SampleTensor]>],
        input: usize,
        scratch: &'a mut Elements<'static>,
    ) -> &'a [T] {
        let joined = scratch.emptied::<T>();
        for sample in samples {
            let elements = sample[input].elements.as_slice::<T>();
            joined.extend_from_slice(elements.expect("samples of one call are of one type"));
        }
        joined
    }
    each_type!(&samples[0][input].elements, first => Scalar::wrap(Cow::Borrowed(match samples {
        [_] => &first[..],
        several => gathered(first, several, input, scratch),
    })))
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
mod tests;
