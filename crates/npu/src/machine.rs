//! Exact timing of an NPU that fetches and computes at the same time: one memory, one array, and a weight buffer
//! between them.
//!
//! Blocks are fetched in the order in which they are placed, and computed in the same order (thesis, Figures IV.4 to
//! IV.9). A fetch starts when the memory is free and the buffer has room for the whole block; [`FetchStart::Partial`] is
//! the other reading. The room is released when the block has been computed. A computation starts when the array is free and the block has been fetched. Because
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
    /// End of the fetch. A partial fetch may pause before it.
    pub fetch_end: Picos,
    /// Start of the computation.
    pub compute_start: Picos,
    /// End of the computation; the block's buffer space is then free.
    pub compute_end: Picos,
}

/// When the fetch of a block starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchStart {
    /// When the buffer has room for the whole block.
    Whole,
    /// When the buffer has any room. The fetch pauses while the buffer is full (thesis, Figure IV.5).
    Partial,
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
    /// When the fetch of a block starts.
    pub fetch: FetchStart,
}

impl MachineLimits {
    /// Returns the minimum time that the memory waits while this block computes, ps: the compute time beyond the time
    /// that filling the rest of the buffer takes.
    #[inline]
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

/// Start and end of a fetch, ps.
#[derive(Clone, Copy, Debug)]
struct FetchTimes {
    start: Picos,
    end: Picos,
}

impl FetchTimes {
    /// Returns the times of a fetch that never waits for room.
    #[inline]
    fn new(block: &Block, start: Picos) -> Self {
        Self { start, end: start + block.fetch }
    }

    /// Delays the fetch until a reservation is released. Before that, there is room for `room` bytes of the block, or
    /// for none because too many blocks are in the buffer.
    #[inline]
    fn release(
        &mut self,
        rule: FetchStart,
        block: &Block,
        reservation: Reservation,
        room: u64,
        is_too_deep: bool,
    ) {
        if rule == FetchStart::Whole || is_too_deep || room == 0 {
            self.start = self.start.max(reservation.until);
            self.end = self.end.max(self.start + block.fetch);
        } else {
            // The bytes beyond the room arrive after the release, at the block's own rate.
            let beyond = u128::from(block.bytes.saturating_sub(room));
            let left = u128::from(block.fetch) * beyond;
            let left = left.div_ceil(u128::from(block.bytes.max(1))) as Picos;
            self.end = self.end.max(reservation.until + left);
        }
    }
}

/// State of an NPU after the blocks that were placed so far.
///
/// Placing a block takes amortized constant time. It allocates only if more blocks are in the buffer than ever before.
///
/// ```
/// use dyno_npu::machine::{FetchStart, Machine, MachineLimits};
/// use dyno_npu::profile::Block;
///
/// let limits = MachineLimits {
///     capacity: 100, depth: usize::MAX, switch: 0, ps_per_byte: 1.0,
///     fetch: FetchStart::Whole,
/// };
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
    /// The block that was placed last.
    last_block: Block,
    /// Space of blocks whose computation ends after `memory_free`, in order.
    reservations: VecDeque<Reservation>,
    memory_busy: Picos,
    compute_busy: Picos,
}

impl Machine {
    /// Returns an idle machine at time 0.
    pub fn new(limits: MachineLimits) -> Self {
        Self {
            limits,
            room: limits.capacity,
            memory_free: 0,
            compute_free: 0,
            last: None,
            last_block: Block { compute: 0, fetch: 0, bytes: 0 },
            reservations: VecDeque::with_capacity(1024),
            memory_busy: 0,
            compute_busy: 0,
        }
    }

    /// Returns the end of the last fetch.
    pub fn memory_free(&self) -> Picos {
        self.memory_free
    }

    /// Returns the end of the last computation.
    pub fn compute_free(&self) -> Picos {
        self.compute_free
    }

    /// Returns the total time that the memory was busy.
    pub fn memory_busy(&self) -> Picos {
        self.memory_busy
    }

    /// Returns the total time that the array was busy, without switching.
    pub fn compute_busy(&self) -> Picos {
        self.compute_busy
    }

    /// Returns the limits.
    pub fn limits(&self) -> &MachineLimits {
        &self.limits
    }

    /// Returns the free bytes of the buffer at the end of the last fetch.
    pub fn room(&self) -> u64 {
        self.room
    }

    /// Returns the stream of the block that was placed last.
    pub fn last(&self) -> Option<usize> {
        self.last
    }

    /// Returns the minimum time that the memory waits while the block placed last computes, whatever is placed next, ps.
    pub(crate) fn inherent_wait(&self) -> Picos {
        self.limits.wait(&self.last_block)
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
    pub fn peek(&self, block: &Block, stream: usize, not_before: Picos) -> Placement {
        let mut fetch = FetchTimes::new(block, self.memory_free.max(not_before));
        let mut room = self.room;
        let mut blocks = self.reservations.len();
        for reservation in &self.reservations {
            let is_too_deep = blocks >= self.limits.depth;
            if room >= block.bytes && !is_too_deep {
                break;
            }
            fetch.release(self.limits.fetch, block, *reservation, room, is_too_deep);
            room += reservation.bytes;
            blocks -= 1;
        }
        self.placement_of(block, stream, fetch)
    }

    /// Returns the placement of a block that is fetched at these times.
    #[inline]
    fn placement_of(&self, block: &Block, stream: usize, fetch: FetchTimes) -> Placement {
        let FetchTimes { start: fetch_start, end: fetch_end } = fetch;
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
        let mut fetch = FetchTimes::new(block, self.memory_free.max(not_before));
        loop {
            let is_too_deep = self.reservations.len() >= self.limits.depth;
            if self.room >= block.bytes && !is_too_deep {
                break;
            }
            let Some(reservation) = self.reservations.pop_front() else { break };
            fetch.release(self.limits.fetch, block, reservation, self.room, is_too_deep);
            self.room += reservation.bytes;
        }
        let placement = self.placement_of(block, stream, fetch);
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
        self.last_block = *block;
        self.memory_busy += block.fetch;
        self.compute_busy += block.compute;
        placement
    }
}
