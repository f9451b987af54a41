//! The words by which a team starts, ends and meets. How a thread waits is left to the caller, and
//! what a word is to a trait: so a model can try all orders in which threads come.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Two cache lines: neighbours are fetched in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Line<T>(T);

/// A number that one thread tells others.
pub(crate) trait Word: Default {
    /// What was told last. All that the teller wrote before is seen (acquire).
    fn seen(&self) -> u32;
    /// Tells a number (release).
    fn tell(&self, number: u32);
    /// Of two threads that each tell one word and then look at the other's, with this between,
    /// one at least sees what the other told (sequential consistency).
    fn between();
}

impl Word for AtomicU32 {
    fn seen(&self) -> u32 {
        self.load(Ordering::Acquire)
    }
    fn tell(&self, number: u32) {
        self.store(number, Ordering::Release);
    }
    fn between() {
        fence(Ordering::SeqCst);
    }
}

fn lines<W: Word>(count: usize) -> Vec<Line<W>> {
    (0..count).map(|_| Line::default()).collect()
}

/// How jobs begin and end.
pub(crate) struct Jobs<W> {
    /// The job that is to be done.
    start: Line<W>,
    /// The last job that each worker has done.
    done: Vec<Line<W>>,
    /// 1 where a worker sleeps, or is about to.
    asleep: Vec<Line<W>>,
}

impl<W: Word> Jobs<W> {
    pub(crate) fn new(workers: usize) -> Self {
        Self { start: Line::default(), done: lines(workers), asleep: lines(workers) }
    }

    /// Tells all workers of a job, another than the last; calls `wake` for those that may sleep.
    pub(crate) fn begin(&self, job: u32, mut wake: impl FnMut(usize)) {
        self.start.0.tell(job);
        W::between();
        for (worker, asleep) in self.asleep.iter().enumerate() {
            if asleep.0.seen() != 0 {
                wake(worker);
            }
        }
    }

    /// The job that was told last.
    pub(crate) fn told(&self) -> u32 {
        self.start.0.seen()
    }

    /// Sleeps until there is another job than the last. `park` may return for no reason, and
    /// must if the worker was woken since it last returned.
    pub(crate) fn sleep(&self, worker: usize, last: u32, park: impl Fn()) -> u32 {
        self.asleep[worker].0.tell(1);
        // Either `begin` sees that this one sleeps, or this one sees the job.
        W::between();
        while self.told() == last {
            park();
        }
        self.asleep[worker].0.tell(0);
        self.told()
    }

    /// A worker is done with a job.
    pub(crate) fn end(&self, worker: usize, job: u32) {
        self.done[worker].0.tell(job);
    }

    /// Returns when all workers are done with a job. What they wrote is seen.
    pub(crate) fn wait(&self, job: u32, mut pause: impl FnMut()) {
        for done in &self.done {
            while done.0.seen() != job {
                pause();
            }
        }
    }
}

/// How workers meet: each tells its own line how often it came, so that lines have one writer.
pub(crate) struct Came<W>(Vec<Line<W>>);

impl<W: Word> Came<W> {
    pub(crate) fn new(workers: usize) -> Self {
        Self(lines(workers))
    }

    /// Returns when all workers have come for the `time`th time. What they wrote before is seen.
    pub(crate) fn meet(&self, worker: usize, time: u32, mut pause: impl FnMut()) {
        self.0[worker].0.tell(time);
        for (other, came) in self.0.iter().enumerate() {
            // Another may have gone on to the next meeting already, never further.
            while other != worker && came.0.seen().wrapping_sub(time).cast_signed() < 0 {
                pause();
            }
        }
    }
}
