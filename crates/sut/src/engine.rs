//! What computes answers, and the system that runs it on the issuing thread.

use std::cell::RefCell;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::record::Failure;
use dyno_loadgen::sut::{QuerySample, Response, ResponseId, SystemUnderTest};

/// Computes the answers to samples on the thread that asks.
///
/// An engine knows its samples by their index in the data set and holds the
/// data set itself; it knows neither queues nor batching policy.
pub trait Engine: Send + Sync {
    /// Name for the logs.
    fn name(&self) -> &str;
    /// Answers each of `samples` exactly once, by [`Answers::push`] or
    /// [`Answers::fail`], in any order.
    fn answer(&self, samples: &[QuerySample], answers: &mut Answers);
    /// What the first sample that failed failed of, in words; the record of a
    /// run only counts.
    fn trouble(&self) -> Option<&str> {
        None
    }
    /// What it tells of itself.
    fn about(&self) -> About {
        About::default()
    }
    /// Whether it tells first tokens and counts tokens, and hands answers over before a
    /// call ends.
    fn is_streaming(&self) -> bool {
        false
    }
    /// Computes the first sample so many times, with so many copies of it in a call,
    /// and throws the answers away: what is slow only at first is over then.
    fn warm_up(&self, calls: usize, samples: NonZero<usize>) {
        let first = QuerySample { id: ResponseId(1), index: 0 };
        let (samples, mut answers) = (vec![first; samples.get()], Answers::new());
        for _ in 0..calls {
            answers.clear();
            self.answer(&samples, &mut answers);
        }
    }
}

/// What an engine tells of itself, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// Name and version of what runs the model.
    pub runtime: Option<String>,
    /// The shared library that it was loaded from.
    pub library: Option<PathBuf>,
    /// What computes within it, such as `CPUExecutionProvider`.
    pub provider: Option<String>,
    /// What the model takes.
    pub inputs: Vec<Port>,
    /// What it returns; the first one is the answer.
    pub outputs: Vec<Port>,
    /// Samples in a call at most; 0 where it does not matter.
    pub largest_batch: usize,
    /// Calls before the clock of each test; the one while the engine was loaded is
    /// none of them.
    pub warm_up: usize,
    /// How long the very first call took, while the engine was loaded.
    pub first_call: Option<Nanos>,
}

/// An input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Name.
    pub name: String,
    /// Type of the elements, such as `float32`.
    pub element: String,
    /// Dimensions; `None` is one that each call chooses.
    pub shape: Vec<Option<usize>>,
}

/// Shared, so that the caller can ask for the trouble after the run.
impl<E: Engine + ?Sized> Engine for Arc<E> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
        (**self).answer(samples, answers);
    }

    fn trouble(&self) -> Option<&str> {
        (**self).trouble()
    }

    fn about(&self) -> About {
        (**self).about()
    }

    fn is_streaming(&self) -> bool {
        (**self).is_streaming()
    }

    fn warm_up(&self, calls: usize, samples: NonZero<usize>) {
        (**self).warm_up(calls, samples);
    }
}

/// Answers collected by an engine, in buffers that are used again.
#[derive(Debug, Default)]
pub struct Answers {
    bytes: Vec<u8>,
    rows: Vec<Row>,
    /// Of the run that hears first tokens, and answers before a call ends.
    live: Option<Responder>,
    /// What was handed over before the call ended.
    handed: Vec<ResponseId>,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    id: ResponseId,
    start: usize,
    end: usize,
    tokens: i64,
    failed: Option<Failure>,
}

/// Responses handed over in one call; bounds the array on the stack that
/// spares an allocation per batch.
const RESPONSES_AT_ONCE: usize = 64;

impl Answers {
    /// No answers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The answer to one sample, which has no tokens.
    pub fn push(&mut self, id: ResponseId, data: &[u8]) {
        self.push_tokens(id, data, 0);
    }

