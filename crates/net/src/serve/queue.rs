//! Requests in front of a model: the third world of the batching policy, beside the real and
//! the simulated time of the instrument.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use dyno_loadgen::record::Failure;
use dyno_sut::batch::{self, Full, Policy};
use dyno_sut::cores::Cores;
use dyno_sut::infer::{Infer, Refusal, Value};
use tokio::sync::oneshot;

use super::counts::Spread;

/// Where a worker computes.
#[derive(Debug, Clone, Default)]
pub struct Station {
    /// Processors that it keeps to; `None` are all.
    pub cores: Option<Cores>,
}

/// A bounded queue of requests, and the workers that compute them.
pub struct Queue {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// What a request gets.
pub(super) type Answer = Result<Vec<Value>, Refusal>;

struct Shared {
    model: Arc<dyn Infer>,
    /// Requests that may wait.
    most: usize,
    waiting: batch::Queue<Job>,
    /// Sizes of batches.
    sizes: Spread,
}

struct Job {
    request: Vec<Value>,
    reply: oneshot::Sender<Answer>,
}

impl Queue {
    /// Starts a thread at each station, behind a queue in which at most `most` requests wait.
    ///
    /// # Errors
    /// The operating system's, if it refuses a thread.
    ///
    /// # Panics
    /// If there is no station, or nothing may wait.
    pub fn start(
        model: Arc<dyn Infer>,
        policy: Policy,
        stations: impl IntoIterator<Item = Station>,
        most: usize,
    ) -> std::io::Result<Self> {
        assert!(most > 0, "a request waits before it is computed");
        let shared = Arc::new(Shared {
            model,
            most,
            waiting: batch::Queue::new(policy),
            sizes: Spread::sizes(policy.max_size.get()),
        });
        let mut queue = Self { shared, workers: Vec::new() };
        for (number, station) in stations.into_iter().enumerate() {
            let shared = Arc::clone(&queue.shared);
            let thread = thread::Builder::new().name(format!("infer-{number}"));
            queue.workers.push(thread.spawn(move || {
                // Whoever made the station has asked whether it may be bound.
                let _bound = station.cores.as_ref().map(Cores::bind);
                shared.work();
            })?);
        }
        assert!(!queue.workers.is_empty(), "a queue needs somebody who computes");
        Ok(queue)
    }

    /// The model behind it.
    #[must_use]
    pub fn model(&self) -> &dyn Infer {
        &*self.shared.model
    }

    /// Requests that wait.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.shared.waiting.len()
    }

    /// Requests that may wait.
    #[must_use]
    pub fn most(&self) -> usize {
        self.shared.most
    }

    pub(super) fn sizes(&self) -> &Spread {
        &self.shared.sizes
    }

    /// Has the request computed. Whoever drops the receiver withdraws it, if it still waits.
    ///
    /// # Errors
    /// The queue is full.
    pub(super) fn offer(&self, request: Vec<Value>) -> Result<oneshot::Receiver<Answer>, Full> {
        let class = self.shared.model.class(&request);
        let (reply, answer) = oneshot::channel();
        let job = Job { request, reply };
        self.shared.waiting.put([(class, job)], self.shared.most, |()| ())?;
        Ok(answer)
    }
}

impl Shared {
    fn work(&self) {
        let mut batch = Vec::new();
        while self.waiting.take(&mut batch, |(), _| ()).is_some() {
            // Nobody waits any more for the answers to these.
            batch.retain(|job| !job.reply.is_closed());
            if batch.is_empty() {
                continue;
            }
            self.sizes.add(batch.len() as f64);
            let requests: Vec<&[Value]> = batch.iter().map(|job| &job.request[..]).collect();
            let answers = catch_unwind(AssertUnwindSafe(|| self.model.infer(&requests)));
            // The panic's message is on standard error; the server goes on.
            let answers = answers.unwrap_or_else(|_| {
                let panicked = || Err((Failure::Internal, "the model panicked".to_owned()));
                batch.iter().map(|_| panicked()).collect()
            });
            for (job, answer) in batch.drain(..).zip(answers) {
                // A client that went away meanwhile gets nothing.
                let _ = job.reply.send(answer);
            }
        }
    }
}

/// Works off what waits, and joins the threads.
impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.waiting.close();
        for worker in self.workers.drain(..) {
            // A model's panic is caught, so that there is nothing to tell.
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("model", &self.shared.model.name()).finish_non_exhaustive()
    }
}
