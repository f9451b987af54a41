//! Layerweaver's greedy rule (thesis, section IV.3): place the block that causes the least idle time.
//!
//! Our default reading, where the text is ambiguous; [`super::SchedulerSpec`] names the others:
//!
//! - Ties go to the block after which the longest fetch of the others would make the array wait least ("potential idle
//!   time"), then to a memory-bound stream, which keeps the memory busy, then to the pass that began first.
//! - Rule against starvation of memory-bound streams: if every memory-bound stream would have to wait for room, the
//!   buffer is full of work for the array, and a memory-bound stream is next. Otherwise small blocks of the others
//!   would still fit and delay it forever.
//! - Rule against starvation of compute-bound streams: if every block makes the array wait, a compute-bound stream is
//!   next. Otherwise its long fetch would be delayed forever.
//! - Of several streams of that kind, the one that causes the least idle time is next.
//! - The whole pass of a stream decides whether it is compute-bound or memory-bound.
//! - Networks that are all of one kind run in whole passes (the failsafe of section IV.4.A).

use super::idle::{IdleTime, idle_time};
use super::{Scheduler, SchedulerSpec, SchedulerView};
use crate::profile::Picos;

/// Rule among blocks that cause equal idle time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieRule {
    /// Least potential idle time, at least 0; then memory-bound streams; then the pass that began first.
    MemoryFirst,
    /// Least potential idle time, at least 0; then the oldest request.
    Oldest,
    /// Least potential idle time, which may be negative; then the pass that began first.
    Printed,
    /// Least idle time of the memory; then the pass that began first.
    MemoryIdle,
}

/// Rules that apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerweaverRules {
    /// Count idle time of the memory.
    pub memory_idle: bool,
    /// Prevent starvation; see the module documentation.
    pub starvation: bool,
    /// Break ties by the potential idle time.
    pub potential: bool,
    /// Rule among equals.
    pub ties: TieRule,
    /// Count the wait that the block placed last causes in any order.
    pub inherent: bool,
    /// Relieve the oldest request of a kind instead of the one that causes the least idle time.
    pub relief_by_age: bool,
}

impl Default for LayerweaverRules {
    fn default() -> Self {
        Self {
            memory_idle: true,
            starvation: true,
            potential: true,
            ties: TieRule::MemoryFirst,
            inherent: true,
            relief_by_age: false,
        }
    }
}

impl LayerweaverRules {
    /// Returns the rules that a specification selects.
    pub(super) fn from_spec(spec: &SchedulerSpec) -> Self {
        let ties = match spec.reading("ties") {
            "oldest" => TieRule::Oldest,
            "printed" => TieRule::Printed,
            "memory-idle" => TieRule::MemoryIdle,
            _ => TieRule::MemoryFirst,
        };
        Self {
            memory_idle: !spec.reads("memory-idle", "off"),
            starvation: !spec.reads("starvation", "off"),
            potential: !spec.reads("potential", "off"),
            ties,
            inherent: !spec.reads("inherent", "excluded"),
            relief_by_age: spec.reads("relief", "oldest"),
        }
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

    /// Returns the ranks of a candidate among equals. `next` is the longest fetch of the others.
    fn tie_ranks(
        &self,
        idle: &IdleTime,
        next: Picos,
        at: usize,
        view: &SchedulerView<'_>,
    ) -> Ranks {
        let job = &view.jobs[at];
        // Potential idle time: the array's wait if the longest fetch of the others came next.
        let potential = match (self.rules.potential, self.rules.ties) {
            (_, TieRule::MemoryIdle) => idle.memory as i64,
            (false, _) => 0,
            (true, TieRule::Printed) => {
                (idle.placement.fetch_end + next) as i64 - idle.placement.compute_end as i64
            }
            (true, _) => {
                (idle.placement.fetch_end + next).saturating_sub(idle.placement.compute_end) as i64
            }
        };
        let third = match self.rules.ties {
            TieRule::MemoryFirst => Picos::from(job.pass.is_compute_bound()),
            TieRule::Oldest => job.arrived,
            TieRule::Printed | TieRule::MemoryIdle => 0,
        };
        (potential, third)
    }
}

/// Ranks of a candidate among equals. Times stay below 2^63 ps, which is 106 days.
type Ranks = (i64, Picos);

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
        let (mut best, mut least) = (0, (Picos::MAX, (i64::MAX, Picos::MAX)));
        // For memory-bound and compute-bound streams: the job that the rules against starvation pick.
        let mut relief = [(None, Picos::MAX); 2];
        let inherent = if self.rules.inherent { 0 } else { view.machine.inherent_wait() };
        let mut memory_waits = true;
        let mut array_waits = true;
        let mut is_tied = false;
        for (at, job) in view.jobs.iter().enumerate() {
            let mut idle = idle_time(view, at);
            idle.memory = idle.memory.saturating_sub(inherent);
            let next = if at == first { second } else { most };
            let cost = (self.cost(&idle), self.tie_ranks(&idle, next, at, view));
            is_tied = cost.0 == least.0 || is_tied && cost.0 > least.0;
            if cost < least {
                (best, least) = (at, cost);
            }
            let is_compute_bound = job.pass.is_compute_bound();
            memory_waits &= is_compute_bound || idle.memory > 0;
            array_waits &= idle.compute > 0;
            let class = &mut relief[usize::from(is_compute_bound)];
            let rank = if self.rules.relief_by_age { job.arrived } else { cost.0 };
            if class.0.is_none() || rank < class.1 {
                *class = (Some(at), rank);
            }
        }
        let (starved, reason) = match (memory_waits && self.rules.memory_idle, array_waits) {
            (true, false) if self.rules.starvation => {
                (relief[0].0, "the buffer is full: prevents starvation of memory-bound streams")
            }
            (false, true) if self.rules.starvation => (
                relief[1].0,
                "the PEs idle with any block: prevents starvation of compute-bound streams",
            ),
            _ => (None, ""),
        };
        self.reason = match (starved, is_tied) {
            (Some(_), _) => reason,
            (None, true) => "tie: the PEs wait least for the longest fetch that follows",
            (None, false) => "least idle time",
        };
        self.starved = starved.is_some();
        starved.unwrap_or(best)
    }

    fn reason(&self) -> &'static str {
        self.reason
    }
}
