//! The protocol by which a team starts, divides and finishes jobs. The caller decides how to wait,
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
    /// Publishes a number if the word holds `last`, and returns whether it did (acquire, release).
    fn replace(&self, last: u32, number: u32) -> bool;
    /// Fence: of two threads that each publish a word, call this, and read the other's word, at
    /// least one sees the other's number (sequential consistency).
    fn between();
}

impl AtomicWord for AtomicU32 {
    #[inline(always)]
    fn latest(&self) -> u32 {
        self.load(Ordering::Acquire)
    }
    #[inline(always)]
    fn publish(&self, number: u32) {
        self.store(number, Ordering::Release);
    }
    #[inline(always)]
    fn replace(&self, last: u32, number: u32) -> bool {
        self.compare_exchange(last, number, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
    fn between() {
        fence(Ordering::SeqCst);
    }
}

fn lines<W: AtomicWord>(count: usize) -> Vec<Line<W>> {
    (0..count).map(|_| Line::default()).collect()
}

/// Number of the job that ends a team.
pub(crate) const END: u32 = u32::MAX;

/// Start and end of jobs. Open jobs have odd numbers; the next even number closes a job.
pub(crate) struct Jobs<W> {
    current: Line<W>,
    /// The job that each worker is inside of, or 0.
    inside: Vec<Line<W>>,
    /// 1 if a worker sleeps or is about to.
    asleep: Vec<Line<W>>,
}

impl<W: AtomicWord> Jobs<W> {
    pub(crate) fn new(workers: usize) -> Self {
        Self { current: Line::default(), inside: lines(workers), asleep: lines(workers) }
    }

    /// Opens a job, and calls `wake` for each of the first `workers` workers that may sleep.
    /// Returns the number of the job.
    pub(crate) fn open(&self, workers: usize, mut wake: impl FnMut(usize)) -> u32 {
        let job = match self.current.0.latest().wrapping_add(1) {
            END => 1,
            job => job,
        };
        self.current.0.publish(job);
        W::between();
        for (worker, asleep) in self.asleep.iter().enumerate().take(workers) {
            if asleep.0.latest() != 0 {
                wake(worker);
            }
        }
        job
    }

    /// Closes a job: returns when no worker is inside of it, and none can enter it any more.
    pub(crate) fn close(&self, job: u32, mut pause: impl FnMut()) {
        self.current.0.publish(job + 1);
        // Either a worker sees that the job is closed, or this thread sees that it is inside.
        W::between();
        for inside in &self.inside {
            while inside.0.latest() == job {
                pause();
            }
        }
    }

    /// Ends the team; sleeping workers have to be woken.
    pub(crate) fn end(&self) {
        self.current.0.publish(END);
    }

    /// Returns the open job if it is not `last`, or [`END`].
    pub(crate) fn next(&self, last: u32) -> Option<u32> {
        Some(self.current.0.latest()).filter(|job| job % 2 == 1 && *job != last)
    }

    /// Sleeps until there is a next job. `park` may return spuriously, and must return if the
    /// worker was woken since it last returned.
    pub(crate) fn sleep(&self, worker: usize, last: u32, park: impl Fn()) -> u32 {
        self.asleep[worker].0.publish(1);
        // Either `open` sees that this worker sleeps, or this worker sees the job.
        W::between();
        let job = loop {
            match self.next(last) {
                Some(job) => break job,
                None => park(),
            }
        };
        self.asleep[worker].0.publish(0);
        job
    }

    /// Enters a job; returns false if it is closed. Only inside of a job may a worker use its data.
    pub(crate) fn enter(&self, worker: usize, job: u32) -> bool {
        self.inside[worker].0.publish(job);
        W::between();
        let is_open = self.current.0.latest() == job;
        if !is_open {
            self.leave(worker);
        }
        is_open
    }

    /// Leaves a job.
    pub(crate) fn leave(&self, worker: usize) {
        self.inside[worker].0.publish(0);
    }
}

/// Shares of the work of each phase. Times count the phases of all jobs of a team; they wrap. Any
/// worker may run a share, each exactly once per phase, after all shares of the phase before.
pub(crate) struct Shares<W> {
    /// Last phase in which a worker took each share. Owners write these lines and others rarely
    /// read them, so that taking one's own share costs no transfer of a line.
    taken: Vec<Line<W>>,
    /// Last phase in which each share was done.
    done: Vec<Line<W>>,
}

/// Whether a time is before another one.
#[inline(always)]
fn is_before(time: u32, other: u32) -> bool {
    time.wrapping_sub(other).cast_signed() < 0
}

impl<W: AtomicWord> Shares<W> {
    pub(crate) fn new(shares: usize) -> Self {
        Self { taken: lines(shares), done: lines(shares) }
    }

    /// Whether a share is done.
    #[inline(always)]
    pub(crate) fn is_done(&self, share: usize, time: u32) -> bool {
        !is_before(self.done[share].0.latest(), time)
    }

    /// Marks all shares as done. No worker may be inside of a job.
    pub(crate) fn set(&self, first: usize, time: u32) {
        for word in self.taken[first..].iter().chain(&self.done[first..]) {
            word.0.publish(time);
        }
    }
}

/// What a worker does that waits for a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Waits on.
    On,
    /// Takes the share if no other worker has.
    Take,
    /// Gives up; only workers other than the caller may.
    Leave,
}

/// A share to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Phase within the job, from 0.
    pub(crate) phase: u32,
    pub(crate) share: usize,
}

