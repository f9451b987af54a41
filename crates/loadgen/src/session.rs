//! When which query is issued: every scenario as one state machine without
//! threads, clocks or sockets.
//!
//! A driver calls [`Session::step`] with the time and does what it says; it
//! reports completions as counts. Times are ns since the start of the run.
//!
//! A session holds one or more tenants, each with its own plan and trace. They
//! share nothing but the system under test and the time.

use std::sync::Arc;

use crate::clock::Nanos;
use crate::drive::criterion;
use crate::early_stopping::{self, Look};
use crate::plan::{Load, Plan};
use crate::qsl::SampleIndex;
use crate::settings::{Arrivals, EarlyStopping, Scenario};
use crate::trace::{Generated, LoadedSet, Trace};

/// What the driver does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Hand this to the system now, then step again.
    Issue(Issue<'a>),
    /// Step again at this time; completions change nothing before.
    WaitUntil(Nanos),
    /// Step again when something is complete, or at this time at the latest.
    WaitCompletion {
        /// The latest time, if there is one.
        until: Option<Nanos>,
    },
    /// Look at this tenant's latencies so far and answer with [`Session::looked`].
    Look {
        /// Which tenant.
        tenant: usize,
    },
    /// Every tenant is done.
    Done,
}

/// One call to the system: one query, or several that were due when coalescing.
///
/// Query `i` of it has the sequence number `first_query + i * stride`; its
/// samples are numbered on from `(first_query + i * stride) * samples_per_query`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issue<'a> {
    /// Whose it is.
    pub tenant: usize,
    /// Sequence number of the first query in the run.
    pub first_query: u64,
    /// Distance of the sequence numbers; 1 unless several threads issue.
    pub stride: u64,
    /// Number of queries (>= 1).
    pub queries: usize,
    /// When each query was due. Empty where a query is due when it is issued.
    pub scheduled: &'a [Nanos],
    /// The samples of all queries, in order.
    pub indices: &'a [SampleIndex],
}

/// Why a run stopped issuing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every query of the trace was issued (Server, Offline and accuracy runs
    /// end so).
    TraceIssued,
    /// The minimum of queries and of time was reached (SingleStream,
    /// MultiStream, fixed concurrency, Offline performance).
    Naturally,
    /// The generated queries ran out before the minimum duration was reached.
    RanOut,
    /// `max_query_count` queries were issued.
    MaxQueryCount {
        /// Queries issued.
        issued: u64,
    },
    /// `max_duration` was over.
    MaxDuration {
        /// Time of the last issue.
        at: Nanos,
    },
    /// More than `max_async_queries` were outstanding.
    TooManyOutstanding {
        /// Queries issued.
        issued: u64,
        /// Queries outstanding.
        outstanding: u64,
    },
    /// Nothing completed for `response_deadline`.
    Deadline {
        /// Samples that were not complete.
        missing: u64,
    },
    /// Somebody asked for it.
    Aborted,
}

/// What a tenant issued, once the session is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    /// Why it stopped.
    pub ended: Ended,
    /// What its trace came to, as generated before the run.
    pub generated: Generated,
    /// Per query: when it was due. Empty where a query is due when it is issued.
    pub scheduled_at: Vec<Nanos>,
    /// Per sample: which one.
    pub indices: Vec<SampleIndex>,
    /// Samples in each query.
    pub samples_per_query: usize,
    /// Queries issued.
    pub queries: usize,
}

/// A share of the queries: every `of`-th, from the `index`-th on. Registered
/// issue threads have one each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// In `0..of`.
    pub index: u64,
    /// Number of lanes (>= 1).
    pub of: u64,
}

impl Lane {
    /// The only lane.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    fn share(self, count: u64) -> u64 {
        count / self.of + u64::from(self.index < count % self.of)
    }
}

/// The state machine.
#[derive(Debug)]
pub struct Session {
    tenants: Vec<Tenant>,
}

impl Session {
    /// A session of one run: per tenant its plan and the set that is loaded.
    /// Generates all traces.
    #[must_use]
    pub fn new(tenants: &[(Arc<Plan>, &LoadedSet)], accuracy: bool) -> Self {
        Self::lane(tenants, accuracy, Lane::WHOLE)
    }

