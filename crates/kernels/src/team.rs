//! A persistent team of threads: workers pinned to cores, started by a single store, synchronized
//! without system calls (DeepCPU, section 5.3: weight-centric streamlining).
//!
//! A job has phases, and each phase has a share for each worker. A worker runs its own share first,
//! then shares that no worker has taken, so that a descheduled worker delays only the share that it
//! is in the middle of. If waiting for descheduled workers costs more than it gains, the caller
//! works alone for a while. Which worker runs a share does not affect results.
//!
//! ```
//! use std::sync::atomic::{AtomicUsize, Ordering};
//!
//! use dyno_kernels::Team;
//!
//! let (mut team, sum) = (Team::with_workers(3), AtomicUsize::new(0));
//! team.run(&|share| {
//!     sum.fetch_add(share, Ordering::Relaxed);
//! });
//! assert_eq!(sum.into_inner(), 1 + 2);
//! ```

mod contention;
mod cores;
mod fork;
mod protocol;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contention::Contention;
use protocol::{END, Jobs, Shares, Turn, Wait};

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

/// A job, called by each worker with the shares that it runs.
type Job = dyn Fn(&mut Turns<'_>) + Sync;

/// A job, its shares per phase and phases, and the time before it.
#[derive(Clone, Copy)]
struct JobData {
    job: *const Job,
    shares: usize,
    phases: u32,
    before: u32,
}

struct SharedState {
    jobs: Jobs<AtomicU32>,
    shares: Shares<AtomicU32>,
    job: UnsafeCell<Option<JobData>>,
    policy: WaitPolicy,
    /// Whether a worker's job panicked, and with what.
    has_failed: AtomicBool,
    failure: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: only the caller of `run_phases` writes `job`, and no worker reads it then: the write
// comes before `jobs` opens the job (release, acquire), and after it closed the last one, when no
// worker was inside of it.
unsafe impl Sync for SharedState {}
// SAFETY: as for `Sync`.
unsafe impl Send for SharedState {}

/// Threads that work together with the caller of [`Team::run`], which is worker 0.
///
/// In a child process after `fork`, which has no threads but the caller, a team starts new ones at
/// its first job.
pub struct Team {
    cores: Vec<Option<usize>>,
    shared: Arc<SharedState>,
    threads: Vec<JoinHandle<()>>,
    /// Fork generation of the threads.
    generation: u32,
    /// Time of the last phase of the last job.
    time: u32,
    contention: Contention,
    /// Cores of pinned workers; empty if the caller may use no other core.
    bound: Vec<usize>,
}

impl Team {
    /// Starts a team with one worker more than `cores`; each thread is pinned to its core if the
    /// system supports it. If the system starts fewer threads, those run the shares of the others.
    #[must_use]
    pub fn new(cores: &[Option<usize>], policy: WaitPolicy) -> Self {
        let mut team = Self {
            cores: cores.to_vec(),
            shared: SharedState::new(cores.len() + 1, policy),
            threads: Vec::new(),
            generation: fork::generation(),
            time: 0,
            contention: Contention::new(),
            bound: cores.iter().flatten().copied().collect(),
        };
        team.start();
        team
    }

    /// Starts a team of `workers` workers; all except the caller are pinned to cores that this
    /// process may use, if there are enough: to physical cores of their own first, and on one NUMA
    /// node if it suffices.
    #[must_use]
    pub fn with_workers(workers: usize) -> Self {
        let more = workers.saturating_sub(1);
        let cores = if more > 0 { cores::describe(&cores::usable()) } else { Vec::new() };
        Self::new(&cores::place(&cores, more, cores::current()), WaitPolicy::default())
    }

    /// Number of logical cores that this thread may use, at least 1; `None` if the system does not
    /// report it. More workers would wait for each other.
    pub fn usable_cores() -> Option<usize> {
        Some(cores::usable().len()).filter(|cores| *cores > 0)
    }

    /// Number of workers including the caller.
    pub fn workers(&self) -> usize {
        self.cores.len() + 1
    }

    /// Calls `job` once for each share from 0 to the number of workers, and returns when all calls
    /// have returned. Each worker takes its own share first, and then those of workers that are not
    /// running; a job must not wait for another share. Makes no system call unless a worker sleeps
    /// or the caller runs on a worker's core.
    ///
    /// # Panics
    /// If `job` panics, so does this function, once all workers have stopped. The team remains
    /// usable.
    pub fn run(&mut self, job: &(dyn Fn(usize) + Sync)) {
        self.run_phases(self.workers(), 1, &|turns| {
            while let Some(turn) = turns.next() {
                job(turn.share);
            }
        });
    }

    /// Calls `job` on workers, which run each of `shares` shares of each of `phases` phases once:
    /// those of a phase after all of the phase before.
    ///
    /// # Panics
    /// As [`Team::run`].
    pub(crate) fn run_phases(
        &mut self,
        shares: usize,
        phases: u32,
        job: &(dyn Fn(&mut Turns<'_>) + Sync),
    ) {
        assert!(shares <= self.workers(), "a share for each worker");
        let is_alone = shares < 2
            || self.cores.is_empty()
            || self.contention.is_recent() && self.contention.is_alone(now());
        if is_alone {
            return job(&mut Turns { turns: Kind::Alone { shares, phases, turn: None } });
        }
        if self.generation != fork::generation() {
            self.restart();
        }
        if self.bound.contains(&cores::current().unwrap_or(usize::MAX))
            && !cores::leave(&self.bound)
        {
            self.bound.clear();
        }
        self.run_together(shares, phases, job);
    }

    fn run_together(&mut self, shares: usize, phases: u32, job: &(dyn Fn(&mut Turns<'_>) + Sync)) {
        let shared = &*self.shared;
        // SAFETY: the job outlives its use although its lifetime is erased: workers use it only
        // inside of the job, and this function returns or unwinds only after closing it.
        let job_data = unsafe {
            let job =
                std::mem::transmute::<*const (dyn Fn(&mut Turns<'_>) + Sync + '_), *const Job>(job);
            JobData { job, shares, phases, before: self.time }
        };
        // SAFETY: nothing else accesses `job`; see `SharedState`.
        unsafe { *shared.job.get() = Some(job_data) };
        let start = now();
        let number = shared.jobs.open(shares - 1, |worker| {
            if let Some(thread) = self.threads.get(worker) {
                thread.thread().unpark();
            }
        });
        let mut turns = Turns::together(shared, job_data, 0);
        let result = catch_unwind(AssertUnwindSafe(|| job(&mut turns)));
        let mut backoff = turns.into_backoff(shared.policy);
        if let Err(failure) = result {
            shared.fail(failure);
        }
        backoff.begin();
        shared.jobs.close(number, || {
            let _ = backoff.pause();
        });
        self.time = self.time.wrapping_add(phases);
        if shares < self.workers() {
            shared.shares.set(shares, self.time);
        }
        if !backoff.waited.is_zero() {
            let end = now();
            self.contention.record(end, end - start, backoff.waited, shares as u32);
        }
        if shared.has_failed.load(Ordering::Acquire) {
            shared.shares.set(0, self.time);
            shared.has_failed.store(false, Ordering::Release);
            let failure = shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
            resume_unwind(failure.unwrap_or_else(|| Box::new("a job of a team panicked")));
        }
    }

    fn start(&mut self) {
        for (index, core) in self.cores.iter().enumerate() {
            let (shared, core) = (Arc::clone(&self.shared), *core);
            let work = move || {
                core.inspect(|core| cores::bind(*core));
                shared.work(index);
            };
            let Ok(thread) = std::thread::Builder::new().spawn(work) else { return };
            self.threads.push(thread);
        }
    }

    /// Starts new threads in a child process. The handles are of threads of the parent; dropping
    /// them would detach threads that this process does not have.
    fn restart(&mut self) {
        std::mem::forget(std::mem::take(&mut self.threads));
        self.generation = fork::generation();
        self.shared = SharedState::new(self.workers(), self.shared.policy);
        (self.time, self.contention) = (0, Contention::new());
        self.start();
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            return std::mem::forget(std::mem::take(&mut self.threads));
        }
        self.shared.jobs.end();
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // Workers catch the panics of jobs.
            let _ = thread.join();
        }
    }
}

impl SharedState {
    fn new(workers: usize, policy: WaitPolicy) -> Arc<Self> {
        Arc::new(Self {
            jobs: Jobs::new(workers - 1),
            shares: Shares::new(workers),
            job: UnsafeCell::new(None),
            policy,
            has_failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        })
    }

    fn work(&self, index: usize) {
        let mut last = 0;
        loop {
            let number = self.next(index, last);
            if number == END {
                return;
            }
            last = number;
            if !self.jobs.enter(index, number) {
                continue;
            }
            // SAFETY: this worker is inside of the job, so its caller has written it and waits
            // until this worker leaves.
            let data = unsafe { *self.job.get() };
            let left = data.filter(|data| index + 1 < data.shares).and_then(|data| {
                let mut turns = Turns::together(self, data, index + 1);
                // SAFETY: as above.
                let job = unsafe { &*data.job };
                match catch_unwind(AssertUnwindSafe(|| job(&mut turns))) {
                    Ok(()) => turns.left(),
                    Err(failure) => {
                        self.fail(failure);
                        None
                    }
                }
            });
            self.jobs.leave(index);
            if left.is_some_and(|(share, time)| self.continues(number, share, time)) {
                last = 0;
            }
        }
    }

    /// Waits for a share outside of a job, so that its caller need not wait for this worker.
    /// Returns whether the job goes on.
    fn continues(&self, job: u32, share: usize, time: u32) -> bool {
        let mut backoff = Backoff::new(self.policy, true);
        while self.jobs.next(0) == Some(job) && !self.has_failed.load(Ordering::Relaxed) {
            if self.shares.is_done(share, time) {
                return true;
            }
            let _ = backoff.pause();
        }
        false
    }

    /// Waits for a job other than the last: spins, then sleeps.
    fn next(&self, index: usize, last: u32) -> u32 {
        let since = now();
        loop {
            for _ in 0..256 {
                if let Some(job) = self.jobs.next(last) {
                    return job;
                }
                std::hint::spin_loop();
            }
            if since.elapsed() > self.policy.spin {
                return self.jobs.sleep(index, last, std::thread::park);
            }
        }
    }

    /// Records the panic of a job; other workers stop at their next wait.
    fn fail(&self, failure: Box<dyn Any + Send>) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        self.has_failed.store(true, Ordering::Release);
    }
}

#[expect(clippy::disallowed_methods, reason = "how long to wait is no part of any measurement")]
fn now() -> Instant {
    Instant::now()
}

/// The shares of a job that one worker runs.
pub(crate) struct Turns<'a> {
    turns: Kind<'a>,
}

enum Kind<'a> {
    Alone { shares: usize, phases: u32, turn: Option<Turn> },
    Together { turns: protocol::Turns<'a, AtomicU32>, shared: &'a SharedState, backoff: Backoff },
}

impl<'a> Turns<'a> {
    fn together(shared: &'a SharedState, data: JobData, own: usize) -> Self {
        let turns =
            protocol::Turns::new(&shared.shares, (data.shares, own), data.before, data.phases);
        let backoff = Backoff::new(shared.policy, own == 0);
        Self { turns: Kind::Together { turns, shared, backoff } }
    }

    /// Returns the next share to run; the one returned before is done.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<Turn> {
        match &mut self.turns {
            Kind::Alone { shares, phases, turn } => {
                let next = match *turn {
                    None => Turn { phase: 0, share: 0 },
                    Some(turn) if turn.share + 1 < *shares => {
                        Turn { share: turn.share + 1, ..turn }
                    }
                    Some(turn) => Turn { phase: turn.phase + 1, share: 0 },
                };
                *turn = Some(next).filter(|turn| turn.phase < *phases);
                *turn
            }
            Kind::Together { turns, shared, backoff } => {
                let turn = turns.next(|times| {
                    if times == 0 {
                        backoff.begin();
                    }
                    if times % PATIENCE == 0 && shared.has_failed.load(Ordering::Relaxed) {
                        return Wait::Leave;
                    }
                    backoff.pause()
                });
                backoff.learn(turn.is_some_and(|turn| turn.share != turns.own()));
                turn
            }
        }
    }

    fn left(&self) -> Option<(usize, u32)> {
        match &self.turns {
            Kind::Alone { .. } => None,
            Kind::Together { turns, .. } => turns.left(),
        }
    }

    fn into_backoff(self, policy: WaitPolicy) -> Backoff {
        match self.turns {
            Kind::Alone { .. } => Backoff::new(policy, true),
            Kind::Together { backoff, .. } => backoff,
        }
    }
}

/// Waits after which a worker takes a share that is not its own: a running worker has taken its own
/// long before.
const PATIENCE: u32 = 64;
/// Waits after which a worker other than the caller leaves a job.
const LEAVE: u32 = 2048;
/// Waits between looks at the clock.
const LOOK: u32 = 4096;

/// Spins, and yields if the wait is long: with fewer free cores than workers, the awaited worker
/// may not be running.
struct Backoff {
    policy: WaitPolicy,
    /// Whether it waits without end; a worker inside of a job leaves instead.
    never_leaves: bool,
    /// Whether the last share that this worker could take was free: its worker is not running, so
    /// that patience does not pay off.
    is_eager: bool,
    /// Whether this worker may have taken a share since it learned the last time.
    has_tried: bool,
    spun: u32,
    since: Option<Instant>,
    /// Total of the waits so long that the clock was looked at.
    waited: Duration,
    /// That total before the current wait.
    before: Duration,
}

impl Backoff {
    fn new(policy: WaitPolicy, never_leaves: bool) -> Self {
        let waited = Duration::ZERO;
        Self {
            policy,
            never_leaves,
            is_eager: false,
            has_tried: false,
            spun: 0,
            since: None,
            waited,
            before: waited,
        }
    }

    fn begin(&mut self) {
        (self.spun, self.since, self.before) = (0, None, self.waited);
    }

    #[inline]
    fn pause(&mut self) -> Wait {
        std::hint::spin_loop();
        self.spun = self.spun.wrapping_add(1);
        if !self.never_leaves && self.spun > LEAVE {
            return Wait::Leave;
        }
        if self.spun.is_multiple_of(LOOK) {
            let waited = self.since.get_or_insert_with(now).elapsed();
            self.waited = self.before + waited;
            if waited > self.policy.spin.min(Duration::from_micros(200)) {
                std::thread::yield_now();
            }
        }
        if self.is_eager || self.spun.is_multiple_of(PATIENCE) {
            self.has_tried = true;
            return Wait::Take;
        }
        Wait::On
    }

    /// Records whether the last wait ended with a share of another worker.
    #[inline(always)]
    fn learn(&mut self, has_taken: bool) {
        if self.has_tried {
            (self.is_eager, self.has_tried) = (has_taken, false);
        }
    }
}
