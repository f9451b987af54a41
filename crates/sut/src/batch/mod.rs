//! The dynamic batcher: a pure policy, and an adapter for each world.
//!
//! Samples wait in one queue, first in first out. A batch is ready when the
//! greatest size is reached, or when its oldest sample has waited long enough,
//! or when the run is over; it leaves when it is ready and a worker is free.
//! While all workers are busy the batch goes on growing up to its greatest size.
//!
//! Samples that cost differently may be told apart by [`Classes`], such as sequences
//! by their length ([`Near`]): then only samples of one class share a batch. A class
//! that is rare still waits no longer than the policy says.

mod near;
mod queue;
mod real_time;
mod simulated;
mod sizes;
mod split;

pub use near::Near;
pub use queue::{Full, Queue};
pub use real_time::{RealTime, Station};
pub use simulated::Simulated;
pub use sizes::Sizes;
pub use split::{Route, Split};

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Arc;

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

/// The class of a sample, by its index in the data set: small numbers, for each of which a
/// queue is kept.
pub type Classes = Arc<dyn Fn(u64) -> usize + Send + Sync>;

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
/// batcher.take(10, &mut batch);
/// assert_eq!(batch, ['a', 'b']);
/// ```
#[derive(Debug, Clone)]
pub struct Batcher<T> {
    policy: Policy,
    /// Those of each class, by arrival; at least one queue.
    waiting: Vec<VecDeque<(Nanos, T)>>,
    /// In all queues.
    len: usize,
    flushing: bool,
    sizes: Option<Sizes>,
}

impl<T> Batcher<T> {
    /// An empty queue.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { policy, waiting: vec![VecDeque::new()], len: 0, flushing: false, sizes: None }
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
        self.len
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a sample that arrived at `now`.
    pub fn push(&mut self, now: Nanos, sample: T) {
        self.push_of(0, now, sample);
    }

    /// As [`Batcher::push`], a sample of a class, which shares batches with its like alone.
    pub fn push_of(&mut self, class: usize, now: Nanos, sample: T) {
        if class >= self.waiting.len() {
            self.waiting.resize_with(class + 1, VecDeque::new);
        }
        self.waiting[class].push_back((now, sample));
        self.len += 1;
    }

    /// Whether a batch may leave at `now`.
    #[must_use]
    pub fn ready(&self, now: Nanos) -> bool {
        self.next_deadline().is_some_and(|deadline| deadline <= now)
    }

    /// When a batch is ready even if nothing more arrives; 0 if one is ready
    /// already by its size or because the run is over, `None` if nothing waits.
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

    /// Moves the oldest samples of a class, up to the greatest size, to the end of
    /// `batch`: of the class that is ready at `now` and whose oldest sample came first, or
    /// of the oldest of all if none is.
    pub fn take(&mut self, now: Nanos, batch: &mut Vec<T>) {
        // Of classes that are ready the oldest, so that a rare one does not wait for ever
        // behind one that is always full.
        let first = |queue: &VecDeque<(Nanos, T)>| {
            let (arrived, _) = queue.front()?;
            Some((self.deadline(queue)? > now, *arrived))
        };
        let of = |class: usize| Some((first(&self.waiting[class])?, class));
        let Some((_, class)) = (0..self.waiting.len()).filter_map(of).min() else {
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

    /// Forgets what waits, and that the run is over.
    pub fn clear(&mut self) {
        self.waiting.iter_mut().for_each(VecDeque::clear);
        self.len = 0;
        self.flushing = false;
    }

    /// Nothing more arrives: all that waits is ready.
    pub fn flush(&mut self) {
        self.flushing = !self.is_empty();
    }
}
