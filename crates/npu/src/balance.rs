//! What bounds a network on an NPU: operations for each byte, and the totals of both resources.
//!
//! Thesis, Figures II.7 and II.8: a network with less operations for a byte than the NPU's balance waits for the
//! memory, one with more for the PEs, and a mapping that leaves PEs idle moves the balance.

#[cfg(test)]
mod tests;

use crate::hardware::{Npu, PRESETS};
use crate::lowering::{Lowering, LoweringError, LoweringOptions, lower};
use crate::mapping::Mapping;
use crate::profile::Picos;
use crate::workload::{ChangeError, Layer, Network};

/// Which resource a network waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bottleneck {
    /// The PEs.
    Compute,
    /// The memory.
    Memory,
}

impl Bottleneck {
    /// The longer; the PEs where both are equal.
    #[must_use]
    pub fn from_times(compute: Picos, fetch: Picos) -> Self {
        if compute >= fetch { Self::Compute } else { Self::Memory }
    }

    /// In a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
        }
    }
}

/// Operations for each byte of weights that a batch fetches, two for each multiply-accumulate.
#[must_use]
pub fn intensity(network: &Network, batch: u64) -> f64 {
    let operations = 2.0 * network.macs() as f64 * batch as f64;
    let bytes: f64 = network.layers.iter().map(|layer| layer.fetched(batch) as f64).sum();
    operations / bytes
}

/// The batch from which on a network waits for the PEs at their peak, if any does: rows of tables, keys and
/// values are fetched for each sample.
#[must_use]
pub fn turning_batch(network: &Network, npu: &Npu) -> Option<u64> {
    let largest = 1 << 32;
    let is_compute = |batch| intensity(network, batch) >= npu.balance();
    if !is_compute(largest) {
        return None;
    }
    // Bisection works because intensity never falls as the batch grows.
    let mut memory_bound = 0;
    let mut compute_bound = largest;
    while compute_bound - memory_bound > 1 {
        let middle = memory_bound + (compute_bound - memory_bound) / 2;
        if is_compute(middle) { compute_bound = middle } else { memory_bound = middle }
    }
    Some(compute_bound)
}

/// A pass of a network on an NPU, in totals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassTotals {
    /// All computation, ps.
    pub compute: Picos,
    /// All fetches, ps.
    pub fetch: Picos,
    /// Multiply-accumulates of the batch.
    pub macs: u64,
    /// Blocks that compute no shorter than they are fetched.
    pub compute_bound: usize,
    /// Blocks in all.
    pub blocks: usize,
    /// What a pass takes, J, where the NPU has figures: multiply-accumulates, bytes of the memory, and the
    /// static power for as long as the busier resource needs.
    pub joules: Option<f64>,
}

impl PassTotals {
    /// Of what was lowering of a network.
    #[must_use]
    pub fn new(
        network: &Network,
        npu: &Npu,
        options: &LoweringOptions,
        lowering: &Lowering,
    ) -> Self {
        let profile = &lowering.profile;
        let (compute, fetch) = (profile.compute(), profile.fetch());
        let macs = network.macs().saturating_mul(options.batch);
        let is_compute = |block: &&crate::profile::Block| {
            Bottleneck::from_times(block.compute, block.fetch) == Bottleneck::Compute
        };
        let joules = npu.parameters().energy.map(|energy| {
            let seconds = compute.max(fetch) as f64 / 1e12;
            let bytes = fetch as f64 / 1e12 * npu.parameters().bytes_per_second as f64;
            energy.joules(macs as f64, bytes, seconds)
        });
        Self {
            compute,
            fetch,
            macs,
            compute_bound: profile.blocks.iter().filter(is_compute).count(),
            blocks: profile.blocks.len(),
            joules,
        }
    }

    /// What it waits for.
    #[must_use]
    pub fn bottleneck(&self) -> Bottleneck {
        Bottleneck::from_times(self.compute, self.fetch)
    }

