//! Request queue of a model: the batching policy in a server, besides the real and the simulated
//! time of the instrument.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use dyno_loadgen::record::Failure;
use dyno_sut::batch::{self, Policy, QueueFull};
use dyno_sut::cores::Cores;
use dyno_sut::infer::{InferenceModel, Refusal, SequenceState, Value};
use tokio::sync::oneshot;

use super::counts::Histogram;
use super::refusal::{self, RefusalKind};
use super::sequences::{Arrival, SequenceLimits, Sequences};
use crate::oip::SequenceStep;

/// Place of a worker.
#[derive(Debug, Clone, Default)]
pub struct Station {
    /// Processors that it uses; `None` means all.
    pub cores: Option<Cores>,
}

/// A bounded queue of requests, and the workers that compute them.
pub struct Queue {
    shared: Arc<QueueState>,
    workers: Vec<JoinHandle<()>>,
}

/// Result of a request.
pub(super) type Answer = Result<Vec<Value>, refusal::Refusal>;

struct QueueState {
    model: Arc<dyn InferenceModel>,
    /// Maximum number of waiting requests.
    most: usize,
    waiting: batch::Queue<Job>,
    sequences: Sequences<Job>,
    /// Histogram of batch sizes.
    sizes: Histogram,
}

#[derive(Debug)]
struct Job {
    request: Vec<Value>,
    /// Place in a sequence, if it belongs to one.
    step: Option<SequenceStep>,
    reply: oneshot::Sender<Answer>,
}

impl Queue {
    /// Starts a thread at each station, with a queue of at most `most` waiting requests and these
    /// limits of sequences.
    ///
    /// # Errors
    /// The error of the operating system if it refuses a thread.
    ///
    /// # Panics
    /// If there is no station, or `most` is 0.
    pub fn start(
        model: Arc<dyn InferenceModel>,
        policy: Policy,
        stations: impl IntoIterator<Item = Station>,
        most: usize,
        sequences: SequenceLimits,
    ) -> std::io::Result<Self> {
        assert!(most > 0, "a request waits before it is computed");
        let shared = Arc::new(QueueState {
            model,
            most,
            waiting: batch::Queue::new(policy),
            sequences: Sequences::new(sequences),
            sizes: Histogram::sizes(policy.max_size.get()),
        });
        let mut queue = Self { shared, workers: Vec::new() };
        for (number, station) in stations.into_iter().enumerate() {
            let shared = Arc::clone(&queue.shared);
            let thread = thread::Builder::new().name(format!("infer-{number}"));
            queue.workers.push(thread.spawn(move || {
                // The creator of the station has checked that it can be bound.
                let _bound = station.cores.as_ref().map(Cores::bind);
                shared.work();
            })?);
        }
        assert!(!queue.workers.is_empty(), "a queue needs somebody who computes");
        Ok(queue)
    }

    /// Returns the model.
    pub fn model(&self) -> &dyn InferenceModel {
        &*self.shared.model
    }

    /// Returns the number of waiting requests.
    pub fn depth(&self) -> usize {
        self.shared.waiting.len() + self.shared.sequences.waiting()
    }

    /// Returns the maximum number of waiting requests.
    pub fn most(&self) -> usize {
        self.shared.most
    }

    pub(super) fn sizes(&self) -> &Histogram {
        &self.shared.sizes
    }

    /// Returns the number of sequences in progress, and its maximum.
    pub fn sequences(&self) -> (usize, usize) {
        (self.shared.sequences.count(), self.shared.sequences.most())
    }

    /// Queues a request for the model with this name. Dropping the receiver withdraws it while it
    /// waits, unless it belongs to a sequence.
    ///
    /// # Errors
    /// The queue is full, or the request does not belong to a sequence in progress.
    pub(super) fn offer(
        &self,
        name: &str,
        request: Vec<Value>,
        step: Option<SequenceStep>,
    ) -> Result<oneshot::Receiver<Answer>, refusal::Refusal> {
        let QueueState { model, waiting, sequences, most, .. } = &*self.shared;
        let full = |QueueFull { most }| {
            RefusalKind::Full.because(format!("the queue of model '{name}' is full: {most} wait"))
        };
        let (reply, answer) = oneshot::channel();
        let Some(step) = step else {
            let class = SEQUENCES + 1 + model.class(&request);
            let job = Job { request, step: None, reply };
            waiting.put([(class, job)], *most, |()| ()).map_err(full)?;
            return Ok(answer);
        };
        model.check_sequences().map_err(|why| {
            let id = &step.id;
            RefusalKind::Invalid.because(format!("sequence {id}: {why}; remove 'sequence_id'"))
        })?;
        let job = Job { request, step: Some(step.clone()), reply };
        if let Arrival::Next(job) = sequences.arrive(&step, job, waiting.len(), *most)? {
            self.shared.put_step(job);
        }
        Ok(answer)
    }
}

