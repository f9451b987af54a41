//! The batcher in front of a pool of worker threads.

use std::collections::HashSet;
use std::fmt;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dyno_loadgen::clock::Clock;
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::record::Failure;
use dyno_loadgen::sut::{QuerySample, SystemUnderTest};

use super::{Batcher, Classes, Policy, Sizes};
use crate::cores::Cores;
use crate::engine::{Answers, Engine};

/// Where a worker computes: an engine, and the processors that it keeps to.
pub struct Station {
    /// What it computes with; several may share one.
    pub engine: Arc<dyn Engine>,
    /// Those of the worker and of the threads that it starts; `None` are all.
    pub cores: Option<Cores>,
}

/// Worker threads that share one queue, and one engine or one each.
///
/// The issuing thread only appends to the queue and wakes a worker, so the
/// schedule of a Server run holds however long the engine computes. Dropping
/// the system works off what waits and joins the threads.
pub struct RealTime {
    name: String,
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    clock: Clock,
    classes: Option<Classes>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

struct Queue {
    batcher: Batcher<QuerySample>,
    /// Of the run whose samples wait. Kept only while there are any, so that an
    /// idle system does not hold on to the memory of the last run.
    responder: Option<Responder>,
    idle_workers: usize,
    closed: bool,
}

impl RealTime {
    /// Starts `workers` threads in front of `engine`.
    ///
    /// # Errors
    /// The operating system's, if it refuses a thread.
    pub fn start(
        engine: impl Engine + 'static,
        policy: Policy,
        workers: NonZero<usize>,
    ) -> std::io::Result<Self> {
        let name = engine.name().to_owned();
        let engine: Arc<dyn Engine> = Arc::new(engine);
        let station = || Station { engine: Arc::clone(&engine), cores: None };
        Self::on(name, (0..workers.get()).map(|_| station()), policy, None)
    }

    /// Starts a thread at each station; samples of different classes share no batch.
    ///
    /// # Errors
    /// The operating system's, if it refuses a thread.
    pub fn on(
        name: String,
        stations: impl IntoIterator<Item = Station>,
        policy: Policy,
        classes: Option<Classes>,
    ) -> std::io::Result<Self> {
        let queue = Queue {
            batcher: Batcher::new(policy),
            responder: None,
            idle_workers: 0,
            closed: false,
        };
        let shared = Arc::new(Shared {
            clock: Clock::start(),
            classes,
            queue: Mutex::new(queue),
            changed: Condvar::new(),
        });
        let mut system = Self { name, shared, workers: Vec::new() };
        for (number, station) in stations.into_iter().enumerate() {
            let shared = Arc::clone(&system.shared);
            let thread = thread::Builder::new().name(format!("sut-worker-{number}"));
            system.workers.push(thread.spawn(move || {
                // Whoever made the station has asked whether it may be bound.
                let _bound = station.cores.as_ref().map(Cores::bind);
                work(&shared, &*station.engine);
            })?);
        }
        Ok(system)
    }

    /// Counts the sizes of batches there.
    #[must_use]
    pub fn counting(self, sizes: Sizes) -> Self {
        self.shared.lock().batcher.count_in(sizes);
        self
    }
}

impl Shared {
    /// The queue stays consistent at every point where an engine may panic (it
    /// runs without the lock), so a poisoned lock says nothing.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a batch and moves it to `batch`; `None` when the system closes.
    fn next_batch(&self, batch: &mut Vec<QuerySample>) -> Option<Responder> {
        let mut queue = self.lock();
        loop {
            let now = self.clock.now();
            if queue.batcher.ready(now) {
                queue.batcher.take(now, batch);
                if queue.batcher.is_empty() {
                    return queue.responder.take();
                }
                if queue.idle_workers > 0 {
                    // Somebody has to watch the deadline of what is left.
                    self.changed.notify_one();
                }
                return queue.responder.clone();
            }
            if queue.closed {
                return None;
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
}

fn work(shared: &Shared, engine: &dyn Engine) {
    let (mut batch, mut answers) = (Vec::new(), Answers::new());
    while let Some(responder) = shared.next_batch(&mut batch) {
        if engine.is_streaming() {
            answers.live(&responder);
        }
        let answered = catch_unwind(AssertUnwindSafe(|| engine.answer(&batch, &mut answers)));
        if answered.is_err() {
            // The panic's message is on standard error; the run goes on with
            // failed samples instead of waiting for ever.
            fail_rest(&batch, &mut answers);
        }
        answers.deliver(&responder);
        drop(responder);
        batch.clear();
        answers.clear();
    }
}

/// Fails the samples of a call that were not handed over before it broke.
fn fail_rest(batch: &[QuerySample], answers: &mut Answers) {
    let handed: HashSet<_> = answers.handed().iter().copied().collect();
    answers.clear();
    for sample in batch.iter().filter(|sample| !handed.contains(&sample.id)) {
        answers.fail(sample.id, Failure::Internal);
    }
}

impl SystemUnderTest for RealTime {
    fn name(&self) -> &str {
        &self.name
    }

    fn issue(&self, samples: &[QuerySample], responder: &Responder) {
        if samples.is_empty() {
            return;
        }
        let mut queue = self.shared.lock();
        let now = self.shared.clock.now();
        let was_empty = queue.batcher.is_empty();
        for &sample in samples {
            let class = self.shared.classes.as_ref().map_or(0, |of| of(sample.index));
            queue.batcher.push_of(class, now, sample);
        }
        // Samples of an aborted run that still wait go out through the responder
        // of the next one, which knows them for stale.
        queue.responder = Some(responder.clone());
        // One worker must know the deadline, and one must take a full batch;
        // between the two there is nothing to wake up for.
        let wake = queue.idle_workers > 0 && (was_empty || queue.batcher.ready(now));
        drop(queue);
        if wake {
            self.shared.changed.notify_one();
        }
    }

    fn flush(&self) {
        self.shared.lock().batcher.flush();
        self.shared.changed.notify_all();
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.batcher.flush();
        queue.closed = true;
        drop(queue);
        self.shared.changed.notify_all();
        for worker in self.workers.drain(..) {
            // An engine's panic is caught, so only a panic of the instrument ends
            // a worker early, and that one is on standard error already.
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for RealTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, workers) = (&self.name, self.workers.len());
        f.debug_struct("RealTime").field("name", name).field("workers", &workers).finish()
    }
}