    /// The answer to one sample, with its count of output tokens.
    pub fn push_tokens(&mut self, id: ResponseId, data: &[u8], tokens: i64) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(data);
        self.rows.push(Row { id, start, end: self.bytes.len(), tokens, failed: None });
    }

    /// The answer to one sample, which `write` appends to the bytes; it returns the
    /// count of output tokens.
    ///
    /// # Errors
    /// That of `write`; the sample has no answer then.
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

    /// Tells the first tokens of a sample now, as the clock of the run sees them; `data` is
    /// logged as their payload. Nobody hears those of engines that are not
    /// [streaming](Engine::is_streaming).
    pub fn first_token(&mut self, id: ResponseId, data: &[u8]) {
        if let Some(live) = &self.live {
            live.first_token(&[Response { id, data, tokens: 0 }]);
        }
    }

    /// Hands over what there is, before the call ends: for streaming engines, whose samples
    /// are not answered together.
    pub fn hand_over(&mut self) {
        if let Some(live) = self.live.take() {
            self.deliver(&live);
            self.handed.extend(self.rows.iter().map(|row| row.id));
            self.bytes.clear();
            self.rows.clear();
            self.live = Some(live);
        }
    }

    /// Samples that have an answer, or have failed.
    pub fn answered(&self) -> impl Iterator<Item = ResponseId> {
        self.handed.iter().copied().chain(self.rows.iter().map(|row| row.id))
    }

    /// Those that were handed over before the call ended.
    pub(crate) fn handed(&self) -> &[ResponseId] {
        &self.handed
    }

    /// For an engine that is streaming: who hears of it while a call goes on.
    pub(crate) fn live(&mut self, responder: &Responder) {
        self.live = Some(responder.clone());
    }

    /// How much there is, for [`Answers::back_to`].
    pub(crate) fn mark(&self) -> (usize, usize) {
        (self.bytes.len(), self.rows.len())
    }

    /// Forgets what came after `mark`.
    pub(crate) fn back_to(&mut self, (bytes, rows): (usize, usize)) {
        self.bytes.truncate(bytes);
        self.rows.truncate(rows);
    }

    /// One sample that could not be answered.
    pub fn fail(&mut self, id: ResponseId, failure: Failure) {
        self.rows.push(Row { id, start: 0, end: 0, tokens: 0, failed: Some(failure) });
    }

    /// Forgets the answers and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
        self.live = None;
        self.handed.clear();
    }

    /// Each answer in the order of its arrival: its payload, or why there is none.
    pub fn iter(&self) -> impl Iterator<Item = (ResponseId, Result<&[u8], Failure>)> {
        self.rows.iter().map(|row| match row.failed {
            None => (row.id, Ok(&self.bytes[row.start..row.end])),
            Some(failure) => (row.id, Err(failure)),
        })
    }

    /// Hands everything to the instrument, in order and without allocating.
    pub fn deliver(&self, responder: &Responder) {
        // A query of one sample is not worth an array for many.
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

/// Runs an engine on the issuing thread: no queue, no hand-over, and the next
/// query waits until the last is answered.
#[derive(Debug)]
pub struct Inline<E> {
    engine: E,
    at_once: NonZero<usize>,
}

impl<E: Engine> Inline<E> {
    /// A system that consists of `engine` alone.
    pub fn new(engine: E) -> Self {
        Self { engine, at_once: SAMPLES_AT_ONCE }
    }

    /// Gives the engine at most so many samples in a call.
    #[must_use]
    pub fn at_most(self, samples: NonZero<usize>) -> Self {
        Self { at_once: samples.min(SAMPLES_AT_ONCE), ..self }
    }
}

/// Samples that an engine gets in one call: a query of millions (Offline) must
/// not hold millions of answers back, nor the memory for them.
const SAMPLES_AT_ONCE: NonZero<usize> = NonZero::new(1024).expect("1024 is not 0");

thread_local! {
    // Several threads may issue at once, each with buffers of its own.
    static ANSWERS: RefCell<Answers> = RefCell::default();
}

impl<E: Engine> SystemUnderTest for Inline<E> {
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
                    answers.live(responder);
                }
                self.engine.answer(part, answers);
                answers.deliver(responder);
            }
            // The run is not held on to.
            answers.clear();
        });
    }

    fn flush(&self) {}
}
