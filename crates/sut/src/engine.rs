//! Engines, which compute answers, and the system that runs an engine on the issuing thread.

use std::cell::RefCell;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::record::Failure;
use dyno_loadgen::sut::{QuerySample, Response, ResponseId, SystemUnderTest};

/// Computes the answers to samples on the calling thread.
///
/// An engine holds the data set and knows its samples by their index. It has no queue and no
/// batching policy.
///
/// ```
/// use dyno_loadgen::sut::{QuerySample, ResponseId};
/// use dyno_sut::engine::{Answers, Engine};
///
/// struct Squares;
///
/// impl Engine for Squares {
///     fn name(&self) -> &str {
///         "squares"
///     }
///
///     fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
///         for sample in samples {
///             answers.push(sample.id, &sample.index.pow(2).to_le_bytes());
///         }
///     }
/// }
///
/// let mut answers = Answers::new();
/// Squares.answer(&[QuerySample { id: ResponseId(1), index: 5 }], &mut answers);
/// let expected = 25_u64.to_le_bytes();
/// assert_eq!(answers.iter().next(), Some((ResponseId(1), Ok(&expected[..]))));
/// ```
pub trait Engine: Send + Sync {
    /// Returns the name for the logs.
    fn name(&self) -> &str;
    /// Answers each of `samples` exactly once, with [`Answers::push`] or [`Answers::fail`], in any
    /// order.
    fn answer(&self, samples: &[QuerySample], answers: &mut Answers);
    /// Returns the reason why the first failed sample failed. The record of a run only counts
    /// failures.
    fn failure_reason(&self) -> Option<&str> {
        None
    }
    /// Returns a description of the engine.
    fn info(&self) -> EngineInfo {
        EngineInfo::default()
    }
    /// Returns whether the engine reports first tokens, counts tokens, and delivers answers before
    /// a call ends.
    fn is_streaming(&self) -> bool {
        false
    }
    /// Makes `calls` calls with `samples` copies of the first sample and discards the answers.
    /// First calls are often slower than later ones.
    fn warm_up(&self, calls: usize, samples: NonZero<usize>) {
        repeat_first(calls, samples, |samples, answers| self.answer(samples, answers));
    }
}

/// Makes `calls` calls with `samples` copies of the first sample and discards the answers.
pub(crate) fn repeat_first(
    calls: usize,
    samples: NonZero<usize>,
    mut answer: impl FnMut(&[QuerySample], &mut Answers),
) {
    let first = QuerySample { id: ResponseId(1), index: 0 };
    let (samples, mut answers) = (vec![first; samples.get()], Answers::new());
    for _ in 0..calls {
        answers.clear();
        answer(&samples, &mut answers);
    }
}

/// Description of an engine, for reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineInfo {
    /// Name and version of the runtime.
    pub runtime: Option<String>,
    /// Shared library that the runtime was loaded from.
    pub library: Option<PathBuf>,
    /// Component of the runtime that computes, such as `CPUExecutionProvider`.
    pub provider: Option<String>,
    /// Inputs of the model.
    pub inputs: Vec<Port>,
    /// Inputs that requests may omit.
    pub optional_inputs: Vec<Port>,
    /// Outputs of the model, first that of which answers are made.
    pub outputs: Vec<Port>,
    /// Maximum number of samples per call; 0 means no limit.
    pub largest_batch: usize,
    /// Warm-up calls before the clock of each test starts, without the call that is made when the
    /// engine is loaded.
    pub warm_up: usize,
    /// Sentences on properties of the model that readers of a result should know.
    pub remarks: Vec<String>,
    /// Duration of the first call, which is made when the engine is loaded.
    pub first_call: Option<Nanos>,
}

/// Input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Name of the port.
    pub name: String,
    /// Type of the elements, such as `float32`.
    pub element: String,
    /// Dimensions; `None` is a dynamic dimension.
    pub shape: Vec<Option<usize>>,
}

