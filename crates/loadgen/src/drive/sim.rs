//! The driver in virtual time: an event loop that jumps from one event to the next. Equal seeds
//! give byte-identical logs.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::glance::{ChosenQuery, FollowedQueries};
use super::{Driver, Glance, Job, Process, RunOutcome, TenantOutcome, ThreadReport, look};
use crate::clock::{Nanos, WallTime};
use crate::plan::Load;
use crate::record::{LoggedResponse, Misuse, Outcome, Record};
use crate::rng::split_mix_at;
use crate::session::{Issue, IssueSummary, Session, Step};
use crate::sut::{
    CHOSEN_AT_ONCE, ResponseId, SettledSample, SimulatedCompletion, SimulatedQuery, SimulatedSystem,
};
use crate::trace::ResponseFilter;

/// Plays sessions against a [`SimulatedSystem`] in virtual time.
pub struct VirtualTime<'a> {
    system: &'a mut dyn SimulatedSystem,
    /// Virtual time of the whole test, over all its runs.
    elapsed: Nanos,
    origin: WallTime,
    observer: Option<&'a mut SimObserver<'a>>,
    is_aborted: bool,
}

/// Callback that is called every few thousand events of a run, on the thread that plays it.
/// Returning `Break` ends the test.
pub type SimObserver<'a> = dyn FnMut(&mut View<'_>) -> ControlFlow<()> + 'a;

/// State of a run in virtual time, as passed to its observer.
pub struct View<'a> {
    run: &'a SimulatedRun,
    session: &'a Session,
    follows: &'a mut FollowedQueries,
    /// Per tenant: queries covered by earlier glances.
    seen: &'a mut [usize],
    now: Nanos,
}

impl<'a> VirtualTime<'a> {
    /// Returns a driver whose test begins at this wall-clock time. Nothing in a simulated test
    /// depends on the real time.
    pub fn new(system: &'a mut dyn SimulatedSystem, origin: WallTime) -> Self {
        Self { system, elapsed: 0, origin, observer: None, is_aborted: false }
    }

    /// Sets an observer that is called every few thousand events. It cannot change results except
    /// by ending the test.
    #[must_use]
    pub fn observer(mut self, observer: &'a mut SimObserver<'a>) -> Self {
        self.observer = Some(observer);
        self
    }
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("now", &self.now).finish_non_exhaustive()
    }
}

impl View<'_> {
    /// Returns the time since the start of the run, ns.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Returns counts, and the latencies of answered queries: between two glances, of one random query
    /// in each of about a thousand equal stretches.
    pub fn glance(&mut self) -> Glance {
        let Self { run, session, now, .. } = *self;
        let mut glance = Glance { epoch: run.epoch, now, ..Glance::default() };
        for (tenant, columns) in run.tenants.iter().enumerate() {
            let record = &columns.record;
            let issued = record.issued_at.len();
            glance.issued_queries += issued as u64;
            glance.issued_samples += record.completed_at.len() as u64;
            glance.completed_samples += columns.completed;
            glance.failed_samples += record.failed.len() as u64;
            let samples = session.samples_per_query(tenant) as u64;
            let from = std::mem::replace(&mut self.seen[tenant], issued);
            if matches!(session.plan(tenant).load, Load::Offline) {
                if from < issued {
                    self.follows.follow_samples(tenant, samples);
                }
                continue;
            }
            let due = match session.scheduled(tenant) {
                [] => &record.issued_at,
                scheduled => scheduled,
            };
            let every = ((issued - from) as u64).div_ceil(CHOSEN_AT_ONCE).max(1);
            for begin in (from..issued).step_by(every as usize) {
                let length = every.min((issued - begin) as u64);
                let query = begin + (split_mix_at(begin as u64) % length) as usize;
                self.follows.follow(ChosenQuery {
                    tenant,
                    first: query as u64 * samples,
                    samples,
                    due: due[query],
                    client_lag: None,
                    stands_for: length,
                });
            }
        }
        let stamp = |column: &[Nanos], sample: u64| {
            let stamp = usize::try_from(sample).ok().and_then(|at| column.get(at).copied());
            stamp.filter(|&at| at != 0)
        };
        let record = |tenant: usize| &run.tenants[tenant].record;
        self.follows.settle(
            &mut glance,
            |tenant, sample| stamp(&record(tenant).completed_at, sample),
            |tenant, sample| stamp(&record(tenant).first_token_at, sample),
        );
        glance
    }
}

