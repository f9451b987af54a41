//! Layerweaver's greedy rule (thesis, section IV.3): the block that lets least stand still.
//!
//! Our reading, where the text leaves room: of blocks that let equally little stand still, the one after which the
//! longest fetch of the others would let the array wait least ("potential idle"), then one of a stream that waits for the
//! memory, which keeps the memory busy. The rule against starvation: where every stream that waits for the memory would
//! have to wait for room, the buffer is full of work for the array, and one of them is next (small blocks of the others
//! would still fit, and put them off for ever); where every block makes the array wait, one of a stream that waits for the
//! array is next, because its long fetch would be put off for ever. Of several it is the one that lets least stand
//! still. Which stream is of which kind comes from its whole pass.

use super::idle::{IdleTime, idle_time};
use super::{Scheduler, SchedulerView};
use crate::profile::Picos;

/// Which of the rules hold: all but in ablations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerweaverRules {
    /// Memory that stands still counts.
    pub memory_idle: bool,
    /// Nobody is put off for ever: see the module.
    pub starvation: bool,
    /// Of equals, the one after which the array waits least for the longest fetch of the others.
    pub potential: bool,
}

impl Default for LayerweaverRules {
    fn default() -> Self {
        Self { memory_idle: true, starvation: true, potential: true }
    }
}

/// Layerweaver.
#[derive(Clone, Debug)]
pub struct Layerweaver {
    rules: LayerweaverRules,
    /// The rule against starvation decided last.
    starved: bool,
    reason: &'static str,
}

impl Layerweaver {
    /// With these rules.
    #[must_use]
    pub fn new(rules: LayerweaverRules) -> Self {
        Self { rules, starved: false, reason: "" }
    }

    /// Whether the rule against starvation lowering the last decision.
    pub(super) fn was_starved(&self) -> bool {
        self.starved
    }

    /// What decides first between candidates.
    fn cost(&self, idle: &IdleTime) -> Picos {
        if self.rules.memory_idle { idle.total() } else { idle.compute }
    }
}

/// The longest fetch of all next blocks, whose it is, and the longest of the others.
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
        // Of the streams that wait for the memory, and of those that wait for the array, the one that lets least idle.
        let mut relief = [(None, Picos::MAX); 2];
        let mut memory_waits = true;
        let mut array_waits = true;
        let mut is_tied = false;
        for (at, job) in view.jobs.iter().enumerate() {
            let idle = idle_time(view, at);
            // The array's wait if, after it, the longest fetch of the others came next.
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
