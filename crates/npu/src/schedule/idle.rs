//! What placing a block would let stand still (thesis, section IV.3).

use super::View;
use crate::machine::Placed;
use crate::profile::Picos;

/// Of one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// When it would be fetched and computed.
    pub placed: Placed,
    /// The array stands still before it.
    pub compute: Picos,
    /// The memory stands still before it, because the buffer is full.
    pub memory: Picos,
}

impl Idle {
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
pub fn idle(view: &View<'_>, at: usize) -> Idle {
    let (machine, job) = (view.machine, &view.jobs[at]);
    let placed = machine.peek(&job.block, job.stream, view.now);
    Idle {
        placed,
        compute: placed.fetch_end.saturating_sub(machine.compute_free()),
        memory: placed.fetch_start - machine.memory_free().max(view.now),
    }
}
