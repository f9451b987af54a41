//! When which query is issued: every scenario as one state machine without
//! threads, clocks or sockets.
//!
//! A driver calls [`Session::step`] with the time and does what it says; it
//! reports completions as counts. Times are ns since the start of the run.
//!
//! A session holds one or more tenants, each with its own plan and trace. They
//! share nothing but the system under test and the time.

mod tenant;

use std::sync::Arc;

use crate::clock::Nanos;
use crate::early_stopping::Look;
use crate::plan::Plan;
use crate::qsl::SampleIndex;
use crate::share::{Numbering, Share};
use crate::sut::InFlight;
use crate::trace::{LoadedSet, TraceSize};

use tenant::{Pacing, State, Tenant, TenantStep};

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
pub enum EndReason {
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
    /// Of several workers that shared the load, one was lost, and what it measured with it.
    Lost {
        /// The first that was lost, from 0.
        worker: u32,
        /// Workers.
        workers: u32,
    },
}

/// What a tenant issued, once the session is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueSummary {
    /// Why it stopped.
    pub ended: EndReason,
    /// What its trace came to, as generated before the run.
    pub generated: TraceSize,
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
    pub lanes: u64,
}

impl Lane {
    /// The only lane.
    pub const WHOLE: Self = Self { index: 0, lanes: 1 };

    fn share(self, count: u64) -> u64 {
        count / self.lanes + u64::from(self.index < count % self.lanes)
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
        Self::part(tenants, accuracy, Share::WHOLE, Lane::WHOLE)
    }

    /// The part of a session that one of several clients plays, and of that the
    /// part of one of its issuing threads.
    #[must_use]
    pub fn part(
        tenants: &[(Arc<Plan>, &LoadedSet)],
        accuracy: bool,
        share: Share,
        lane: Lane,
    ) -> Self {
        let tenant = |(plan, set): &(Arc<Plan>, &LoadedSet)| {
            Tenant::new(plan.clone(), set, accuracy, share, lane)
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
                TenantStep::Ready { due } => {
                    if chosen.is_none() || due < chosen_due {
                        (chosen, chosen_due) = (Some(at), due);
                    }
                    done = false;
                }
                TenantStep::Wait { until, on_completion } => {
                    wake = match (wake, until) {
                        (Some(a), Some(b)) => Some(a.min(b)),
                        (a, b) => a.or(b),
                    };
                    completion |= on_completion;
                    done = false;
                }
                TenantStep::Look => return Step::Look { tenant: at },
                TenantStep::Done => {}
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

    /// The query that is due next, for a driver that waits for its time and may
    /// as well build it meanwhile. With coalescing more may come along.
    #[must_use]
    pub fn upcoming(&self) -> Option<Issue<'_>> {
        let due = |(_, tenant): &(usize, &Tenant)| tenant.scheduled.get(tenant.issued).copied();
        let paced = self.tenants.iter().enumerate().filter(|t| due(t).is_some());
        let (at, tenant) = paced.min_by_key(due)?;
        Some(tenant.call(at, tenant.issued, tenant.issued + 1))
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

    /// Stops issuing; the next step is [`Step::Done`]. A tenant whose answers are still awaited
    /// was aborted, too.
    pub fn abort(&mut self) {
        for tenant in &mut self.tenants {
            if !matches!(tenant.state, State::Done) {
                if tenant.outstanding_samples() > 0 {
                    tenant.ended = Some(EndReason::Aborted);
                }
                tenant.ended.get_or_insert(EndReason::Aborted);
                tenant.state = State::Done;
            }
        }
    }

    /// Ends the wait for samples that will never be complete.
    pub fn give_up(&mut self) {
        for tenant in &mut self.tenants {
            let missing = tenant.outstanding_samples();
            if missing > 0 {
                tenant.ended = Some(EndReason::Deadline { missing });
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
    pub fn generated(&self, tenant: usize) -> TraceSize {
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

    /// How many samples a tenant has in flight at once.
    #[must_use]
    pub fn in_flight(&self, tenant: usize) -> InFlight {
        self.tenants[tenant].in_flight()
    }

    /// Whether a tenant's queries are due at set times.
    #[must_use]
    pub fn has_schedule(&self, tenant: usize) -> bool {
        !matches!(self.tenants[tenant].pacing, Pacing::ClosedLoop { .. })
    }

    /// When a tenant's queries issued so far were due. Empty for closed loops.
    #[must_use]
    pub fn scheduled(&self, tenant: usize) -> &[Nanos] {
        let tenant = &self.tenants[tenant];
        &tenant.scheduled[..tenant.issued.min(tenant.scheduled.len())]
    }

    /// Where a tenant's samples stand in the trace, if this is one of several clients.
    pub(crate) fn numbering(&self, tenant: usize) -> Numbering {
        self.tenants[tenant].numbering()
    }

    /// Samples complete in all tenants, as far as reported.
    #[must_use]
    pub fn completed_samples(&self) -> u64 {
        self.tenants.iter().map(|t| t.completed_samples).sum()
    }

    /// Whether a tenant ends at `now` for a silent system, by what was reported:
    /// the driver is to report what is complete before it steps.
    #[inline]
    #[must_use]
    pub fn is_overdue(&self, now: Nanos) -> bool {
        self.tenants.iter().any(|tenant| tenant.deadline().is_some_and(|at| now >= at))
    }

    /// Whether a tenant ends when the system is silent for too long.
    #[must_use]
    pub fn has_deadlines(&self) -> bool {
        self.tenants.iter().any(|t| t.plan.response_deadline > 0)
    }

    /// What every tenant issued.
    #[must_use]
    pub fn into_issued(self) -> Vec<IssueSummary> {
        self.tenants.into_iter().map(Tenant::into_issued).collect()
    }
}

/// A run that extends itself under `early_stopping = "extend"` ends after this
/// many minimum durations (Server: or durations of its trace, if that is longer)
/// unless `max_duration_ms` says otherwise.
pub const EXTENSION_CAP: u64 = 10;
