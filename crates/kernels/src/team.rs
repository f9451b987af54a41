//! A team of threads that stays: workers bound to cores, started by one store, meeting without
//! the kernel's help (DeepCPU, section 5.3: weight-centric streamlining).

mod protocol;

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use protocol::{Came, Jobs};

/// How a team waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// How long idle workers spin before they sleep, and whoever waits for a worker spins before it
    /// lets others run.
    pub spin: Duration,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { spin: Duration::from_millis(2) }
    }
}

/// What all workers are to do: called with the number of each.
type Job = dyn Fn(usize) + Sync;

struct Shared {
    /// Counted up for each job; the greatest number ends the team.
    jobs: Jobs<AtomicU32>,
    job: UnsafeCell<Option<*const Job>>,
    waiting: Waiting,
}

// SAFETY: `job` is written by the caller of `run` alone, while no worker reads: before `jobs` tells
// of it (release, acquire), and after all have told that they are done with the last.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

const END: u32 = u32::MAX;

/// Threads that work as one with whoever calls [`Team::run`], who is worker 0.
pub struct Team {
    shared: Arc<Shared>,
    threads: Vec<(JoinHandle<()>, Thread)>,
    jobs: u32,
    /// Cores of workers; none when the caller may use no other.
    bound: Vec<usize>,
}

impl Team {
    /// A team of one more than `cores`, each of these bound to its core where the system knows how.
    #[must_use]
    pub fn new(cores: &[Option<usize>], waiting: Waiting) -> Self {
        let shared =
            Arc::new(Shared { jobs: Jobs::new(cores.len()), job: UnsafeCell::new(None), waiting });
        let threads = cores.iter().enumerate().map(|(index, core)| {
            let (shared, core) = (Arc::clone(&shared), *core);
            let work = move || {
                core.inspect(|core| bind(*core));
                shared.work(index);
            };
            let handle = std::thread::spawn(work);
            let thread = handle.thread().clone();
            (handle, thread)
        });
        let bound = cores.iter().flatten().copied().collect();
        Self { threads: threads.collect(), shared, jobs: 0, bound }
    }

    /// A team of `workers`, those beside the caller on the last cores that this process may use.
    #[must_use]
    pub fn of(workers: usize) -> Self {
        let cores = usable_cores();
        let more = workers.saturating_sub(1);
        let bound: Vec<Option<usize>> = (0..more)
            .map(|at| cores.len().checked_sub(at + 1).and_then(|last| cores.get(last).copied()))
            .collect();
        Self::new(&bound, Waiting::default())
    }

    /// The caller among them.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.threads.len() + 1
    }

    /// Calls `job` once for each worker, at once, and returns when all are done. No system call, unless
    /// a worker had gone to sleep, or the caller woke on a worker's core.
    pub fn run(&mut self, job: &(dyn Fn(usize) + Sync)) {
        if self.threads.is_empty() {
            return job(0);
        }
        self.step_aside();
        let guard = Abort;
        // SAFETY: the lifetime is forgotten, and kept: this function returns only after all workers
        // are done with the job. Nobody else touches `job`, see `Shared`.
        unsafe {
            let job = std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const Job>(job);
            *self.shared.job.get() = Some(job);
        }
        self.jobs = self.jobs.wrapping_add(1);
        if self.jobs == END {
            self.jobs = 1;
        }
        self.shared.jobs.begin(self.jobs, |worker| self.threads[worker].1.unpark());
        job(0);
        let mut patience = Patience::new(self.shared.waiting);
        self.shared.jobs.wait(self.jobs, || patience.pause());
        std::mem::forget(guard);
    }

    /// Moves the caller off the core of a worker: a thread that slept wakes on any core, and the two
    /// would take turns there for milliseconds while another core idles. It may use the same cores as
    /// before afterwards, and so may the threads that it starts.
    #[cfg(target_os = "linux")]
    fn step_aside(&mut self) {
        use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};
        if !self.bound.contains(&sched_getcpu()) {
            return;
        }
        let Ok(usable) = sched_getaffinity(None) else { return };
        let mut free = usable;
        self.bound.iter().for_each(|core| free.unset(*core));
        if free.count() == 0 || sched_setaffinity(None, &free).is_err() {
            self.bound.clear();
            return;
        }
        let _ = sched_setaffinity(None, &usable);
    }

    #[cfg(not(target_os = "linux"))]
    fn step_aside(&mut self) {}
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.jobs.begin(END, |_| ());
        for (handle, thread) in self.threads.drain(..) {
            thread.unpark();
            // A worker that panicked has aborted the process.
            let _ = handle.join();
        }
    }
}

/// Ends the process if a job unwinds: others would wait for it for ever, or go on with what it
/// has left half done.
struct Abort;

impl Drop for Abort {
    fn drop(&mut self) {
        std::process::abort();
    }
}

