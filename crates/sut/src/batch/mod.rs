//! Dynamic batching: a policy without threads or clocks, and adapters for real and virtual time.
//!
//! Samples wait in one queue, first in, first out. A batch is ready when it has the maximum size,
//! when its oldest sample has waited for the maximum time, or when the run is over. It leaves the
//! queue when it is ready and a worker is free. While all workers are busy, a batch keeps growing
//! up to the maximum size.
//!
//! [`Classes`] separate samples of different cost, such as sequences of different lengths
//! ([`LengthClasses`]). Only samples of the same class share a batch. The maximum waiting time also
//! holds for samples of a rare class.

mod near;
mod queue;
mod real_time;
mod simulated;
mod sizes;
mod split;

pub use near::LengthClasses;
pub use queue::{Queue, QueueFull};
pub use real_time::{BatchingPool, Station};
pub use simulated::SimulatedBatcher;
pub use sizes::BatchSizes;
pub use split::{PoolRouter, Route};

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Arc;

use dyno_loadgen::clock::Nanos;

/// Batching policy: when a batch is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Maximum number of samples per batch.
    pub max_size: NonZero<usize>,
    /// Maximum time that the oldest sample waits for others, in ns. 0 batches only samples that
    /// queue up while the workers are busy.
    pub max_wait: Nanos,
}

/// Function from the index of a sample in the data set to its class. Classes are small numbers:
/// there is a queue for each number up to the largest.
pub type Classes = Arc<dyn Fn(u64) -> usize + Send + Sync>;

/// Queue in front of the workers, without threads or clocks.
///
/// Time is an argument and must not decrease from call to call.
///
/// ```
/// use dyno_sut::batch::{Batcher, Policy};
///
/// let max_size = 2.try_into().expect("not 0");
/// let mut batcher = Batcher::new(Policy { max_size, max_wait: 100 });
/// let mut batch = Vec::new();
/// batcher.push(0, 'a');
/// assert!(!batcher.is_ready(99) && batcher.is_ready(100));
/// batcher.push(10, 'b');
/// assert!(batcher.is_ready(10));
/// batcher.take(10, &mut batch);
/// assert_eq!(batch, ['a', 'b']);
/// ```
#[derive(Debug, Clone)]
pub struct Batcher<T> {
    policy: Policy,
    /// Waiting samples of each class with their arrival times, oldest first; at least one queue.
    waiting: Vec<VecDeque<(Nanos, T)>>,
    /// Number of samples in all queues.
    len: usize,
    flushing: bool,
    sizes: Option<BatchSizes>,
}

impl<T> Batcher<T> {
    /// Returns an empty queue.
    pub fn new(policy: Policy) -> Self {
        Self { policy, waiting: vec![VecDeque::new()], len: 0, flushing: false, sizes: None }
    }

    /// Records the sizes of all later batches in `sizes`.
    pub fn record_sizes(&mut self, sizes: BatchSizes) {
        self.sizes = Some(sizes);
    }

    /// Returns the policy.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Returns the number of waiting samples.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no sample waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a sample of class 0 that arrived at `now`.
    pub fn push(&mut self, now: Nanos, sample: T) {
        self.push_class(0, now, sample);
    }

    /// Appends a sample of a class that arrived at `now`.
    pub fn push_class(&mut self, class: usize, now: Nanos, sample: T) {
        if class >= self.waiting.len() {
            self.waiting.resize_with(class + 1, VecDeque::new);
        }
        self.waiting[class].push_back((now, sample));
        self.len += 1;
    }

    /// Returns whether a batch may leave at `now`.
    pub fn is_ready(&self, now: Nanos) -> bool {
        self.next_deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Returns the time at which a batch is ready if nothing more arrives; `None` if no sample
    /// waits. The time is 0 if a batch is ready because of its size or because the run is over.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.waiting.iter().filter_map(|queue| self.deadline(queue)).min()
    }

    fn deadline(&self, queue: &VecDeque<(Nanos, T)>) -> Option<Nanos> {
        let (arrived, _) = queue.front()?;
        if self.flushing || queue.len() >= self.policy.max_size.get() {
            return Some(0);
        }
        Some(arrived.saturating_add(self.policy.max_wait))
    }

    /// Moves the oldest samples of one class to the end of `batch`, up to the maximum size.
    ///
    /// Among the classes that are ready at `now`, the one whose oldest sample arrived first is
    /// taken. If no class is ready, it is the class of the oldest sample.
    pub fn take(&mut self, now: Nanos, batch: &mut Vec<T>) {
        // Prefers the oldest ready class. Otherwise a rare class could wait forever behind one that
        // is always full.
        let first = |queue: &VecDeque<(Nanos, T)>| {
            let (arrived, _) = queue.front()?;
            Some((self.deadline(queue)? > now, *arrived))
        };
        let ready = |class: usize| Some((first(&self.waiting[class])?, class));
        let Some((_, class)) = (0..self.waiting.len()).filter_map(ready).min() else {
            self.flushing = false;
            return;
        };
        let queue = &mut self.waiting[class];
        let n = queue.len().min(self.policy.max_size.get());
        batch.extend(queue.drain(..n).map(|(_, sample)| sample));
        self.len -= n;
        if let Some(sizes) = &self.sizes {
            sizes.add(n);
        }
        // The next run starts with an empty queue and waits again.
        self.flushing &= !self.is_empty();
    }

    /// Removes all waiting samples and resets the end of the run.
    pub fn clear(&mut self) {
        self.waiting.iter_mut().for_each(VecDeque::clear);
        self.len = 0;
        self.flushing = false;
    }

    /// Ends the run: all waiting samples are ready now.
    pub fn flush(&mut self) {
        self.flushing = !self.is_empty();
    }
}
