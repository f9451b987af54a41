//! Timeline of the first simulated NPU of a test.

use serde::{Deserialize, Serialize};

/// Blocks of networks on an NPU at the beginning of the last run of a test: some milliseconds, some hundred blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timeline {
    /// of the networks
    pub networks: Vec<String>,
    /// in the order in which they were placed
    pub blocks: Vec<Block>,
}

/// A block that was fetched and computed. Times count from the first query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Block {
    /// position of its network in the list
    pub network: usize,
    /// its layer; empty where a network has several versions
    pub layer: String,
    /// number of the part of the array that computed it; null of the whole array
    pub part: Option<usize>,
    /// start and end of its fetch
    pub fetch_ns: [u64; 2],
    /// start and end of its computation
    pub compute_ns: [u64; 2],
}