    /// The part of a session that one of several issuing threads plays.
    #[must_use]
    pub fn lane(tenants: &[(Arc<Plan>, &LoadedSet)], accuracy: bool, lane: Lane) -> Self {
        let tenant = |(plan, set): &(Arc<Plan>, &LoadedSet)| {
            Tenant::new(plan.clone(), set, accuracy, lane)
        };
        Self { tenants: tenants.iter().map(tenant).collect() }
    }

    /// What to do at `now`. Time never runs backwards between calls.
    #[inline]
    pub fn step(&mut self, now: Nanos) -> Step<'_> {
        let (mut chosen, mut chosen_due) = (None, Nanos::MAX);
        let mut wake: Option<Nanos> = None;
        let (mut completion, mut done) = (false, true);
        for at in 0..self.tenants.len() {
            match self.tenants[at].next(now) {
                Next::Ready { due } => {
                    if chosen.is_none() || due < chosen_due {
                        (chosen, chosen_due) = (Some(at), due);
                    }
                    done = false;
                }
                Next::Wait { until, on_completion } => {
                    wake = match (wake, until) {
                        (Some(a), Some(b)) => Some(a.min(b)),
                        (a, b) => a.or(b),
                    };
                    completion |= on_completion;
                    done = false;
                }
                Next::Look => return Step::Look { tenant: at },
                Next::Done => {}
            }
        }
        if let Some(at) = chosen {
            return Step::Issue(self.tenants[at].issue(at, now));
        }
        match wake {
            _ if done => Step::Done,
            Some(until) if !completion => Step::WaitUntil(until),
            until => Step::WaitCompletion { until },
        }
    }

    /// Reports how many of a tenant's samples are complete by now, failed ones
    /// included.
    #[inline]
    pub fn completed(&mut self, tenant: usize, samples: u64, now: Nanos) {
        self.tenants[tenant].completed(samples, now);
    }

    /// Answers [`Step::Look`].
    pub fn looked(&mut self, tenant: usize, look: Look, now: Nanos) {
        self.tenants[tenant].looked(look, now);
    }

    /// Whether completions can change what the next step is while queries are
    /// still being issued. If not, the driver need not count them before it waits.
    #[must_use]
    pub fn watches_completions(&self) -> bool {
        self.tenants.iter().any(Tenant::watches_completions)
    }

    /// Stops issuing; the next step is [`Step::Done`].
    pub fn abort(&mut self) {
        for tenant in &mut self.tenants {
            if !matches!(tenant.state, State::Done) {
                tenant.ended.get_or_insert(Ended::Aborted);
                tenant.state = State::Done;
            }
        }
    }

    /// Ends the wait for samples that will never be complete.
    pub fn give_up(&mut self) {
        for tenant in &mut self.tenants {
            let missing = tenant.outstanding_samples();
            if missing > 0 {
                tenant.ended = Some(Ended::Deadline { missing });
                tenant.state = State::Done;
            }
        }
    }

    /// Whether every query has been issued: the system is to be flushed.
    #[must_use]
    pub fn all_issued(&self) -> bool {
        self.tenants.iter().all(|t| matches!(t.state, State::Draining { .. } | State::Done))
    }

    /// How many tenants there are.
    #[must_use]
    pub fn tenant_count(&self) -> usize {
        self.tenants.len()
    }

    /// A tenant's plan.
    #[must_use]
    pub fn plan(&self, tenant: usize) -> &Arc<Plan> {
        &self.tenants[tenant].plan
    }

    /// What a tenant's trace came to when it was generated.
    #[must_use]
    pub fn generated(&self, tenant: usize) -> Generated {
        self.tenants[tenant].generated
    }

    /// Samples that the generated trace holds, in this lane.
    #[must_use]
    pub fn generated_samples(&self, tenant: usize) -> usize {
        self.tenants[tenant].indices.len()
    }

    /// Queries that the generated trace holds, in this lane.
    #[must_use]
    pub fn generated_queries(&self, tenant: usize) -> usize {
        self.tenants[tenant].known
    }

    /// The samples of all generated queries, in this lane.
    #[must_use]
    pub fn generated_indices(&self, tenant: usize) -> &[SampleIndex] {
        &self.tenants[tenant].indices
    }

    /// Samples in each of a tenant's queries.
    #[must_use]
    pub fn samples_per_query(&self, tenant: usize) -> usize {
        self.tenants[tenant].samples_per_query
    }

    /// Whether a tenant's queries are due at set times.
    #[must_use]
    pub fn is_open_loop(&self, tenant: usize) -> bool {
        matches!(self.tenants[tenant].pacing, Pacing::OpenLoop { .. })
    }

    /// When a tenant's queries issued so far were due. Empty for closed loops.
    #[must_use]
    pub fn scheduled(&self, tenant: usize) -> &[Nanos] {
        let tenant = &self.tenants[tenant];
        &tenant.scheduled[..tenant.issued.min(tenant.scheduled.len())]
    }

    /// Samples complete in all tenants, as far as reported.
    #[must_use]
    pub fn completed_samples(&self) -> u64 {
        self.tenants.iter().map(|t| t.completed_samples).sum()
    }

    /// Whether a tenant ends when the system is silent for too long.
    #[must_use]
    pub fn has_deadlines(&self) -> bool {
        self.tenants.iter().any(|t| t.plan.response_deadline > 0)
    }

    /// What every tenant issued.
    #[must_use]
    pub fn into_issued(self) -> Vec<Issued> {
        self.tenants.into_iter().map(Tenant::into_issued).collect()
    }
}

