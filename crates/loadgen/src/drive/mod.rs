//! The two drivers of a session: [`real`] for real time and [`sim`] for virtual time.

mod glance;
mod join;
pub mod real;
pub mod sim;

use std::sync::Arc;

pub use glance::{AnsweredQuery, Glance, WaitingQuery};
pub use join::join;

use crate::clock::{Nanos, WallTime};
use crate::early_stopping::{self, Look, Params};
use crate::plan::{Plan, Tokens};
use crate::record::{Failure, Record};
use crate::session::{EndReason, Lane, Session};
use crate::share::{Numbering, Share};
use crate::trace::{LoadedSet, LogSelection, ResponseFilter, TraceSize};

/// One run for a driver to play.
#[derive(Debug)]
pub struct Job<'a> {
    /// The tenants.
    pub tenants: Vec<JobTenant<'a>>,
    /// Whether every sample is issued and every response logged.
    pub accuracy: bool,
    /// The part of the load that this client issues.
    pub share: Share,
    /// Distinguishes the response ids of this run from those of earlier runs.
    pub epoch: u16,
}

/// One tenant's part of a [`Job`].
#[derive(Debug)]
pub struct JobTenant<'a> {
    /// Plan of the tenant.
    pub plan: Arc<Plan>,
    /// Loaded samples.
    pub set: &'a LoadedSet,
    /// Samples that the test generated before this run. They determine which responses of this
    /// run are logged.
    pub samples_before: u64,
}

impl Job<'_> {
    fn session(&self) -> Session {
        self.lane(Lane::WHOLE)
    }

    fn lane(&self, lane: Lane) -> Session {
        let tenants: Vec<_> = self.tenants.iter().map(|t| (t.plan.clone(), t.set)).collect();
        Session::part(&tenants, self.accuracy, self.share, lane)
    }

    /// Returns which responses to a tenant's `samples` samples are logged.
    fn response_filter(
        &self,
        tenant: usize,
        numbering: &Numbering,
        samples: usize,
    ) -> ResponseFilter {
        let JobTenant { plan, samples_before, .. } = &self.tenants[tenant];
        ResponseFilter::new(
            LogSelection::new(plan, self.accuracy, *samples_before),
            numbering,
            samples,
        )
    }
}

/// What a driver returns after a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// One outcome per tenant.
    pub tenants: Vec<TenantOutcome>,
    /// Begin and end of trace generation, by the clock of the test.
    pub generated: (Nanos, Nanos),
    /// Start of the run by the clock of the test.
    pub started_at: Nanos,
    /// Wall-clock time of the start.
    pub started_wall: WallTime,
    /// End of the run by the clock of the test.
    pub finished_at: Nanos,
    /// Error message for the log, if the driver could not run exactly as planned.
    pub error: Option<String>,
    /// Errors of the issuing threads, as the log states them.
    pub threads: ThreadReport,
}

/// Errors of the issuing threads of a run, as the log states them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThreadReport {
    /// Error: other than the requested number of threads were registered.
    pub mismatch: Option<String>,
    /// Why each thread stopped; empty if the calling thread issued.
    pub ends: Vec<EndReason>,
}

/// What a driver returns for one tenant.
#[derive(Debug)]
pub struct TenantOutcome {
    /// Why issuing stopped.
    pub ended: EndReason,
    /// Size of the generated trace.
    pub generated: TraceSize,
    /// Measurements of the run.
    pub record: Record,
}

/// Process and thread that a log names as its writer. All fields are 0 in virtual time, where
/// no output may depend on the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
}

/// Plays runs. Implemented for real time by [`real::RealTime`] and for virtual
/// time by [`sim::VirtualTime`].
pub trait Driver {
    /// Returns the epoch of the response ids of run number `run` of a test, from 1.
    ///
    /// An epoch is never 0, so that no id equals the reserved id 0. Epochs repeat after 65,535
    /// runs.
    fn epoch(&mut self, run: u32) -> u16 {
        u16::try_from(run % 65_535 + 1).expect("at most 65,535")
    }
    /// Returns the name of the system under test.
    fn system_name(&self) -> String;
    /// Returns the time by the clock of the test, in ns.
    fn now(&self) -> Nanos;
    /// Returns the wall-clock time now.
    fn wall_now(&self) -> WallTime;
    /// Returns the process and thread that the logs name.
    fn process(&self) -> Process;
    /// Plays one run to its end.
    fn play(&mut self, job: &Job<'_>) -> RunOutcome;
    /// Returns whether the test was aborted.
    fn aborted(&self) -> bool;
}

/// Evaluates the early-stopping criterion of a Server run in progress.
///
/// A sample counts once it is decided: when it is complete, or when it has been outstanding for
/// longer than its bound. Undecided samples are ignored.
fn look(record: &Record, plan: &Plan, now: Nanos) -> Look {
    let params = Params::new(&plan.early_stopping, plan.percentile());
    let failed: std::collections::HashMap<u64, Failure> = record.failed.iter().copied().collect();
    let bounds = match plan.tokens {
        Some(Tokens::Measured { ttft, tpot }) => [Bound::FirstToken(ttft), Bound::Tpot(tpot)],
        _ => [Bound::Latency(plan.target_latency()); 2],
    };
    let judge = |bound: Bound| {
        let (mut decided, mut over) = (0, 0);
        for sample in 0..record.completed_at.len() {
            let is_over = match failed.get(&(sample as u64)) {
                None => bound.exceeded(record, sample, now),
                Some(Failure::Cancelled) => None,
                Some(_) => Some(true),
            };
            decided += u64::from(is_over.is_some());
            over += u64::from(is_over == Some(true));
        }
        early_stopping::look(decided, over, &params)
    };
    match (judge(bounds[0]), judge(bounds[1])) {
        (Look::Further(a), Look::Further(b)) => Look::Further(a.max(b)),
        (Look::Met, other) | (other, Look::Met) => other,
    }
}

#[derive(Clone, Copy)]
enum Bound {
    Latency(Nanos),
    FirstToken(Nanos),
    Tpot(Nanos),
}

impl Bound {
    /// Returns whether a sample is over the bound; `None` while that is undecided.
    fn exceeded(self, record: &Record, sample: usize, now: Nanos) -> Option<bool> {
        let due = record.scheduled(sample);
        let done = Some(record.completed_at[sample]).filter(|&at| at != 0);
        let waits_too_long = |limit: Nanos| (now.saturating_sub(due) > limit).then_some(true);
        match self {
            Self::Latency(limit) => done
                .map_or_else(|| waits_too_long(limit), |at| Some(at.saturating_sub(due) > limit)),
            Self::FirstToken(limit) => match record.first_token_at[sample] {
                0 if done.is_none() => waits_too_long(limit),
                0 => Some(true),
                first => Some(first.saturating_sub(due) > limit),
            },
            Self::Tpot(limit) => {
                let (at, first) = (done?, record.first_token_at[sample]);
                // A sample of one token or none has no time per output token; the verdict counts
                // it as within the bound.
                let tokens = record.timed_tokens(sample).unwrap_or(0);
                let after_first = u64::try_from(tokens.saturating_sub(1)).unwrap_or(0);
                let spent = at.saturating_sub(first);
                Some(first == 0 || (after_first > 0 && spent / after_first > limit))
            }
        }
    }
}
