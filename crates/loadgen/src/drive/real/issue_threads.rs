//! Registered issue threads: several threads issue Server queries, each thread every n-th query.

#[cfg(all(test, loom))]
mod models;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use super::wait::PunctualThread;
use super::{Columns, Issuer, LAST_SAMPLES, RealTime, StartedRun, slabs};
use crate::clock::Nanos;
use crate::drive::{Job, RunOutcome, ThreadReport};
use crate::session::{IssueSummary, Lane, Session, Step};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Pool of threads that the caller registers to issue queries. Threads may be registered before or
/// after a test starts, and serve one test after another.
#[derive(Default)]
pub struct IssueThreads {
    state: Mutex<PoolState>,
    changed: Condvar,
}

#[derive(Default)]
struct PoolState {
    /// One seat per registered thread, in the order of registration; `None` is a free seat.
    seats: Vec<Option<Seat>>,
    closed: bool,
}

/// Next work of a registered thread. Each lane has its own thread: a thread that has issued its
/// lane takes no other, whose queries would be late.
type Seat = Option<Work>;

impl PoolState {
    fn registered(&self) -> usize {
        self.seats.iter().flatten().count()
    }

    /// Takes the first free seat and returns its index.
    fn sit_down(&mut self) -> usize {
        let free = self.seats.iter().position(Option::is_none).unwrap_or(self.seats.len());
        self.seats.resize_with(self.seats.len().max(free + 1), || None);
        self.seats[free] = Some(None);
        free
    }
}

type Work = Box<dyn FnOnce() + Send>;

