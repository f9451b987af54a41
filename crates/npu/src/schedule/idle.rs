//! What placing a block would let stand still (thesis, section IV.3).

use crate::machine::Placed;
use crate::profile::Picos;

use super::View;

/// Of one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Idle {
    /// When it would be fetched and computed.
    pub placed: Placed,
    /// The array stands still before it.
    pub compute: Picos,
    /// The memory stands still because the buffer is full: before the fetch and after it, without what the block makes
    /// the memory wait in any case.
    pub memory: Picos,
}

impl Idle {
    /// Both together.
    pub fn total(&self) -> Picos {
        self.compute + self.memory
    }
}

/// What placing the next block of job `at` lets stand still.
///
/// The array: exactly, from the machine (the printed formula forgets that the fetch may have to wait for room). The
/// memory: `max(0, total) - max(0, inherent)`, where the inherent part is that of a computation that is longer than
/// filling the whole buffer.
#[inline]
pub(super) fn idle(view: &View<'_>, at: usize) -> Idle {
    let (machine, job) = (view.machine, &view.jobs[at]);
    let placed = machine.peek(&job.block, job.stream, view.now);
    let before = placed.fetch_start - machine.memory_free().max(view.now);
    let total = before + machine.stall_after(&placed, job.block.bytes);
    Idle {
        placed,
        compute: placed.fetch_end.saturating_sub(machine.compute_free()),
        memory: total.saturating_sub(machine.limits().wait(&job.block)),
    }
}
