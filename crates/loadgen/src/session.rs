//! The session: one state machine for all scenarios, which decides when which query is issued. It
//! has no threads, clocks or sockets.
//!
//! A driver calls [`Session::step`] with the time, performs the returned step, and reports
//! completions as counts. Times are ns since the start of the run.
//!
//! A session has one or more tenants, each with its own plan and trace. Tenants share only the
//! system under test and the time.
//!
//! The example plays a SingleStream run of 100 queries, each answered after 1 ms:
//!
//! ```
//! use std::sync::Arc;
//!
//! use dyno_loadgen::plan::{Library, Plan};
//! use dyno_loadgen::session::{EndReason, Session, Step};
//! use dyno_loadgen::settings::TestSettings;
//! use dyno_loadgen::trace::loadable_sets;
//!
//! let settings = TestSettings { min_duration_ms: 50, ..TestSettings::default() };
//! let plan = Plan::resolve(&settings, Library { total: 10, performance: 10 }).unwrap();
//! let sets = loadable_sets(&plan, false, 10);
//! let mut session = Session::new(&[(Arc::new(plan), &sets[0])], false);
//! let (mut now, mut completed) = (0, 0);
//! loop {
//!     match session.step(now) {
//!         Step::Issue(issue) => completed += issue.queries as u64,
//!         Step::WaitCompletion { .. } => {
//!             now += 1_000_000;
//!             session.completed(0, completed, now);
//!         }
//!         Step::Done => break,
//!         step => panic!("unexpected in SingleStream: {step:?}"),
//!     }
//! }
//! let issued = session.into_issued();
//! assert_eq!((issued[0].queries, issued[0].ended), (100, EndReason::Naturally));
//! ```

mod sessions;
mod tenant;

use std::sync::Arc;

use crate::clock::Nanos;
use crate::early_stopping::Look;
use crate::plan::Plan;
use crate::qsl::SampleIndex;
use crate::record::PlayedSessions;
use crate::share::{Numbering, Share};
use crate::sut::{InFlight, SettledSample};
use crate::trace::{LoadedSet, TraceSize};

use tenant::{Pacing, State, Tenant, TenantStep};

/// Next step of the driver.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Issue this to the system now, then step again.
    Issue(Issue<'a>),
    /// Step again at this time; completions before it change nothing.
    WaitUntil(Nanos),
    /// Step again after a completion, or at this time at the latest.
    WaitCompletion {
        /// The latest time, if there is one.
        until: Option<Nanos>,
    },
    /// Evaluate this tenant's latencies so far and answer with [`Session::looked`].
    Look {
        /// Index of the tenant.
        tenant: usize,
    },
    /// Every tenant is done.
    Done,
}

/// One call to the system: one query, or several due queries that coalesce.
///
/// Query `i` of the call has the sequence number `first_query + i * stride`. The numbers of its
/// samples begin at `(first_query + i * stride) * samples_per_query`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issue<'a> {
    /// Index of the tenant.
    pub tenant: usize,
    /// Sequence number of the first query in the run.
    pub first_query: u64,
    /// Distance between the sequence numbers; 1 unless several threads issue.
    pub stride: u64,
    /// Number of queries (>= 1).
    pub queries: usize,
    /// When the turn of a session could be issued at the earliest; 0 for other queries.
    pub ready_at: Nanos,
    /// When each query was due. Empty if queries are due when they are issued.
    pub scheduled: &'a [Nanos],
    /// The samples of all queries, in order.
    pub indices: &'a [SampleIndex],
}

/// Why a run stopped issuing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// Every query of the trace was issued: the usual end of Server, Offline and accuracy runs.
    TraceIssued,
    /// The minimum query count and duration were reached: the usual end of SingleStream,
    /// MultiStream, fixed concurrency and Offline performance runs.
    Naturally,
    /// The generated queries ran out before the minimum duration was reached.
    RanOut,
    /// `max_query_count` queries were issued.
    MaxQueryCount {
        /// Queries issued.
        issued: u64,
    },
    /// `max_duration` was exceeded.
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
    /// The test was aborted.
    Aborted,
    /// A worker of several that shared the load was lost, together with its measurements.
    Lost {
        /// Index of the first lost worker.
        worker: u32,
        /// Number of workers.
        workers: u32,
    },
}

/// Queries that a tenant issued in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueSummary {
    /// Why issuing stopped.
    pub ended: EndReason,
    /// Size of its trace as generated before the run.
    pub generated: TraceSize,
    /// Per query: when it was due. Empty if queries are due when they are issued.
    pub scheduled_at: Vec<Nanos>,
    /// Per sample: its index in the data set.
    pub indices: Vec<SampleIndex>,
    /// Samples in each query.
    pub samples_per_query: usize,
    /// Queries issued.
    pub queries: usize,
    /// The sessions, if the plan has any.
    pub sessions: Option<PlayedSessions>,
}

/// The queries of one issuing thread: every `lanes`-th query, from query `index` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// Number of this lane, in `0..lanes`.
    pub index: u64,
    /// Number of lanes (>= 1).
    pub lanes: u64,
}

impl Lane {
    /// The lane of a single issuing thread: all queries.
    pub const WHOLE: Self = Self { index: 0, lanes: 1 };

    fn share(self, count: u64) -> u64 {
        count / self.lanes + u64::from(self.index < count % self.lanes)
    }
}

/// State machine of one run.
#[derive(Debug)]
pub struct Session {
    tenants: Vec<Tenant>,
}

