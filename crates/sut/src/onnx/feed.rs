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
    Element, Elements, Loaded, ModelInput, Sample, SampleTensor, Store, TensorLibrary, each_type,
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
    fn gathered<'a, T: Element>(
        _first: &[T],
        samples: &[Arc<[SampleTensor]>],
        input: usize,
        scratch: &'a mut Elements<'static>,
    ) -> &'a [T] {
        let joined = scratch.emptied::<T>();
        for sample in samples {
            let elements = sample[input].elements.of::<T>();
            joined.extend_from_slice(elements.expect("samples of one call are of one type"));
        }
        joined
    }
    each_type!(&samples[0][input].elements, first => Element::wrap(Cow::Borrowed(match samples {
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
mod tests {
    use std::num::NonZero;
    use std::sync::Mutex;

    use super::super::answer::Output;
    use super::*;
    use crate::tensors::{ElementType, Source};

    #[test]
    fn samples_enter_with_or_without_a_first_dimension_of_one() {
        let any = None;
        assert_eq!(call_shape(&[any, Some(64)], &[64]), Some(vec![1, 64]));
        assert_eq!(call_shape(&[Some(1), Some(5)], &[5]), Some(vec![1, 5]));
        assert_eq!(call_shape(&[any, Some(3), any], &[1, 3, 9]), Some(vec![1, 3, 9]));
        assert_eq!(call_shape(&[Some(2), Some(5)], &[2, 5]), Some(vec![2, 5]));
        assert_eq!(call_shape(&[Some(2), Some(5)], &[5]), None);
    }

    /// Sample n has n % 2 + 1 numbers n; sample 5 cannot be read.
    #[derive(Debug)]
    struct Ragged {
        inputs: Vec<String>,
        read: Mutex<Vec<u32>>,
    }

    impl Source for Ragged {
        fn name(&self) -> &str {
            "ragged"
        }

        fn count(&self) -> usize {
            8
        }

        fn inputs(&self) -> &[String] {
            &self.inputs
        }

        fn sample(&self, index: u32) -> Result<Vec<SampleTensor>, String> {
            self.read.lock().unwrap().push(index);
            if index == 5 {
                return Err("5.jpg: the image is cut off".into());
            }
            let len = index as usize % 2 + 1;
            let elements = Elements::I32(vec![index as i32; len].into());
            Ok(vec![SampleTensor { shape: vec![len], elements }])
        }
    }

    fn ragged() -> (Arc<Ragged>, Arc<TensorLibrary>) {
        let source = Arc::new(Ragged { inputs: vec!["x".into()], read: Mutex::default() });
        let library = TensorLibrary::from_source(source.clone(), NonZero::new(4).unwrap(), None);
        (source, Arc::new(library.unwrap()))
    }

    fn feed(library: &Arc<TensorLibrary>, answer: Answer, largest_batch: usize) -> Feed {
        let (name, element) = ("x".to_owned(), ElementType::I32);
        let input = ModelInput { name, element, shape: vec![None, None] };
        Feed::new(&[input], library, EngineOptions { answer, largest_batch }).unwrap()
    }

    fn query(indices: &[u64]) -> Vec<QuerySample> {
        let sample = |&index: &u64| QuerySample { id: ResponseId(index + 1), index };
        indices.iter().map(sample).collect()
    }

    /// Returns what went in; `same` and, of another shape, `all` come out.
    fn echo(feed: &Feed, indices: &[u64], answers: &mut Answers) -> Vec<Vec<usize>> {
        let mut calls = Vec::new();
        feed.answer(&query(indices), answers, &mut |inputs, samples, take| {
            let (shape, elements) = &inputs[0];
            calls.push(shape.to_vec());
            let output = |name, shape: &[usize]| Output {
                name,
                shape: shape.to_vec(),
                elements: Ok(elements.slice(0..elements.len())),
                samples: samples.len(),
            };
            let all = [elements.len()];
            take(&Outputs::new(vec![output("same", shape), output("all", &all)]).of(samples))
        });
        calls
    }

    fn told(answers: &Answers) -> Vec<(u64, Result<Vec<u8>, Failure>)> {
        let mut told: Vec<_> =
            answers.iter().map(|(id, data)| (id.0 - 1, data.map(<[u8]>::to_vec))).collect();
        told.sort_by_key(|(index, _)| *index);
        told
    }

    fn numbers(n: i32, len: usize) -> Result<Vec<u8>, Failure> {
        Ok(n.to_le_bytes().repeat(len))
    }

    #[test]
    fn samples_of_one_shape_share_a_call_and_broken_ones_fail() {
        let (source, library) = ragged();
        library.load(&[1, 2, 3, 4, 5, 3]);
        let feed = feed(&library, Answer::Output, 8);
        let mut answers = Answers::new();
        let calls = echo(&feed, &[3, 4, 5, 2, 1, 7], &mut answers);
        assert_eq!(calls, [[2, 2], [2, 1]]);
        let expected = [
            (1, numbers(1, 2)),
            (2, numbers(2, 1)),
            (3, numbers(3, 2)),
            (4, numbers(4, 1)),
            (5, Err(Failure::Rejected)),
            (7, Err(Failure::Rejected)),
        ];
        assert_eq!(told(&answers), expected);
        assert_eq!(feed.trouble(), Some("sample 5 of ragged: 5.jpg: the image is cut off"));
        let mut read = source.read.lock().unwrap().clone();
        read.sort_unstable();
        assert_eq!(read, [0, 1, 2, 3, 4, 5], "each once, and sample 0 for the model's sake");
        assert_eq!((library.total_sample_count(), library.performance_sample_count()), (8, 4));
    }

    #[test]
    fn unloaded_samples_are_gone() {
        let (_, library) = ragged();
        library.load(&[1, 2]);
        library.unload(&[1, 2, 2]);
        let feed = feed(&library, Answer::Output, 8);
        let mut answers = Answers::new();
        assert!(echo(&feed, &[1], &mut answers).is_empty());
        assert_eq!(feed.trouble(), Some("sample 1 of ragged is not loaded"));
        assert_eq!(told(&answers), [(1, Err(Failure::Rejected))]);
    }

    #[test]
    fn answers_are_made_of_all_outputs() {
        let (_, library) = ragged();
        library.load(&[1, 3]);
        // The second output is of another shape than the batch's.
        let count = |outputs: &Outputs<'_>, position: usize, bytes: &mut Vec<u8>| {
            let all = outputs.named("all")?.elements()?.len();
            let part = outputs.named("same")?.part(position)?;
            bytes.extend([all as u8, part.elements.len() as u8, part.elements.class() as u8]);
            if part.elements.to_f64()[0] > 2.0 { Err("too great".into()) } else { Ok(7) }
        };
        let made = feed(&library, Answer::made(count), 1);
        let mut answers = Answers::new();
        echo(&made, &[1, 3], &mut answers);
        let expected = [(1, Ok(vec![2, 2, 0])), (3, Err(Failure::Internal))];
        assert_eq!(told(&answers), expected);
        assert_eq!(made.trouble(), Some("too great"));
        // In one call, all of it fails: what the first one wrote is taken back.
        let made = feed(&library, Answer::made(count), 2);
        let mut answers = Answers::new();
        echo(&made, &[1, 3], &mut answers);
        let failed = [(1, Err(Failure::Internal)), (3, Err(Failure::Internal))];
        assert_eq!(told(&answers), failed);
    }

    #[test]
    fn answers_know_the_place_of_their_sample_in_the_data_set() {
        let (_, library) = ragged();
        library.load(&[1, 2, 3]);
        let index = |outputs: &Outputs<'_>, position: usize, bytes: &mut Vec<u8>| {
            bytes.push(outputs.index(position)? as u8);
            outputs.index(9).map_or(Ok(0), |index| Err(format!("sample {index} from nowhere")))
        };
        let made = feed(&library, Answer::made(index), 8);
        let mut answers = Answers::new();
        // 3 and 1 are of one shape and share a call, 2 has its own.
        echo(&made, &[3, 2, 1], &mut answers);
        let expected = [1, 2, 3].map(|index: u8| (u64::from(index), Ok(vec![index])));
        assert_eq!(told(&answers), expected);
    }

    #[test]
    fn the_same_sample_is_computed_anew_in_each_query_and_within_one() {
        let (_, library) = ragged();
        library.load(&[1, 3]);
        let feed = feed(&library, Answer::Output, 8);
        let (mut answers, mut computed) = (Answers::new(), 0_i32);
        // A model whose answers tell how many samples it has computed.
        for _ in 0..2 {
            feed.answer(&query(&[3, 1, 3, 3]), &mut answers, &mut |_, samples, take| {
                let samples = samples.len();
                let numbers: Vec<i32> = (0..samples as i32).map(|at| computed + at).collect();
                computed += samples as i32;
                let elements = Ok(Elements::I32(Cow::Borrowed(&numbers)));
                let output = Output { name: "n", shape: vec![samples], elements, samples };
                take(&Outputs::new([output]))
            });
        }
        assert_eq!(computed, 8, "nothing is left out that was computed before");
        let told: Vec<_> = answers.iter().map(|(_, data)| data.unwrap().to_vec()).collect();
        let each: Vec<_> = (0..8_i32).map(|n| n.to_le_bytes().to_vec()).collect();
        assert_eq!(told, each, "each answer is a copy of its own call's");
    }

    #[test]
    fn a_first_sample_that_cannot_be_prepared_is_told_when_the_library_is_made() {
        let source = Ragged { inputs: vec!["x".into(), "y".into()], read: Mutex::default() };
        let one = NonZero::<usize>::MIN;
        let error = TensorLibrary::from_source(Arc::new(source), one, None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "sample 0 of ragged cannot be prepared: it has 1 inputs; expected x, y"
        );
    }
}
