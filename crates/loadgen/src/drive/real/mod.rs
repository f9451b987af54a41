//! The driver in real time: issuing threads, waiting, and monitoring.

mod issue_threads;
mod issuer;
mod lag;
#[cfg(all(test, loom))]
mod models;
mod monitor;
mod start;
mod wait;

use std::sync::Arc;

pub use issue_threads::IssueThreads;
pub use monitor::{Monitor, RunObserver};
pub use start::StartGate;
pub use wait::WaitStrategy;

pub use crate::sut::{AnswerWindow, FIRST_ANSWERS, LAST_ANSWERS, MassFailure, Responder};

use issuer::{Columns, Issuer};
use monitor::{Shape, WatchedRun};
use wait::{PunctualThread, Waiter};

use super::{Driver, Job, Process, RunOutcome, TenantOutcome, ThreadReport, look};
use crate::clock::{Clock, Nanos, WallTime};
use crate::early_stopping::Look;
use crate::plan::Load;
use crate::record::Record;
use crate::session::{IssueSummary, Session, Step};
use crate::sut::{Notes, RunState, Slab, SystemUnderTest, next_epoch};

/// Maximum number of shards that completing threads are spread over.
const MOST_SHARDS: usize = 16;

/// Plays sessions against a [`SystemUnderTest`] in real time.
///
/// ```
/// use std::sync::Arc;
///
/// use dyno_loadgen::drive::Driver;
/// use dyno_loadgen::drive::real::{RealTime, WaitStrategy};
/// use dyno_loadgen::sut::{QuerySample, Responder, Response, SystemUnderTest};
///
/// struct Echo;
///
/// impl SystemUnderTest for Echo {
///     fn name(&self) -> &str {
///         "echo"
///     }
///     fn issue(&self, samples: &[QuerySample], responder: &Responder) {
///         samples.iter().for_each(|sample| responder.complete(&[Response::empty(sample.id)]));
///     }
/// }
///
/// let driver = RealTime::new(Arc::new(Echo)).waiting(WaitStrategy::Sleep);
/// assert_eq!(driver.system_name(), "echo");
/// ```
pub struct RealTime {
    system: Arc<dyn SystemUnderTest>,
    waiting: WaitStrategy,
    clock: Clock,
    /// Cores that this process may use. Cached, because the query takes a tenth of a millisecond.
    cores: usize,
    issue_threads: Option<Arc<IssueThreads>>,
    /// Issue threads that the settings of a process-wide interface request, in every scenario.
    requested_threads: u64,
    /// Whether this test waited for threads that were never registered.
    waited_in_vain: bool,
    announce: Option<RunAnnouncer>,
    start: Option<StartGate>,
    monitor: Monitor,
}

/// Callback that receives the responder of each run when it begins, and `None` when it is over.
pub type RunAnnouncer = Arc<dyn Fn(Option<&Responder>) + Send + Sync>;

impl RealTime {
    /// Returns a driver that issues from the thread that calls [`Driver::play`].
    pub fn new(system: Arc<dyn SystemUnderTest>) -> Self {
        Self {
            system,
            waiting: WaitStrategy::Auto,
            clock: Clock::start(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            issue_threads: None,
            requested_threads: 0,
            waited_in_vain: false,
            announce: None,
            start: None,
            monitor: Monitor::default(),
        }
    }

    /// Sets how the issuing thread waits.
    #[must_use]
    pub fn waiting(mut self, waiting: WaitStrategy) -> Self {
        self.waiting = waiting;
        self
    }

    /// Sets the threads that issue instead of the calling one, if the plan has issue threads.
    #[must_use]
    pub fn issue_threads(mut self, threads: Arc<IssueThreads>) -> Self {
        self.issue_threads = Some(threads);
        self
    }

    /// Sets how many registered threads the settings request. If the calling thread issues and
    /// another number is registered, the log has the reference's error.
    #[must_use]
    pub fn requested_threads(mut self, threads: u64) -> Self {
        self.requested_threads = threads;
        self
    }

    /// Sets a callback that is called with the responder of each run, on the thread that plays it:
    /// for systems whose threads do not receive the responder otherwise. The callback should drop
    /// its responder when the run is over; otherwise the stamps of the run must be copied.
    #[must_use]
    pub fn announce(mut self, announcer: RunAnnouncer) -> Self {
        self.announce = Some(announcer);
        self
    }

    /// Passes the number of samples in flight to the system.
    fn expect(&self, session: &Session) {
        let in_flight = (0..session.tenant_count()).map(|tenant| session.in_flight(tenant));
        self.system.expect(&in_flight.collect::<Vec<_>>());
    }

    fn shards(&self) -> usize {
        self.cores.next_power_of_two().min(MOST_SHARDS)
    }

    /// Returns a handle to observe and to abort the test from another thread.
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }
}

