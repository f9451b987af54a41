//! What placing a block would let stand still (thesis, section IV.3).

use super::SchedulerView;
use crate::machine::Placement;
use crate::profile::Picos;

/// Of one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTime {
    /// When it would be fetched and computed.
    pub placement: Placement,
    /// The array stands still before it.
    pub compute: Picos,
    /// The memory stands still before it, because the buffer is full.
    pub memory: Picos,
}

impl IdleTime {
    /// Both together.
    #[must_use]
    pub fn total(&self) -> Picos {
        self.compute + self.memory
    }
}

/// What placing the next block of job `at` lets stand still, exactly, from the machine: the printed formula for the array
/// forgets that the fetch may have to wait for room, and the one for the memory holds only where it is positive.
///
/// A block that computes longer than the buffer takes to fill makes the memory wait whatever is placed after it. That
/// ("inherent") wait is met by the blocks that come after it, all alike, and so decides nothing.
#[inline]
#[must_use]
pub fn idle_time(view: &SchedulerView<'_>, at: usize) -> IdleTime {
    let (machine, job) = (view.machine, &view.jobs[at]);
    let placement = machine.peek(&job.block, job.stream, view.now);
    IdleTime {
        placement,
        compute: placement.fetch_end.saturating_sub(machine.compute_free()),
        memory: placement.fetch_start - machine.memory_free().max(view.now),
    }
}
