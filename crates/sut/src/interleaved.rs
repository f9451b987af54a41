//! Networks that share the cores of this machine, block by block: what the schedulers of an NPU would gain there.
//!
//! A core multiplies, and its caches take lines that it asked for meanwhile: the two resources of an NPU, with a cache
//! for its weight buffer. Each block is timed on its own, warm (what it computes) and by how fast weights come from
//! memory (what it fetches): a [`NetworkProfile`], from which the model says what sharing would gain; then the same order of
//! blocks is run, and hints ask for the weights of those that follow as far ahead as the buffer has room.
//!
//! Layers are products of as many rows as their network has, by weights in f32. Each worker has an equal part of the
//! outputs of every layer and goes through the blocks on its own; outputs are not passed on, as only times count.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Mutex;

pub use dyno_kernels::Isa;
use dyno_kernels::{LANES, MAX_VECTORS, Panels, Precision, Prefetch, Team, multiply_ahead};
use dyno_loadgen::clock::{Clock, Nanos};
use dyno_npu::profile::{Block as Times, NetworkProfile, Picos};

/// Outputs of a panel.
const WIDTH: usize = MAX_VECTORS * LANES;
/// Products of a block for each worker, about: tenths of a millisecond, so that blocks of both kinds take turns.
const MACS: usize = 4_000_000;
/// Bytes of a block for each worker, about: a small part of what caches keep.
const BYTES: usize = 1_000_000;
/// Times that a block is run warm; the shortest counts.
const TRIES: usize = 5;

/// A network: products of so many rows each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Of the network.
    pub name: String,
    /// Of each product. At least 1.
    pub rows: usize,
    /// At least one.
    pub layers: Vec<Dense>,
}

/// A layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dense {
    /// Of the layer.
    pub name: String,
    /// At least 1.
    pub inputs: usize,
    /// At least 1.
    pub outputs: usize,
}

/// A part of a layer.
#[derive(Clone, Debug)]
struct Part {
    layer: usize,
    panels: Range<usize>,
}

/// Of one network, what a worker multiplies by, and the blocks of a pass.
struct Packed {
    rows: usize,
    weights: Vec<Panels>,
    parts: Vec<Part>,
    labels: Vec<String>,
}

/// One step of an order: a block, and what is asked for meanwhile.
#[derive(Clone, Debug)]
struct Step {
    stream: usize,
    block: usize,
    ahead: Vec<(usize, usize, Range<usize>)>,
}

/// What a worker reads rows from and writes outputs to.
struct Scratch {
    rows: Vec<f32>,
    outputs: Vec<f32>,
}

/// Networks on cores.
pub struct Interleaved {
    isa: Isa,
    team: Team,
    /// Of each worker, its part of each network.
    packed: Vec<Vec<Packed>>,
    scratch: Vec<Mutex<Scratch>>,
    names: Vec<String>,
}

impl std::fmt::Debug for Interleaved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interleaved").field("isa", &self.isa).field("names", &self.names).finish()
    }
}

