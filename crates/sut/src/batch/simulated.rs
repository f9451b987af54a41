//! Batcher in front of a simulated system.

use std::fmt;
use std::num::NonZero;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};

use super::{BatchSizes, Batcher, Classes, Policy};

/// Batcher whose workers are simulated by `S`: each batch is one query to `S`.
///
/// A worker is busy until the last sample of its batch completes. A worker whose batch is never
/// answered stays busy forever, like a hung one. Samples of several tenants share batches; `S`
/// receives the tenant of the first sample.
///
/// ```
/// use dyno_loadgen::sut::{ResponseId, SimulatedQuery, SimulatedSystem};
/// use dyno_sut::batch::{Policy, SimulatedBatcher};
/// use dyno_sut::model::{Cost, Model, ServiceModel, ServiceTime};
///
/// let cost = Cost { base: 1_000, per_sample: 10 };
/// let system = ServiceModel::new(Model::single(ServiceTime::Deterministic(cost)))?;
/// let policy = Policy { max_size: 4.try_into().expect("not 0"), max_wait: 100 };
/// let mut batcher = SimulatedBatcher::new(system, policy, 1.try_into().expect("not 0"));
/// let query = SimulatedQuery { tenant: 0, first: ResponseId::new(1, 0, 0), indices: &[5, 6] };
/// batcher.issue(0, &query);
/// // The batch waits for more samples.
/// assert_eq!(batcher.next_event(), Some(100));
/// batcher.advance(100, &mut Vec::new());
/// assert_eq!(batcher.next_event(), Some(100 + 1_020));
/// # Ok::<(), dyno_sut::model::ModelError>(())
/// ```
#[derive(Debug)]
pub struct SimulatedBatcher<S> {
    name: String,
    system: S,
    batcher: Batcher<WaitingSample>,
    classes: Option<ClassFunction>,
    workers: Vec<Worker>,
    free: Vec<usize>,
    /// The run is over: the next query begins another run, at time 0.
    flushed: bool,
    // Reused buffers.
    batch: Vec<WaitingSample>,
    indices: Vec<SampleIndex>,
    completions: Vec<SimulatedCompletion>,
}

/// Classes of samples, with a `Debug` implementation.
struct ClassFunction(Classes);

impl fmt::Debug for ClassFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Classes")
    }
}

#[derive(Debug, Clone, Copy)]
struct WaitingSample {
    id: ResponseId,
    index: SampleIndex,
    tenant: usize,
}

/// Batch in service. `S` knows sample `i` of worker `w` by the sequence number `w * max_size + i`,
/// because the ids of a batch need not be contiguous.
#[derive(Debug, Clone, Default)]
struct Worker {
    ids: Vec<ResponseId>,
    outstanding: usize,
}

impl<S: SimulatedSystem> SimulatedBatcher<S> {
    /// Returns a batcher with this many workers in front of `system`, which should serve as many
    /// queries at once.
    pub fn new(system: S, policy: Policy, workers: NonZero<usize>) -> Self {
        Self {
            name: format!("batched-{}", system.name()),
            system,
            batcher: Batcher::new(policy),
            classes: None,
            workers: vec![Worker::default(); workers.get()],
            free: (0..workers.get()).rev().collect(),
            flushed: false,
            batch: Vec::new(),
            indices: Vec::new(),
            completions: Vec::new(),
        }
    }

    /// Records the sizes of all batches in `sizes`.
    #[must_use]
    pub fn with_batch_sizes(mut self, sizes: BatchSizes) -> Self {
        self.batcher.record_sizes(sizes);
        self
    }

    /// Restricts batches to samples of one class.
    #[must_use]
    pub fn with_classes(self, classes: Classes) -> Self {
        Self { classes: Some(ClassFunction(classes)), ..self }
    }

    fn dispatch(&mut self, now: Nanos) {
        while self.batcher.is_ready(now) {
            let Some(number) = self.free.pop() else { return };
            self.batch.clear();
            self.batcher.take(now, &mut self.batch);
            let worker = &mut self.workers[number];
            worker.ids.clear();
            worker.ids.extend(self.batch.iter().map(|sample| sample.id));
            worker.outstanding = worker.ids.len();
            self.indices.clear();
            self.indices.extend(self.batch.iter().map(|sample| sample.index));
            let sequence = number * self.batcher.policy().max_size.get();
            let query = SimulatedQuery {
                tenant: self.batch[0].tenant,
                first: ResponseId::new(0, 0, sequence as u64),
                indices: &self.indices,
            };
            self.system.issue(now, &query);
        }
        if self.flushed && self.batcher.is_empty() {
            self.system.flush(now);
        }
    }

    /// Removes what an aborted run has left.
    fn reset(&mut self, now: Nanos) {
        self.flushed = false;
        self.batcher.clear();
        self.free = (0..self.workers.len()).rev().collect();
        self.system.flush(now);
    }
}

impl<S: SimulatedSystem> SimulatedSystem for SimulatedBatcher<S> {
    fn name(&self) -> &str {
        &self.name
    }

    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        if self.flushed {
            self.reset(now);
        }
        for (i, &index) in query.indices.iter().enumerate() {
            let id = ResponseId(query.first.0 + i as u64);
            let class = self.classes.as_ref().map_or(0, |ClassFunction(class)| class(index.into()));
            self.batcher.push_class(class, now, WaitingSample { id, index, tenant: query.tenant });
        }
        self.dispatch(now);
    }

    fn next_event(&self) -> Option<Nanos> {
        // While all workers are busy, the next batch can leave only when one of them completes.
        // That is an event of the inner system.
        let deadline = if self.free.is_empty() { None } else { self.batcher.next_deadline() };
        match (self.system.next_event(), deadline) {
            (Some(event), Some(deadline)) => Some(event.min(deadline)),
            (event, deadline) => event.or(deadline),
        }
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        if self.system.next_event().is_some_and(|event| event <= now) {
            self.system.advance(now, &mut self.completions);
            let max_size = self.batcher.policy().max_size.get();
            for mut completion in self.completions.drain(..) {
                let sequence = completion.id.sequence() as usize;
                let number = sequence / max_size;
                let worker = &mut self.workers[number];
                completion.id = worker.ids[sequence % max_size];
                completions.push(completion);
                worker.outstanding -= 1;
                if worker.outstanding == 0 {
                    self.free.push(number);
                }
            }
        }
        self.dispatch(now);
    }

    fn flush(&mut self, now: Nanos) {
        self.batcher.flush();
        self.flushed = true;
        self.dispatch(now);
    }
}
