//! Inputs and answers of calls, common to all ONNX engines.

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
use super::windows::{Volume, WindowBatch, Windows};
use super::{EngineOptions, OnnxError};
use crate::engine::{Answers, Engine, Port};
use crate::infer::Trial;
use crate::tensors::{
    Element, Elements, LoadedSamples, ModelInput, Sample, SampleTensor, Scalar, Store,
    TensorLibrary, each_type,
};

/// A library matched with the inputs of a model.
///
/// Only the first failure reason is kept from one call to the next. Answers are made of the outputs
/// of their own call, for every query again. There is no table that maps samples to answers.
#[derive(Debug, Clone)]
pub(super) struct Feed {
    library: Arc<TensorLibrary>,
    /// Inputs of the model, each with the position of its tensor in the library.
    inputs: Vec<(ModelInput, usize)>,
    /// Shapes for samples like the first one.
    first: Shapes,
    /// Shape of each input of the first sample.
    first_sample: Vec<Vec<usize>>,
    largest_batch: usize,
    answer: Answer,
    /// Index in the model of the output of which answers are made.
    output: usize,
    /// Set during the trial of a sample, in which one call is enough to show that the model runs.
    is_tried: Arc<AtomicBool>,
    /// Why each sample is computed alone, except to compare answers.
    separate: Option<String>,
    /// Whether answers are outputs instead of classes, to compare them.
    is_compared: Arc<AtomicBool>,
    failure_reason: OnceLock<String>,
}

/// Shapes of calls for samples of one shape.
#[derive(Debug, Clone)]
struct Shapes {
    /// Shape of each input in a call with one sample.
    inputs: Vec<Vec<usize>>,
    /// Maximum number of samples per call; 1 if the model has no batch dimension.
    batch: usize,
}

/// Function that makes one call of a model. It takes the inputs and the samples of the call, and
/// passes the outputs to a callback, in the order of [`Feed::outputs`].
pub(super) type Call<'c> = dyn FnMut(
        CallInputs<'_>,
        &[QuerySample],
        &mut dyn FnMut(&Outputs<'_>) -> Result<(), String>,
    ) -> Result<(), String>
    + 'c;

/// Inputs of a call. Few models have more than four, and a call of a small model takes only
/// microseconds.
pub(super) type CallInputs<'a> = SmallVec<[CallInput<'a>; 4]>;

/// Shape and elements of an input.
pub(super) type CallInput<'a> = (Cow<'a, [usize]>, Elements<'a>);

/// Maximum number of different samples in the comparison of calls.
const TRIED_SAMPLES: u64 = 8;

/// Samples of one shape, with their tensors.
type Group = (Vec<QuerySample>, Vec<Arc<[SampleTensor]>>);

thread_local! {
    /// Buffers to gather samples in, one per input.
    static SCRATCH: RefCell<Vec<Elements<'static>>> = RefCell::default();
}

/// Failure of samples, with a message.
type Refusal = (Failure, String);