    /// From one pass to the next when one follows the other and fetches run ahead: the busier resource.
    #[must_use]
    pub fn interval(&self) -> Picos {
        self.compute.max(self.fetch)
    }

    /// The share of the peak that PEs do while they compute.
    #[must_use]
    pub fn utilisation(&self, npu: &Npu) -> f64 {
        let seconds = self.compute as f64 / 1e12;
        2.0 * self.macs as f64 / (seconds * npu.peak())
    }
}

/// A network beside an NPU's balance: a point of Figure II.7.
#[derive(Clone, Debug, PartialEq)]
pub struct RooflinePoint {
    /// Which NPU.
    pub npu: &'static str,
    /// Operations a byte at which its memory and its PEs at their peak are both busy.
    pub balance: f64,
    /// Operations a byte that the network has.
    pub intensity: f64,
}

impl RooflinePoint {
    /// What the network waits for at peak.
    #[must_use]
    pub fn bottleneck(&self) -> Bottleneck {
        if self.intensity >= self.balance { Bottleneck::Compute } else { Bottleneck::Memory }
    }
}

/// A network at a batch beside the balance of every preset.
#[must_use]
pub fn points(network: &Network, batch: u64) -> Vec<RooflinePoint> {
    let intensity = intensity(network, batch);
    let point = |preset: &crate::hardware::NpuPreset| {
        let npu = Npu::preset(preset.name).ok()?;
        Some(RooflinePoint { npu: preset.name, balance: npu.balance(), intensity })
    };
    PRESETS.iter().filter_map(point).collect()
}

/// A pass at a batch and a length of sequences: a bar of Figure II.8.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepPoint {
    /// Samples.
    pub batch: u64,
    /// Tokens of a sample; none of a network without sequences.
    pub seq_len: Option<u64>,
    /// What it takes.
    pub pass: PassTotals,
}

/// A sweep cannot be lowering.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SweepError {
    /// The network cannot be changed so.
    Change(ChangeError),
    /// It has no profile.
    Lowering(LoweringError),
}

impl std::fmt::Display for SweepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Change(error) => error.fmt(f),
            Self::Lowering(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SweepError {}

/// Passes of a network for each batch and, if it has sequences, each of their lengths; lengths vary slower.
///
/// # Errors
/// A length of 0, a batch of 0, or a profile that cannot be lowering.
pub fn sweep(
    network: &Network,
    npu: &Npu,
    mapping: Mapping,
    options: &LoweringOptions,
    batches: &[u64],
    lengths: &[u64],
) -> Result<Vec<SweepPoint>, SweepError> {
    let networks: Vec<Network> = match network.seq_len {
        None => vec![network.clone()],
        Some(_) => {
            let changed = lengths.iter().map(|length| network.at_sequence(*length));
            changed.collect::<Result<_, _>>().map_err(SweepError::Change)?
        }
    };
    let mut points = Vec::new();
    for network in &networks {
        for &batch in batches {
            let options = LoweringOptions { batch, ..*options };
            let lowering = lower(network, npu, mapping, &options).map_err(SweepError::Lowering)?;
            let pass = PassTotals::new(network, npu, &options, &lowering);
            points.push(SweepPoint { batch, seq_len: network.seq_len, pass });
        }
    }
    Ok(points)
}

/// A layer on its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerTimes {
    /// How long it computes, ps.
    pub compute: Picos,
    /// How long its weights are fetched, ps.
    pub fetch: Picos,
}

/// How long a layer computes and is fetched for a batch, whatever it is folded into; none beyond 64 bits.
#[must_use]
pub fn times(layer: &Layer, npu: &Npu, mapping: Mapping, batch: u64) -> Option<LayerTimes> {
    let compute = npu.cycles(mapping.cycles(layer, batch, npu.parameters().pes))?;
    let bytes =
        u128::from(layer.fetched(batch)) + u128::from(batch) * u128::from(layer.stream_bytes);
    Some(LayerTimes { compute, fetch: npu.bytes(bytes)? })
}