impl Interleaved {
    /// Packs networks for so many workers, at least 1. Weights are numbers that mean nothing.
    #[must_use]
    pub fn new(isa: Isa, workers: usize, stacks: &[Stack]) -> Self {
        let workers = workers.max(1);
        let packed = |worker: usize| -> Vec<Packed> {
            stacks.iter().enumerate().map(|(at, of)| pack(of, workers, worker + at)).collect()
        };
        let packed: Vec<_> = (0..workers).map(packed).collect();
        let most = |of: &dyn Fn(&Packed, &Panels) -> usize| {
            let networks = packed[0].iter();
            let sizes = networks.flat_map(|network| {
                network.weights.iter().map(|weights| of(network, weights)).collect::<Vec<_>>()
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
            names: stacks.iter().map(|stack| stack.name.clone()).collect(),
        }
    }

    /// What a pass of each network reads, bytes of all workers.
    #[must_use]
    pub fn bytes(&self, stream: usize) -> usize {
        let of =
            |packed: &Vec<Packed>| packed[stream].weights.iter().map(Panels::bytes).sum::<usize>();
        self.packed.iter().map(of).sum()
    }

    /// How long reading a byte takes from memory when all workers read, ps: of products of one row with the weights of
    /// all networks, which take no longer to multiply than to read.
    pub fn ps_per_byte(&mut self) -> f64 {
        let orders: Vec<Vec<(usize, usize)>> =
            (0..self.names.len()).map(|stream| self.pass(stream)).collect();
        let order = orders.concat();
        let bytes: usize = (0..self.names.len()).map(|stream| self.bytes(stream)).sum();
        let steps: Vec<Step> = order
            .iter()
            .map(|&(stream, block)| Step { stream, block, ahead: Vec::new() })
            .collect();
        self.go(&steps, Some(1));
        let took = self.go(&steps, Some(1));
        took as f64 * 1e3 / bytes.max(1) as f64
    }

    /// The blocks of one pass of a network.
    #[must_use]
    pub fn pass(&self, stream: usize) -> Vec<(usize, usize)> {
        (0..self.packed[0][stream].parts.len()).map(|block| (stream, block)).collect()
    }

    /// Times of all blocks of a network where a byte takes so long from memory. Bytes are of all workers.
    pub fn profile(&mut self, stream: usize, ps_per_byte: f64) -> NetworkProfile {
        let mut profile =
            NetworkProfile { name: self.names[stream].clone(), ..NetworkProfile::default() };
        for (block, label) in self.packed[0][stream].labels.clone().into_iter().enumerate() {
            let bytes = (self.packed[0][stream].size(block) * self.packed.len()) as u64;
            // Warm but for the first.
            let steps = [Step { stream, block, ahead: Vec::new() }];
            let shortest = (0..=TRIES).map(|_| self.go(&steps, None)).min().unwrap_or(0);
            let fetch = (bytes as f64 * ps_per_byte) as Picos;
            profile.blocks.push(Times { compute: shortest * 1_000, fetch, bytes });
            profile.labels.push(label);
        }
        profile
    }

    /// Runs blocks in this order, and says how long it took.
    pub fn run(&mut self, order: &[(usize, usize)]) -> Nanos {
        let steps: Vec<Step> = order
            .iter()
            .map(|&(stream, block)| Step { stream, block, ahead: Vec::new() })
            .collect();
        self.go(&steps, None)
    }

    /// The same with hints: while a block is computed, weights of those that follow are asked for, as many as come in the
    /// time that `profiles` say it takes, and at most `capacity` bytes ahead.
    pub fn run_ahead(
        &mut self,
        order: &[(usize, usize)],
        profiles: &[NetworkProfile],
        ps_per_byte: f64,
        capacity: u64,
    ) -> Nanos {
        let workers = self.packed.len();
        let packed = &self.packed[0];
        let mut steps = Vec::with_capacity(order.len());
        // The next byte to ask for: of which step's block, and how far in it; and what is asked for and not used yet.
        let (mut next, mut into, mut held) = (0, 0, 0);
        for (at, &(stream, block)) in order.iter().enumerate() {
            if next <= at {
                // It was not asked for as a whole, and is fetched now.
                held -= into;
                (next, into) = (at + 1, 0);
            } else {
                held -= packed[stream].size(block);
            }
            let time = profiles[stream].blocks[block].compute as f64;
            let mut budget = (time / ps_per_byte) as usize / workers;
            budget = budget.min((capacity as usize / workers).saturating_sub(held));
            let mut ahead = Vec::new();
            while budget > 0
                && let Some(&(stream, block)) = order.get(next)
            {
                let part = &packed[stream].parts[block];
                let size = packed[stream].size(block);
                let first = part.panels.start * packed[stream].weights[part.layer].panel_bytes();
                let count = budget.min(size - into);
                ahead.push((stream, part.layer, first + into..first + into + count));
                (budget, held, into) = (budget - count, held + count, into + count);
                if into == size {
                    (next, into) = (next + 1, 0);
                }
            }
            steps.push(Step { stream, block, ahead });
        }
        self.go(&steps, None)
    }

    /// Runs steps on all workers; with so many rows, if that is said, instead of the networks'.
    fn go(&mut self, steps: &[Step], rows: Option<usize>) -> Nanos {
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
                parts.extend(step.ahead.iter().map(|(stream, layer, bytes)| Prefetch {
                    weights: &networks[*stream].weights[*layer],
                    bytes: bytes.clone(),
                }));
                let of = (weights, part.panels.clone());
                multiply_ahead(isa, &from[..rows], of, outputs, &parts);
            }
        });
        clock.now() - start
    }
}

impl Packed {
    /// Bytes of a block.
    fn size(&self, block: usize) -> usize {
        let part = &self.parts[block];
        part.panels.len() * self.weights[part.layer].panel_bytes()
    }
}

/// A worker's part of a network.
fn pack(stack: &Stack, workers: usize, seed: usize) -> Packed {
    let mut packed = Packed {
        rows: stack.rows.max(1),
        weights: Vec::new(),
        parts: Vec::new(),
        labels: Vec::new(),
    };
    for (layer, dense) in stack.layers.iter().enumerate() {
        let (inputs, outputs) = (dense.inputs.max(1), dense.outputs.max(1));
        let panels = outputs.div_ceil(WIDTH).div_ceil(workers);
        // Small whole numbers, so that sums of any length are far from infinite and from subnormal.
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