/// Class of the requests of sequences, which share calls with nothing else.
const SEQUENCES: usize = 0;

impl QueueState {
    /// Queues a request of a sequence that was accepted.
    fn put_step(&self, job: Job) {
        let put = self.waiting.put([(SEQUENCES, job)], usize::MAX, |()| ());
        put.expect("a queue without a limit is never full");
    }

    fn work(&self) {
        let mut batch = Vec::new();
        while self.waiting.take(&mut batch, |(), _| ()).is_some() {
            // Drops requests whose clients no longer wait. Those of sequences are computed, because
            // later requests depend on them.
            batch.retain(|job| job.step.is_some() || !job.reply.is_closed());
            if batch.is_empty() {
                continue;
            }
            self.sizes.add(batch.len() as f64);
            if batch[0].step.is_some() {
                self.compute_steps(&mut batch);
            } else {
                self.compute(&mut batch);
            }
        }
    }

    fn compute(&self, batch: &mut Vec<Job>) {
        let requests: Vec<&[Value]> = batch.iter().map(|job| &job.request[..]).collect();
        let answers = catch(requests.len(), || self.model.infer(&requests));
        for (job, answer) in batch.drain(..).zip(answers) {
            // The answer is dropped if its client has disconnected.
            let _ = job.reply.send(answer.map_err(Into::into));
        }
    }

    /// Computes one request of each of several sequences.
    fn compute_steps(&self, batch: &mut Vec<Job>) {
        let (mut jobs, mut states): (Vec<Job>, Vec<Option<SequenceState>>) = Default::default();
        for job in batch.drain(..) {
            let Some(step) = &job.step else { continue };
            match self.sequences.begin(step) {
                Ok(own) => {
                    states.push(own);
                    jobs.push(job);
                }
                Err(refusal) => self.finish(job, None, Err(refusal)),
            }
        }
        let requests: Vec<&[Value]> = jobs.iter().map(|job| &job.request[..]).collect();
        let mut after = states.clone();
        let answers = catch(requests.len(), || self.model.infer_sequences(&requests, &mut after));
        for ((job, answer), (before, after)) in
            jobs.into_iter().zip(answers).zip(states.into_iter().zip(after))
        {
            // A failed request leaves its sequence as it was.
            let states = if answer.is_ok() { after } else { before };
            self.finish(job, states, answer.map_err(Into::into));
        }
    }

    /// Stores the states after a request of a sequence, queues the next request, and answers.
    fn finish(&self, job: Job, states: Option<SequenceState>, answer: Answer) {
        let Job { step, reply, .. } = job;
        let next = step.and_then(|step| self.sequences.finish(&step, states));
        next.into_iter().for_each(|next| self.put_step(next));
        // The answer is dropped if its client has disconnected.
        let _ = reply.send(answer);
    }
}

/// Returns the answers to `count` requests, or failures if the model panics. The panic's message is on
/// standard error; the server continues.
fn catch(
    count: usize,
    infer: impl FnOnce() -> Vec<Result<Vec<Value>, Refusal>>,
) -> Vec<Result<Vec<Value>, Refusal>> {
    catch_unwind(AssertUnwindSafe(infer)).unwrap_or_else(|_| {
        let panicked = || Err((Failure::Internal, "the model panicked".to_owned()));
        std::iter::repeat_with(panicked).take(count).collect()
    })
}

/// Computes the waiting requests, and joins the threads.
impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.waiting.close();
        for worker in self.workers.drain(..) {
            // Panics of the model are caught in the thread.
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("model", &self.shared.model.name()).finish_non_exhaustive()
    }
}
