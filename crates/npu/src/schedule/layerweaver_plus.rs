//! Layerweaver+ (thesis, chapter V): Layerweaver as long as nobody is in a hurry, and whoever is when somebody is.
//!
//! A request is urgent when what remains of it takes longer than the time until it is due. The thesis prints this rule
//! and says another; both are here, and two that mend what both lack: a request that is late already stays urgent for
//! ever, so that hopeless work is served while more becomes hopeless.

use super::idle::idle_time;
use super::layerweaver::Layerweaver;
use super::{Job, LayerweaverRules, Scheduler, SchedulerView};
use crate::machine::Machine;
use crate::profile::Picos;

/// When a request is urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// The text: what remains takes longer than the time that is left. What remains is the share of the pass that is not
    /// placed yet times its time alone.
    Text,
    /// Figure V.3 as it is printed: the time that is left is longer than the pass takes alone.
    Printed,
    /// As the text, with the rest of the pass timed exactly behind what has been placed.
    Precise,
    /// The rest must begin soon to be in time, and can be in time: least laxity first, hopeless requests when nothing
    /// else is urgent.
    Laxity,
}

/// Layerweaver+.
#[derive(Clone, Debug)]
pub struct LayerweaverPlus {
    urgency: Urgency,
    calm: Layerweaver,
    reason: &'static str,
}

impl LayerweaverPlus {
    /// With this rule of urgency.
    #[must_use]
    pub fn new(urgency: Urgency) -> Self {
        Self { urgency, calm: Layerweaver::new(LayerweaverRules::default()), reason: "" }
    }

    /// Whether job `at` is urgent now.
    fn is_urgent(&self, view: &SchedulerView<'_>, job: &Job) -> bool {
        let left = job.due.saturating_sub(view.now);
        match self.urgency {
            Urgency::Text => remaining_alone(job) > left,
            Urgency::Printed => left > job.pass.alone,
            Urgency::Precise => computed_alone(view.machine, job, view.now) > job.due,
            Urgency::Laxity => {
                let ends = earliest(view, job);
                // As long again for blocks of others that are placed between.
                ends <= job.due && ends.saturating_add(remaining_alone(job)) > job.due
            }
        }
    }
}

/// Its time alone for the share of the pass that is not placed yet, the next block included (Figure V.3's slice would
/// leave the last out).
pub(super) fn remaining_alone(job: &Job) -> Picos {
    let (left, whole) = (job.compute_left + job.fetch_left, job.pass.compute + job.pass.fetch);
    (job.pass.alone as f64 * left as f64 / whole.max(1) as f64) as Picos
}

/// When it would be computed if nothing else were placed any more.
fn computed_alone(machine: &Machine, job: &Job, now: Picos) -> Picos {
    let mut machine = machine.clone();
    let rest = job.pass.blocks.get(job.next..).unwrap_or(&[]);
    rest.iter().map(|block| machine.place(block, job.stream, now).compute_end).last().unwrap_or(now)
}

/// A bound on that: neither resource can be done earlier.
pub(super) fn earliest(view: &SchedulerView<'_>, job: &Job) -> Picos {
    let fetched = view.machine.memory_free().max(view.now) + job.fetch_left;
    (view.machine.compute_free().max(view.now) + job.compute_left).max(fetched)
}

impl Scheduler for LayerweaverPlus {
    fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
        let urgent = (0..view.jobs.len()).filter(|&at| self.is_urgent(view, &view.jobs[at]));
        // Mode 2: the least slack; with laxity, what remains counts as well.
        let slack = |&at: &usize| match self.urgency {
            Urgency::Laxity => view.jobs[at].due.saturating_sub(earliest(view, &view.jobs[at])),
            _ => view.jobs[at].due,
        };
        if let Some(at) = urgent.min_by_key(slack) {
            self.reason = "urgent";
            return at;
        }
        // Mode 1: Layerweaver, and of equals the one that is due first (section V.2).
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