impl Driver for RealTime {
    fn epoch(&mut self, _run: u32) -> u16 {
        next_epoch()
    }

    fn system_name(&self) -> String {
        self.system.name().to_string()
    }

    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn wall_now(&self) -> WallTime {
        WallTime::now()
    }

    fn process(&self) -> Process {
        #[cfg(target_os = "linux")]
        let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        #[cfg(not(target_os = "linux"))]
        let tid = std::process::id();
        Process { pid: std::process::id(), tid }
    }

    fn aborted(&self) -> bool {
        self.monitor.is_aborted()
    }

    fn play(&mut self, job: &Job<'_>) -> RunOutcome {
        let generate_begin = self.clock.now();
        let lanes = issuing_threads(job);
        if lanes > 1 || (lanes == 1 && self.issue_threads.is_some()) {
            return issue_threads::play(self, job, lanes, generate_begin);
        }
        let threads = issue_threads::report_without_lanes(self);
        self.play_here(job, threads, generate_begin)
    }
}

impl RealTime {
    /// Plays a run from the calling thread.
    fn play_here(
        &mut self,
        job: &Job<'_>,
        threads: ThreadReport,
        generate_begin: Nanos,
    ) -> RunOutcome {
        let mut session = job.session();
        let samples: Vec<usize> =
            (0..session.tenant_count()).map(|t| session.generated_samples(t)).collect();
        let slabs = slabs(job, &session, &samples, self.shards());
        self.expect(&session);
        let mut issuer = Issuer::new(&session, job.epoch, &*self.system);
        let generated = (generate_begin, self.clock.now());

        let _punctual = PunctualThread::enter();
        let mut run = StartedRun::start(self, job, &session, slabs);
        run.issue_all(&mut session, &mut issuer);
        let outcome = run.finish(generated, session.into_issued(), issuer.tenants);
        RunOutcome { threads, ..outcome }
    }
}

/// Returns the number of issuing threads in the plan; 0 means the calling thread.
fn issuing_threads(job: &Job<'_>) -> u64 {
    match (&job.tenants[..], job.tenants.first().map(|t| &t.plan.load)) {
        ([_], Some(Load::Server(server))) => server.issue_threads,
        _ => 0,
    }
}

/// Returns the slabs of all tenants. `samples` has the samples of all lanes per tenant; `session`
/// is one of the lanes.
fn slabs(job: &Job<'_>, session: &Session, samples: &[usize], shards: usize) -> Box<[Slab]> {
    let slab = |(tenant, &samples): (usize, &usize)| {
        let kept = job.response_filter(tenant, &session.numbering(tenant), samples);
        let plan = &job.tenants[tenant].plan;
        // Only queries of one sample are excluded from the record.
        let ramp = if session.samples_per_query(tenant) == 1 { plan.ramp } else { 0 };
        Slab::new(samples, plan.measures_tokens(), kept, shards).with_ramp(ramp)
    };
    samples.iter().enumerate().map(slab).collect()
}

/// A run whose clock has started.
struct StartedRun {
    system: Arc<dyn SystemUnderTest>,
    responder: Responder,
    waiter: Waiter,
    monitor: Monitor,
    announce: Option<RunAnnouncer>,
    clock: Clock,
    epoch: u16,
    started_at: Nanos,
    started_wall: WallTime,
    /// Released turns that the session has seen.
    released: u64,
}

