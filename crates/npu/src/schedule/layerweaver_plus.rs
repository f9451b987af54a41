//! Layerweaver+ (thesis, chapter V): runs Layerweaver until a request is about to miss its deadline, then serves that
//! request first.
//!
//! A request is urgent if what remains of it takes longer than the time until its deadline. The thesis prints this rule
//! in its text and another one in Figure V.3; both are available. Under both, a late request stays urgent forever, so
//! hopeless work is served while more requests become hopeless. Two further rules differ in how they time the remaining
//! work; [`Urgency::Laxity`] also solves that problem.

use super::idle::idle_time;
use super::layerweaver::Layerweaver;
use super::{LayerweaverRules, PassJob, Scheduler, SchedulerView};
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

/// The Layerweaver+ scheduler.
#[derive(Clone, Debug)]
pub struct LayerweaverPlus {
    urgency: Urgency,
    calm: Layerweaver,
    reason: &'static str,
}

impl LayerweaverPlus {
    /// Creates a scheduler with this rule of urgency.
    #[must_use]
    pub fn new(urgency: Urgency) -> Self {
        Self { urgency, calm: Layerweaver::new(LayerweaverRules::default()), reason: "" }
    }

    /// Returns whether `job` is urgent now.
    fn is_urgent(&self, view: &SchedulerView<'_>, job: &PassJob) -> bool {
        let left = job.due.saturating_sub(view.now);
        match self.urgency {
            Urgency::Text => remaining_alone(job) > left,
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
/// Figure V.3 would omit the last block.)
pub(super) fn remaining_alone(job: &PassJob) -> Picos {
    let (left, whole) = (job.compute_left + job.fetch_left, job.pass.compute + job.pass.fetch);
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
        let at = self.calm.pick(view);
        let cost = idle_time(view, at).total();
        let equals = (0..view.jobs.len()).filter(|&other| idle_time(view, other).total() == cost);
        let waits = self.calm.was_starved();
        let first = if waits { Some(at) } else { equals.min_by_key(|&other| view.jobs[other].due) };
        let picked = first.unwrap_or(at);
        self.reason = if picked == at { self.calm.reason() } else { "of equals, due first" };
        picked
    }

    fn reason(&self) -> &'static str {
        self.reason
    }
}
