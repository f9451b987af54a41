//! What schedulers see of a network: how long its blocks compute and fetch, in order.

mod table;

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
}

/// A network on an NPU: the blocks of one pass, for the batch and the precision that it was lowering for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkProfile {
    /// Of the network.
    pub name: String,
    /// In the order of execution.
    pub blocks: Vec<Block>,
    /// Of each block, the name of its layer, and which part of how many it is where it was split.
    pub labels: Vec<String>,
}

impl NetworkProfile {
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