impl Feed {
    /// Matches inputs with tensors by name, or by position if there is exactly one of each.
    pub(super) fn new(
        model: &[ModelInput],
        library: &Arc<TensorLibrary>,
        options: EngineOptions,
    ) -> Result<Self, OnnxError> {
        let available = library.first_sample();
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
            output: options.output,
            separate: options.separate,
            is_tried: Arc::default(),
            is_compared: Arc::default(),
            failure_reason: OnceLock::new(),
        })
    }

    /// Returns whether a call may hold several samples.
    #[cfg(feature = "tract")]
    pub(super) fn is_batched(&self) -> bool {
        self.first.batch > 1
    }

    /// Returns the shape of each input of a call with one sample.
    #[cfg(feature = "tract")]
    pub(super) fn shapes(&self) -> impl Iterator<Item = &[usize]> {
        self.first.inputs.iter().map(|shape| &shape[..])
    }

    /// Splits the samples into calls, runs the calls, and adds the answers. A sample that cannot be
    /// prepared fails alone. If a call fails, all samples of the call fail.
    pub(super) fn answer(
        &self,
        samples: &[QuerySample],
        answers: &mut Answers,
        call: &mut Call<'_>,
    ) {
        // Buffers are reused. A batch is so large that the allocator would otherwise request its
        // memory from the operating system in every call.
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

    /// Answers samples of a source. Samples of different shapes do not share a call.
    fn answer_loaded(
        &self,
        loaded: &LoadedSamples,
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
                let pairs = self.inputs.iter().zip(scratch.iter_mut());
                for (input, ((_, at), scratch)) in pairs.enumerate() {
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

    fn loaded(&self, loaded: &LoadedSamples, sample: &QuerySample) -> Sample {
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

    /// Returns the number of samples that share a call; 1 if a sample needs several calls, or must be
    /// computed alone.
    fn at_once(&self, shapes: &Shapes) -> usize {
        let is_alone = self.separate.is_some() && !self.is_compared.load(Ordering::Relaxed);
        if is_alone || windows(&self.answer).is_some() { 1 } else { shapes.batch }
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
            let volume = Volume { shape, elements };
            let batch = WindowBatch { shape: &shapes.inputs[0], count: shapes.batch };
            let calls = if self.is_tried.load(Ordering::Relaxed) { 1 } else { usize::MAX };
            let answered = answers.push_with(samples[0].id, |bytes| {
                windows.label(volume, batch, samples[0], calls, call, bytes).map(|()| 0)
            });
            return answered.map_err(|why| {
                answers.roll_back(mark);
                (Failure::Internal, why)
            });
        }
        let is_compared = self.is_compared.load(Ordering::Relaxed);
        let answer = if is_compared { &Answer::Output } else { &self.answer };
        let answered = call(inputs, samples, &mut |outputs| {
            for (position, sample) in samples.iter().enumerate() {
                answers.push_with(sample.id, |bytes| answer.write(outputs, position, bytes))?;
            }
            Ok(())
        });
        answered.map_err(|why| {
            answers.roll_back(mark);
            (Failure::Internal, why)
        })
    }

    /// Fails the samples if they were not answered.
    fn note(&self, samples: &[QuerySample], answered: Result<(), Refusal>, answers: &mut Answers) {
        let Err((failure, why)) = answered else { return };
        for sample in samples {
            answers.fail(sample.id, failure);
        }
        self.failure_reason.get_or_init(|| why);
    }

    /// Returns the reason why the first failed sample failed.
    pub(super) fn failure_reason(&self) -> Option<&str> {
        self.failure_reason.get().map(String::as_str)
    }

    /// Answers sample 0, so that a model that cannot run is reported before the run. Returns the
    /// duration, and remarks on the model.
    pub(super) fn trial(
        &self,
        engine: &dyn Engine,
    ) -> Result<(Option<Nanos>, Vec<String>), OnnxError> {
        let first = QuerySample { id: ResponseId(1), index: 0 };
        let clock = Clock::start();
        let mut answers = Answers::new();
        self.is_tried.store(true, Ordering::Relaxed);
        engine.answer(&[first], &mut answers);
        self.is_tried.store(false, Ordering::Relaxed);
        let took = clock.now();
        if let Some(why) = self.failure_reason() {
            return Err(OnnxError::Trial { why: why.to_owned() });
        }
        let odd = self.has_nan(engine, &answers).then(|| {
            "The output for sample 0 contains NaN; check the model and its inputs.".to_owned()
        });
        let mixed = self.check_batch(engine)?.map(|apart| {
            format!(
                "Answers depend on the other samples of their call by up to {apart:.1e} of the \
                 largest magnitude, as in models that quantize whole calls; --batch 1 computes \
                 each sample alone."
            )
        });
        // If samples are computed alone, no answer depends on another sample.
        let alone = self.separate.as_ref().filter(|_| self.first.batch > 1);
        let alone = alone.map(|why| format!("Samples do not share calls: {why}."));
        Ok((Some(took), odd.into_iter().chain(alone.or(mixed)).collect()))
    }

    /// Returns whether the answer to sample 0 has NaN, or no class because of it.
    fn has_nan(&self, engine: &dyn Engine, answers: &Answers) -> bool {
        let Some((_, Ok(bytes))) = answers.iter().next() else { return false };
        match self.answer {
            Answer::Argmax => bytes.is_empty(),
            Answer::Output => {
                let numbers = first_element(engine).and_then(|of| Elements::read(of, bytes));
                numbers.is_some_and(|all| all.to_f64().iter().any(|x| x.is_nan()))
            }
            Answer::Function(_) | Answer::Windows(_) => false,
        }
    }

    /// Checks that samples of one call do not influence each other. Returns by how much they do, if that
    /// is little but more than rounding.
    fn check_batch(&self, engine: &dyn Engine) -> Result<Option<f64>, OnnxError> {
        let is_plain = matches!(self.answer, Answer::Output | Answer::Argmax);
        let element = first_element(engine);
        let Some(element) = element.filter(|_| is_plain && self.first.batch > 1) else {
            return Ok(None);
        };
        self.is_compared.store(true, Ordering::Relaxed);
        let trial = self.compare(engine, element);
        self.is_compared.store(false, Ordering::Relaxed);
        let Some(trial) = trial? else { return Ok(None) };
        match trial.mixed() {
            Some(why) => Err(OnnxError::Mixed { why }),
            None => Ok(trial.influence()),
        }
    }

    /// Computes samples in calls of two and of all of them, and in calls of their own. Returns `None` if
    /// one of the first two fails alone, which the run reports.
    fn compare(&self, engine: &dyn Engine, element: Element) -> Result<Option<Trial>, OnnxError> {
        // Of samples that are prepared during the run, only the first is there now.
        let is_held = matches!(self.library.store(), Store::Memory(_));
        let total = if is_held { self.library.total_sample_count() as u64 } else { 1 };
        let other = u64::from(total > 1);
        let answers = |indices: &[u64]| -> Option<Vec<Vec<f64>>> {
            let sample = |(at, index): (usize, &u64)| QuerySample {
                id: ResponseId(at as u64 + 1),
                index: *index,
            };
            let samples: Vec<QuerySample> = indices.iter().enumerate().map(sample).collect();
            let mut found = Answers::new();
            engine.answer(&samples, &mut found);
            let mut numbers = vec![Vec::new(); samples.len()];
            for (id, answer) in found.iter() {
                numbers[id.0 as usize - 1] = Elements::read(element, answer.ok()?)?.to_f64();
            }
            Some(numbers)
        };
        let pair = |indices: &[u64; 2]| <[Vec<f64>; 2]>::try_from(answers(indices)?).ok();
        let alone = |index: u64| answers(&[index])?.pop();
        let (Some(first), Some(second)) = (alone(0), alone(other)) else { return Ok(None) };
        // A run makes calls of any number of samples up to the largest batch.
        let (Some(twice), Some(both)) = (pair(&[0, 0]), pair(&[0, other])) else {
            let why = self.failure_reason().unwrap_or("a call of two samples fails");
            return Err(OnnxError::Mixed { why: why.to_owned() });
        };
        let (mut together, mut apart) = (Vec::from(both), vec![first, second]);
        // Few samples can agree by chance, for example in the sign of a sum that selects a branch.
        let most = total.min(TRIED_SAMPLES).min(self.first.batch as u64);
        if most > 2 {
            let spread: Vec<u64> = (0..most).map(|at| at * total / most).collect();
            let each: Option<Vec<Vec<f64>>> = spread.iter().map(|index| alone(*index)).collect();
            let Some(each) = each else { return Ok(Some(Trial { twice, together, alone: apart })) };
            let Some(all) = answers(&spread) else {
                let why = self.failure_reason().unwrap_or("a call of several samples fails");
                return Err(OnnxError::Mixed { why: why.to_owned() });
            };
            together.extend(all);
            apart.extend(each);
        }
        Ok(Some(Trial { twice, together, alone: apart }))
    }

    /// Returns which of the `count` outputs of a call the answers need, by their index in the model:
    /// first that of which answers are made, then the others in their order.
    pub(super) fn outputs(&self, count: usize) -> impl Iterator<Item = usize> {
        let own = self.output;
        let others = (0..count).filter(move |&index| index != own);
        (own..count).take(1).chain(others).take(self.answer.outputs())
    }

    /// Moves the description of the output of which answers are made before the others.
    pub(super) fn answer_first(&self, mut outputs: Vec<Port>) -> Vec<Port> {
        if let Some(front) = outputs.get_mut(..=self.output) {
            front.rotate_right(1);
        }
        outputs
    }

    /// Returns the maximum number of samples per call.
    pub(super) fn largest_batch(&self) -> usize {
        if self.separate.is_some() { 1 } else { self.first.batch }
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

/// Returns the type of the output of which answers are made, the first one that the engine lists.
fn first_element(engine: &dyn Engine) -> Option<Element> {
    engine.info().outputs.first().and_then(|port| Elements::type_from_name(&port.element))
}

/// Returns the windows of a model that sees samples in windows.
fn windows(answer: &Answer) -> Option<&Windows> {
    match answer {
        Answer::Windows(windows) => Some(windows),
        Answer::Output | Answer::Argmax | Answer::Function(_) => None,
    }
}

/// Returns the shapes of calls for samples like this one, or for its windows.
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
        let window = match windows {
            None => tensor.shape.clone(),
            Some(windows) => windows
                .shape(&tensor.shape)
                .ok_or_else(|| unfit(windows.expected(), &tensor.shape))?,
        };
        let shape = call_shape(&input.shape, &window);
        let shape = shape.ok_or_else(|| unfit(input.shape.clone(), &window))?;
        // If the first dimension of an input is fixed, or belongs to the sample, the model takes
        // one sample per call.
        let grows = input.shape.first() == Some(&None);
        batched &= grows && shape.len() == window.len() + 1;
        shapes.push(shape);
    }
    Ok(Shapes { inputs: shapes, batch: if batched { largest_batch } else { 1 } })
}

/// Returns whether two samples may share a call.
fn is_alike(a: &[SampleTensor], b: &[SampleTensor]) -> bool {
    let alike = |(a, b): (&SampleTensor, &SampleTensor)| {
        a.shape == b.shape && a.elements.element() == b.elements.element()
    };
    a.len() == b.len() && a.iter().zip(b).all(alike)
}

/// Concatenates one input of samples of the same shape and type. It is borrowed from a single
/// sample, and otherwise gathered in `scratch`.
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

/// Returns the shape of a call with one sample: the sample's own shape if it has all dimensions of
/// the model, otherwise the shape with a first dimension of 1.
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
