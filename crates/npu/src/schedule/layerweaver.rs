//! Layerweaver's greedy rule (thesis, section IV.3): place the block that causes the least idle time.
//!
//! Our reading, where the text is ambiguous:
//!
//! - Ties go to the block after which the longest fetch of the others would make the array wait least ("potential idle
//!   time"), then to a memory-bound stream, which keeps the memory busy.
//! - Rule against starvation of memory-bound streams: if every memory-bound stream would have to wait for room, the
//!   buffer is full of work for the array, and a memory-bound stream is next. Otherwise small blocks of the others
//!   would still fit and delay it forever.
//! - Rule against starvation of compute-bound streams: if every block makes the array wait, a compute-bound stream is
//!   next. Otherwise its long fetch would be delayed forever.
//! - Of several streams of that kind, the one that causes the least idle time is next.
//! - The whole pass of a stream decides whether it is compute-bound or memory-bound.

use super::idle::{IdleTime, idle_time};
use super::{Scheduler, SchedulerView};
use crate::profile::Picos;

/// Rules that apply. All apply except in ablation studies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerweaverRules {
    /// Count idle time of the memory.
    pub memory_idle: bool,
    /// Prevent starvation; see the module documentation.
    pub starvation: bool,
    /// Break ties by the potential idle time.
    pub potential: bool,
}

impl Default for LayerweaverRules {
    fn default() -> Self {
        Self { memory_idle: true, starvation: true, potential: true }
    }
}

/// The Layerweaver scheduler.
#[derive(Clone, Debug)]
pub struct Layerweaver {
    rules: LayerweaverRules,
    /// Whether the rule against starvation made the last decision.
    starved: bool,
    reason: &'static str,
}

impl Layerweaver {
    /// Creates a scheduler with these rules.
    #[must_use]
    pub fn new(rules: LayerweaverRules) -> Self {
        Self { rules, starved: false, reason: "" }
    }

    /// Returns whether the rule against starvation made the last decision.
    pub(super) fn was_starved(&self) -> bool {
        self.starved
    }

    /// Returns the idle time that ranks candidates.
    fn cost(&self, idle: &IdleTime) -> Picos {
        if self.rules.memory_idle { idle.total() } else { idle.compute }
    }
}

/// Returns the longest fetch of all next blocks, the index of its job, and the longest fetch of the others.
fn longest(view: &SchedulerView<'_>) -> (Picos, usize, Picos) {
    let mut longest = (0, usize::MAX, 0);
    for (at, job) in view.jobs.iter().enumerate() {
        let fetch = job.block.fetch;
        if fetch > longest.0 || longest.1 == usize::MAX {
            longest = (fetch, at, longest.0);
        } else {
            longest.2 = longest.2.max(fetch);
        }
    }
    longest
}

impl Scheduler for Layerweaver {
    fn pick(&mut self, view: &SchedulerView<'_>) -> usize {
        let (most, first, second) = longest(view);
        let (mut best, mut least) = (0, (Picos::MAX, Picos::MAX, true));
        // For memory-bound and compute-bound streams: the job that causes the least idle time.
        let mut relief = [(None, Picos::MAX); 2];
        let mut memory_waits = true;
        let mut array_waits = true;
        let mut is_tied = false;
        for (at, job) in view.jobs.iter().enumerate() {
            let idle = idle_time(view, at);
            // Potential idle time: the array's wait if the longest fetch of the others came next.
            let next = if at == first { second } else { most };
            let potential = if self.rules.potential {
                (idle.placement.fetch_end + next).saturating_sub(idle.placement.compute_end)
            } else {
                0
            };
            let is_compute_bound = job.pass.is_compute_bound();
            let cost = (self.cost(&idle), potential, is_compute_bound);
            is_tied = cost.0 == least.0 || is_tied && cost.0 > least.0;
            if cost < least {
                (best, least) = (at, cost);
            }
            memory_waits &= is_compute_bound || idle.memory > 0;
            array_waits &= idle.compute > 0;
            let class = &mut relief[usize::from(is_compute_bound)];
            if cost.0 < class.1 {
                *class = (Some(at), cost.0);
            }
        }
        let (starved, reason) = match (memory_waits && self.rules.memory_idle, array_waits) {
            (true, false) if self.rules.starvation => {
                (relief[0].0, "the buffer is full, lest those that wait for the memory starve")
            }
            (false, true) if self.rules.starvation => {
                (relief[1].0, "the PEs wait in any case, lest those that wait for them starve")
            }
            _ => (None, ""),
        };
        self.reason = match (starved, is_tied) {
            (Some(_), _) => reason,
            (None, true) => "of equals, the PEs wait least for the longest fetch after it",
            (None, false) => "lets least stand still",
        };
        self.starved = starved.is_some();
        starved.unwrap_or(best)
    }

    fn reason(&self) -> &'static str {
        self.reason
    }
}
