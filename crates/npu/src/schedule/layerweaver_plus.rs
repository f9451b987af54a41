//! Layerweaver+ (thesis, chapter V): runs Layerweaver until a request is about to miss its deadline, then serves that
//! request first.
//!
//! A request is urgent if what remains of it takes longer than the time until its deadline. The thesis prints this rule
//! in its text and another one in Figure V.3; both are available. Under both, a late request stays urgent forever, so
//! hopeless work is served while more requests become hopeless. Two further rules differ in how they time the remaining
//! work; [`Urgency::Laxity`] also solves that problem.

use super::idle::idle_time;
use super::layerweaver::Layerweaver;
use super::{LayerweaverRules, PassJob, Scheduler, SchedulerSpec, SchedulerView, SerialScheduler};
use crate::machine::Machine;
use crate::profile::Picos;

/// Rule that decides which requests are urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Rule of the text: the remaining work takes longer than the time left. The remaining work is the share of the
    /// pass that is not placed yet, times the pass's time alone.
    Text,
    /// Rule of Figure V.3 as printed: the time left is longer than the pass takes alone.
    Printed,
    /// Rule of the text, with the remaining work timed exactly behind the blocks placed so far.
    Precise,
    /// The rest can meet the deadline, but must start soon. The least laxity comes first; hopeless requests run only if
    /// nothing else is urgent.
    Laxity,
}

/// Scheduler while no request is urgent.
#[derive(Clone, Debug)]
enum CalmScheduler {
    /// Layerweaver, for networks of both kinds.
    Woven(Layerweaver),
    /// Whole passes in turn, for networks of one kind.
    Failsafe(SerialScheduler),
}

/// The Layerweaver+ scheduler.
#[derive(Clone, Debug)]
pub struct LayerweaverPlus {
    urgency: Urgency,
    /// Whether the last block of a pass counts as remaining work until it is placed.
    counts_last: bool,
    /// Whether ties go to the earliest deadline.
    ties_by_deadline: bool,
    calm: CalmScheduler,
    reason: &'static str,
}

impl LayerweaverPlus {
    /// Creates a scheduler with this rule of urgency.
    pub fn new(urgency: Urgency) -> Self {
        Self {
            urgency,
            counts_last: true,
            ties_by_deadline: true,
            calm: CalmScheduler::Woven(Layerweaver::new(LayerweaverRules::default())),
            reason: "",
        }
    }

    /// Creates a scheduler with the reading of a specification. `failsafe` runs networks of one kind.
    pub(super) fn from_spec(
        urgency: Urgency,
        spec: &SchedulerSpec,
        failsafe: Option<SerialScheduler>,
    ) -> Self {
        let woven = || CalmScheduler::Woven(Layerweaver::new(LayerweaverRules::from_spec(spec)));
        Self {
            counts_last: !spec.reads("last", "dropped"),
            ties_by_deadline: spec.reads("ties", "deadline"),
            calm: failsafe.map_or_else(woven, CalmScheduler::Failsafe),
            ..Self::new(urgency)
        }
    }

    /// Returns the time alone of the remaining work of a job.
    fn remaining(&self, job: &PassJob) -> Picos {
        if self.counts_last {
            return remaining_alone(job);
        }
        let last = job.pass.blocks.last().map_or(0, |block| block.compute + block.fetch);
        share_alone(job, (job.compute_left + job.fetch_left).saturating_sub(last))
    }

    /// Returns whether `job` is urgent now. Without a deadline it never is.
    fn is_urgent(&self, view: &SchedulerView<'_>, job: &PassJob) -> bool {
        if job.due == Picos::MAX {
            return false;
        }
        let left = job.due.saturating_sub(view.now);
        match self.urgency {
            Urgency::Text => self.remaining(job) > left,
            Urgency::Printed => left > job.pass.alone,
            Urgency::Precise => computed_alone(view.machine, job, view.now) > job.due,
            Urgency::Laxity => {
                let ends = earliest(view, job);
                // The job may need as long again, because blocks of others are placed between its own.
                ends <= job.due && ends.saturating_add(remaining_alone(job)) > job.due
            }
        }
    }
}

/// Returns the time alone of the share of the pass that is not placed yet, including the next block, ps. (The slice in
/// Figure V.3 would omit the last block, as the option `last` can.)
pub(super) fn remaining_alone(job: &PassJob) -> Picos {
    share_alone(job, job.compute_left + job.fetch_left)
}

/// Returns the share of the pass's time alone that `left` ps of computing and fetching are.
fn share_alone(job: &PassJob, left: Picos) -> Picos {
    let whole = job.pass.compute + job.pass.fetch;
    (job.pass.alone as f64 * left as f64 / whole.max(1) as f64) as Picos
}

/// Returns when the job would be computed if no other block were placed.
fn computed_alone(machine: &Machine, job: &PassJob, now: Picos) -> Picos {
    let mut machine = machine.clone();
    let rest = job.pass.blocks.get(job.next..).unwrap_or(&[]);
    rest.iter().map(|block| machine.place(block, job.stream, now).compute_end).last().unwrap_or(now)
}

/// Returns a lower bound on the job's completion time: neither resource can finish earlier.
pub(super) fn earliest(view: &SchedulerView<'_>, job: &PassJob) -> Picos {
    let fetched = view.machine.memory_free().max(view.now) + job.fetch_left;
    (view.machine.compute_free().max(view.now) + job.compute_left).max(fetched)
}

impl Scheduler for LayerweaverPlus {
    fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
        let urgent = (0..view.jobs.len()).filter(|&at| self.is_urgent(view, &view.jobs[at]));
        // Mode 2: the urgent job with the earliest deadline. With laxity, the remaining work counts too.
        let slack = |&at: &usize| match self.urgency {
            Urgency::Laxity => view.jobs[at].due.saturating_sub(earliest(view, &view.jobs[at])),
            _ => view.jobs[at].due,
        };
        if let Some(at) = urgent.min_by_key(slack) {
            self.reason = "urgent";
            return at;
        }
        // Mode 1: Layerweaver, and ties go to the earliest deadline (section V.2).
        let (calm, reason) = match &mut self.calm {
            CalmScheduler::Failsafe(turns) => {
                let at = turns.pick(view);
                self.reason = turns.reason();
                return at;
            }
            CalmScheduler::Woven(calm) => {
                let at = calm.pick(view);
                if calm.was_starved() || !self.ties_by_deadline {
                    self.reason = calm.reason();
                    return at;
                }
                (at, calm.reason())
            }
        };
        let cost = idle_time(view, calm).total();
        let equals = (0..view.jobs.len()).filter(|&other| idle_time(view, other).total() == cost);
        // Equal deadlines, or none, leave the choice to Layerweaver.
        let first = equals.min_by_key(|&other| (view.jobs[other].due, other != calm));
        let picked = first.unwrap_or(calm);
        self.reason = if picked == calm { reason } else { "tie: earliest deadline" };
        picked
    }

    fn reason(&self) -> &'static str {
        self.reason
    }
}