/// A shared engine, so that the caller can read the failure reason after the run.
impl<E: Engine + ?Sized> Engine for Arc<E> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
        (**self).answer(samples, answers);
    }

    fn failure_reason(&self) -> Option<&str> {
        (**self).failure_reason()
    }

    fn info(&self) -> EngineInfo {
        (**self).info()
    }

    fn is_streaming(&self) -> bool {
        (**self).is_streaming()
    }

    fn warm_up(&self, calls: usize, samples: NonZero<usize>) {
        (**self).warm_up(calls, samples);
    }
}

/// Answers of an engine, in reused buffers.
///
/// ```
/// use dyno_loadgen::record::Failure;
/// use dyno_loadgen::sut::ResponseId;
/// use dyno_sut::engine::Answers;
///
/// let mut answers = Answers::new();
/// answers.push(ResponseId(1), b"cat");
/// answers.fail(ResponseId(2), Failure::Rejected);
/// let all: Vec<_> = answers.iter().collect();
/// assert_eq!(all[0], (ResponseId(1), Ok(&b"cat"[..])));
/// assert_eq!(all[1], (ResponseId(2), Err(Failure::Rejected)));
/// ```
#[derive(Debug, Default)]
pub struct Answers {
    bytes: Vec<u8>,
    rows: Vec<Row>,
    /// Responder of the run, for streaming engines.
    responder: Option<Responder>,
    /// Samples that were delivered before the call ended.
    delivered: Vec<ResponseId>,
}

/// Size of [`Answers`] at some point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    bytes: usize,
    rows: usize,
}

/// Answer to a sample: a range of the bytes.
#[derive(Debug, Clone, Copy)]
struct Row {
    id: ResponseId,
    start: usize,
    end: usize,
    tokens: i64,
    failed: Option<Failure>,
}

/// Number of responses delivered in one call. It bounds an array on the stack, which avoids an
/// allocation per batch.
const RESPONSES_AT_ONCE: usize = 64;

impl Answers {
    /// Returns an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the answer to a sample, without tokens.
    pub fn push(&mut self, id: ResponseId, data: &[u8]) {
        self.push_tokens(id, data, 0);
    }

    /// Adds the answer to a sample, with its number of output tokens.
    pub fn push_tokens(&mut self, id: ResponseId, data: &[u8], tokens: i64) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(data);
        self.rows.push(Row { id, start, end: self.bytes.len(), tokens, failed: None });
    }

    /// Adds the answer to a sample. `write` appends it to the bytes and returns the number of
    /// output tokens.
    ///
    /// # Errors
    /// The error of `write`; the sample has no answer then.
    ///
    /// # Panics
    /// If `write` removes bytes that were there before.
    pub fn push_with<E>(
        &mut self,
        id: ResponseId,
        write: impl FnOnce(&mut Vec<u8>) -> Result<i64, E>,
    ) -> Result<(), E> {
        let start = self.bytes.len();
        let tokens = write(&mut self.bytes)?;
        let end = self.bytes.len();
        assert!(start <= end, "an answer is appended; what was there before stays");
        self.rows.push(Row { id, start, end, tokens, failed: None });
        Ok(())
    }

    /// Reports the first tokens of a sample at the current time of the run's clock. `data` is
    /// logged as their payload. Does nothing for engines that are not
    /// [streaming](Engine::is_streaming).
    pub fn first_token(&mut self, id: ResponseId, data: &[u8]) {
        if let Some(responder) = &self.responder {
            responder.first_token(&[Response { id, data, tokens: 0 }]);
        }
    }

    /// Delivers all answers so far, before the call ends. Streaming engines use it for samples that
    /// complete at different times.
    pub fn hand_over(&mut self) {
        if let Some(responder) = self.responder.take() {
            self.deliver(&responder);
            self.delivered.extend(self.rows.iter().map(|row| row.id));
            self.bytes.clear();
            self.rows.clear();
            self.responder = Some(responder);
        }
    }

    /// Returns the samples that were answered or failed.
    pub fn answered(&self) -> impl Iterator<Item = ResponseId> {
        self.delivered.iter().copied().chain(self.rows.iter().map(|row| row.id))
    }

    /// Returns the samples that were delivered before the call ended.
    pub(crate) fn delivered(&self) -> &[ResponseId] {
        &self.delivered
    }

    /// Sets the responder that receives answers of a streaming engine during a call.
    pub(crate) fn stream_to(&mut self, responder: &Responder) {
        self.responder = Some(responder.clone());
    }

    /// Returns the present size, for [`Answers::roll_back`].
    pub(crate) fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), rows: self.rows.len() }
    }

    /// Removes all answers after `mark`.
    pub(crate) fn roll_back(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.rows.truncate(mark.rows);
    }

    /// Marks a sample as failed.
    pub fn fail(&mut self, id: ResponseId, failure: Failure) {
        self.rows.push(Row { id, start: 0, end: 0, tokens: 0, failed: Some(failure) });
    }

    /// Removes all answers and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
        self.responder = None;
        self.delivered.clear();
    }

    /// Returns the answers in order of arrival, each with its payload or its failure.
    pub fn iter(&self) -> impl Iterator<Item = (ResponseId, Result<&[u8], Failure>)> {
        self.rows.iter().map(|row| match row.failed {
            None => (row.id, Ok(&self.bytes[row.start..row.end])),
            Some(failure) => (row.id, Err(failure)),
        })
    }

    /// Delivers all answers to the run, in order and without allocation.
    pub fn deliver(&self, responder: &Responder) {
        // A query of one sample needs no array for many.
        match self.rows.len() {
            1 => self.deliver_at_once::<1>(responder),
            _ => self.deliver_at_once::<RESPONSES_AT_ONCE>(responder),
        }
    }

    fn deliver_at_once<const MOST: usize>(&self, responder: &Responder) {
        for rows in self.rows.chunks(MOST) {
            let mut responses = [Response::empty(ResponseId(0)); MOST];
            let mut n = 0;
            for row in rows {
                if let Some(failure) = row.failed {
                    responder.fail(&[row.id], failure);
                    continue;
                }
                let data = &self.bytes[row.start..row.end];
                responses[n] = Response { id: row.id, data, tokens: row.tokens };
                n += 1;
            }
            if n > 0 {
                responder.complete(&responses[..n]);
            }
        }
    }
}

