//! The batcher in front of a pool of worker threads.

use std::collections::HashSet;
use std::fmt;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::record::Failure;
use dyno_loadgen::sut::{QuerySample, SystemUnderTest};

use super::{Classes, Policy, Queue, Sizes};
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
    queue: Arc<Waiting>,
    classes: Option<Classes>,
    workers: Vec<JoinHandle<()>>,
}

/// Samples, and the responder of the run whose samples they are. It is kept only while there are any, so that
/// an idle system does not hold on to the memory of the last run.
type Waiting = Queue<QuerySample, Option<Responder>>;

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
        let queue = Arc::new(Waiting::new(policy));
        let mut system = Self { name, queue, classes, workers: Vec::new() };
        for (number, station) in stations.into_iter().enumerate() {
            let queue = Arc::clone(&system.queue);
            let thread = thread::Builder::new().name(format!("sut-worker-{number}"));
            system.workers.push(thread.spawn(move || {
                // Whoever made the station has asked whether it may be bound.
                let _bound = station.cores.as_ref().map(Cores::bind);
                work(&queue, &*station.engine);
            })?);
        }
        Ok(system)
    }

    /// Counts the sizes of batches there.
    #[must_use]
    pub fn counting(self, sizes: Sizes) -> Self {
        self.queue.count_in(sizes);
        self
    }
}

fn work(queue: &Waiting, engine: &dyn Engine) {
    let (mut batch, mut answers) = (Vec::new(), Answers::new());
    let of_run = |responder: &mut Option<Responder>, left: usize| {
        if left == 0 { responder.take() } else { responder.clone() }
    };
    while let Some(responder) = queue.take(&mut batch, of_run) {
        let responder = responder.expect("samples come with a responder");
        if responder.is_over() {
            // Unless samples of a later run have come since.
            queue.clear_if(|of_run| {
                let is_over = of_run.as_ref().is_some_and(Responder::is_over);
                is_over.then(|| of_run.take()).is_some()
            });
            batch.clear();
            continue;
        }
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
        let class = |sample: &QuerySample| self.classes.as_ref().map_or(0, |of| of(sample.index));
        let samples = samples.iter().map(|sample| (class(sample), *sample));
        // Samples of an aborted run that still wait go out through the responder
        // of the next one, which knows them for stale.
        let known = |of_run: &mut Option<Responder>| *of_run = Some(responder.clone());
        self.queue.put(samples, usize::MAX, known).expect("as many wait as are issued");
    }

    fn flush(&self) {
        self.queue.flush();
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        self.queue.close();
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
