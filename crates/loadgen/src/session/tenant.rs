//! One tenant of a session: pacing, end conditions, and the wait for outstanding samples.

mod ramp;
mod turns;

use std::sync::Arc;

use super::sessions::{NextTurn, Sessions};
use super::{EXTENSION_CAP, EndReason, Issue, IssueSummary, Lane};
use crate::clock::Nanos;
use crate::early_stopping::{self, Look, Params};
use crate::plan::{Load, Plan, Server, StreamPacing};
use crate::qsl::SampleIndex;
use crate::settings::{Arrivals, EarlyStopping, Scenario};
use crate::share::{Deal, Numbering, Share};
use crate::sut::InFlight;
use crate::trace::{LoadedSet, Trace, TraceSize};

/// Maximum number of coalesced queries per call. It keeps the list of samples in the caches: a
/// client that is far behind would lose more time by listing all queries at once than it gains.
const MOST_COALESCED: usize = 4_096;

/// When a tenant's next query may be issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pacing {
    /// When it is due, whether or not earlier ones are complete.
    OpenLoop { coalesce: bool },
    /// When fewer than this many queries are outstanding.
    ClosedLoop { in_flight: u64 },
    /// At the first tick at which nothing is outstanding.
    FixedInterval,
    /// When the turn of a session is due.
    Sessions,
}

#[derive(Debug)]
pub(super) enum State {
    Issuing,
    /// The early-stopping criterion is evaluated. `last` is set if all samples are complete.
    Looking {
        last: bool,
    },
    /// All queries are issued; waiting for outstanding samples.
    Draining {
        look_again: bool,
    },
    Done,
}

pub(super) enum TenantStep {
    Ready { due: Nanos },
    Wait { until: Option<Nanos>, on_completion: bool },
    Look,
    Done,
}

#[derive(Debug)]
pub(super) struct Tenant {
    pub(super) plan: Arc<Plan>,
    accuracy: bool,
    pub(super) pacing: Pacing,
    share: Share,
    /// Queries of the trace that this client issues. It numbers them from 0.
    deal: Deal,
    /// Queries of the share that this thread issues.
    lane: Lane,
    /// Draws queries beyond the generated ones, if the plan allows it.
    trace: Trace,
    pub(super) generated: TraceSize,
    /// Open loops: when each query of this lane is due. Fixed interval: when each issued query was
    /// due, and the next one once its tick is known. Sessions: when each issued query was due.
    pub(super) scheduled: Vec<Nanos>,
    /// The samples of each query of this lane.
    pub(super) indices: Vec<SampleIndex>,
    pub(super) samples_per_query: usize,
    /// Queries of this lane drawn so far.
    pub(super) known: usize,
    /// Queries of this lane issued so far.
    pub(super) issued: usize,
    pub(super) completed_samples: u64,
    min_queries: u64,
    max_queries: u64,
    /// Queries of all clients in the ramp before the trace.
    before: u64,
    /// Queries issued in the ramp.
    ramp_queries: u64,
    /// Queries that early stopping needs beyond the trace.
    further: u64,
    /// Added to due times after a pause for a final look.
    shift: Nanos,
    /// Time of the last completion, or of the last issue to an idle system.
    progress_at: Nanos,
    /// Closed loop: since when the next query could be issued.
    ready_since: Nanos,
    /// Fixed interval: the last tick with a query, from 1; 0 is the start.
    tick: u64,
    /// Samples that other lanes have issued. They count as outstanding, too.
    pub(super) issued_elsewhere: u64,
    /// Time of the last issue, until its end conditions are checked.
    unchecked: Option<Nanos>,
    sessions: Option<Sessions>,
    pub(super) state: State,
    pub(super) ended: Option<EndReason>,
}

