//! What schedulers see of a network: how long its blocks compute and fetch, in order.

use std::sync::Arc;

use crate::machine::{Limits, Machine};

/// Time, ps: cycles and bytes become whole numbers of it, so that runs are exact and the same everywhere.
///
/// 2^64 ps are 213 days.
pub type Picos = u64;

/// The least that is scheduled: a layer, a group of fused layers or a part of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The PE array is busy for so long.
    pub compute: Picos,
    /// The memory is busy for so long: weights, and whatever else passes the same wires.
    pub fetch: Picos,
    /// Taken from the weight buffer, from the beginning of the fetch to the end of the computation.
    pub bytes: u64,
    /// So much work must be laid up for the array when the fetch begins, lest it stands still before this block or one
    /// after it in the pass, if they follow one another. Set by [`Profile::new`].
    pub lead: Picos,
}

/// A network on an NPU: the blocks of one pass, for the batch and the precision that it was made for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Of the network.
    pub name: String,
    /// In the order of execution.
    pub blocks: Arc<[Block]>,
    /// Of each block, the name of its layer, and which part of how many it is where it was split.
    pub labels: Vec<String>,
}

impl Profile {
    /// Of these blocks, whose leads are filled in.
    #[must_use]
    pub fn new(name: String, mut blocks: Vec<Block>, labels: Vec<String>) -> Self {
        let mut after: Picos = 0;
        for block in blocks.iter_mut().rev() {
            block.lead = block.fetch + after.saturating_sub(block.compute);
            after = block.lead;
        }
        Self { name, blocks: blocks.into(), labels }
    }

    /// How long all blocks compute.
    #[must_use]
    pub fn compute(&self) -> Picos {
        self.blocks.iter().map(|block| block.compute).sum()
    }

    /// How long all blocks fetch.
    #[must_use]
    pub fn fetch(&self) -> Picos {
        self.blocks.iter().map(|block| block.fetch).sum()
    }
}

/// A pass of a network on a machine, and what schedulers may know of it before it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    /// At least one, in the order of execution.
    pub blocks: Arc<[Block]>,
    /// What they compute.
    pub compute: Picos,
    /// What they fetch.
    pub fetch: Picos,
    /// How long the memory waits, at least, for blocks that compute longer than the buffer takes to fill.
    pub wait: Picos,
    /// How long a pass takes that follows another of the same network, with nothing else there; at least 1.
    pub alone: Picos,
}

impl Pass {
    /// Of a profile, none if it has no blocks.
    #[must_use]
    pub fn new(profile: &Profile, limits: Limits) -> Option<Self> {
        /// Passes before it is counted, and passes counted: in the middle the buffer is as full as it gets.
        const PASSES: u64 = 32;
        let mut machine = Machine::new(limits);
        let mut middle = 0;
        for pass in 0..2 * PASSES {
            for block in profile.blocks.iter() {
                machine.place(block, 0, 0);
            }
            if pass + 1 == PASSES {
                middle = machine.compute_free();
            }
        }
        let alone = ((machine.compute_free() - middle) / PASSES).max(1);
        let wait = profile.blocks.iter().map(|block| limits.wait(block)).sum();
        let (compute, fetch) = (profile.compute(), profile.fetch());
        let pass = Self { blocks: Arc::clone(&profile.blocks), compute, fetch, wait, alone };
        (!profile.blocks.is_empty()).then_some(pass)
    }

    /// The array is what it waits for, not the memory.
    #[inline]
    #[must_use]
    pub fn is_compute_bound(&self) -> bool {
        self.compute >= self.fetch
    }
}
