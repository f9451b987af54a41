//! The protocol by which a team starts, finishes and synchronizes. The caller decides how to wait,
//! and the atomic word is a trait, so that a model checker can try all interleavings.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Two cache lines, because processors fetch adjacent lines in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Line<T>(T);

/// A number that one thread publishes to others.
pub(crate) trait AtomicWord: Default {
    /// Returns the number published last. All earlier writes of the publisher are visible then
    /// (acquire).
    fn latest(&self) -> u32;
    /// Publishes a number (release).
    fn publish(&self, number: u32);
    /// Fence: of two threads that each publish a word, call this, and read the other's word, at
    /// least one sees the other's number (sequential consistency).
    fn between();
}

impl AtomicWord for AtomicU32 {
    fn latest(&self) -> u32 {
        self.load(Ordering::Acquire)
    }
    fn publish(&self, number: u32) {
        self.store(number, Ordering::Release);
    }
    fn between() {
        fence(Ordering::SeqCst);
    }
}

fn lines<W: AtomicWord>(count: usize) -> Vec<Line<W>> {
    (0..count).map(|_| Line::default()).collect()
}

/// Start and end of jobs.
pub(crate) struct Jobs<W> {
    /// The current job.
    start: Line<W>,
    /// The last job that each worker has finished.
    done: Vec<Line<W>>,
    /// 1 if a worker sleeps or is about to.
    asleep: Vec<Line<W>>,
}

impl<W: AtomicWord> Jobs<W> {
    pub(crate) fn new(workers: usize) -> Self {
        Self { start: Line::default(), done: lines(workers), asleep: lines(workers) }
    }

    /// Publishes a job that differs from the last, and calls `wake` for each worker that may sleep.
    pub(crate) fn begin(&self, job: u32, mut wake: impl FnMut(usize)) {
        self.start.0.publish(job);
        W::between();
        for (worker, asleep) in self.asleep.iter().enumerate() {
            if asleep.0.latest() != 0 {
                wake(worker);
            }
        }
    }

    /// Returns the job published last.
    pub(crate) fn current(&self) -> u32 {
        self.start.0.latest()
    }

    /// Sleeps until the job differs from `last`. `park` may return spuriously, and must return if
    /// the worker was woken since it last returned.
    pub(crate) fn sleep(&self, worker: usize, last: u32, park: impl Fn()) -> u32 {
        self.asleep[worker].0.publish(1);
        // Either `begin` sees that this worker sleeps, or this worker sees the job.
        W::between();
        while self.current() == last {
            park();
        }
        self.asleep[worker].0.publish(0);
        self.current()
    }

    /// Reports that a worker has finished a job.
    pub(crate) fn end(&self, worker: usize, job: u32) {
        self.done[worker].0.publish(job);
    }

    /// Returns when all workers have finished a job. Their writes are visible then.
    pub(crate) fn wait(&self, job: u32, mut pause: impl FnMut()) {
        for done in &self.done {
            while done.0.latest() != job {
                pause();
            }
        }
    }
}

/// Arrivals of workers at a barrier: each worker publishes its count on its own line, so that every
/// line has one writer.
pub(crate) struct Arrivals<W>(Vec<Line<W>>);

impl<W: AtomicWord> Arrivals<W> {
    pub(crate) fn new(workers: usize) -> Self {
        Self(lines(workers))
    }

    /// Returns when all workers have arrived for the `time`th time. Their earlier writes are
    /// visible then.
    pub(crate) fn arrive(&self, worker: usize, time: u32, mut pause: impl FnMut()) {
        self.0[worker].0.publish(time);
        for (other, arrivals) in self.0.iter().enumerate() {
            // Another worker may already have reached the next barrier, but no later one.
            while other != worker && arrivals.0.latest().wrapping_sub(time).cast_signed() < 0 {
                pause();
            }
        }
    }
}