impl Driver for VirtualTime<'_> {
    fn system_name(&self) -> String {
        self.system.name().to_string()
    }

    fn now(&self) -> Nanos {
        self.elapsed
    }

    fn wall_now(&self) -> WallTime {
        WallTime { unix_ns: self.origin.unix_ns + self.elapsed }
    }

    fn process(&self) -> Process {
        Process::default()
    }

    fn aborted(&self) -> bool {
        self.is_aborted
    }

    fn play(&mut self, job: &Job<'_>) -> RunOutcome {
        let started_at = self.elapsed;
        let started_wall = self.wall_now();
        let mut session = job.session();
        let mut run = SimulatedRun::new(job, &session, started_at);
        let mut watch = self.observer.as_deref_mut().map(|observer| Watch {
            observer,
            follows: FollowedQueries::default(),
            seen: vec![0; job.tenants.len()],
            looks_at: 0,
        });
        let (finished, end) = run.play(&mut session, self.system, &mut watch);
        self.is_aborted |= end.is_break();
        self.elapsed += finished;
        // Ids that belong to no tenant of this run are reported once.
        run.tenants[0].record.misuse.add(run.foreign);
        let issued = session.into_issued();
        let tenants =
            issued.into_iter().zip(run.tenants).map(|(issued, columns)| columns.finish(issued));
        RunOutcome {
            tenants: tenants.collect(),
            generated: (started_at, started_at),
            started_at,
            started_wall,
            finished_at: self.elapsed,
            error: None,
            threads: ThreadReport::default(),
        }
    }
}

/// Columns of one tenant during a run.
struct Columns {
    record: Record,
    filter: ResponseFilter,
    completed: u64,
    tokens: bool,
    /// Whether it plays sessions of tasks.
    has_tasks: bool,
    /// Samples whose answers ask for a further turn of their task.
    continuing: HashSet<u64>,
}

/// Observer of one run, and its state.
struct Watch<'w, 'o> {
    observer: &'w mut SimObserver<'o>,
    follows: FollowedQueries,
    seen: Vec<usize>,
    /// Number of events after which the observer is called next.
    looks_at: u64,
}

/// Events between two calls of an observer. They take a fraction of a millisecond of real time.
const EVENTS_BETWEEN_LOOKS: u64 = 4_096;

impl Watch<'_, '_> {
    fn look(&mut self, run: &SimulatedRun, session: &Session, now: Nanos) -> ControlFlow<()> {
        self.looks_at = run.events + EVENTS_BETWEEN_LOOKS;
        let (follows, seen) = (&mut self.follows, &mut self.seen[..]);
        (self.observer)(&mut View { run, session, follows, seen, now })
    }
}

struct SimulatedRun {
    tenants: Vec<Columns>,
    /// Queries issued and events of the system.
    events: u64,
    epoch: u16,
    /// Time of the test at the start of the run. Sessions count time from the start of their run;
    /// systems count from the start of the test, because work left over from an earlier run delays
    /// this one.
    base: Nanos,
    /// Completions of one event; reused to avoid allocations.
    completions: Vec<SimulatedCompletion>,
    /// Answer to one sample; reused to avoid allocations.
    answer: Vec<u8>,
    foreign: Misuse,
}

