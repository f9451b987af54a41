//! Whose block is next: schedulers, one a file.

#[cfg(test)]
mod tests;

mod balanced;
mod idle;
mod layerweaver;
mod serial;

mod turns;

pub use balanced::Balanced;
pub use layerweaver::{Layerweaver, Rules};
pub use serial::{Serial, Whole};
pub use turns::RoundRobin;

use std::sync::Arc;

use crate::machine::Machine;
use crate::profile::{Block, Picos};

/// A pass of a network that has begun or may begin: its blocks are placed in order.
#[derive(Clone, Debug)]
pub struct Job {
    /// Whose it is.
    pub stream: usize,
    /// All of them.
    pub blocks: Arc<[Block]>,
    /// Which of them is next; there is one.
    pub next: usize,
    /// That one.
    pub block: Block,
    /// When it came.
    pub arrived: Picos,
    /// When it should be computed; the end of time where nobody asks.
    pub due: Picos,
    /// What its blocks from the next on compute, together.
    pub compute_left: Picos,
    /// What they fetch.
    pub fetch_left: Picos,
}

impl Job {
    /// All blocks are to be placed, of which there is at least one.
    #[must_use]
    pub fn new(stream: usize, blocks: &Arc<[Block]>, arrived: Picos, due: Picos) -> Self {
        let sum = |of: fn(&Block) -> Picos| blocks.iter().map(of).sum();
        let (compute_left, fetch_left) = (sum(|block| block.compute), sum(|block| block.fetch));
        let (blocks, block) = (Arc::clone(blocks), blocks[0]);
        Self { stream, blocks, next: 0, block, arrived, due, compute_left, fetch_left }
    }

    /// Another pass of the same network.
    pub fn restart(&mut self) {
        let sum = |of: fn(&Block) -> Picos| self.blocks.iter().map(of).sum();
        (self.compute_left, self.fetch_left) =
            (sum(|block| block.compute), sum(|block| block.fetch));
        (self.next, self.block) = (0, self.blocks[0]);
    }

    /// The next block is placed: whether there is another.
    pub fn step(&mut self) -> bool {
        self.compute_left -= self.block.compute;
        self.fetch_left -= self.block.fetch;
        self.next += 1;
        match self.blocks.get(self.next) {
            Some(&block) => {
                self.block = block;
                true
            }
            None => false,
        }
    }
}

/// What a scheduler sees.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What has been placed.
    pub machine: &'a Machine,
    /// What may be placed; at least one job.
    pub jobs: &'a [Job],
    /// When it is asked: nothing is fetched before.
    pub now: Picos,
}

/// Says whose block is next.
pub trait Scheduler {
    /// The position of a job in the view.
    fn pick(&mut self, view: &View<'_>) -> usize;
}

/// What a scheduler may know of a stream before anything runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tenant {
    /// What a pass computes.
    pub compute: Picos,
    /// What a pass fetches.
    pub fetch: Picos,
    /// How long the memory waits in a pass, at least, for blocks that compute longer than the buffer takes to fill.
    pub wait: Picos,
    /// How long a pass takes that follows another of the same network, with nothing else there.
    pub alone: Picos,
}

impl Tenant {
    /// The array is what it waits for, not the memory.
    #[must_use]
    pub fn is_compute_bound(&self) -> bool {
        self.compute >= self.fetch
    }
}