impl Tenant {
    pub(super) fn new(
        plan: Arc<Plan>,
        set: &LoadedSet,
        accuracy: bool,
        share: Share,
        lane: Lane,
    ) -> Self {
        let pacing = match &plan.load {
            Load::MultiStream { pacing: StreamPacing::FixedInterval { .. }, .. } => {
                Pacing::FixedInterval
            }
            Load::SingleStream { .. } | Load::MultiStream { .. } => {
                Pacing::ClosedLoop { in_flight: 1 }
            }
            Load::Server(server) => match server.arrivals {
                Arrivals::Concurrency(n) => {
                    Pacing::ClosedLoop { in_flight: share.part(u64::from(n)).max(1) }
                }
                _ => Pacing::OpenLoop { coalesce: server.coalesce },
            },
            Load::Offline => Pacing::OpenLoop { coalesce: false },
        };
        let mut min_queries = plan.min_query_count;
        if plan.early_stopping.policy == EarlyStopping::Extend
            && pacing != Pacing::FixedInterval
            && matches!(plan.scenario(), Scenario::SingleStream | Scenario::MultiStream)
        {
            // The appendix of the rules: continue until one query may be over the bound.
            let params = Params::new(&plan.early_stopping, plan.percentile());
            min_queries = min_queries.max(early_stopping::minimum_queries(1, &params));
        }
        let deal = Deal::new(&plan, share);
        let mut tenant = Self {
            trace: Trace::new(&plan, set, accuracy),
            accuracy,
            pacing,
            share,
            deal,
            lane,
            generated: TraceSize::default(),
            scheduled: Vec::new(),
            indices: Vec::new(),
            samples_per_query: 1,
            known: 0,
            issued: 0,
            completed_samples: 0,
            min_queries: lane.share(deal.part(min_queries)),
            max_queries: lane.share(deal.part(plan.max_query_count)),
            before: 0,
            ramp_queries: 0,
            further: 0,
            shift: 0,
            progress_at: 0,
            ready_since: 0,
            tick: 0,
            issued_elsewhere: 0,
            unchecked: None,
            sessions: None,
            state: State::Issuing,
            ended: None,
            plan,
        };
        tenant.prepare();
        tenant
    }

    /// Returns how many samples are in flight.
    pub(super) fn in_flight(&self) -> InFlight {
        match self.pacing {
            Pacing::ClosedLoop { in_flight } => {
                InFlight::AtMost(in_flight.saturating_mul(self.samples_per_query as u64))
            }
            Pacing::OpenLoop { .. } if self.plan.scenario() == Scenario::Offline => {
                InFlight::AtOnce(self.indices.len() as u64)
            }
            Pacing::Sessions => match &self.plan.load {
                Load::Server(Server { arrivals: Arrivals::Concurrency(n), .. }) => {
                    InFlight::AtMost(self.share.part(u64::from(*n)))
                }
                _ => InFlight::Unknown,
            },
            Pacing::OpenLoop { .. } | Pacing::FixedInterval => InFlight::Unknown,
        }
    }

