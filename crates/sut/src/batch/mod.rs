//! The dynamic batcher: a pure policy, and an adapter for each world.
//!
//! Samples wait in one queue, first in first out. A batch is ready when the
//! greatest size is reached, or when its oldest sample has waited long enough,
//! or when the run is over; it leaves when it is ready and a worker is free.
//! While all workers are busy the batch goes on growing up to its greatest size.

mod real_time;
mod simulated;
mod sizes;

pub use real_time::RealTime;
pub use simulated::Simulated;
pub use sizes::Sizes;

use std::collections::VecDeque;
use std::num::NonZero;

use dyno_loadgen::clock::Nanos;

/// When a batch is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Samples in a batch at most.
    pub max_size: NonZero<usize>,
    /// How long the oldest sample waits for others, in ns. 0 batches only what
    /// queues up while the workers are busy.
    pub max_wait: Nanos,
}

/// The queue in front of the workers, without threads or clocks.
///
/// Time is an argument and must not decrease from call to call.
///
/// ```
/// use dyno_sut::batch::{Batcher, Policy};
/// let max_size = 2.try_into().expect("not 0");
/// let mut batcher = Batcher::new(Policy { max_size, max_wait: 100 });
/// let mut batch = Vec::new();
/// batcher.push(0, 'a');
/// assert!(!batcher.ready(99) && batcher.ready(100));
/// batcher.push(10, 'b');
/// assert!(batcher.ready(10));
/// batcher.take(&mut batch);
/// assert_eq!(batch, ['a', 'b']);
/// ```
#[derive(Debug, Clone)]
pub struct Batcher<T> {
    policy: Policy,
    waiting: VecDeque<(Nanos, T)>,
    flushing: bool,
    sizes: Option<Sizes>,
}

impl<T> Batcher<T> {
    /// An empty queue.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { policy, waiting: VecDeque::new(), flushing: false, sizes: None }
    }

    /// Counts the sizes of batches from now on.
    pub fn count_in(&mut self, sizes: Sizes) {
        self.sizes = Some(sizes);
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Samples that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Appends a sample that arrived at `now`.
    pub fn push(&mut self, now: Nanos, sample: T) {
        self.waiting.push_back((now, sample));
    }

    /// Whether a batch may leave at `now`.
    #[must_use]
    pub fn ready(&self, now: Nanos) -> bool {
        self.next_deadline().is_some_and(|deadline| deadline <= now)
    }

    /// When a batch is ready even if nothing more arrives; 0 if it is ready
    /// already by its size or because the run is over, `None` if nothing waits.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        let (arrived, _) = self.waiting.front()?;
        if self.flushing || self.waiting.len() >= self.policy.max_size.get() {
            return Some(0);
        }
        Some(arrived.saturating_add(self.policy.max_wait))
    }

    /// Moves the oldest samples, up to the greatest size, to the end of `batch`,
    /// whether they are ready or not.
    pub fn take(&mut self, batch: &mut Vec<T>) {
        let n = self.waiting.len().min(self.policy.max_size.get());
        batch.extend(self.waiting.drain(..n).map(|(_, sample)| sample));
        if let Some(sizes) = self.sizes.as_ref().filter(|_| n > 0) {
            sizes.add(n);
        }
        // The next run starts with an empty queue and waits again.
        self.flushing &= !self.waiting.is_empty();
    }

    /// Forgets what waits, and that the run is over.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.flushing = false;
    }

    /// Nothing more arrives: all that waits is ready.
    pub fn flush(&mut self) {
        self.flushing = !self.waiting.is_empty();
    }
}