impl SimulatedRun {
    fn new(job: &Job<'_>, session: &Session, base: Nanos) -> Self {
        let columns = |(at, tenant): (usize, &super::JobTenant<'_>)| Columns {
            record: Record {
                issued_at: Vec::with_capacity(session.generated_queries(at)),
                completed_at: Vec::with_capacity(session.generated_samples(at)),
                ..Record::default()
            },
            filter: job.response_filter(at, &session.numbering(at), session.generated_samples(at)),
            completed: 0,
            tokens: tenant.plan.measures_tokens(),
            has_tasks: tenant.plan.steps > 1,
            continuing: HashSet::new(),
        };
        Self {
            tenants: job.tenants.iter().enumerate().map(columns).collect(),
            events: 0,
            epoch: job.epoch,
            base,
            completions: Vec::new(),
            answer: Vec::new(),
            foreign: Misuse::default(),
        }
    }

    /// Plays the run to its end; returns the end time and whether the observer ended it.
    fn play(
        &mut self,
        session: &mut Session,
        system: &mut dyn SimulatedSystem,
        watch: &mut Option<Watch<'_, '_>>,
    ) -> (Nanos, ControlFlow<()>) {
        let watches = session.watches_completions();
        let mut now = 0;
        let mut flushed = false;
        let mut end = ControlFlow::Continue(());
        loop {
            if let Some(watch) = watch.as_mut().filter(|watch| self.events >= watch.looks_at)
                && watch.look(self, session, now).is_break()
            {
                end = ControlFlow::Break(());
                session.abort();
            }
            match session.step(now) {
                Step::Issue(issue) => {
                    // A run that extends itself issues again after a flush.
                    flushed = false;
                    self.issue(&issue, now, system);
                }
                Step::WaitUntil(time) => {
                    // Process all events up to the due time: a query comes after the events of
                    // the same instant.
                    while let Some(at) = self.next_event(system).filter(|&at| at <= time) {
                        now = now.max(at);
                        self.advance(now, system);
                    }
                    self.report(session, now);
                    now = time;
                }
                Step::WaitCompletion { until } => {
                    if !flushed && session.all_issued() {
                        flushed = true;
                        system.flush(self.base + now);
                    }
                    match (self.next_event(system), until) {
                        (Some(at), until) if until.is_none_or(|until| at <= until) => {
                            now = now.max(at);
                            self.advance(now, system);
                        }
                        (_, Some(until)) => now = until,
                        // No event will ever come: outstanding samples are missing.
                        (_, None) => session.give_up(),
                    }
                    self.report(session, now);
                }
                Step::Look { tenant } => {
                    let mut record = self.tenants[tenant].record.clone();
                    record.samples_per_query = 1;
                    record.scheduled_at = session.scheduled(tenant).to_vec();
                    let verdict = look(&record, session.plan(tenant), now);
                    session.looked(tenant, verdict, now);
                }
                Step::Done => break,
            }
            if watches {
                self.report(session, now);
            }
        }
        if !flushed {
            system.flush(self.base + now);
        }
        (now, end)
    }

    /// Returns when the next event of the system is, in time of the run.
    #[inline]
    fn next_event(&self, system: &dyn SimulatedSystem) -> Option<Nanos> {
        system.next_event().map(|at| at.saturating_sub(self.base))
    }

    #[inline]
    fn issue(&mut self, issue: &Issue<'_>, now: Nanos, system: &mut dyn SimulatedSystem) {
        self.events += 1;
        let columns = &mut self.tenants[issue.tenant];
        let record = &mut columns.record;
        let first = record.completed_at.len() as u64;
        record.issued_at.resize(record.issued_at.len() + issue.queries, now);
        record.completed_at.resize(record.completed_at.len() + issue.indices.len(), 0);
        if columns.tokens {
            record.first_token_at.resize(record.completed_at.len(), 0);
            record.tokens.resize(record.completed_at.len(), 0);
        }
        let first = ResponseId::new(self.epoch, issue.tenant as u8, first);
        let query = SimulatedQuery { tenant: issue.tenant, first, indices: issue.indices };
        system.issue(self.base + now, &query);
    }

