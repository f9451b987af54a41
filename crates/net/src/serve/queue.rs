//! Requests in front of a model: the third world of the batching policy, beside the real and
//! the simulated time of the instrument.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dyno_loadgen::clock::Clock;
use dyno_loadgen::record::Failure;
use dyno_sut::batch::{Batcher, Policy};
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
    clock: Clock,
    /// Requests that may wait.
    most: usize,
    queue: Mutex<Waiting>,
    changed: Condvar,
    /// Sizes of batches.
    sizes: Spread,
    closed: AtomicBool,
}

struct Waiting {
    batcher: Batcher<Job>,
    idle_workers: usize,
}

struct Job {
    request: Vec<Value>,
    reply: oneshot::Sender<Answer>,
}

/// The queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full {
    /// Requests that may wait.
    pub most: usize,
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
            clock: Clock::start(),
            most,
            queue: Mutex::new(Waiting { batcher: Batcher::new(policy), idle_workers: 0 }),
            changed: Condvar::new(),
            sizes: Spread::sizes(policy.max_size.get()),
            closed: AtomicBool::new(false),
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
        self.shared.lock().batcher.len()
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
        let mut queue = self.shared.lock();
        if queue.batcher.len() >= self.shared.most {
            return Err(Full { most: self.shared.most });
        }
        let now = self.shared.clock.now();
        let was_empty = queue.batcher.is_empty();
        queue.batcher.push_of(class, now, Job { request, reply });
        // One worker must know the deadline, and one must take a full batch.
        let wake = queue.idle_workers > 0 && (was_empty || queue.batcher.ready(now));
        drop(queue);
        if wake {
            self.shared.changed.notify_one();
        }
        Ok(answer)
    }
}

impl Shared {
    /// Models run without the lock, so that a poisoned one says nothing.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a batch; whether there is one, and not the end.
    fn next_batch(&self, batch: &mut Vec<Job>) -> bool {
        let mut queue = self.lock();
        loop {
            let now = self.clock.now();
            if queue.batcher.ready(now) {
                queue.batcher.take(now, batch);
                if !queue.batcher.is_empty() && queue.idle_workers > 0 {
                    // Somebody has to watch the deadline of what is left.
                    self.changed.notify_one();
                }
                return true;
            }
            if self.closed.load(Ordering::Relaxed) {
                return false;
            }
            let deadline = queue.batcher.next_deadline();
            queue.idle_workers += 1;
            queue = match deadline {
                None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = Duration::from_nanos(deadline.saturating_sub(now));
                    let woken = self.changed.wait_timeout(queue, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            queue.idle_workers -= 1;
        }
    }

    fn work(&self) {
        let mut batch = Vec::new();
        while self.next_batch(&mut batch) {
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
        let mut queue = self.shared.lock();
        queue.batcher.flush();
        self.shared.closed.store(true, Ordering::Relaxed);
        drop(queue);
        self.shared.changed.notify_all();
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
