//! Idle time that placing a block would cause (thesis, section IV.3).

use super::SchedulerView;
use crate::machine::Placement;
use crate::profile::Picos;

/// Idle time that one candidate would cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTime {
    /// When the block would be fetched and computed.
    pub placement: Placement,
    /// Idle time of the array before the block, ps.
    pub compute: Picos,
    /// Idle time of the memory before or during the block's fetch because the buffer is full, ps.
    pub memory: Picos,
}

impl IdleTime {
    /// Returns the idle time of both resources together.
    pub fn total(&self) -> Picos {
        self.compute + self.memory
    }
}

/// Returns the idle time that placing the next block of job `at` would cause.
///
/// The values come from the exact timing of the machine. The thesis' formula for the array ignores that the fetch may
/// wait for room, and its formula for the memory holds only if the result is positive.
///
/// A block that computes longer than filling the buffer takes makes the memory wait whatever is placed next. This
/// inherent wait is part of the idle time of every later candidate alike, so it does not influence the choice among
/// them. It does influence the rules against starvation; the option `inherent` subtracts it there.
#[inline]
pub fn idle_time(view: &SchedulerView<'_>, at: usize) -> IdleTime {
    let (machine, job) = (view.machine, &view.jobs[at]);
    let placement = machine.peek(&job.block, job.stream, view.now);
    IdleTime {
        placement,
        compute: placement.fetch_end.saturating_sub(machine.compute_free()),
        memory: placement.fetch_end - job.block.fetch - machine.memory_free().max(view.now),
    }
}