    #[inline]
    fn advance(&mut self, now: Nanos, system: &mut dyn SimulatedSystem) {
        self.events += 1;
        system.advance(self.base + now, &mut self.completions);
        let mut completions = std::mem::take(&mut self.completions);
        for completion in completions.drain(..) {
            self.complete(&completion, now, system);
        }
        self.completions = completions;
    }

    #[inline]
    fn complete(
        &mut self,
        completion: &SimulatedCompletion,
        now: Nanos,
        system: &dyn SimulatedSystem,
    ) {
        let id = completion.id;
        let mine = ResponseId::new(self.epoch, id.tenant(), 0).run() == id.run();
        let (tenant, base) = (usize::from(id.tenant()), self.base);
        let Some(columns) = self.tenants.get_mut(tenant).filter(|_| mine) else {
            let own = ResponseId::new(self.epoch, 0, 0).run();
            let stale = id.run() < own && id.0 != 0;
            let counter = if stale { &mut self.foreign.stale } else { &mut self.foreign.unknown };
            *counter += 1;
            return;
        };
        let (record, sequence) = (&mut columns.record, id.sequence());
        let sample = usize::try_from(sequence).unwrap_or(usize::MAX);
        let Some(stamp) = record.completed_at.get_mut(sample) else {
            record.misuse.unknown += 1;
            return;
        };
        if *stamp != 0 {
            record.misuse.duplicate += 1;
            return;
        }
        *stamp = now.max(1);
        columns.completed += 1;
        match completion.outcome {
            Outcome::Failed(why) => record.failed.push((sequence, why)),
            Outcome::Ok { tokens } => {
                if columns.has_tasks && system.continues_task(id) {
                    columns.continuing.insert(sequence);
                }
                if columns.tokens {
                    record.tokens[sample] = tokens;
                    record.first_token_at[sample] =
                        completion.first_token_at.map_or(0, |at| at.saturating_sub(base));
                }
                if columns.filter.keeps(sequence) {
                    self.answer.clear();
                    system.answer(id, &mut self.answer);
                    let length = self.answer.len();
                    if columns.tokens {
                        system.first_tokens(id, &mut self.answer);
                    }
                    let (data, first) = self.answer.split_at(length);
                    let first_token = columns.tokens.then_some(first);
                    let response = LoggedResponse { sequence, data, first_token, tokens };
                    record.responses.push(&response);
                }
            }
        }
    }

    fn report(&self, session: &mut Session, now: Nanos) {
        for (tenant, columns) in self.tenants.iter().enumerate() {
            session.settle(tenant, columns.completed, false, |sample| columns.settled(sample));
            session.completed(tenant, columns.completed, now);
        }
    }
}

impl Columns {
    /// Returns how a sample ended; `None` while it is outstanding.
    fn settled(&self, sample: u64) -> Option<SettledSample> {
        let at = usize::try_from(sample).ok().and_then(|at| self.record.completed_at.get(at))?;
        let is_failed = || self.record.failed.iter().rev().any(|(failed, _)| *failed == sample);
        let continues = || self.continuing.contains(&sample);
        let settled = || SettledSample { at: *at, is_failed: is_failed(), continues: continues() };
        (*at != 0).then(settled)
    }

    fn finish(self, issued: IssueSummary) -> TenantOutcome {
        let record = Record {
            samples_per_query: issued.samples_per_query,
            // Virtual time has no client that could lag.
            client_lag: vec![0; issued.scheduled_at.len()],
            scheduled_at: issued.scheduled_at,
            indices: issued.indices,
            sessions: issued.sessions,
            ..self.record
        };
        TenantOutcome { ended: issued.ended, generated: issued.generated, record }
    }
}
