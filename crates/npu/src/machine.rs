//! The exact timing of an NPU that fetches and computes at once: one memory, one array, a weight buffer between.
//!
//! Blocks are fetched in the order in which they are placed, and computed in the same order (thesis, Figures IV.4 to
//! IV.9). A fetch begins when the memory is free and the buffer has room for the whole block; the room is given back
//! when the block has been computed. A computation begins when the array is free and the block is there. Since
//! computations keep the order, a block never overtakes the block of its network before it.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::profile::{Block, Picos};

/// When a block is fetched and computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The memory begins.
    pub fetch_start: Picos,
    /// The block is there.
    pub fetch_end: Picos,
    /// The array begins.
    pub compute_start: Picos,
    /// The block is computed, and its room in the buffer free.
    pub compute_end: Picos,
}

/// What bounds a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineLimits {
    /// Of the weight buffer, bytes.
    pub capacity: u64,
    /// Blocks in the buffer at most, the one that is computed among them: 2 is double buffering.
    pub depth: usize,
    /// Added where the array turns to another stream.
    pub switch: Picos,
    /// What a byte takes from memory, ps.
    pub ps_per_byte: f64,
}

impl MachineLimits {
    /// How long the memory waits at least while this block is computed: longer than filling the rest of the buffer takes.
    #[inline]
    #[must_use]
    pub fn wait(&self, block: &Block) -> Picos {
        let rest = self.capacity.saturating_sub(block.bytes);
        block.compute.saturating_sub((rest as f64 * self.ps_per_byte) as Picos)
    }
}

/// Room that a block holds.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    until: Picos,
    bytes: u64,
}

/// What has been placed so far, as far as it matters for what is placed next.
///
/// Placing takes constant time on average, and memory is asked for only where more blocks are in the buffer than ever
/// before.
#[derive(Clone, Debug)]
pub struct Machine {
    limits: MachineLimits,
    /// Bytes that nobody holds when the memory is free.
    room: u64,
    memory_free: Picos,
    compute_free: Picos,
    /// Whose block was placed last.
    last: Option<usize>,
    /// Of blocks whose computation ends after the memory is free, in order.
    reservations: VecDeque<Reservation>,
    memory_busy: Picos,
    compute_busy: Picos,
}

impl Machine {
    /// An idle machine at time 0.
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

    /// When the last fetch ends.
    #[must_use]
    pub fn memory_free(&self) -> Picos {
        self.memory_free
    }

    /// When the last computation ends.
    #[must_use]
    pub fn compute_free(&self) -> Picos {
        self.compute_free
    }

    /// How long the memory has been busy.
    #[must_use]
    pub fn memory_busy(&self) -> Picos {
        self.memory_busy
    }

    /// How long the array has been busy, turning to other streams left out.
    #[must_use]
    pub fn compute_busy(&self) -> Picos {
        self.compute_busy
    }

    /// What bounds it.
    #[must_use]
    pub fn limits(&self) -> &MachineLimits {
        &self.limits
    }

    /// Bytes that are free when the last fetch ends.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.room
    }

    /// Whose block was placed last.
    #[must_use]
    pub fn last(&self) -> Option<usize> {
        self.last
    }

    /// Somebody else has the memory until then.
    pub fn hold_memory(&mut self, until: Picos) {
        self.memory_free = self.memory_free.max(until);
    }

    /// Somebody else has the array until then.
    pub fn hold_array(&mut self, until: Picos) {
        self.compute_free = self.compute_free.max(until);
    }

    /// When a block of `stream` would be fetched and computed if it were placed now. It is not asked for before
    /// `not_before`.
    ///
    /// A block that is larger than the buffer would never be fetched: profiles split such layers. Here it waits for the
    /// whole buffer.
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

    /// The rest of the times, from the beginning of the fetch.
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

    /// Places a block of `stream`, which is not fetched before `not_before`.
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
        // What is larger than the buffer took all of it, and gives back no more.
        self.room = self.room.min(self.limits.capacity);
        self.memory_free = placement.fetch_end;
        self.compute_free = placement.compute_end;
        self.last = Some(stream);
        self.memory_busy += block.fetch;
        self.compute_busy += block.compute;
        placement
    }
}
