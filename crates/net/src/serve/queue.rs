//! Request queue of a model: the batching policy in a server, besides the real and the simulated
//! time of the instrument.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use dyno_loadgen::record::Failure;
use dyno_sut::batch::{self, Policy, QueueFull};
use dyno_sut::cores::Cores;
use dyno_sut::infer::{InferenceModel, Refusal, Value};
use tokio::sync::oneshot;

use super::counts::Histogram;

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
pub(super) type Answer = Result<Vec<Value>, Refusal>;

struct QueueState {
    model: Arc<dyn InferenceModel>,
    /// Maximum number of waiting requests.
    most: usize,
    waiting: batch::Queue<Job>,
    /// Histogram of batch sizes.
    sizes: Histogram,
}

struct Job {
    request: Vec<Value>,
    reply: oneshot::Sender<Answer>,
}

impl Queue {
    /// Starts a thread at each station, with a queue of at most `most` waiting requests.
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
    ) -> std::io::Result<Self> {
        assert!(most > 0, "a request waits before it is computed");
        let shared = Arc::new(QueueState {
            model,
            most,
            waiting: batch::Queue::new(policy),
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
    #[must_use]
    pub fn model(&self) -> &dyn InferenceModel {
        &*self.shared.model
    }

    /// Returns the number of waiting requests.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.shared.waiting.len()
    }

    /// Returns the maximum number of waiting requests.
    #[must_use]
    pub fn most(&self) -> usize {
        self.shared.most
    }

    pub(super) fn sizes(&self) -> &Histogram {
        &self.shared.sizes
    }

    /// Queues the request. Dropping the receiver withdraws it while it waits.
    ///
    /// # Errors
    /// The queue is full.
    pub(super) fn offer(
        &self,
        request: Vec<Value>,
    ) -> Result<oneshot::Receiver<Answer>, QueueFull> {
        let class = self.shared.model.class(&request);
        let (reply, answer) = oneshot::channel();
        let job = Job { request, reply };
        self.shared.waiting.put([(class, job)], self.shared.most, |()| ())?;
        Ok(answer)
    }
}

impl QueueState {
    fn work(&self) {
        let mut batch = Vec::new();
        while self.waiting.take(&mut batch, |(), _| ()).is_some() {
            // Drops requests whose clients no longer wait.
            batch.retain(|job| !job.reply.is_closed());
            if batch.is_empty() {
                continue;
            }
            self.sizes.add(batch.len() as f64);
            let requests: Vec<&[Value]> = batch.iter().map(|job| &job.request[..]).collect();
            let answers = catch_unwind(AssertUnwindSafe(|| self.model.infer(&requests)));
            // The panic's message is on standard error; the server continues.
            let answers = answers.unwrap_or_else(|_| {
                let panicked = || Err((Failure::Internal, "the model panicked".to_owned()));
                batch.iter().map(|_| panicked()).collect()
            });
            for (job, answer) in batch.drain(..).zip(answers) {
                // The answer is dropped if its client has disconnected.
                let _ = job.reply.send(answer);
            }
        }
    }
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
