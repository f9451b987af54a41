//! The batcher between threads: some put in, workers wait for batches.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dyno_loadgen::clock::Clock;

use super::{Batcher, Policy, Sizes};

/// A [`Batcher`] in real time, shared by threads, and something else that is known of what waits.
#[derive(Debug)]
pub struct Queue<T, A = ()> {
    clock: Clock,
    waiting: Mutex<Waiting<T, A>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Waiting<T, A> {
    batcher: Batcher<T>,
    about: A,
    idle_workers: usize,
    is_closed: bool,
}

/// So many wait already, as many as may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// How many may wait.
    pub most: usize,
}

impl<T, A: Default> Queue<T, A> {
    /// Nothing waits.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        let batcher = Batcher::new(policy);
        let waiting = Waiting { batcher, about: A::default(), idle_workers: 0, is_closed: false };
        Self { clock: Clock::start(), waiting: Mutex::new(waiting), changed: Condvar::new() }
    }
}

impl<T, A> Queue<T, A> {
    /// The queue is whole at every point where its users may panic, so that a poisoned lock says nothing.
    fn lock(&self) -> MutexGuard<'_, Waiting<T, A>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the sizes of batches from now on.
    pub fn count_in(&self, sizes: Sizes) {
        self.lock().batcher.count_in(sizes);
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().batcher.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts in what belongs together, each with its class (see [`Batcher::push_of`]), and has it known by
    /// `about`.
    ///
    /// # Errors
    /// `most` wait already: nothing is put in.
    pub fn put(
        &self,
        items: impl IntoIterator<Item = (usize, T)>,
        most: usize,
        about: impl FnOnce(&mut A),
    ) -> Result<(), Full> {
        let mut waiting = self.lock();
        if waiting.batcher.len() >= most {
            return Err(Full { most });
        }
        let now = self.clock.now();
        let was_empty = waiting.batcher.is_empty();
        // First, so that nothing waits of which it is not known, even if the items panic.
        about(&mut waiting.about);
        for (class, item) in items {
            waiting.batcher.push_of(class, now, item);
        }
        // One worker must know the deadline, and one must take a full batch; between the two there is nothing to
        // wake up for.
        let wake = waiting.idle_workers > 0 && (was_empty || waiting.batcher.ready(now));
        drop(waiting);
        if wake {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Waits for a batch, moves it to `batch`, and returns what `about` makes of what is known and of how many
    /// still wait. None when the queue is closed and nothing waits any more.
    pub fn take<R>(&self, batch: &mut Vec<T>, about: impl FnOnce(&mut A, usize) -> R) -> Option<R> {
        let mut waiting = self.lock();
        loop {
            let now = self.clock.now();
            if waiting.batcher.ready(now) {
                waiting.batcher.take(now, batch);
                let left = waiting.batcher.len();
                if left > 0 && waiting.idle_workers > 0 {
                    // Somebody has to watch the deadline of what is left.
                    self.changed.notify_one();
                }
                return Some(about(&mut waiting.about, left));
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

    /// Drops all that waits, if `is_over` says so of what is known of it.
    pub fn clear_if(&self, is_over: impl FnOnce(&mut A) -> bool) {
        let mut waiting = self.lock();
        if is_over(&mut waiting.about) {
            waiting.batcher.clear();
        }
    }

    /// Has all that waits taken at once.
    pub fn flush(&self) {
        self.lock().batcher.flush();
        self.changed.notify_all();
    }

    /// Flushes, and ends the wait of whoever finds nothing.
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
        let put = |item, most| queue.put([(0, item)], most, |about| *about = "known");
        for item in 0..3 {
            assert_eq!(put(item, 3), Ok(()));
        }
        assert_eq!((put(3, 3), queue.len()), (Err(Full { most: 3 }), 3));
        queue.close();
        let mut batch = Vec::new();
        assert_eq!(queue.take(&mut batch, |about, left| (*about, left)), Some(("known", 1)));
        assert_eq!(queue.take(&mut batch, |about, left| (*about, left)), Some(("known", 0)));
        assert_eq!(queue.take(&mut batch, |_, left| left), None);
        assert_eq!(batch, [0, 1, 2]);
    }
}
