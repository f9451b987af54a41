//! Exact timing of an NPU that fetches and computes at the same time: one memory, one array, and a weight buffer
//! between them.
//!
//! Blocks are fetched in the order in which they are placed, and computed in the same order (thesis, Figures IV.4 to
//! IV.9). A fetch starts when the memory is free and the buffer has room for the whole block. The room is released when
//! the block has been computed. A computation starts when the array is free and the block has been fetched. Because
//! computations keep the order, a block never overtakes the previous block of its network.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::profile::{Block, Picos};

/// Start and end of the fetch and the computation of a block, ps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Start of the fetch.
    pub fetch_start: Picos,
    /// End of the fetch.
    pub fetch_end: Picos,
    /// Start of the computation.
    pub compute_start: Picos,
    /// End of the computation; the block's buffer space is then free.
    pub compute_end: Picos,
}

/// Limits of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineLimits {
    /// Size of the weight buffer, bytes.
    pub capacity: u64,
    /// Maximum number of blocks in the buffer, including the one that is being computed. 2 is double buffering.
    pub depth: usize,
    /// Cost of switching the array to another stream, ps.
    pub switch: Picos,
    /// Time to transfer a byte from memory, ps.
    pub ps_per_byte: f64,
}

impl MachineLimits {
    /// Returns the minimum time that the memory waits while this block computes, ps: the compute time beyond the time
    /// that filling the rest of the buffer takes.
    #[inline]
    #[must_use]
    pub fn wait(&self, block: &Block) -> Picos {
        let rest = self.capacity.saturating_sub(block.bytes);
        block.compute.saturating_sub((rest as f64 * self.ps_per_byte) as Picos)
    }
}

/// Buffer space that a block occupies.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    until: Picos,
    bytes: u64,
}

/// State of an NPU after the blocks that were placed so far.
///
/// Placing a block takes amortized constant time. It allocates only if more blocks are in the buffer than ever before.
///
/// ```
/// use dyno_npu::machine::{Machine, MachineLimits};
/// use dyno_npu::profile::Block;
///
/// let limits = MachineLimits { capacity: 100, depth: usize::MAX, switch: 0, ps_per_byte: 1.0 };
/// let mut machine = Machine::new(limits);
/// let first = machine.place(&Block { compute: 50, fetch: 10, bytes: 10 }, 0, 0);
/// let second = machine.place(&Block { compute: 20, fetch: 30, bytes: 30 }, 1, 0);
///
/// // The second block is fetched while the first is computed.
/// assert_eq!((first.compute_start, first.compute_end), (10, 60));
/// assert_eq!((second.fetch_start, second.compute_start), (10, 60));
/// ```
#[derive(Clone, Debug)]
pub struct Machine {
    limits: MachineLimits,
    /// Free bytes of the buffer at `memory_free`.
    room: u64,
    memory_free: Picos,
    compute_free: Picos,
    /// Stream of the block that was placed last.
    last: Option<usize>,
    /// Space of blocks whose computation ends after `memory_free`, in order.
    reservations: VecDeque<Reservation>,
    memory_busy: Picos,
    compute_busy: Picos,
}

impl Machine {
    /// Returns an idle machine at time 0.
    #[must_use]
    pub fn new(limits: MachineLimits) -> Self {
        Self {
            limits,
            room: limits.capacity,
            memory_free: 0,
            compute_free: 0,
            last: None,
            reservations: VecDeque::with_capacity(1024),
            memory_busy: 0,
            compute_busy: 0,
        }
    }

    /// Returns the end of the last fetch.
    #[must_use]
    pub fn memory_free(&self) -> Picos {
        self.memory_free
    }

    /// Returns the end of the last computation.
    #[must_use]
    pub fn compute_free(&self) -> Picos {
        self.compute_free
    }

    /// Returns the total time that the memory was busy.
    #[must_use]
    pub fn memory_busy(&self) -> Picos {
        self.memory_busy
    }

    /// Returns the total time that the array was busy, without switching.
    #[must_use]
    pub fn compute_busy(&self) -> Picos {
        self.compute_busy
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> &MachineLimits {
        &self.limits
    }

    /// Returns the free bytes of the buffer at the end of the last fetch.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.room
    }

    /// Returns the stream of the block that was placed last.
    #[must_use]
    pub fn last(&self) -> Option<usize> {
        self.last
    }

    /// Blocks the memory until this time, while another user has it.
    pub fn hold_memory(&mut self, until: Picos) {
        self.memory_free = self.memory_free.max(until);
    }

    /// Blocks the array until this time, while another user has it.
    pub fn hold_array(&mut self, until: Picos) {
        self.compute_free = self.compute_free.max(until);
    }

    /// Returns when a block of `stream` would be fetched and computed if it were placed now. The fetch starts at
    /// `not_before` or later.
    ///
    /// A block larger than the buffer waits for the whole buffer. Lowering splits such blocks, so they occur only in
    /// hand-made profiles.
    #[inline]
    #[must_use]
    pub fn peek(&self, block: &Block, stream: usize, not_before: Picos) -> Placement {
        let mut fetch_start = self.memory_free.max(not_before);
        let mut room = self.room;
        let mut blocks = self.reservations.len();
        for reservation in &self.reservations {
            if room >= block.bytes && blocks < self.limits.depth {
                break;
            }
            room += reservation.bytes;
            blocks -= 1;
            fetch_start = fetch_start.max(reservation.until);
        }
        self.placement_at(block, stream, fetch_start)
    }

    /// Returns the placement of a block whose fetch starts at `fetch_start`.
    #[inline]
    fn placement_at(&self, block: &Block, stream: usize, fetch_start: Picos) -> Placement {
        let fetch_end = fetch_start + block.fetch;
        let array_free = match self.last {
            Some(last) if last != stream => self.compute_free + self.limits.switch,
            _ => self.compute_free,
        };
        let compute_start = array_free.max(fetch_end);
        Placement {
            fetch_start,
            fetch_end,
            compute_start,
            compute_end: compute_start + block.compute,
        }
    }

    /// Places a block of `stream` and returns its times. The fetch starts at `not_before` or later.
    #[inline]
    pub fn place(&mut self, block: &Block, stream: usize, not_before: Picos) -> Placement {
        let mut fetch_start = self.memory_free.max(not_before);
        while self.room < block.bytes || self.reservations.len() >= self.limits.depth {
            let Some(reservation) = self.reservations.pop_front() else { break };
            self.room += reservation.bytes;
            fetch_start = fetch_start.max(reservation.until);
        }
        let placement = self.placement_at(block, stream, fetch_start);
        self.room = self.room.saturating_sub(block.bytes);
        self.reservations
            .push_back(Reservation { until: placement.compute_end, bytes: block.bytes });
        while let Some(reservation) = self.reservations.front()
            && reservation.until <= placement.fetch_end
        {
            self.room += reservation.bytes;
            self.reservations.pop_front();
        }
        // A block larger than the buffer occupied all of it and must not release more than that.
        self.room = self.room.min(self.limits.capacity);
        self.memory_free = placement.fetch_end;
        self.compute_free = placement.compute_end;
        self.last = Some(stream);
        self.memory_busy += block.fetch;
        self.compute_busy += block.compute;
        placement
    }
}