impl StartedRun {
    /// Starts the clock of a run. `session` is that of the thread that writes notes for observers.
    fn start(driver: &RealTime, job: &Job<'_>, session: &Session, slabs: Box<[Slab]>) -> Self {
        let monitor = driver.monitor.clone();
        let system = driver.system.clone();
        let tenants = 0..session.tenant_count();
        let notes = if monitor.is_looked_at() {
            let queries = tenants.clone().map(|t| session.generated_queries(t)).sum::<usize>();
            Notes::expecting(queries as u64)
        } else {
            Notes::none()
        };
        let shapes = tenants.map(|tenant| Shape {
            samples_per_query: session.samples_per_query(tenant) as u64,
            is_offline: matches!(session.plan(tenant).load, Load::Offline),
        });
        let shapes = shapes.collect();
        let started_at = driver.begin();
        let started_wall = WallTime::now();
        let clock = driver.clock.shifted(started_at);
        let run = RunState::new(clock, job.epoch, slabs, monitor.control(), notes, driver.shards());
        let responder = Responder { run: Arc::new(run) };
        let (to_watch, epoch) = (responder.clone(), job.epoch);
        monitor.watch(Some(WatchedRun { responder: to_watch, epoch, shapes }));
        if let Some(announce) = &driver.announce {
            announce(Some(&responder));
        }
        let waiter = Waiter::new(clock, driver.waiting, driver.cores);
        Self {
            system,
            responder,
            waiter,
            monitor,
            announce: driver.announce.clone(),
            clock,
            epoch: job.epoch,
            started_at,
            started_wall,
            released: 0,
        }
    }

    /// Reports completions and released turns to the session and returns the time after that.
    ///
    /// The clock is read after the count: a query that waited for a completion must not be issued at
    /// a time before it.
    fn report_completions(&mut self, session: &mut Session) -> Nanos {
        let mut now = 0;
        let released = self.responder.run.released();
        let has_released = std::mem::replace(&mut self.released, released) != released;
        for (tenant, slab) in self.responder.run.slabs.iter().enumerate() {
            let completed = slab.completed();
            now = self.clock.now();
            session.settle(tenant, completed, has_released, |sample| slab.settled(sample));
            session.completed(tenant, completed, now);
        }
        now
    }

    /// Steps the session until it is done.
    fn issue_all(&mut self, session: &mut Session, issuer: &mut Issuer) {
        let watches = session.watches_completions();
        let mut flushed = false;
        if self.monitor.is_aborted() {
            session.abort();
        }
        let mut now = self.clock.now();
        loop {
            if session.is_overdue(now) {
                now = self.report_completions(session);
            }
            match session.step(now) {
                Step::Issue(issue) => {
                    // A run that extends itself issues again after a flush.
                    flushed = false;
                    issuer.hand_over(self, &issue, now);
                    if self.monitor.is_aborted() {
                        session.abort();
                    }
                    now = if watches { self.report_completions(session) } else { self.clock.now() };
                    issuer.lag.returned(now);
                }
                Step::WaitUntil(time) => {
                    if let Some(next) = session.upcoming() {
                        issuer.prepare(self, &next);
                    }
                    if session.has_deadlines() {
                        self.report_completions(session);
                    }
                    now = self.wait_until(session, time);
                }
                Step::WaitCompletion { until } => {
                    if !flushed && session.all_issued() {
                        flushed = true;
                        self.system.flush();
                    }
                    now = self.wait_completion(session, until);
                }
                Step::Look { tenant } => {
                    let look = self.look(session, issuer, tenant);
                    now = self.clock.now();
                    session.looked(tenant, look, now);
                    issuer.lag.returned(now);
                }
                Step::Done => break,
            }
        }
        if !flushed {
            self.system.flush();
        }
    }

    /// Waits for the time of the next query, in steps short enough to notice an abort.
    fn wait_until(&mut self, session: &mut Session, time: Nanos) -> Nanos {
        let now = self.clock.now();
        if self.monitor.is_aborted() {
            session.abort();
            return now;
        }
        self.waiter.towards(time.min(now + ABORT_NOTICED_WITHIN))
    }

