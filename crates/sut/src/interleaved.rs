//! Networks that share the cores of this machine block by block. It measures what the schedulers of
//! an NPU would gain there.
//!
//! A core multiplies while its caches fetch lines that it has requested. These are the two
//! resources of an NPU, with a cache as the weight buffer. Each block is timed alone with warm
//! caches (its computation), and the time to fetch its weights follows from the memory bandwidth.
//! Both make a [`NetworkProfile`], from which the model of the NPU predicts the gain of sharing.
//! Then the same order of blocks is run, with prefetch hints for the weights of the following
//! blocks, as far ahead as the buffer has room.
//!
//! Layers are products of the rows of their network by weights in f32. Each worker computes an
//! equal part of the outputs of every layer and passes through the blocks on its own. Outputs are
//! not passed on to the next layer, because only times are measured.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Mutex;

pub use dyno_kernels::Isa;
use dyno_kernels::{LANES, MAX_VECTORS, Panels, Precision, Prefetch, Team, multiply_ahead};
use dyno_loadgen::clock::{Clock, Nanos};
use dyno_npu::profile::{Block as Times, NetworkProfile, Picos};

/// Outputs per panel.
const WIDTH: usize = MAX_VECTORS * LANES;
/// Approximate number of products per block and worker. A block takes tenths of a millisecond, so
/// that blocks of different networks alternate.
const MACS: usize = 4_000_000;
/// Approximate number of bytes per block and worker: a small part of a cache.
const BYTES: usize = 1_000_000;
/// Number of warm runs of a block; the shortest one counts.
const TRIES: usize = 5;

/// A network: dense layers with the same number of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenseNetwork {
    /// Name of the network.
    pub name: String,
    /// Rows of each product; at least 1.
    pub rows: usize,
    /// Layers; at least one.
    pub layers: Vec<DenseLayer>,
}

/// A dense layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenseLayer {
    /// Name of the layer.
    pub name: String,
    /// Number of inputs; at least 1.
    pub inputs: usize,
    /// Number of outputs; at least 1.
    pub outputs: usize,
}

/// Panels of a layer that make a block.
#[derive(Clone, Debug)]
struct Part {
    layer: usize,
    panels: Range<usize>,
}

/// Weights of one worker for one network, and the blocks of a pass.
struct PackedNetwork {
    rows: usize,
    weights: Vec<Panels>,
    parts: Vec<Part>,
    labels: Vec<String>,
}

/// Step of a schedule: a block, and the weights to prefetch meanwhile.
#[derive(Clone, Debug)]
struct Step {
    stream: usize,
    block: usize,
    prefetches: Vec<WeightRange>,
}

/// Bytes of the weights of a layer.
#[derive(Clone, Debug)]
struct WeightRange {
    stream: usize,
    layer: usize,
    bytes: Range<usize>,
}

/// Buffers of a worker: rows that it reads and outputs that it writes.
struct Scratch {
    rows: Vec<f32>,
    outputs: Vec<f32>,
}

/// Networks on a team of workers that run their blocks in any order.
///
/// ```
/// use dyno_sut::interleaved::{DenseLayer, DenseNetwork, InterleavedNetworks, Isa};
///
/// let layers = vec![DenseLayer { name: "dense".into(), inputs: 64, outputs: 64 }];
/// let network = DenseNetwork { name: "small".into(), rows: 1, layers };
/// let mut networks = InterleavedNetworks::new(Isa::best(), 1, &[network]);
/// let order = networks.pass(0);
/// assert_eq!(order, [(0, 0)]);
/// assert!(networks.run(&order) > 0);
/// ```
pub struct InterleavedNetworks {
    isa: Isa,
    team: Team,
    /// Part of each network, for each worker.
    packed: Vec<Vec<PackedNetwork>>,
    scratch: Vec<Mutex<Scratch>>,
    names: Vec<String>,
}

