//! Schedulers by deadline or by slowdown.

use super::layerweaver_plus::{earliest, remaining_alone};
use super::{Scheduler, SchedulerView};
use crate::profile::Picos;

/// Earliest deadline first (EDF), block by block.
#[derive(Clone, Debug, Default)]
pub struct EarliestDeadlineFirst;

impl Scheduler for EarliestDeadlineFirst {
    fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
        let due = |&at: &usize| (view.jobs[at].due, view.jobs[at].arrived);
        (0..view.jobs.len()).min_by_key(due).unwrap_or(0)
    }

    fn reason(&self) -> &'static str {
        "earliest deadline"
    }
}

/// Scheduler after PREMA: requests collect tokens in proportion to their slowdown. Of those with at least a share of
/// the most tokens, the one with the least work left runs. It may be preempted after any block.
///
/// PREMA's tenant priorities and checkpoints are not modeled: all tenants are equal, and a preempted pass keeps its
/// results in the activation buffer.
#[derive(Clone, Debug)]
pub struct Prema {
    /// Share of the most tokens, in (0, 1].
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
        "least remaining work among the most slowed-down requests"
    }
}

/// Least laxity first, among requests that can still meet their deadlines. Hopeless requests run only if there are no
/// others, the one with the least work left first. Requests without deadlines come after those that can be in time,
/// first come, first served.
#[derive(Clone, Debug, Default)]
pub struct LeastLaxity;

impl Scheduler for LeastLaxity {
    fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
        let order = |&at: &usize| {
            let job = &view.jobs[at];
            let ends = earliest(view, job);
            let (is_late, rank) = match job.due {
                // Without a deadline there is no laxity: more work left is no reason to be first.
                Picos::MAX => (false, Picos::MAX),
                due if ends <= due => (false, due - ends),
                _ => (true, remaining_alone(job)),
            };
            (is_late, rank, job.arrived)
        };
        (0..view.jobs.len()).min_by_key(order).unwrap_or(0)
    }

    fn reason(&self) -> &'static str {
        "least laxity"
    }
}