    fn wait_completion(&mut self, session: &mut Session, until: Option<Nanos>) -> Nanos {
        let run = &self.responder.run;
        let before = session.completed_samples();
        let completed = || run.slabs.iter().map(Slab::completed).sum::<u64>();
        let released = self.released;
        let issued = run.slabs.iter().map(Slab::issued).sum::<u64>();
        if session.all_issued() && issued - before > LAST_SAMPLES {
            self.waiter.nap(until);
        } else {
            self.waiter.completion(
                until,
                || completed() != before || run.released() != released,
                || run.announce_park(),
                || run.withdraw_park(),
            );
        }
        if self.monitor.is_aborted() {
            session.abort();
        }
        self.report_completions(session)
    }

    fn look(&self, session: &Session, issuer: &Issuer, tenant: usize) -> Look {
        let columns = &issuer.tenants[tenant];
        let slab = &self.responder.run.slabs[tenant];
        let record = Record {
            samples_per_query: 1,
            scheduled_at: session.scheduled(tenant).to_vec(),
            issued_at: columns.issued_at.clone(),
            completed_at: slab.completed_at(columns.samples),
            first_token_at: slab.first_token_at(columns.samples),
            tokens: slab.token_counts(columns.samples),
            timed_tokens: slab.timed_tokens_of(columns.samples),
            // Read after the stamps, so that every stamped failure is included.
            failed: slab.failed(),
            ..Record::default()
        };
        look(&record, session.plan(tenant), self.clock.now())
    }

    fn finish(
        self,
        generated: (Nanos, Nanos),
        issued: Vec<IssueSummary>,
        columns: Vec<Columns>,
    ) -> RunOutcome {
        let finished_at = self.started_at + self.clock.now();
        self.system.end_run();
        self.monitor.watch(None);
        if let Some(announce) = &self.announce {
            announce(None);
        }
        let samples = columns.iter().map(|columns| columns.samples);
        let (stamps, mut misuse, has_times): (Vec<_>, _, _) =
            match Arc::try_unwrap(self.responder.run) {
                Ok(run) => {
                    let slabs = run.slabs.into_vec().into_iter().zip(samples);
                    let stamps = slabs.map(|(slab, samples)| slab.into_stamps(samples)).collect();
                    (stamps, run.misuse.total(), run.misuse.has_times())
                }
                // The system keeps a responder, and may still complete samples. What explains a
                // stamp is read after it.
                Err(run) => {
                    let slabs = run.slabs.iter().zip(samples);
                    let stamps = slabs.map(|(slab, samples)| slab.stamps(samples)).collect();
                    (stamps, run.misuse.total(), run.misuse.has_times())
                }
            };
        let mut tenants = Vec::new();
        for ((issued, columns), stamps) in issued.into_iter().zip(columns).zip(stamps) {
            let (ended, generated) = (issued.ended, issued.generated);
            let mut record = Record {
                samples_per_query: issued.samples_per_query,
                scheduled_at: issued.scheduled_at,
                issued_at: columns.issued_at,
                client_lag: columns.client_lag,
                indices: issued.indices,
                completed_at: stamps.completed_at,
                first_token_at: stamps.first_token_at,
                tokens: stamps.tokens,
                timed_tokens: stamps.timed_tokens,
                failed: stamps.failed,
                misuse: stamps.misuse,
                responses: stamps.responses,
                sessions: issued.sessions,
                ..Record::default()
            };
            if has_times {
                record.clamp_to_issue();
            }
            // Ids that belong to no tenant of this run are reported once.
            record.misuse.add(std::mem::take(&mut misuse));
            tenants.push(TenantOutcome { ended, generated, record });
        }
        RunOutcome {
            tenants,
            generated,
            started_at: self.started_at,
            started_wall: self.started_wall,
            finished_at,
            error: None,
            threads: ThreadReport::default(),
        }
    }
}

/// When all queries are issued and more samples than this are outstanding, the issuing thread
/// polls. Following each completion would slow the system down: counters would move between
/// cores, or system calls would wake a parked thread.
const LAST_SAMPLES: u64 = 64;

/// Maximum time in which a waiting issuing thread notices an abort, in ns.
const ABORT_NOTICED_WITHIN: Nanos = 50_000_000;
