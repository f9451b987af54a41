//! A team of threads that stays: workers bound to cores, started by one store, meeting without
//! the kernel's help (DeepCPU, section 5.3: weight-centric streamlining).

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Two cache lines: neighbours are fetched in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Line<T>(T);

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
    start: Line<AtomicU32>,
    /// The last job that each worker but the first has done.
    done: Vec<Line<AtomicU32>>,
    asleep: Vec<Line<AtomicBool>>,
    job: UnsafeCell<Option<*const Job>>,
    waiting: Waiting,
}

// SAFETY: `job` is written by the caller of `run` alone, while no worker reads: before `start` tells
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
}

impl Team {
    /// A team of one more than `cores`, each of these bound to its core where the system knows how.
    #[must_use]
    pub fn new(cores: &[Option<usize>], waiting: Waiting) -> Self {
        let lines = || (0..cores.len()).map(|_| Line::default()).collect();
        let shared = Arc::new(Shared {
            start: Line::default(),
            done: lines(),
            asleep: (0..cores.len()).map(|_| Line::default()).collect(),
            job: UnsafeCell::new(None),
            waiting,
        });
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
        Self { threads: threads.collect(), shared, jobs: 0 }
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
    /// a worker had gone to sleep.
    pub fn run(&mut self, job: &(dyn Fn(usize) + Sync)) {
        if self.threads.is_empty() {
            return job(0);
        }
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
        self.shared.start.0.store(self.jobs, Ordering::SeqCst);
        for ((_, thread), asleep) in self.threads.iter().zip(&self.shared.asleep) {
            if asleep.0.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
        job(0);
        for done in &self.shared.done {
            wait_for(&self.shared.waiting, || done.0.load(Ordering::Acquire) == self.jobs);
        }
        std::mem::forget(guard);
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.start.0.store(END, Ordering::SeqCst);
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
            // SAFETY: `start` told of a job, so `run` has written it and waits until `done` is told.
            let job = unsafe { (*self.job.get()).map(|job| &*job) };
            if let Some(job) = job {
                job(index + 1);
            }
            std::mem::forget(guard);
            self.done[index].0.store(told, Ordering::Release);
        }
    }

    /// Waits for a job other than the last: spins, then sleeps.
    fn next(&self, index: usize, last: u32) -> u32 {
        let told = || self.start.0.load(Ordering::SeqCst);
        let since = Instant::now();
        loop {
            for _ in 0..256 {
                if told() != last {
                    return told();
                }
                std::hint::spin_loop();
            }
            if since.elapsed() > self.waiting.spin {
                self.asleep[index].0.store(true, Ordering::SeqCst);
                // Either the caller sees that this one sleeps, or this one sees the job.
                while told() == last {
                    std::thread::park();
                }
                self.asleep[index].0.store(false, Ordering::SeqCst);
                return told();
            }
        }
    }
}

/// Spins, and lets others run when that takes long: with fewer free cores than workers, the one
/// that is waited for may not be running.
pub(crate) fn wait_for(waiting: &Waiting, is_there: impl Fn() -> bool) {
    let mut spun = 0_u32;
    let mut since = None;
    while !is_there() {
        std::hint::spin_loop();
        spun += 1;
        if spun.is_multiple_of(4096) {
            let since = *since.get_or_insert_with(Instant::now);
            if since.elapsed() > waiting.spin.min(Duration::from_micros(200)) {
                std::thread::yield_now();
            }
        }
    }
}

/// Where workers wait for one another. Each tells its own line how often it came, so that lines
/// have one writer.
pub(crate) struct Meeting {
    came: Vec<Line<AtomicU32>>,
    waiting: Waiting,
}

impl Meeting {
    pub(crate) fn new(workers: usize) -> Self {
        Self { came: (0..workers).map(|_| Line::default()).collect(), waiting: Waiting::default() }
    }

    /// Returns when all workers have come for the `time`th time. What they wrote before is seen.
    pub(crate) fn wait(&self, worker: usize, time: u32) {
        self.came[worker].0.store(time, Ordering::Release);
        for (other, came) in self.came.iter().enumerate() {
            if other != worker {
                // Another may have gone on to the next meeting already, never further.
                let is_there =
                    || came.0.load(Ordering::Acquire).wrapping_sub(time).cast_signed() >= 0;
                wait_for(&self.waiting, is_there);
            }
        }
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
    use std::sync::atomic::AtomicUsize;

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
