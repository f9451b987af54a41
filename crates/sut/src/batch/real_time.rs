//! Pool of worker threads behind a batcher.

use std::collections::HashSet;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::record::Failure;
use dyno_loadgen::sut::{QuerySample, SystemUnderTest};

use super::{BatchSizes, Classes, Policy, Queue};
use crate::cores::Cores;
use crate::engine::{Answers, Engine};

/// Engine of one worker, and the cores that the worker is bound to.
pub struct Station {
    /// Engine of the worker; several workers may share one.
    pub engine: Arc<dyn Engine>,
    /// Cores of the worker and of the threads that it starts; `None` means all cores.
    pub cores: Option<Cores>,
}

/// Worker threads that share one queue. Workers have one engine in common or one engine each.
///
/// The issuing thread only appends to the queue and wakes a worker, so that a slow engine does not
/// delay the schedule of a Server run. Dropping the pool drains the queue and joins the threads.
///
/// ```
/// use dyno_loadgen::sut::SystemUnderTest;
/// use dyno_sut::batch::{BatchingPool, Policy};
/// use dyno_sut::digits::DigitsPerceptron;
///
/// let policy = Policy { max_size: 8.try_into().expect("not 0"), max_wait: 100_000 };
/// let workers = 2.try_into().expect("not 0");
/// let pool = BatchingPool::start(DigitsPerceptron::new(), policy, workers)?;
/// assert_eq!(pool.name(), "digits-perceptron");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct BatchingPool {
    name: String,
    queue: Arc<SampleQueue>,
    classes: Option<Classes>,
    workers: Vec<JoinHandle<()>>,
}

/// Waiting samples, and the responder of their run. The responder is kept only while samples wait,
/// so that an idle pool does not keep the memory of the last run.
type SampleQueue = Queue<QuerySample, Option<Responder>>;

impl BatchingPool {
    /// Starts `workers` threads that share `engine`.
    ///
    /// # Errors
    /// The operating system's error if it does not start a thread.
    pub fn start(
        engine: impl Engine + 'static,
        policy: Policy,
        workers: NonZero<usize>,
    ) -> std::io::Result<Self> {
        let name = engine.name().to_owned();
        let engine: Arc<dyn Engine> = Arc::new(engine);
        let station = || Station { engine: Arc::clone(&engine), cores: None };
        Self::from_stations(name, (0..workers.get()).map(|_| station()), policy, None)
    }

    /// Starts a thread for each station. Samples of different classes do not share a batch.
    ///
    /// # Errors
    /// The operating system's error if it does not start a thread.
    pub fn from_stations(
        name: String,
        stations: impl IntoIterator<Item = Station>,
        policy: Policy,
        classes: Option<Classes>,
    ) -> std::io::Result<Self> {
        let queue = Arc::new(SampleQueue::new(policy));
        let mut system = Self { name, queue, classes, workers: Vec::new() };
        for (number, station) in stations.into_iter().enumerate() {
            let queue = Arc::clone(&system.queue);
            let thread = thread::Builder::new().name(format!("sut-worker-{number}"));
            system.workers.push(thread.spawn(move || {
                // The caller has already checked that the thread can be bound.
                let _bound = station.cores.as_ref().map(Cores::bind);
                work(&queue, &*station.engine);
            })?);
        }
        Ok(system)
    }

    /// Records the sizes of all batches in `sizes`.
    #[must_use]
    pub fn with_batch_sizes(self, sizes: BatchSizes) -> Self {
        self.queue.record_sizes(sizes);
        self
    }
}

fn work(queue: &SampleQueue, engine: &dyn Engine) {
    let (mut batch, mut answers) = (Vec::new(), Answers::new());
    let responder_of = |responder: &mut Option<Responder>, left: usize| {
        if left == 0 { responder.take() } else { responder.clone() }
    };
    while let Some(responder) = queue.take(&mut batch, responder_of) {
        let responder = responder.expect("samples come with a responder");
        if responder.is_over() {
            // Samples of a later run may have arrived in the meantime: these stay.
            queue.clear_if(|waiting| {
                let is_over = waiting.as_ref().is_some_and(Responder::is_over);
                is_over.then(|| waiting.take()).is_some()
            });
            batch.clear();
            continue;
        }
        if engine.is_streaming() {
            answers.stream_to(&responder);
        }
        let answered = catch_unwind(AssertUnwindSafe(|| engine.answer(&batch, &mut answers)));
        if answered.is_err() {
            // The panic's message is on standard error. The run continues with failed samples
            // instead of waiting forever.
            fail_rest(&batch, &mut answers);
        }
        answers.deliver(&responder);
        drop(responder);
        batch.clear();
        answers.clear();
    }
}

/// Fails the samples of a call that were not delivered before the call panicked.
fn fail_rest(batch: &[QuerySample], answers: &mut Answers) {
    let delivered: HashSet<_> = answers.delivered().iter().copied().collect();
    answers.clear();
    for sample in batch.iter().filter(|sample| !delivered.contains(&sample.id)) {
        answers.fail(sample.id, Failure::Internal);
    }
}

impl SystemUnderTest for BatchingPool {
    fn name(&self) -> &str {
        &self.name
    }

    fn issue(&self, samples: &[QuerySample], responder: &Responder) {
        if samples.is_empty() {
            return;
        }
        let class =
            |sample: &QuerySample| self.classes.as_ref().map_or(0, |class| class(sample.index));
        let samples = samples.iter().map(|sample| (class(sample), *sample));
        // Samples of an aborted run that still wait are answered through the responder of the next
        // run, which discards them as stale.
        let set_responder = |waiting: &mut Option<Responder>| *waiting = Some(responder.clone());
        self.queue.put(samples, usize::MAX, set_responder).expect("as many wait as are issued");
    }

    fn flush(&self) {
        self.queue.flush();
    }
}

impl Drop for BatchingPool {
    fn drop(&mut self) {
        self.queue.close();
        for worker in self.workers.drain(..) {
            // Panics of an engine are caught, so only a panic of this crate ends a worker early.
            // Its message is already on standard error.
            let _ = worker.join();
        }
    }
}