    /// Draws the whole trace and keeps the queries of this lane.
    fn generate(&mut self) {
        self.samples_per_query = self.trace.samples_per_query();
        let parts = self.lane.lanes * u64::from(self.share.clients);
        let expected = self.trace.expected_queries(self.plan.target_qps) / parts + 1;
        let expected = usize::try_from(expected).unwrap_or(usize::MAX);
        if self.plan.scenario() == Scenario::Offline {
            self.indices.reserve_exact(self.samples_per_query);
        } else {
            self.indices.reserve(expected.saturating_mul(self.samples_per_query).min(1 << 32));
        }
        if !matches!(self.pacing, Pacing::ClosedLoop { .. }) {
            self.scheduled.reserve(expected.min(1 << 32));
        }
        let ramp = self.ramp_arrivals();
        self.before = ramp.as_ref().map_or(0, |times| times.len() as u64);
        let mut skipped = Vec::new();
        let offline = self.plan.scenario() == Scenario::Offline;
        // Queries of the share are numbered consecutively.
        let mut numbers = 0..;
        for sequence in 0.. {
            let number = self.is_shared(sequence, offline).then(|| numbers.next()).flatten();
            let mine = number.is_some_and(|n: u64| n % self.lane.lanes == self.lane.index);
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
        if let Some(times) = ramp {
            self.prepend_ramp(times);
        }
        if offline && self.share != Share::WHOLE {
            let range = self.share.range(self.indices.len());
            self.indices = self.indices[range.clone()].to_vec();
            self.samples_per_query = range.len().max(1);
            if range.is_empty() {
                self.known = 0;
                self.scheduled.clear();
            }
        }
    }

    /// Returns whether a query of the trace is in the share. The single query of Offline is in
    /// every share.
    fn is_shared(&self, sequence: u64, offline: bool) -> bool {
        let most = self.plan.max_query_count;
        // With the whole trace, the end conditions enforce the maximum.
        let is_wanted = self.share == Share::WHOLE || self.accuracy || most == 0 || sequence < most;
        offline || (self.deal.has(self.before + sequence) && is_wanted)
    }

    /// Returns the mapping of the samples of the share to positions in the trace.
    pub(super) fn numbering(&self) -> Numbering {
        match self.plan.scenario() {
            Scenario::Offline => {
                let samples = self.generated.samples_per_query as usize;
                Numbering::cut(&self.share.range(samples))
            }
            _ => Numbering::dealt(self.deal, self.samples_per_query),
        }
    }

    /// Returns whether a further query is drawn or can be drawn.
    #[inline]
    fn has_query(&mut self) -> bool {
        self.issued < self.known || self.draw_beyond()
    }

    #[cold]
    fn draw_beyond(&mut self) -> bool {
        let goes_on = match self.pacing {
            Pacing::ClosedLoop { .. } => self.plan.continue_trace || self.extends(),
            Pacing::FixedInterval => self.plan.continue_trace,
            Pacing::OpenLoop { .. } => self.further > 0,
            Pacing::Sessions => false,
        };
        if self.accuracy || !goes_on || self.lane != Lane::WHOLE {
            return false;
        }
        let mut skipped = Vec::new();
        let at = loop {
            let mine = self.deal.has(self.before + self.trace.generated().queries);
            let indices = if mine { &mut self.indices } else { &mut skipped };
            let Some(at) = self.trace.beyond(indices) else { return false };
            if mine {
                break at;
            }
        };
        self.known += 1;
        if matches!(self.pacing, Pacing::OpenLoop { .. }) {
            self.further -= 1;
            self.scheduled.push(at.saturating_add(self.shift));
        }
        true
    }

    fn extends(&self) -> bool {
        self.plan.early_stopping.policy == EarlyStopping::Extend
            && !matches!(self.pacing, Pacing::FixedInterval | Pacing::Sessions)
            && !self.accuracy
    }

    pub(super) fn outstanding_samples(&self) -> u64 {
        let issued = (self.issued * self.samples_per_query) as u64 + self.issued_elsewhere;
        issued.saturating_sub(self.completed_samples)
    }

    #[inline]
    pub(super) fn next(&mut self, now: Nanos) -> TenantStep {
        // Checked after the issue call, because samples that the system answered meanwhile are
        // not outstanding.
        if let Some(at) = self.unchecked.take()
            && matches!(self.state, State::Issuing)
        {
            self.check_end(at);
        }
        loop {
            match self.state {
                State::Issuing => {
                    self.sessions.iter_mut().for_each(|sessions| sessions.goes_on(now));
                    if let Some(ended) = self.overdue(now) {
                        self.ended = Some(ended);
                        self.state = State::Done;
                    } else if self.is_long_enough(now) {
                        self.end(EndReason::Naturally);
                    } else if let Some(sessions) = &mut self.sessions {
                        match sessions.next(now) {
                            NextTurn::Exhausted => self.end(EndReason::TraceIssued),
                            NextTurn::Ready { due } => return TenantStep::Ready { due },
                            NextTurn::Later { at, is_any_outstanding } => {
                                return self.until_turn(at, is_any_outstanding);
                            }
                        }
                    } else if self.has_query() {
                        return self.next_query(now);
                    } else {
                        self.end_of_trace();
                    }
                }
                State::Looking { .. } => return TenantStep::Look,
                State::Draining { look_again } => {
                    if self.outstanding_samples() == 0 {
                        let looks = look_again && self.extends();
                        self.state =
                            if looks { State::Looking { last: true } } else { State::Done };
                    } else if let Some(ended) = self.overdue(now) {
                        self.ended = Some(ended);
                        self.state = State::Done;
                    } else {
                        return TenantStep::Wait { until: self.deadline(), on_completion: true };
                    }
                }
                State::Done => return TenantStep::Done,
            }
        }
    }

    #[inline]
    fn next_query(&mut self, now: Nanos) -> TenantStep {
        match self.pacing {
            Pacing::OpenLoop { .. } => {
                let due = self.scheduled[self.issued];
                if due <= now {
                    TenantStep::Ready { due }
                } else {
                    let until = self.deadline().map_or(due, |d| d.min(due));
                    TenantStep::Wait { until: Some(until), on_completion: false }
                }
            }
            Pacing::ClosedLoop { in_flight } => {
                let (in_flight, next_at) = self.ramped(in_flight, now);
                let room = in_flight * self.samples_per_query as u64;
                if self.outstanding_samples() + self.samples_per_query as u64 <= room {
                    TenantStep::Ready { due: self.ready_since }
                } else {
                    let until = self.deadline().into_iter().chain(next_at).min();
                    TenantStep::Wait { until, on_completion: true }
                }
            }
            Pacing::FixedInterval => self.next_at_tick(now),
            Pacing::Sessions => unreachable!("sessions know their next turn"),
        }
    }

    /// Returns the next step at a fixed interval: a query is due at the first tick that has not
    /// passed when the last query is seen to be complete. Earlier ticks are skipped.
    fn next_at_tick(&mut self, now: Nanos) -> TenantStep {
        if self.scheduled.len() == self.issued {
            if self.outstanding_samples() > 0 {
                return TenantStep::Wait { until: self.deadline(), on_completion: true };
            }
            self.tick = self.plan.tick_from(self.tick + 1, now);
            self.scheduled.push(self.plan.tick(self.tick));
        }
        let due = self.scheduled[self.issued];
        if due <= now {
            TenantStep::Ready { due }
        } else {
            TenantStep::Wait { until: Some(due), on_completion: false }
        }
    }

    #[inline]
    pub(super) fn deadline(&self) -> Option<Nanos> {
        let limit = self.plan.response_deadline;
        (limit > 0 && self.outstanding_samples() > 0)
            .then(|| self.progress_at.saturating_add(limit))
    }

    fn overdue(&self, now: Nanos) -> Option<EndReason> {
        let missing = self.outstanding_samples();
        self.deadline().filter(|&at| now >= at).map(|_| EndReason::Deadline { missing })
    }

    fn end_of_trace(&mut self) {
        let open = matches!(self.pacing, Pacing::OpenLoop { .. });
        // Further queries cannot be drawn: the recorded times are over, or every sample was
        // issued. Another look would not help.
        let gave_out = self.further > 0;
        if open && self.extends() && !gave_out && self.plan.scenario() == Scenario::Server {
            self.state = State::Looking { last: false };
            return;
        }
        let complete = open || self.accuracy;
        self.end(if complete { EndReason::TraceIssued } else { EndReason::RanOut });
    }

    fn end(&mut self, why: EndReason) {
        self.ended = Some(why);
        self.state = State::Draining { look_again: false };
    }

    #[inline]
    pub(super) fn issue(&mut self, tenant: usize, now: Nanos) -> Issue<'_> {
        let first = self.issued;
        if self.outstanding_samples() == 0 {
            self.progress_at = now;
        }
        if let Some(sessions) = &mut self.sessions
            && let Some((sample, due)) = sessions.take(first as u64)
        {
            self.indices.push(sample);
            self.scheduled.push(due);
            self.known += 1;
        }
        self.issued += 1;
        self.note_ramp(first, now);
        if self.pacing == (Pacing::OpenLoop { coalesce: true }) {
            while self.has_query()
                && self.scheduled[self.issued] <= now
                && self.issued - first < MOST_COALESCED
            {
                self.issued += 1;
            }
        }
        self.unchecked = (!self.accuracy).then_some(now);
        self.call(tenant, first, self.issued)
    }