/// The shares that one worker runs while it is inside of a job.
pub(crate) struct Turns<'a, W> {
    shares: &'a Shares<W>,
    count: usize,
    own: usize,
    /// Time before the first phase, current time, and time of the last phase.
    before: u32,
    time: u32,
    last: u32,
    held: Option<usize>,
    /// Share for which this worker gave up to wait.
    left: Option<usize>,
}

impl<'a, W: AtomicWord> Turns<'a, W> {
    /// Visits a job of `phases` phases after the time `before`, each of `count` shares.
    pub(crate) fn new(
        shares: &'a Shares<W>,
        (count, own): (usize, usize),
        before: u32,
        phases: u32,
    ) -> Self {
        let last = before.wrapping_add(phases);
        Self { shares, count, own, before, time: before, last, held: None, left: None }
    }

    /// Returns the next share to run, after reporting the one returned before as done. `None` means
    /// that the job is done or that `wait` gave up.
    #[inline(always)]
    pub(crate) fn next(&mut self, mut wait: impl FnMut(u32) -> Wait) -> Option<Turn> {
        if let Some(share) = self.held.take() {
            self.shares.done[share].0.publish(self.time);
        }
        loop {
            if let Some(share) = self.undone()
                && let Some(share) = self.await_all(share, &mut wait)?
            {
                return Some(self.hold(share));
            }
            if self.time == self.last {
                return None;
            }
            let next = self.time.wrapping_add(1);
            let taken = &self.shares.taken[self.own].0;
            if taken.replace(self.time, next) {
                self.time = next;
                return Some(self.hold(self.own));
            }
            // Another worker took the share, so the phases before that one are done.
            self.time = taken.latest();
        }
    }

    #[inline(always)]
    fn hold(&mut self, share: usize) -> Turn {
        self.held = Some(share);
        Turn { phase: self.time.wrapping_sub(self.before).wrapping_sub(1), share }
    }

    /// Returns the first share that is not done at the current time.
    #[inline(always)]
    fn undone(&self) -> Option<usize> {
        (0..self.count).find(|share| !self.shares.is_done(*share, self.time))
    }

    /// The share that this worker takes first.
    #[inline(always)]
    pub(crate) fn own(&self) -> usize {
        self.own
    }

    /// Share and time for which `wait` gave up.
    pub(crate) fn left(&self) -> Option<(usize, u32)> {
        self.left.map(|share| (share, self.time))
    }

    /// Waits until all shares from `first` on are done, or takes one: returns it, or `None` if all
    /// are done. The outer `None` means that `wait` gave up.
    fn await_all(
        &mut self,
        first: usize,
        wait: &mut impl FnMut(u32) -> Wait,
    ) -> Option<Option<usize>> {
        let before = self.time.wrapping_sub(1);
        for share in first..self.count {
            let mut times = 0;
            while !self.shares.is_done(share, self.time) {
                match wait(times) {
                    Wait::On => (),
                    Wait::Leave => {
                        self.left = Some(share);
                        return None;
                    }
                    Wait::Take => {
                        let taken = &self.shares.taken[share].0;
                        if taken.latest() == before && taken.replace(before, self.time) {
                            return Some(Some(share));
                        }
                    }
                }
                times += 1;
            }
        }
        Some(None)
    }
}