impl Shared {
    fn work(&self, index: usize) {
        let mut last = 0;
        loop {
            let told = self.next(index, last);
            if told == END {
                return;
            }
            last = told;
            let guard = Abort;
            // SAFETY: `jobs` told of a job, so `run` has written it and waits until `done` is told.
            let job = unsafe { (*self.job.get()).map(|job| &*job) };
            if let Some(job) = job {
                job(index + 1);
            }
            std::mem::forget(guard);
            self.jobs.end(index, told);
        }
    }

    /// Waits for a job other than the last: spins, then sleeps.
    fn next(&self, index: usize, last: u32) -> u32 {
        let since = now();
        loop {
            for _ in 0..256 {
                let told = self.jobs.told();
                if told != last {
                    return told;
                }
                std::hint::spin_loop();
            }
            if since.elapsed() > self.waiting.spin {
                return self.jobs.sleep(index, last, std::thread::park);
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "how long to spin is no part of any measurement")]
fn now() -> Instant {
    Instant::now()
}

/// Spins, and lets others run when that takes long: with fewer free cores than workers, the one
/// that is waited for may not be running.
struct Patience {
    waiting: Waiting,
    spun: u32,
    since: Option<Instant>,
}

impl Patience {
    fn new(waiting: Waiting) -> Self {
        Self { waiting, spun: 0, since: None }
    }

    fn pause(&mut self) {
        std::hint::spin_loop();
        self.spun = self.spun.wrapping_add(1);
        if self.spun.is_multiple_of(4096) {
            let since = *self.since.get_or_insert_with(now);
            if since.elapsed() > self.waiting.spin.min(Duration::from_micros(200)) {
                std::thread::yield_now();
            }
        }
    }
}

/// Where workers wait for one another.
pub(crate) struct Meeting {
    came: Came<AtomicU32>,
    waiting: Waiting,
}

impl Meeting {
    pub(crate) fn new(workers: usize) -> Self {
        Self { came: Came::new(workers), waiting: Waiting::default() }
    }

    /// Returns when all workers have come for the `time`th time. What they wrote before is seen.
    pub(crate) fn wait(&self, worker: usize, time: u32) {
        let mut patience = Patience::new(self.waiting);
        self.came.meet(worker, time, || patience.pause());
    }
}

#[cfg(target_os = "linux")]
fn usable_cores() -> Vec<usize> {
    let set =
        rustix::thread::sched_getaffinity(None).unwrap_or_else(|_| rustix::thread::CpuSet::new());
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

#[cfg(not(target_os = "linux"))]
fn usable_cores() -> Vec<usize> {
    Vec::new()
}

#[cfg(target_os = "linux")]
fn bind(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    // Refused where the process may not use the core: then it stays where it may.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

#[cfg(not(target_os = "linux"))]
fn bind(_core: usize) {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn all_workers_run_each_job_once_and_sleep_between() {
        let mut team = Team::new(&[None, None], Waiting { spin: Duration::ZERO });
        let counts: [AtomicUsize; 3] = Default::default();
        for _ in 0..100 {
            team.run(&|worker| {
                counts[worker].fetch_add(1, Ordering::Relaxed);
            });
        }
        assert_eq!(counts.map(AtomicUsize::into_inner), [100; 3]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_caller_leaves_the_core_of_a_worker_and_may_return() {
        use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
        let cores = usable_cores();
        let [first, .., last] = cores.as_slice() else { return };
        let mut team = Team::new(&[Some(*last)], Waiting::default());
        let mut both = CpuSet::new();
        both.set(*first);
        both.set(*last);
        // The system may move it back between the call and the job, though hardly most times; without
        // a step aside it would stay each time.
        let left = (0..100).filter(|_| {
            bind(*last);
            sched_setaffinity(None, &both).expect("cores that it may use");
            let on = AtomicUsize::new(*last);
            team.run(&|worker| {
                if worker == 0 {
                    on.store(sched_getcpu(), Ordering::Relaxed);
                }
            });
            on.into_inner() == *first
        });
        assert!(left.count() > 50);
        assert_eq!(usable_cores(), [*first, *last]);
        // With no other core it stays, and works all the same.
        bind(*last);
        let ran = AtomicUsize::new(0);
        team.run(&|_| {
            ran.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!((usable_cores(), ran.into_inner()), (vec![*last], 2));
    }

    #[test]
    fn what_was_written_before_a_meeting_is_seen_after() {
        let mut team = Team::of(3);
        let meeting = Meeting::new(3);
        let seen: [AtomicUsize; 3] = Default::default();
        team.run(&|worker| {
            for time in 1..=1000 {
                seen[worker].store(time, Ordering::Relaxed);
                meeting.wait(worker, 2 * time as u32 - 1);
                assert!(seen.iter().all(|other| other.load(Ordering::Relaxed) == time));
                meeting.wait(worker, 2 * time as u32);
            }
        });
        assert_eq!(team.workers(), 3);
    }
}
