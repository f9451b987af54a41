//! Batcher shared by threads: producers put items, workers wait for batches.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dyno_loadgen::clock::Clock;

use super::{BatchSizes, Batcher, Policy};

/// [`Batcher`] in real time that threads share, with a state that describes the waiting items.
///
/// ```
/// use dyno_sut::batch::{Policy, Queue, QueueFull};
///
/// let max_size = 2.try_into().expect("not 0");
/// let queue: Queue<char> = Queue::new(Policy { max_size, max_wait: 0 });
/// let limit = 2;
/// assert_eq!(queue.put([(0, 'a'), (0, 'b')], limit, |()| ()), Ok(()));
/// assert_eq!(queue.put([(0, 'c')], limit, |()| ()), Err(QueueFull { most: 2 }));
/// let mut batch = Vec::new();
/// assert_eq!(queue.take(&mut batch, |(), left| left), Some(0));
/// assert_eq!(batch, ['a', 'b']);
/// ```
#[derive(Debug)]
pub struct Queue<T, A = ()> {
    clock: Clock,
    waiting: Mutex<QueueState<T, A>>,
    changed: Condvar,
}

#[derive(Debug)]
struct QueueState<T, A> {
    batcher: Batcher<T>,
    state: A,
    idle_workers: usize,
    is_closed: bool,
}

/// Error: the queue already holds the maximum number of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueFull {
    /// Maximum number of waiting items.
    pub most: usize,
}

impl<T, A: Default> Queue<T, A> {
    /// Returns an empty queue.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        let batcher = Batcher::new(policy);
        let waiting =
            QueueState { batcher, state: A::default(), idle_workers: 0, is_closed: false };
        Self { clock: Clock::start(), waiting: Mutex::new(waiting), changed: Condvar::new() }
    }
}

impl<T, A> Queue<T, A> {
    /// Locks the state. The queue is consistent wherever a callback may panic, so a poisoned lock
    /// is harmless.
    fn lock(&self) -> MutexGuard<'_, QueueState<T, A>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the sizes of all later batches in `sizes`.
    pub fn record_sizes(&self, sizes: BatchSizes) {
        self.lock().batcher.record_sizes(sizes);
    }

    /// Returns the number of waiting items.
    pub fn len(&self) -> usize {
        self.lock().batcher.len()
    }

    /// Returns whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds items, each with its class (see [`Batcher::push_class`]), and updates the state with
    /// `update`. All items are added or none.
    ///
    /// # Errors
    /// [`QueueFull`] if `most` items or more already wait.
    pub fn put(
        &self,
        items: impl IntoIterator<Item = (usize, T)>,
        most: usize,
        update: impl FnOnce(&mut A),
    ) -> Result<(), QueueFull> {
        let mut waiting = self.lock();
        if waiting.batcher.len() >= most {
            return Err(QueueFull { most });
        }
        let now = self.clock.now();
        let was_empty = waiting.batcher.is_empty();
        // The state is updated first, so that it covers all waiting items even if the iterator
        // panics.
        update(&mut waiting.state);
        for (class, item) in items {
            waiting.batcher.push_class(class, now, item);
        }
        // One worker must wait for the deadline, and one must take a full batch. Between the two
        // events no worker needs to wake up.
        let wake = waiting.idle_workers > 0 && (was_empty || waiting.batcher.is_ready(now));
        drop(waiting);
        if wake {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Waits for a batch and moves it to `batch`. Returns the result of `read`, which receives the
    /// state and the number of items that still wait. Returns `None` when the queue is closed and
    /// empty.
    pub fn take<R>(&self, batch: &mut Vec<T>, read: impl FnOnce(&mut A, usize) -> R) -> Option<R> {
        let mut waiting = self.lock();
        loop {
            let now = self.clock.now();
            if waiting.batcher.is_ready(now) {
                waiting.batcher.take(now, batch);
                let left = waiting.batcher.len();
                if left > 0 && waiting.idle_workers > 0 {
                    // Another worker has to wait for the deadline of the remaining items.
                    self.changed.notify_one();
                }
                return Some(read(&mut waiting.state, left));
            }
            if waiting.is_closed {
                return None;
            }
            let deadline = waiting.batcher.next_deadline();
            waiting.idle_workers += 1;
            waiting = match deadline {
                None => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = Duration::from_nanos(deadline.saturating_sub(now));
                    let woken = self.changed.wait_timeout(waiting, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            waiting.idle_workers -= 1;
        }
    }

    /// Removes all waiting items if `is_over` returns true for the state.
    pub fn clear_if(&self, is_over: impl FnOnce(&mut A) -> bool) {
        let mut waiting = self.lock();
        if is_over(&mut waiting.state) {
            waiting.batcher.clear();
        }
    }

    /// Makes all waiting items ready.
    pub fn flush(&self) {
        self.lock().batcher.flush();
        self.changed.notify_all();
    }

    /// Flushes the queue and makes [`Queue::take`] return `None` once it is empty.
    pub fn close(&self) {
        let mut waiting = self.lock();
        waiting.batcher.flush();
        waiting.is_closed = true;
        drop(waiting);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_cleared_only_if_what_waits_is_over() {
        let max_size = 2.try_into().expect("not 0");
        let queue: Queue<_, bool> = Queue::new(Policy { max_size, max_wait: u64::MAX });
        for item in 0..3 {
            assert_eq!(queue.put([(0, item)], 9, |_| ()), Ok(()));
        }
        queue.clear_if(|is_over| *is_over);
        assert_eq!(queue.len(), 3);
        queue.clear_if(|is_over| !*is_over);
        queue.close();
        assert_eq!((queue.len(), queue.take(&mut Vec::new(), |_, left| left)), (0, None));
    }

    #[test]
    fn a_closed_queue_is_worked_off_and_a_full_one_takes_nothing() {
        let max_size = 2.try_into().expect("not 0");
        let queue: Queue<_, &str> = Queue::new(Policy { max_size, max_wait: u64::MAX });
        let put = |item, most| queue.put([(0, item)], most, |state| *state = "known");
        for item in 0..3 {
            assert_eq!(put(item, 3), Ok(()));
        }
        assert_eq!((put(3, 3), queue.len()), (Err(QueueFull { most: 3 }), 3));
        queue.close();
        let mut batch = Vec::new();
        assert_eq!(queue.take(&mut batch, |state, left| (*state, left)), Some(("known", 1)));
        assert_eq!(queue.take(&mut batch, |state, left| (*state, left)), Some(("known", 0)));
        assert_eq!(queue.take(&mut batch, |_, left| left), None);
        assert_eq!(batch, [0, 1, 2]);
    }
}