    /// Returns the call that issues queries `first..end` of the lane.
    #[inline]
    pub(super) fn call(&self, tenant: usize, first: usize, end: usize) -> Issue<'_> {
        let spq = self.samples_per_query;
        let scheduled = match self.pacing {
            Pacing::ClosedLoop { .. } => &[],
            _ => &self.scheduled[first..end],
        };
        Issue {
            tenant,
            first_query: first as u64 * self.lane.lanes + self.lane.index,
            stride: self.lane.lanes,
            queries: end - first,
            ready_at: self.sessions.as_ref().map_or(0, Sessions::last_ready_at),
            scheduled,
            indices: &self.indices[first * spq..end * spq],
        }
    }

    /// Checks the end conditions after an issue at `now`, in the order of the reference.
    #[inline]
    fn check_end(&mut self, now: Nanos) {
        let (plan, issued, measured) = (&self.plan, self.issued as u64, self.measured());
        let open_server =
            matches!(self.pacing, Pacing::OpenLoop { .. }) && matches!(plan.load, Load::Server(_));
        let ended = if open_server {
            let outstanding = self.outstanding_samples();
            let limit = match plan.max_async_queries {
                0 => 0,
                limit => self.share.part(limit).max(1),
            };
            (limit != 0 && outstanding > limit).then_some(EndReason::TooManyOutstanding {
                issued: issued + self.issued_elsewhere,
                outstanding,
            })
        } else if self.sessions.is_some() {
            // Checked before the issue, too: a turn may be due long after the end.
            self.is_long_enough(now).then_some(EndReason::Naturally)
        } else {
            (measured >= self.min_queries && now >= self.end_of_duration())
                .then_some(EndReason::Naturally)
        };
        let ended = ended.or_else(|| {
            let limit = self.max_queries;
            // Without a query of the trace, a client still issues its part of the ramp.
            (plan.max_query_count != 0 && measured >= limit && issued >= self.ramp_queries)
                .then_some(EndReason::MaxQueryCount { issued })
        });
        let ended = ended.or_else(|| {
            let limit = self.max_duration();
            (limit != 0 && now > limit.saturating_add(plan.ramp))
                .then_some(EndReason::MaxDuration { at: now })
        });
        if let Some(why) = ended {
            self.end(why);
        }
    }

    /// Returns the maximum duration; 0 means no limit. Extensions of a run are always limited, but
    /// the queries that the plan requires are never cut short by that limit.
    fn max_duration(&self) -> Nanos {
        let plan = &self.plan;
        if plan.max_duration != 0 || !self.extends() {
            return plan.max_duration;
        }
        let base = match self.pacing {
            Pacing::OpenLoop { .. } => plan.target_duration.max(self.generated.duration),
            Pacing::ClosedLoop { .. } if (self.issued as u64) < plan.min_query_count => 0,
            _ => plan.target_duration,
        };
        base.saturating_mul(EXTENSION_CAP)
    }

    #[inline]
    pub(super) fn completed(&mut self, samples: u64, now: Nanos) {
        if samples != self.completed_samples {
            self.completed_samples = samples;
            self.progress_at = now;
            self.ready_since = now;
        }
    }

    pub(super) fn looked(&mut self, look: Look, now: Nanos) {
        let State::Looking { last } = self.state else { return };
        match look {
            Look::Met if last => self.state = State::Done,
            Look::Met => {
                self.ended = Some(EndReason::TraceIssued);
                self.state = State::Draining { look_again: true };
            }
            Look::Further(_) if now > self.max_duration() => {
                self.end(EndReason::MaxDuration { at: now });
            }
            Look::Further(queries) => {
                self.further = queries.max(1);
                let due = self.trace.generated().duration.saturating_add(self.shift);
                if last {
                    // Arrivals paused while the system drained.
                    self.shift += now.saturating_sub(due);
                }
                self.ended = None;
                self.state = State::Issuing;
            }
        }
    }

    pub(super) fn watches_completions(&self) -> bool {
        !matches!(self.pacing, Pacing::OpenLoop { .. })
            || (self.plan.max_async_queries != 0 && !self.accuracy)
    }

    pub(super) fn into_issued(mut self) -> IssueSummary {
        self.scheduled.truncate(self.issued);
        self.indices.truncate(self.issued * self.samples_per_query);
        IssueSummary {
            ended: self.ended.unwrap_or(EndReason::Aborted),
            generated: self.generated,
            scheduled_at: self.scheduled,
            indices: self.indices,
            samples_per_query: self.samples_per_query,
            queries: self.issued,
            sessions: self.sessions.map(Sessions::into_played),
        }
    }
}