impl Session {
    /// Returns a session of one run and generates all traces. `tenants` has the plan and the loaded
    /// set of each tenant.
    pub fn new(tenants: &[(Arc<Plan>, &LoadedSet)], accuracy: bool) -> Self {
        Self::part(tenants, accuracy, Share::WHOLE, Lane::WHOLE)
    }

    /// Returns the part of a session for one of several clients and one of its issuing threads.
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

    /// Returns the step at `now`. `now` must not decrease between calls.
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

    /// Returns the query that is due next, so that a driver can prepare it while it waits. With
    /// coalescing the actual call may hold more queries.
    pub fn upcoming(&self) -> Option<Issue<'_>> {
        let due = |(_, tenant): &(usize, &Tenant)| tenant.scheduled.get(tenant.issued).copied();
        let paced = self.tenants.iter().enumerate().filter(|t| due(t).is_some());
        let (at, tenant) = paced.min_by_key(due)?;
        Some(tenant.call(at, tenant.issued, tenant.issued + 1))
    }

    /// Reports how many of a tenant's samples are complete in total, failed ones included.
    #[inline]
    pub fn completed(&mut self, tenant: usize, samples: u64, now: Nanos) {
        self.tenants[tenant].completed(samples, now);
    }

    /// Reports how many samples other lanes have issued, before the completions of all lanes are
    /// reported: the limit of outstanding queries applies to all lanes together.
    pub fn issued_elsewhere(&mut self, samples: u64) {
        self.tenants[0].issued_elsewhere = samples;
    }

    /// Reports which of a tenant's outstanding samples are complete, before the same count is
    /// reported with [`completed`](Self::completed). `look` returns when a sample was complete, and
    /// how. Only a tenant with sessions needs it. `has_released` states whether a complete sample no
    /// longer holds the turn after it.
    #[inline]
    pub fn settle(
        &mut self,
        tenant: usize,
        samples: u64,
        has_released: bool,
        look: impl Fn(u64) -> Option<SettledSample>,
    ) {
        self.tenants[tenant].settle(samples, has_released, look);
    }

    /// Answers [`Step::Look`].
    pub fn looked(&mut self, tenant: usize, look: Look, now: Nanos) {
        self.tenants[tenant].looked(look, now);
    }

    /// Returns whether completions can change the next step while queries are being issued. If not,
    /// the driver need not count them before it waits.
    pub fn watches_completions(&self) -> bool {
        self.tenants.iter().any(Tenant::watches_completions)
    }

    /// Stops issuing; the next step is [`Step::Done`]. Tenants with outstanding samples count as
    /// aborted, too.
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

    /// Returns whether every query has been issued, so that the system must be flushed.
    pub fn all_issued(&self) -> bool {
        self.tenants.iter().all(|t| matches!(t.state, State::Draining { .. } | State::Done))
    }

    /// Returns the number of tenants.
    pub fn tenant_count(&self) -> usize {
        self.tenants.len()
    }

    /// Returns a tenant's plan.
    pub fn plan(&self, tenant: usize) -> &Arc<Plan> {
        &self.tenants[tenant].plan
    }

    /// Returns the size of a tenant's trace as generated before the run.
    pub fn generated(&self, tenant: usize) -> TraceSize {
        self.tenants[tenant].generated
    }

    /// Returns the number of generated samples in this lane.
    pub fn generated_samples(&self, tenant: usize) -> usize {
        self.tenants[tenant].indices.len()
    }

    /// Returns the number of generated queries in this lane.
    pub fn generated_queries(&self, tenant: usize) -> usize {
        self.tenants[tenant].known
    }

    /// Returns the samples in each of a tenant's queries.
    pub fn samples_per_query(&self, tenant: usize) -> usize {
        self.tenants[tenant].samples_per_query
    }

    /// Returns how many samples a tenant has in flight.
    pub fn in_flight(&self, tenant: usize) -> InFlight {
        self.tenants[tenant].in_flight()
    }

    /// Returns whether a tenant's queries are due at set times.
    pub fn has_schedule(&self, tenant: usize) -> bool {
        !matches!(self.tenants[tenant].pacing, Pacing::ClosedLoop { .. })
    }

    /// Returns when a tenant's queries issued so far were due. Empty for closed loops.
    pub fn scheduled(&self, tenant: usize) -> &[Nanos] {
        let tenant = &self.tenants[tenant];
        &tenant.scheduled[..tenant.issued.min(tenant.scheduled.len())]
    }

    /// Returns the mapping of a tenant's samples to positions in the trace, for one of several
    /// clients.
    pub(crate) fn numbering(&self, tenant: usize) -> Numbering {
        self.tenants[tenant].numbering()
    }

    /// Returns the reported number of complete samples of all tenants.
    pub fn completed_samples(&self) -> u64 {
        self.tenants.iter().map(|t| t.completed_samples).sum()
    }

    /// Returns whether a tenant would end at `now` because the system is silent. The driver must
    /// then report completions before it steps.
    #[inline]
    pub fn is_overdue(&self, now: Nanos) -> bool {
        self.tenants.iter().any(|tenant| tenant.deadline().is_some_and(|at| now >= at))
    }

    /// Returns whether any tenant has a response deadline.
    pub fn has_deadlines(&self) -> bool {
        self.tenants.iter().any(|t| t.plan.response_deadline > 0)
    }

    /// Returns the issued queries of every tenant.
    pub fn into_issued(self) -> Vec<IssueSummary> {
        self.tenants.into_iter().map(Tenant::into_issued).collect()
    }
}

/// Length limit of a run under `early_stopping = "extend"`, in minimum durations (Server: in
/// durations of its trace, if that is longer). `max_duration_ms` overrides it.
pub const EXTENSION_CAP: u64 = 10;
