//! Roofline analysis of networks on NPUs: operations per byte, total compute and fetch times, and the bottleneck.
//!
//! Source: thesis, Figures II.7 and II.8. A network with fewer operations per byte than the NPU's balance waits for the
//! memory. A network with more waits for the PEs. A mapping that leaves PEs idle moves the balance.

#[cfg(test)]
mod tests;

use thiserror::Error;

use crate::hardware::{Npu, PRESETS};
use crate::lowering::{Lowering, LoweringError, LoweringOptions, lower};
use crate::mapping::Mapping;
use crate::profile::Picos;
use crate::workload::{ChangeError, Network, NetworkLayer};

/// The resource that limits a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bottleneck {
    /// The array of PEs.
    Compute,
    /// The memory.
    Memory,
}

impl Bottleneck {
    /// Returns the resource with the longer time; the PEs if both times are equal.
    pub fn from_times(compute: Picos, fetch: Picos) -> Self {
        if compute >= fetch { Self::Compute } else { Self::Memory }
    }

    /// Returns the name that reports show, `compute` or `memory`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
        }
    }
}

/// Returns the operations per byte of weights that a batch fetches. A multiply-accumulate counts as two operations.
///
/// ```
/// use dyno_npu::balance::{intensity, turning_batch};
/// use dyno_npu::hardware::Npu;
/// use dyno_npu::workload::Network;
///
/// let resnet = Network::preset("RN")?;
/// let npu = Npu::preset("memory-centric")?;
/// assert!(intensity(&resnet, 1) > npu.balance(), "compute-bound at batch 1");
/// assert_eq!(turning_batch(&resnet, &npu), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn intensity(network: &Network, batch: u64) -> f64 {
    let operations = 2.0 * network.macs() as f64 * batch as f64;
    let bytes: f64 = network.layers.iter().map(|layer| layer.fetched(batch) as f64).sum();
    operations / bytes
}

/// Returns the smallest batch at which a network is limited by the PEs at their peak.
///
/// `None` if no batch up to 2^32 is: rows of tables, keys and values are fetched for each sample, so a larger batch may
/// not raise the intensity.
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

/// Totals of one pass of a network on an NPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassTotals {
    /// Compute time of all blocks, ps.
    pub compute: Picos,
    /// Fetch time of all blocks, ps.
    pub fetch: Picos,
    /// Multiply-accumulates of the batch.
    pub macs: u64,
    /// Number of blocks whose compute time is at least their fetch time.
    pub compute_bound: usize,
    /// Number of blocks.
    pub blocks: usize,
    /// Energy of the pass, J: multiply-accumulates, bytes from memory, and static power for as long as the busier
    /// resource works. `None` if the NPU has no energy figures.
    pub joules: Option<f64>,
}

impl PassTotals {
    /// Returns the totals of a network that was lowered with these options.
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

    /// Returns the resource that limits the pass.
    pub fn bottleneck(&self) -> Bottleneck {
        Bottleneck::from_times(self.compute, self.fetch)
    }

    /// Returns the time from one pass to the next when passes follow each other and fetches run ahead: the time of the
    /// busier resource, ps.
    pub fn interval(&self) -> Picos {
        self.compute.max(self.fetch)
    }

    /// Returns the share of peak throughput that the PEs reach while they compute; 0 if nothing is computed.
    pub fn utilization(&self, npu: &Npu) -> f64 {
        if self.compute == 0 {
            return 0.0;
        }
        let seconds = self.compute as f64 / 1e12;
        2.0 * self.macs as f64 / (seconds * npu.peak())
    }
}

/// A network and the balance of one NPU: a point of Figure II.7.
#[derive(Clone, Debug, PartialEq)]
pub struct RooflinePoint {
    /// Name of the NPU preset.
    pub npu: &'static str,
    /// Operations per byte at which the memory and the PEs at their peak are equally busy.
    pub balance: f64,
    /// Operations per byte of the network.
    pub intensity: f64,
}

impl RooflinePoint {
    /// Returns the resource that limits the network at peak.
    pub fn bottleneck(&self) -> Bottleneck {
        if self.intensity >= self.balance { Bottleneck::Compute } else { Bottleneck::Memory }
    }
}

/// Returns the roofline point of a network at one batch for every preset NPU.
pub fn points(network: &Network, batch: u64) -> Vec<RooflinePoint> {
    let intensity = intensity(network, batch);
    let point = |preset: &crate::hardware::NpuPreset| {
        let npu = Npu::preset(preset.name).ok()?;
        Some(RooflinePoint { npu: preset.name, balance: npu.balance(), intensity })
    };
    PRESETS.iter().filter_map(point).collect()
}

/// A pass at one batch and one sequence length: a bar of Figure II.8.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepPoint {
    /// Samples per pass.
    pub batch: u64,
    /// Tokens per sample; `None` for a network without sequences.
    pub seq_len: Option<u64>,
    /// Totals of the pass.
    pub pass: PassTotals,
}

/// Reason why [`sweep`] failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The network cannot be changed to a sequence length.
    #[error("{0}")]
    Change(ChangeError),
    /// The network cannot be lowered.
    #[error("{0}")]
    Lowering(LoweringError),
}

/// Returns the passes of a network for each batch and, if the network has sequences, for each length. The batch varies
/// fastest.
///
/// # Errors
/// Fails on a length of 0, a batch of 0, or a network that cannot be lowered.
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

/// Times of one layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerTimes {
    /// Compute time, ps.
    pub compute: Picos,
    /// Fetch time of the weights and of streamed bytes, ps.
    pub fetch: Picos,
}

/// Returns the compute and fetch times of a layer for a batch, without folding. `None` if a time exceeds 64 bits.
pub fn times(layer: &NetworkLayer, npu: &Npu, mapping: Mapping, batch: u64) -> Option<LayerTimes> {
    let compute = npu.cycles(npu.layer_cycles(layer, mapping, batch))?;
    let bytes =
        u128::from(layer.fetched(batch)) + u128::from(batch) * u128::from(layer.stream_bytes);
    Some(LayerTimes { compute, fetch: npu.bytes(bytes)? })
}