/// System that runs an engine on the issuing thread. There is no queue: the next query waits until
/// the previous one is answered.
///
/// ```
/// use dyno_loadgen::sut::SystemUnderTest;
/// use dyno_sut::digits::DigitsPerceptron;
/// use dyno_sut::engine::InlineSystem;
///
/// let limit = 16.try_into().expect("not 0");
/// let system = InlineSystem::new(DigitsPerceptron::new()).with_batch_limit(limit);
/// assert_eq!(system.name(), "digits-perceptron");
/// ```
#[derive(Debug)]
pub struct InlineSystem<E> {
    engine: E,
    at_once: NonZero<usize>,
}

impl<E: Engine> InlineSystem<E> {
    /// Returns a system that runs `engine`.
    pub fn new(engine: E) -> Self {
        Self { engine, at_once: SAMPLES_AT_ONCE }
    }

    /// Limits the number of samples per call of the engine.
    #[must_use]
    pub fn with_batch_limit(self, samples: NonZero<usize>) -> Self {
        Self { at_once: samples.min(SAMPLES_AT_ONCE), ..self }
    }
}

/// Maximum number of samples per call. A query of millions of samples (Offline) must not delay
/// millions of answers, nor use memory for them.
const SAMPLES_AT_ONCE: NonZero<usize> = NonZero::new(1024).expect("1024 is not 0");

thread_local! {
    // Several threads may issue at once, so each has its own buffers.
    static ANSWERS: RefCell<Answers> = RefCell::default();
}

impl<E: Engine> SystemUnderTest for InlineSystem<E> {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn issue(&self, samples: &[QuerySample], responder: &Responder) {
        ANSWERS.with_borrow_mut(|answers| {
            for part in samples.chunks(self.at_once.get()) {
                if responder.is_over() {
                    break;
                }
                answers.clear();
                if self.engine.is_streaming() {
                    answers.stream_to(responder);
                }
                self.engine.answer(part, answers);
                answers.deliver(responder);
            }
            // Drops the responder, so that the memory of the run is freed.
            answers.clear();
        });
    }
}