/// When a tenant's next query may go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pacing {
    /// When it is due, whatever has become of earlier ones.
    OpenLoop { coalesce: bool },
    /// When fewer than this many queries are outstanding.
    ClosedLoop { in_flight: u64 },
}

#[derive(Debug)]
enum State {
    Issuing,
    /// The early-stopping criterion is looked at. `last` if all is complete.
    Looking { last: bool },
    /// All is issued; waiting for the rest to complete.
    Draining { look_again: bool },
    Done,
}

enum Next {
    Ready { due: Nanos },
    Wait { until: Option<Nanos>, on_completion: bool },
    Look,
    Done,
}

#[derive(Debug)]
struct Tenant {
    plan: Arc<Plan>,
    accuracy: bool,
    pacing: Pacing,
    lane: Lane,
    /// Draws queries beyond the generated ones, where the plan allows it.
    trace: Trace,
    generated: Generated,
    /// When each query of this lane is due, for open loops.
    scheduled: Vec<Nanos>,
    /// The samples of each query of this lane.
    indices: Vec<SampleIndex>,
    samples_per_query: usize,
    /// Queries of this lane that are known so far.
    known: usize,
    /// Queries of this lane that are issued.
    issued: usize,
    completed_samples: u64,
    min_queries: u64,
    max_queries: u64,
    /// Queries that early stopping wants beyond the trace.
    further: u64,
    /// Added to due times after a pause for a last look.
    shift: Nanos,
    /// When something was last completed, or issued into an idle system.
    progress_at: Nanos,
    /// In a closed loop: since when the next query could go out.
    ready_since: Nanos,
    state: State,
    ended: Option<Ended>,
}

impl Tenant {
    fn new(plan: Arc<Plan>, set: &LoadedSet, accuracy: bool, lane: Lane) -> Self {
        let pacing = match &plan.load {
            Load::SingleStream { .. } | Load::MultiStream { .. } => {
                Pacing::ClosedLoop { in_flight: 1 }
            }
            Load::Server(server) => match server.arrivals {
                Arrivals::Concurrency(n) => Pacing::ClosedLoop { in_flight: u64::from(n).max(1) },
                _ => Pacing::OpenLoop { coalesce: server.coalesce },
            },
            Load::Offline => Pacing::OpenLoop { coalesce: false },
        };
        let mut min_queries = plan.min_query_count;
        if plan.early_stopping.policy == EarlyStopping::Extend
            && matches!(plan.scenario(), Scenario::SingleStream | Scenario::MultiStream)
        {
            // The appendix of the rules: go on until one query may be over.
            min_queries = min_queries.max(early_stopping::minimum_queries(1, &criterion(&plan)));
        }
        let mut tenant = Self {
            trace: Trace::new(&plan, set, accuracy),
            accuracy,
            pacing,
            lane,
            generated: Generated::default(),
            scheduled: Vec::new(),
            indices: Vec::new(),
            samples_per_query: 1,
            known: 0,
            issued: 0,
            completed_samples: 0,
            min_queries: lane.share(min_queries),
            max_queries: lane.share(plan.max_query_count),
            further: 0,
            shift: 0,
            progress_at: 0,
            ready_since: 0,
            state: State::Issuing,
            ended: None,
            plan,
        };
        tenant.generate();
        tenant
    }

