//! A persistent team of threads: workers pinned to cores, started by a single store, synchronized
//! without system calls (DeepCPU, section 5.3: weight-centric streamlining).
//!
//! ```
//! use std::sync::atomic::{AtomicUsize, Ordering};
//!
//! use dyno_kernels::Team;
//!
//! let (mut team, sum) = (Team::with_workers(3), AtomicUsize::new(0));
//! team.run(&|worker| {
//!     sum.fetch_add(worker, Ordering::Relaxed);
//! });
//! assert_eq!(sum.into_inner(), 1 + 2);
//! ```

mod protocol;

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use protocol::{Arrivals, Jobs};

/// How a team waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitPolicy {
    /// How long idle workers spin before they sleep, and how long waiting for a worker spins before
    /// yielding.
    pub spin: Duration,
}

impl Default for WaitPolicy {
    fn default() -> Self {
        Self { spin: Duration::from_millis(2) }
    }
}

/// A job, called with the number of each worker.
type Job = dyn Fn(usize) + Sync;

struct SharedState {
    /// Counter of jobs; the greatest number ends the team.
    jobs: Jobs<AtomicU32>,
    job: UnsafeCell<Option<*const Job>>,
    policy: WaitPolicy,
}

// SAFETY: only the caller of `run` writes `job`, and no worker reads it then: the write comes
// before `jobs` publishes the job (release, acquire), and after all workers have finished the last
// one.
unsafe impl Sync for SharedState {}
// SAFETY: as for `Sync`.
unsafe impl Send for SharedState {}

const END: u32 = u32::MAX;

/// Threads that work together with the caller of [`Team::run`], which is worker 0.
pub struct Team {
    shared: Arc<SharedState>,
    threads: Vec<(JoinHandle<()>, Thread)>,
    jobs: u32,
    /// Cores of pinned workers; empty if the caller may use no other core.
    bound: Vec<usize>,
}

impl Team {
    /// Starts a team with one worker more than `cores`; each thread is pinned to its core if the
    /// system supports it.
    #[must_use]
    pub fn new(cores: &[Option<usize>], policy: WaitPolicy) -> Self {
        let shared = Arc::new(SharedState {
            jobs: Jobs::new(cores.len()),
            job: UnsafeCell::new(None),
            policy,
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
        let bound = cores.iter().flatten().copied().collect();
        Self { threads: threads.collect(), shared, jobs: 0, bound }
    }

    /// Starts a team of `workers` workers; all except the caller are pinned to the last cores that
    /// this process may use.
    #[must_use]
    pub fn with_workers(workers: usize) -> Self {
        let cores = usable_cores();
        let more = workers.saturating_sub(1);
        let bound: Vec<Option<usize>> = (0..more)
            .map(|at| cores.len().checked_sub(at + 1).and_then(|last| cores.get(last).copied()))
            .collect();
        Self::new(&bound, WaitPolicy::default())
    }

    /// Number of workers including the caller.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.threads.len() + 1
    }

    /// Calls `job` once per worker, concurrently, and returns when all have finished. Makes no
    /// system call unless a worker sleeps or the caller runs on a worker's core.
    pub fn run(&mut self, job: &(dyn Fn(usize) + Sync)) {
        if self.threads.is_empty() {
            return job(0);
        }
        self.step_aside();
        let guard = AbortGuard;
        // SAFETY: the job outlives its use although its lifetime is erased: this function returns
        // only after all workers have finished the job. Nothing else accesses `job`; see
        // `SharedState`.
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
        let mut backoff = Backoff::new(self.shared.policy);
        self.shared.jobs.wait(self.jobs, || backoff.pause());
        std::mem::forget(guard);
    }

    /// Moves the caller off the core of a worker. A thread that slept may wake on any core; the two
    /// would share that core for milliseconds while another one idles. The caller's affinity is
    /// restored afterwards, and with it that of threads that it starts.
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
            // A worker that panicked has already aborted the process.
            let _ = handle.join();
        }
    }
}

/// Aborts the process if a job unwinds: other workers would wait forever, or continue with
/// incomplete data.
struct AbortGuard;

impl Drop for AbortGuard {
    fn drop(&mut self) {
        std::process::abort();
    }
}

impl SharedState {
    fn work(&self, index: usize) {
        let mut last = 0;
        loop {
            let current = self.next(index, last);
            if current == END {
                return;
            }
            last = current;
            let guard = AbortGuard;
            // SAFETY: `jobs` published a job, so `run` has written it and waits until `done` is
            // published.
            let job = unsafe { (*self.job.get()).map(|job| &*job) };
            if let Some(job) = job {
                job(index + 1);
            }
            std::mem::forget(guard);
            self.jobs.end(index, current);
        }
    }

    /// Waits for a job other than the last: spins, then sleeps.
    fn next(&self, index: usize, last: u32) -> u32 {
        let since = now();
        loop {
            for _ in 0..256 {
                let current = self.jobs.current();
                if current != last {
                    return current;
                }
                std::hint::spin_loop();
            }
            if since.elapsed() > self.policy.spin {
                return self.jobs.sleep(index, last, std::thread::park);
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "how long to spin is no part of any measurement")]
fn now() -> Instant {
    Instant::now()
}

/// Spins, and yields if the wait is long: with fewer free cores than workers, the awaited worker
/// may not be running.
struct Backoff {
    policy: WaitPolicy,
    spun: u32,
    since: Option<Instant>,
}

impl Backoff {
    fn new(policy: WaitPolicy) -> Self {
        Self { policy, spun: 0, since: None }
    }

    fn pause(&mut self) {
        std::hint::spin_loop();
        self.spun = self.spun.wrapping_add(1);
        if self.spun.is_multiple_of(4096) {
            let since = *self.since.get_or_insert_with(now);
            if since.elapsed() > self.policy.spin.min(Duration::from_micros(200)) {
                std::thread::yield_now();
            }
        }
    }
}

/// A barrier of all workers.
pub(crate) struct Barrier {
    arrivals: Arrivals<AtomicU32>,
    policy: WaitPolicy,
}

impl Barrier {
    pub(crate) fn new(workers: usize) -> Self {
        Self { arrivals: Arrivals::new(workers), policy: WaitPolicy::default() }
    }

    /// Returns when all workers have arrived for the `time`th time. Their earlier writes are
    /// visible then.
    pub(crate) fn wait(&self, worker: usize, time: u32) {
        let mut backoff = Backoff::new(self.policy);
        self.arrivals.arrive(worker, time, || backoff.pause());
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
    // Fails if the process may not use the core; the thread then stays where it is.
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
        let mut team = Team::new(&[None, None], WaitPolicy { spin: Duration::ZERO });
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
        let mut team = Team::new(&[Some(*last)], WaitPolicy::default());
        let mut both = CpuSet::new();
        both.set(*first);
        both.set(*last);
        // The system may move it back between the call and the job, though hardly most times;
        // without
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
        let mut team = Team::with_workers(3);
        let meeting = Barrier::new(3);
        let latest: [AtomicUsize; 3] = Default::default();
        team.run(&|worker| {
            for time in 1..=1000 {
                latest[worker].store(time, Ordering::Relaxed);
                meeting.wait(worker, 2 * time as u32 - 1);
                assert!(latest.iter().all(|other| other.load(Ordering::Relaxed) == time));
                meeting.wait(worker, 2 * time as u32);
            }
        });
        assert_eq!(team.workers(), 3);
    }
}
