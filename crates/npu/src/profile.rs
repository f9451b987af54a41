//! Profiles of networks: how long each block computes and fetches, in execution order.

mod table;

/// Time in picoseconds. Cycles and bytes are rounded to whole numbers, so runs are exact and equal on all machines.
///
/// 64 bits hold 213 days.
pub type Picos = u64;

/// Smallest unit of scheduling: a layer, a group of fused layers, or a part of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Time that the PE array is busy, ps.
    pub compute: Picos,
    /// Time that the memory is busy, ps: weights and all other traffic of the block.
    pub fetch: Picos,
    /// Bytes in the weight buffer, from the start of the fetch to the end of the computation.
    pub bytes: u64,
}

/// Blocks of one pass of a network on an NPU, at one batch and one precision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkProfile {
    /// Name of the network.
    pub name: String,
    /// Blocks in execution order.
    pub blocks: Vec<Block>,
    /// Label of each block: the name of its layer, and the part number if the layer was split.
    pub labels: Vec<String>,
}

impl NetworkProfile {
    /// Returns the compute time of all blocks, ps.
    pub fn compute(&self) -> Picos {
        self.blocks.iter().map(|block| block.compute).sum()
    }

    /// Returns the fetch time of all blocks, ps.
    pub fn fetch(&self) -> Picos {
        self.blocks.iter().map(|block| block.fetch).sum()
    }
}