impl IssueThreads {
    /// Returns a pool without threads.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the calling thread and issues from it until [`IssueThreads::close`].
    pub fn serve(&self) {
        let mut state = self.state();
        let seat = state.sit_down();
        self.changed.notify_all();
        loop {
            match state.seats[seat].as_mut().and_then(Option::take) {
                Some(work) => {
                    drop(state);
                    work();
                    state = self.state();
                }
                // Work submitted before the close is still done.
                None if state.closed => break,
                None => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        state.seats[seat] = None;
        self.changed.notify_all();
    }

    /// Returns the number of registered threads.
    pub fn registered(&self) -> usize {
        self.state().registered()
    }

    /// Waits until `n` threads are registered, at most `timeout_ms`, and returns how many are.
    #[must_use]
    pub fn wait_for(&self, n: usize, timeout_ms: u64) -> usize {
        let timeout = std::time::Duration::from_millis(timeout_ms);
        let waited = self
            .changed
            .wait_timeout_while(self.state(), timeout, |s| s.registered() < n && !s.closed);
        waited.map_or_else(|e| e.into_inner().0.registered(), |(state, _)| state.registered())
    }

    /// Releases all threads after their current work: [`IssueThreads::serve`] returns. Later tests
    /// issue from threads of their own.
    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Submits work to thread number `thread`; returns the work if there is no such thread, or if it
    /// has not begun other work yet.
    fn submit(&self, thread: usize, work: Work) -> Result<(), Work> {
        let mut state = self.state();
        let closed = state.closed;
        let seat = state.seats.iter_mut().flatten().nth(thread);
        let Some(seat) = seat.filter(|seat| !closed && seat.is_none()) else {
            return Err(work);
        };
        *seat = Some(work);
        // Wakes all, because threads that wait for registrations use the same condition.
        self.changed.notify_all();
        Ok(())
    }
}

/// Time limit for the registration of threads, in ms, as in the reference.
const REGISTRATION_TIMEOUT_MS: u64 = 10_000;
/// Interval at which an abort is checked meanwhile, in ms.
const REGISTRATION_GLANCE_MS: u64 = 50;

/// Threads that the driver starts; dropping this ends them.
struct OwnThreads {
    pool: Arc<IssueThreads>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl OwnThreads {
    /// Starts up to `wanted` threads, as many as the operating system allows.
    fn start(wanted: u64) -> Self {
        let pool = IssueThreads::new();
        let start = |number| {
            let pool = pool.clone();
            std::thread::Builder::new()
                .name(format!("issue-{number}"))
                .spawn(move || pool.serve())
                .ok()
        };
        let threads: Vec<_> = (0..wanted).map_while(start).collect();
        while pool.wait_for(threads.len(), REGISTRATION_TIMEOUT_MS) < threads.len() {}
        Self { pool, threads }
    }

    fn count(&self) -> u64 {
        self.threads.len() as u64
    }
}

impl Drop for OwnThreads {
    fn drop(&mut self) {
        self.pool.close();
        for thread in self.threads.drain(..) {
            // The lane has caught and reported panics of the system.
            let _ = thread.join();
        }
    }
}

type LaneResult = (Vec<IssueSummary>, Vec<Columns>);

/// Plays a run of one tenant from `lanes` threads.
pub(super) fn play(
    driver: &mut RealTime,
    job: &Job<'_>,
    lanes: u64,
    generate_begin: Nanos,
) -> RunOutcome {
    let registered = registered(driver, lanes);
    // No thread was registered: the driver starts its own before the run begins, because fewer
    // than wanted may start.
    let own = (registered == 0).then(|| OwnThreads::start(lanes));
    let pool = own.as_ref().map(|own| own.pool.clone()).or(driver.issue_threads.clone());
    let threads = own.as_ref().map_or(registered, OwnThreads::count).min(lanes);
    if threads == 0 {
        // The operating system starts no further thread.
        let mismatch = Some(format!("{} The calling thread issues.", mismatch(lanes, registered)));
        let report = ThreadReport { mismatch, ends: Vec::new() };
        return driver.play_here(job, report, generate_begin);
    }
    let is_other = threads < lanes || driver.issue_threads.is_some() && registered != lanes;
    let mismatch =
        is_other.then(|| format!("{} {threads} threads issue.", mismatch(lanes, registered)));
    let sessions: Vec<Session> =
        (0..threads).map(|index| job.lane(Lane { index, lanes: threads })).collect();
    let samples = sessions.iter().map(|s| s.generated_samples(0)).sum();
    let slabs = slabs(job, &sessions[0], &[samples], driver.shards());
    driver.expect(&sessions[0]);
    let mut issuers: Vec<Issuer> =
        sessions.iter().map(|s| Issuer::new(s, job.epoch, &*driver.system)).collect();
    issuers.iter_mut().skip(1).for_each(|issuer| issuer.is_noted = false);
    let generated = (generate_begin, driver.clock.now());

    let _punctual = PunctualThread::enter();
    let mut run = StartedRun::start(driver, job, &sessions[0], slabs);
    let lanes = issue_lanes(&run, pool.as_deref(), sessions.into_iter().zip(issuers));
    let ends = lanes.iter().map(|(issued, _)| issued[0].ended).collect();
    let ((issued, columns), deadline) = merged(&lanes);
    // All issued samples, including those after a gap.
    let samples: usize = lanes.iter().map(|(_, columns)| columns[0].samples).sum();
    let ended = run.drain(samples as u64, deadline, &job.tenants[0].plan);
    let issued = IssueSummary { ended: ended.unwrap_or(issued.ended), ..issued };
    let threads = ThreadReport { mismatch, ends };
    RunOutcome { threads, ..run.finish(generated, vec![issued], vec![columns]) }
}

/// Returns what the log states on threads if the calling thread issues.
pub(super) fn report_without_lanes(driver: &mut RealTime) -> ThreadReport {
    let requested = driver.requested_threads;
    let registered = registered(driver, requested);
    let mismatch = (registered != requested).then(|| mismatch(requested, registered));
    ThreadReport { mismatch, ends: Vec::new() }
}

/// Waits until the wanted threads are registered, and returns how many are. A test waits in vain
/// once, not in each of its runs.
fn registered(driver: &mut RealTime, wanted: u64) -> u64 {
    let Some(pool) = driver.issue_threads.clone() else { return 0 };
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let glances = REGISTRATION_TIMEOUT_MS / REGISTRATION_GLANCE_MS;
    let mut remaining = if driver.waited_in_vain { 0 } else { glances };
    let mut registered = pool.registered();
    while registered < wanted && remaining > 0 && !driver.monitor.is_aborted() {
        registered = pool.wait_for(wanted, REGISTRATION_GLANCE_MS);
        remaining -= 1;
    }
    driver.waited_in_vain |= registered < wanted;
    registered as u64
}

/// Returns the reference's error.
fn mismatch(requested: u64, registered: u64) -> String {
    format!(
        "Mismatch between settings and number of registered IssueQueryThreads! \
         settings.server_num_issue_query_threads = {requested} but {registered} threads registered."
    )
}

/// Issues each lane from a thread of the pool, or from a new thread if the pool has none left. If the
/// operating system starts no thread, the calling thread issues the lane, and its lag is measured.
fn issue_lanes(
    run: &StartedRun,
    pool: Option<&IssueThreads>,
    lanes: impl Iterator<Item = (Session, Issuer)>,
) -> Vec<LaneResult> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let (mut own_threads, mut without_thread) = (Vec::new(), Vec::new());
    for (lane, (mut session, mut issuer)) in lanes.enumerate() {
        let mut lane_run = run.for_lane();
        let sender = sender.clone();
        let work = move || {
            // A panic of the system is passed on to the caller; the pool's thread continues to
            // serve.
            let issued = catch_unwind(AssertUnwindSafe(|| {
                lane_run.issue_lane(&mut session, &mut issuer);
            }));
            if issued.is_err() {
                // Stop the other lanes.
                lane_run.monitor.abort();
            }
            drop(lane_run);
            // Fails only if the test was torn down.
            let _ = sender.send((lane, issued.map(|()| (session.into_issued(), issuer.tenants))));
        };
        let work = match pool {
            Some(pool) => pool.submit(lane, Box::new(work)),
            None => Err(Box::new(work) as Work),
        };
        if let Err(work) = work {
            // A thread that cannot be started would take its work with it.
            let (hand_over, order) = std::sync::mpsc::channel::<Work>();
            let thread = move || order.into_iter().for_each(|work| work());
            match std::thread::Builder::new().spawn(thread) {
                Ok(thread) => {
                    // The thread waits for it.
                    let _ = hand_over.send(work);
                    own_threads.push(thread);
                }
                Err(_) => without_thread.push(work),
            }
        }
    }
    drop(sender);
    // After the other lanes were handed over, which begin on time.
    without_thread.into_iter().for_each(|work| work());
    let mut reported: Vec<_> = receiver.into_iter().collect();
    for thread in own_threads {
        // It has already reported, including a panic.
        let _ = thread.join();
    }
    reported.sort_unstable_by_key(|(lane, _)| *lane);
    reported
        .into_iter()
        .map(|(_, lane)| lane.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        .collect()
}

impl StartedRun {
    /// Returns a handle to this run for another issuing thread.
    fn for_lane(&self) -> Self {
        Self {
            system: self.system.clone(),
            responder: self.responder.clone(),
            waiter: self.waiter.clone(),
            monitor: self.monitor.clone(),
            announce: None,
            clock: self.clock,
            epoch: self.epoch,
            started_at: self.started_at,
            started_wall: self.started_wall,
            released: 0,
        }
    }

    /// Issues the queries of one lane. The calling thread of the test waits for the completions.
    fn issue_lane(&mut self, session: &mut Session, issuer: &mut Issuer) {
        let _punctual = PunctualThread::enter();
        if self.monitor.is_aborted() {
            session.abort();
        }
        let watches = session.watches_completions();
        let mut now = self.clock.now();
        while !session.all_issued() {
            if session.is_overdue(now) {
                self.report_lane(session, issuer, now);
            }
            match session.step(now) {
                Step::Issue(issue) => {
                    issuer.hand_over(self, &issue, now);
                    if self.monitor.is_aborted() {
                        session.abort();
                    }
                    if watches {
                        self.report_lane(session, issuer, now);
                    }
                    now = self.clock.now();
                    issuer.lag.returned(now);
                }
                Step::WaitUntil(time) => now = self.wait_until(session, time),
                Step::WaitCompletion { .. } | Step::Look { .. } | Step::Done => break,
            }
        }
    }

    /// Reports what all lanes have issued and what is complete of it, because the limits apply to all
    /// lanes together.
    fn report_lane(&self, session: &mut Session, issuer: &Issuer, now: Nanos) {
        // A single lane is not counted.
        let issued = self.monitor.issued_by_lanes();
        session.issued_elsewhere(issued.saturating_sub(issuer.tenants[0].samples as u64));
        session.completed(0, self.responder.run.slabs[0].completed(), now);
    }

    /// Flushes the system and waits until `samples` samples are complete. Returns the reason if it
    /// stopped waiting before.
    fn drain(
        &mut self,
        samples: u64,
        last_issue: Nanos,
        plan: &crate::plan::Plan,
    ) -> Option<crate::session::EndReason> {
        self.system.flush();
        let run = self.responder.run.clone();
        let (mut seen, mut progress_at) = (run.slabs[0].completed(), last_issue);
        while seen < samples {
            let limit = plan.response_deadline;
            let until = (limit > 0).then_some(progress_at.saturating_add(limit));
            if samples - seen > LAST_SAMPLES {
                self.waiter.nap(until);
            } else {
                self.waiter.completion(
                    until,
                    || run.slabs[0].completed() != seen,
                    || run.announce_park(),
                    || run.withdraw_park(),
                );
            }
            let (now, complete) = (self.clock.now(), run.slabs[0].completed());
            if complete != seen {
                (seen, progress_at) = (complete, now);
            } else if until.is_some_and(|until| now >= until) {
                return Some(crate::session::EndReason::Deadline { missing: samples - seen });
            }
            if self.monitor.is_aborted() {
                return Some(crate::session::EndReason::Aborted);
            }
        }
        None
    }
}

/// Merges the queries of all lanes in their order; also returns the time of the last issue.
///
/// Lanes that ended at different queries leave gaps. The result ends before the first gap.
fn merged(lanes: &[LaneResult]) -> ((IssueSummary, Columns), Nanos) {
    let count = lanes.len();
    let per_lane = |lane: usize| lanes[lane].0[0].queries;
    let queries = (0..count).map(|lane| per_lane(lane) * count + lane).min().unwrap_or(0);
    let mut columns = Columns { samples: queries, ..Columns::default() };
    let (mut scheduled_at, mut indices) = (Vec::new(), Vec::new());
    for query in 0..queries {
        let ((issued, noted), at) = (&lanes[query % count], query / count);
        scheduled_at.push(issued[0].scheduled_at[at]);
        indices.push(issued[0].indices[at]);
        columns.issued_at.push(noted[0].issued_at[at]);
        columns.client_lag.push(noted[0].client_lag[at]);
    }
    let last_issue = columns.issued_at.iter().copied().max().unwrap_or(0);
    let first = &lanes[0].0[0];
    // The reason of the first lane that ended early counts.
    let ended = lanes
        .iter()
        .map(|lane| lane.0[0].ended)
        .find(|e| !matches!(e, crate::session::EndReason::TraceIssued));
    let issued = IssueSummary {
        ended: ended.unwrap_or(first.ended),
        generated: first.generated,
        scheduled_at,
        indices,
        samples_per_query: 1,
        queries,
        sessions: None,
    };
    ((issued, columns), last_issue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_one_run_does_not_replace_work_of_another() {
        let pool = IssueThreads::new();
        // A thread that is registered and has not looked for work yet.
        pool.state().sit_down();
        let (sender, done) = std::sync::mpsc::channel();
        let work = |number: u32| -> Work {
            let sender = sender.clone();
            Box::new(move || sender.send(number).expect("the test listens"))
        };
        assert!(pool.submit(0, work(1)).is_ok());
        let returned = pool.submit(0, work(2)).expect_err("the thread has work");
        returned();
        assert_eq!(done.try_recv(), Ok(2));
        assert!(pool.submit(1, work(3)).is_err(), "there is no such thread");
    }
}
