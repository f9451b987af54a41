//! Schedulers by deadline alone, and by how much each stream has been slowed down.

use super::layerweaver_plus::{earliest, remaining_alone};
use super::{Scheduler, SchedulerView};

/// Earliest due first, block by block (EDF).
#[derive(Clone, Debug, Default)]
pub struct EarliestDeadlineFirst;

impl Scheduler for EarliestDeadlineFirst {
    fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
        let due = |&at: &usize| (view.jobs[at].due, view.jobs[at].arrived);
        (0..view.jobs.len()).min_by_key(due).unwrap_or(0)
    }

    fn reason(&self) -> &'static str {
        "due first"
    }
}

/// After PREMA, as far as its idea goes: requests collect tokens by how much they have been slowed down; of those with
/// more than a share of the most, the one with least left to do runs, and may be preempted after any block.
///
/// PREMA's priorities of tenants and its checkpoints are not modelled: all tenants are equal, and a preempted pass keeps
/// what it has computed in the activation buffer.
#[derive(Clone, Debug)]
pub struct Prema {
    /// Of the most tokens, in (0, 1].
    share: f64,
}

impl Default for Prema {
    fn default() -> Self {
        Self { share: 0.5 }
    }
}

impl Scheduler for Prema {
    fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
        let tokens = |at: usize| {
            let job = &view.jobs[at];
            view.now.saturating_sub(job.arrived) as f64 / job.pass.alone as f64
        };
        let most = (0..view.jobs.len()).map(tokens).fold(0.0, f64::max);
        let candidates = (0..view.jobs.len()).filter(|&at| tokens(at) >= self.share * most);
        candidates.min_by_key(|&at| remaining_alone(&view.jobs[at])).unwrap_or(0)
    }

    fn reason(&self) -> &'static str {
        "of those slowed down most, least is left of it"
    }
}

/// Of requests that can still be in time, the one with least laxity; of hopeless ones, which are served when nothing else
/// is there, the one with least left.
#[derive(Clone, Debug, Default)]
pub struct LeastLaxity;

impl Scheduler for LeastLaxity {
    fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
        let order = |&at: &usize| {
            let job = &view.jobs[at];
            let ends = earliest(view, job);
            if ends <= job.due { (false, job.due - ends) } else { (true, remaining_alone(job)) }
        };
        (0..view.jobs.len()).min_by_key(order).unwrap_or(0)
    }

    fn reason(&self) -> &'static str {
        "least laxity"
    }
}
