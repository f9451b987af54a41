//! The batcher in front of a simulated system.

use std::fmt;
use std::num::NonZero;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};

use super::{Batcher, Classes, Policy, Sizes};

/// A batcher whose workers are simulated by `S`: each batch is one query to it.
///
/// A worker is busy until the last sample of its batch is complete. One whose
/// batch is never answered stays busy for ever, as a hung one would.
/// Samples of several tenants share batches; `S` is told the tenant of the
/// first sample.
#[derive(Debug)]
pub struct Simulated<S> {
    name: String,
    system: S,
    batcher: Batcher<Waiting>,
    classes: Option<Told>,
    workers: Vec<Worker>,
    free: Vec<usize>,
    /// The run is over; the next query begins another, and time starts again.
    flushed: bool,
    // Buffers that are used again.
    batch: Vec<Waiting>,
    indices: Vec<SampleIndex>,
    completions: Vec<SimulatedCompletion>,
}

/// Who tells of classes.
struct Told(Classes);

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Classes")
    }
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    id: ResponseId,
    index: SampleIndex,
    tenant: usize,
}

/// Samples of the batch in work: the inner system knows sample `i` of worker
/// `w` as sequence `w * max_size + i`, since a batch's own ids need not be
/// contiguous.
#[derive(Debug, Clone, Default)]
struct Worker {
    ids: Vec<ResponseId>,
    outstanding: usize,
}

impl<S: SimulatedSystem> Simulated<S> {
    /// Puts a batcher with this many workers in front of `system`, which should
    /// serve as many queries at once.
    #[must_use]
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

    /// Counts the sizes of batches there.
    #[must_use]
    pub fn counting(mut self, sizes: Sizes) -> Self {
        self.batcher.count_in(sizes);
        self
    }

    /// Batches only samples of one class together.
    #[must_use]
    pub fn by(self, classes: Classes) -> Self {
        Self { classes: Some(Told(classes)), ..self }
    }

    fn dispatch(&mut self, now: Nanos) {
        while self.batcher.ready(now) {
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

    /// Forgets what an aborted run has left over.
    fn reset(&mut self, now: Nanos) {
        self.flushed = false;
        self.batcher.clear();
        self.free = (0..self.workers.len()).rev().collect();
        self.system.flush(now);
    }
}

impl<S: SimulatedSystem> SimulatedSystem for Simulated<S> {
    fn name(&self) -> &str {
        &self.name
    }

    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        if self.flushed {
            self.reset(now);
        }
        for (i, &index) in query.indices.iter().enumerate() {
            let id = ResponseId(query.first.0 + i as u64);
            let class = self.classes.as_ref().map_or(0, |Told(of)| of(index.into()));
            self.batcher.push_of(class, now, Waiting { id, index, tenant: query.tenant });
        }
        self.dispatch(now);
    }

    fn next_event(&self) -> Option<Nanos> {
        // While every worker is busy the next batch can only leave when one of
        // them completes, which is an event of the inner system.
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