    /// Draws the whole trace, keeping this lane's queries.
    fn generate(&mut self) {
        self.samples_per_query = self.trace.samples_per_query();
        let expected = self.trace.expected_queries(self.plan.target_qps) / self.lane.of + 1;
        let expected = usize::try_from(expected).unwrap_or(usize::MAX);
        if self.plan.scenario() == Scenario::Offline {
            self.indices.reserve_exact(self.samples_per_query);
        } else {
            self.indices.reserve(expected.saturating_mul(self.samples_per_query).min(1 << 32));
        }
        if matches!(self.pacing, Pacing::OpenLoop { .. }) {
            self.scheduled.reserve(expected.min(1 << 32));
        }
        let mut skipped = Vec::new();
        for sequence in 0.. {
            let mine = sequence % self.lane.of == self.lane.index;
            let indices = if mine { &mut self.indices } else { &mut skipped };
            let Some(at) = self.trace.next_query(indices) else { break };
            skipped.clear();
            if mine {
                self.known += 1;
                if matches!(self.pacing, Pacing::OpenLoop { .. }) {
                    self.scheduled.push(at);
                }
            }
        }
        self.generated = self.trace.generated();
    }

    /// Whether one more query is known or can be drawn.
    #[inline]
    fn has_query(&mut self) -> bool {
        self.issued < self.known || self.draw_beyond()
    }

    #[cold]
    fn draw_beyond(&mut self) -> bool {
        let goes_on = match self.pacing {
            Pacing::ClosedLoop { .. } => self.plan.continue_trace || self.extends(),
            Pacing::OpenLoop { .. } => self.further > 0,
        };
        if self.accuracy || !goes_on || self.lane != Lane::WHOLE {
            return false;
        }
        let Some(at) = self.trace.beyond(&mut self.indices) else { return false };
        self.known += 1;
        if matches!(self.pacing, Pacing::OpenLoop { .. }) {
            self.further -= 1;
            self.scheduled.push(at + self.shift);
        }
        true
    }

    fn extends(&self) -> bool {
        self.plan.early_stopping.policy == EarlyStopping::Extend && !self.accuracy
    }

    fn outstanding_samples(&self) -> u64 {
        ((self.issued * self.samples_per_query) as u64).saturating_sub(self.completed_samples)
    }

    #[inline]
    fn next(&mut self, now: Nanos) -> Next {
        loop {
            match self.state {
                State::Issuing => {
                    if let Some(ended) = self.overdue(now) {
                        self.ended = Some(ended);
                        self.state = State::Done;
                    } else if self.has_query() {
                        return self.next_query(now);
                    } else {
                        self.end_of_trace();
                    }
                }
                State::Looking { .. } => return Next::Look,
                State::Draining { look_again } => {
                    if self.outstanding_samples() == 0 {
                        let looks = look_again && self.extends();
                        self.state =
                            if looks { State::Looking { last: true } } else { State::Done };
                    } else if let Some(ended) = self.overdue(now) {
                        self.ended = Some(ended);
                        self.state = State::Done;
                    } else {
                        return Next::Wait { until: self.deadline(), on_completion: true };
                    }
                }
                State::Done => return Next::Done,
            }
        }
    }

    #[inline]
    fn next_query(&self, now: Nanos) -> Next {
        match self.pacing {
            Pacing::OpenLoop { .. } => {
                let due = self.scheduled[self.issued];
                if due <= now {
                    Next::Ready { due }
                } else {
                    let until = self.deadline().map_or(due, |d| d.min(due));
                    Next::Wait { until: Some(until), on_completion: false }
                }
            }
            Pacing::ClosedLoop { in_flight } => {
                let room = in_flight * self.samples_per_query as u64;
                if self.outstanding_samples() + self.samples_per_query as u64 <= room {
                    Next::Ready { due: self.ready_since }
                } else {
                    Next::Wait { until: self.deadline(), on_completion: true }
                }
            }
        }
    }

    fn deadline(&self) -> Option<Nanos> {
        let limit = self.plan.response_deadline;
        (limit > 0 && self.outstanding_samples() > 0).then(|| self.progress_at + limit)
    }

    fn overdue(&self, now: Nanos) -> Option<Ended> {
        let missing = self.outstanding_samples();
        self.deadline().filter(|&at| now >= at).map(|_| Ended::Deadline { missing })
    }