impl InterleavedNetworks {
    /// Packs networks for this many workers, at least 1. Weights are arbitrary numbers.
    pub fn new(isa: Isa, workers: usize, networks: &[DenseNetwork]) -> Self {
        let workers = workers.max(1);
        let packed = |worker: usize| -> Vec<PackedNetwork> {
            networks
                .iter()
                .enumerate()
                .map(|(at, network)| pack(network, workers, worker + at))
                .collect()
        };
        let packed: Vec<_> = (0..workers).map(packed).collect();
        let most = |size: &dyn Fn(&PackedNetwork, &Panels) -> usize| {
            let networks = packed[0].iter();
            let sizes = networks.flat_map(|network| {
                network.weights.iter().map(|weights| size(network, weights)).collect::<Vec<_>>()
            });
            sizes.max().unwrap_or(0)
        };
        let rows = most(&|network, weights| network.rows * weights.k());
        let outputs = most(&|network, weights| network.rows * weights.panels() * WIDTH);
        let scratch = || Mutex::new(Scratch { rows: vec![0.5; rows], outputs: vec![0.0; outputs] });
        Self {
            isa,
            team: Team::with_workers(workers),
            scratch: (0..workers).map(|_| scratch()).collect(),
            packed,
            names: networks.iter().map(|network| network.name.clone()).collect(),
        }
    }

    /// Returns the number of bytes that all workers read in one pass of a network.
    pub fn bytes_per_pass(&self, stream: usize) -> usize {
        let bytes = |packed: &Vec<PackedNetwork>| {
            packed[stream].weights.iter().map(Panels::bytes).sum::<usize>()
        };
        self.packed.iter().map(bytes).sum()
    }

    /// Returns the time to read a byte from memory while all workers read, in ps. It is measured
    /// with products of one row by the weights of all networks, which are limited by memory.
    pub fn ps_per_byte(&mut self) -> f64 {
        let orders: Vec<Vec<(usize, usize)>> =
            (0..self.names.len()).map(|stream| self.pass(stream)).collect();
        let order = orders.concat();
        let bytes: usize = (0..self.names.len()).map(|stream| self.bytes_per_pass(stream)).sum();
        let steps: Vec<Step> = order
            .iter()
            .map(|&(stream, block)| Step { stream, block, prefetches: Vec::new() })
            .collect();
        self.run_steps(&steps, Some(1));
        let took = self.run_steps(&steps, Some(1));
        took as f64 * 1e3 / bytes.max(1) as f64
    }

    /// Returns the blocks of one pass of a network, as pairs of network and block.
    pub fn pass(&self, stream: usize) -> Vec<(usize, usize)> {
        (0..self.packed[0][stream].parts.len()).map(|block| (stream, block)).collect()
    }

    /// Returns the times of all blocks of a network for a given time per byte. Bytes are the sum
    /// over all workers.
    pub fn profile(&mut self, stream: usize, ps_per_byte: f64) -> NetworkProfile {
        let mut profile =
            NetworkProfile { name: self.names[stream].clone(), ..NetworkProfile::default() };
        for (block, label) in self.packed[0][stream].labels.clone().into_iter().enumerate() {
            let bytes = (self.packed[0][stream].size(block) * self.packed.len()) as u64;
            // All runs but the first have warm caches.
            let steps = [Step { stream, block, prefetches: Vec::new() }];
            let shortest = (0..=TRIES).map(|_| self.run_steps(&steps, None)).min().unwrap_or(0);
            let fetch = (bytes as f64 * ps_per_byte) as Picos;
            profile.blocks.push(Times { compute: shortest * 1_000, fetch, bytes });
            profile.labels.push(label);
        }
        profile
    }

    /// Runs blocks in this order. Returns the duration.
    pub fn run(&mut self, order: &[(usize, usize)]) -> Nanos {
        let steps: Vec<Step> = order
            .iter()
            .map(|&(stream, block)| Step { stream, block, prefetches: Vec::new() })
            .collect();
        self.run_steps(&steps, None)
    }