    fn end_of_trace(&mut self) {
        let open = matches!(self.pacing, Pacing::OpenLoop { .. });
        if open && self.extends() && self.plan.scenario() == Scenario::Server {
            self.state = State::Looking { last: false };
            return;
        }
        let complete = open || self.accuracy;
        self.end(if complete { Ended::TraceIssued } else { Ended::RanOut });
    }

    fn end(&mut self, why: Ended) {
        self.ended = Some(why);
        self.state = State::Draining { look_again: false };
    }

    #[inline]
    fn issue(&mut self, tenant: usize, now: Nanos) -> Issue<'_> {
        let first = self.issued;
        if self.outstanding_samples() == 0 {
            self.progress_at = now;
        }
        self.issued += 1;
        if self.pacing == (Pacing::OpenLoop { coalesce: true }) {
            while self.has_query() && self.scheduled[self.issued] <= now {
                self.issued += 1;
            }
        }
        if !self.accuracy {
            self.check_end(now);
        }
        let spq = self.samples_per_query;
        let scheduled = match self.pacing {
            Pacing::OpenLoop { .. } => &self.scheduled[first..self.issued],
            Pacing::ClosedLoop { .. } => &[],
        };
        Issue {
            tenant,
            first_query: first as u64 * self.lane.of + self.lane.index,
            stride: self.lane.of,
            queries: self.issued - first,
            scheduled,
            indices: &self.indices[first * spq..self.issued * spq],
        }
    }

    /// The end conditions after an issue at `now`, in the reference's order.
    #[inline]
    fn check_end(&mut self, now: Nanos) {
        let (plan, issued) = (&self.plan, self.issued as u64);
        let open_server = matches!(self.pacing, Pacing::OpenLoop { .. })
            && matches!(plan.load, Load::Server(_));
        let ended = if open_server {
            let outstanding = self.outstanding_samples();
            let limit = plan.max_async_queries;
            (limit != 0 && outstanding > limit)
                .then_some(Ended::TooManyOutstanding { issued, outstanding })
        } else {
            (issued >= self.min_queries && now >= plan.target_duration).then_some(Ended::Naturally)
        };
        let ended = ended.or_else(|| {
            let limit = self.max_queries;
            (plan.max_query_count != 0 && issued >= limit)
                .then_some(Ended::MaxQueryCount { issued })
        });
        let ended = ended.or_else(|| {
            let limit = self.max_duration();
            (limit != 0 && now > limit).then_some(Ended::MaxDuration { at: now })
        });
        if let Some(why) = ended {
            self.end(why);
        }
    }

    /// The maximum duration; a run that extends itself always has one.
    fn max_duration(&self) -> Nanos {
        match self.plan.max_duration {
            0 if self.extends() => self.plan.target_duration.saturating_mul(EXTENSION_CAP),
            limit => limit,
        }
    }

    #[inline]
    fn completed(&mut self, samples: u64, now: Nanos) {
        if samples != self.completed_samples {
            self.completed_samples = samples;
            self.progress_at = now;
            self.ready_since = now;
        }
    }

    fn looked(&mut self, look: Look, now: Nanos) {
        let State::Looking { last } = self.state else { return };
        match look {
            Look::Met if last => self.state = State::Done,
            Look::Met => {
                self.ended = Some(Ended::TraceIssued);
                self.state = State::Draining { look_again: true };
            }
            Look::Further(_) if now > self.max_duration() => {
                self.end(Ended::MaxDuration { at: now });
            }
            Look::Further(queries) => {
                self.further = queries.max(1);
                let due = self.trace.generated().duration + self.shift;
                if last {
                    // Arrivals stood still while the system drained.
                    self.shift += now.saturating_sub(due);
                }
                self.ended = None;
                self.state = State::Issuing;
            }
        }
    }

    fn watches_completions(&self) -> bool {
        matches!(self.pacing, Pacing::ClosedLoop { .. })
            || (self.plan.max_async_queries != 0 && !self.accuracy)
    }

    fn into_issued(mut self) -> Issued {
        self.scheduled.truncate(self.issued);
        self.indices.truncate(self.issued * self.samples_per_query);
        Issued {
            ended: self.ended.unwrap_or(Ended::Aborted),
            generated: self.generated,
            scheduled_at: self.scheduled,
            indices: self.indices,
            samples_per_query: self.samples_per_query,
            queries: self.issued,
        }
    }
}

/// A run that extends itself under `early_stopping = "extend"` ends after this
/// many minimum durations unless `max_duration_ms` says otherwise.
pub const EXTENSION_CAP: u64 = 10;