    /// Runs blocks in this order with prefetch hints. Returns the duration.
    ///
    /// While a block is computed, weights of the following blocks are prefetched: as many as memory
    /// delivers in the computation time of `profiles`, and at most `capacity` bytes ahead.
    pub fn run_with_prefetch(
        &mut self,
        order: &[(usize, usize)],
        profiles: &[NetworkProfile],
        ps_per_byte: f64,
        capacity: u64,
    ) -> Nanos {
        let workers = self.packed.len();
        let packed = &self.packed[0];
        let mut steps = Vec::with_capacity(order.len());
        // Next byte to prefetch (the step of its block and the offset in it), and the bytes that
        // are prefetched but not used yet.
        let (mut next, mut offset, mut prefetched) = (0, 0, 0);
        for (at, &(stream, block)) in order.iter().enumerate() {
            if next <= at {
                // The block was not prefetched completely. The rest is fetched now.
                prefetched -= offset;
                (next, offset) = (at + 1, 0);
            } else {
                prefetched -= packed[stream].size(block);
            }
            let time = profiles[stream].blocks[block].compute as f64;
            let mut budget = (time / ps_per_byte) as usize / workers;
            budget = budget.min((capacity as usize / workers).saturating_sub(prefetched));
            let mut prefetches = Vec::new();
            while budget > 0
                && let Some(&(stream, block)) = order.get(next)
            {
                let part = &packed[stream].parts[block];
                let size = packed[stream].size(block);
                let first = part.panels.start * packed[stream].weights[part.layer].panel_bytes();
                let count = budget.min(size - offset);
                let bytes = first + offset..first + offset + count;
                prefetches.push(WeightRange { stream, layer: part.layer, bytes });
                (budget, prefetched, offset) = (budget - count, prefetched + count, offset + count);
                if offset == size {
                    (next, offset) = (next + 1, 0);
                }
            }
            steps.push(Step { stream, block, prefetches });
        }
        self.run_steps(&steps, None)
    }

    /// Runs steps on all workers. Returns the duration. `rows` replaces the number of rows of all
    /// networks.
    fn run_steps(&mut self, steps: &[Step], rows: Option<usize>) -> Nanos {
        let Self { isa, team, packed, scratch, .. } = self;
        let (isa, packed, scratch) = (*isa, &*packed, &*scratch);
        let clock = Clock::start();
        let start = clock.now();
        team.run(&|worker| {
            let networks = &packed[worker];
            let mut scratch =
                scratch[worker].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let Scratch { rows: from, outputs } = &mut *scratch;
            let mut parts = Vec::new();
            for step in steps {
                let network = &networks[step.stream];
                let part = &network.parts[step.block];
                let weights = &network.weights[part.layer];
                let rows = rows.unwrap_or(network.rows) * weights.k();
                parts.clear();
                parts.extend(step.prefetches.iter().map(|range| Prefetch {
                    weights: &networks[range.stream].weights[range.layer],
                    bytes: range.bytes.clone(),
                }));
                let part = (weights, part.panels.clone());
                multiply_ahead(isa, &from[..rows], part, outputs, &parts);
            }
        });
        clock.now() - start
    }
}

impl PackedNetwork {
    /// Returns the bytes of a block.
    fn size(&self, block: usize) -> usize {
        let part = &self.parts[block];
        part.panels.len() * self.weights[part.layer].panel_bytes()
    }
}

/// Packs the part of a network for one worker.
fn pack(network: &DenseNetwork, workers: usize, seed: usize) -> PackedNetwork {
    let mut packed = PackedNetwork {
        rows: network.rows.max(1),
        weights: Vec::new(),
        parts: Vec::new(),
        labels: Vec::new(),
    };
    for (layer, dense) in network.layers.iter().enumerate() {
        let (inputs, outputs) = (dense.inputs.max(1), dense.outputs.max(1));
        let panels = outputs.div_ceil(WIDTH).div_ceil(workers);
        // Small whole numbers, so that sums are neither infinite nor subnormal.
        let weight = |at: usize| ((at * 7 + seed) % 13) as f32 - 6.0;
        let row: Vec<f32> = (0..inputs).map(weight).collect();
        packed.weights.push(Panels::pack(
            Precision::F32,
            MAX_VECTORS,
            panels * LANES,
            inputs,
            |_, _| &row,
        ));
        let most = (MACS / packed.rows).min(BYTES / 4) / (inputs * WIDTH);
        let most = most.max(1);
        let parts = panels.div_ceil(most);
        for part in 0..parts {
            let panels = part * panels / parts..(part + 1) * panels / parts;
            packed.parts.push(Part { layer, panels });
            packed.labels.push(match parts {
                1 => dense.name.clone(),
                _ => format!("{} {} of {parts}", dense.name, part + 1),
            });
        }
    }
    packed
}
