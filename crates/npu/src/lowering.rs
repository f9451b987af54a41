//! Lowering of networks to profiles: how networks become blocks, and how long each block computes and fetches on an
//! NPU.

#[cfg(test)]
mod tests;

use std::fmt;

use thiserror::Error;

use crate::hardware::Npu;
use crate::mapping::{Mapping, MappingError};
use crate::profile::{Block, NetworkProfile, Picos};
use crate::workload::{LayerType, Network, NetworkLayer};

/// Options for lowering a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoweringOptions {
    /// Samples per pass. 1 to 2^32.
    pub batch: u64,
    /// Placement of products of two activations.
    pub folding: Folding,
    /// Size of a block.
    pub granularity: Granularity,
    /// Data that is transferred from and to memory.
    pub traffic: Traffic,
}

impl Default for LoweringOptions {
    /// Returns the options of the thesis: one sample, folded products, a block per layer, weight traffic only.
    fn default() -> Self {
        Self {
            batch: 1,
            folding: Folding::IntoNext,
            granularity: Granularity::Layer,
            traffic: Traffic::Weights,
        }
    }
}

/// Placement of products of two activations. They have no weights, so scheduling them separately gains nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folding {
    /// Folded into the next layer with weights, or into the last unit if none follows. BERT base then has 75 units, as
    /// in the thesis.
    IntoNext,
    /// In blocks of their own.
    Apart,
}

/// Size of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// Consecutive layers whose weights together have at most `bytes` bytes. At least 1.
    Fused {
        /// Weights per block.
        bytes: u64,
    },
    /// One layer per block.
    Layer,
    /// Equal parts of a layer, split along its outputs. Each part has at most `bytes` of weights and computes for at
    /// most `time`. Both are at least 1.
    Tile {
        /// Weights per block.
        bytes: u64,
        /// Compute time per block, ps.
        time: Picos,
    },
}

/// Data that is transferred from and to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Weights and cached keys and values, as in the thesis.
    Weights,
    /// Also activations that do not fit into their buffer: they are written and read back.
    ///
    /// A layer holds its inputs and outputs. Twice the outputs that do not fit are added to the fetch of the next
    /// block. The duration of the transfer is exact, but it may start earlier than real hardware could.
    WithActivations,
}

/// A profile, with notes on how it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lowering {
    /// The profile.
    pub profile: NetworkProfile,
    /// Units larger than the weight buffer, in execution order.
    pub splits: Vec<LayerSplit>,
    /// Bytes of activations that are written and read back; 0 with [`Traffic::Weights`].
    pub spilled: u64,
}

/// A unit that was split because the weight buffer cannot hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSplit {
    /// Name of the unit's layers.
    pub layer: String,
    /// Weights of the unit, bytes.
    pub bytes: u64,
    /// Number of parts.
    pub parts: u64,
}

impl fmt::Display for LayerSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layer, bytes, parts } = self;
        write!(
            f,
            "`{layer}` has {bytes} bytes, more than the weight buffer, and is split into {parts} \
             parts"
        )
    }
}

/// Reason why a network cannot be lowered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoweringError {
    /// The batch is not in 1 to 2^32.
    #[error("batch of {found} samples: expected 1 to {MOST_SAMPLES}")]
    Batch {
        /// The requested batch.
        found: u64,
    },
    /// A limit on blocks, in bytes or time, is 0.
    #[error("block of 0 bytes or 0 time: expected at least 1")]
    EmptyBlocks,
    /// The mapping does not fit the array.
    #[error("{0}")]
    Mapping(#[from] MappingError),
    /// A time exceeds 64 bits of ps (213 days).
    #[error("`{layer}` takes longer than 213 days; check its sizes and the NPU")]
    TooLong {
        /// Name of the layer.
        layer: String,
    },
    /// A unit would be split into more than 2^20 parts.
    #[error(
        "`{layer}` would be split into {parts} parts; expected at most {MOST_PARTS}; use larger \
         blocks or a larger weight buffer"
    )]
    TooMany {
        /// Name of the layer.
        layer: String,
        /// Number of parts.
        parts: u64,
    },
    /// Measured times are valid only for the batch and the blocks that were measured.
    #[error(
        "`{network}` contains measured times, which have a fixed batch and no layers to fuse; use \
         batch 1, and layers or tiles as blocks"
    )]
    Measured {
        /// Name of the network.
        network: String,
    },
}

/// Largest batch: products with 64-bit byte counts fit into 128 bits.
const MOST_SAMPLES: u64 = 1 << 32;
/// Largest number of parts of one unit.
const MOST_PARTS: u64 = 1 << 20;

/// Upper bounds of one tile, both at least 1.
#[derive(Clone, Copy)]
struct TileLimits {
    bytes: u64,
    time: Picos,
}

/// Layers that are scheduled as one, before splitting.
struct Unit<'n> {
    layers: Vec<&'n NetworkLayer>,
    cycles: u128,
    /// Bytes that occupy the weight buffer.
    bytes: u128,
    /// Bytes that are transferred without occupying the buffer.
    stream: u128,
}

impl Unit<'_> {
    fn name(&self) -> String {
        match &self.layers[..] {
            [] => String::new(),
            [one] => one.name.clone(),
            // The layer with the weights names the unit; the layers folded into it come before it.
            [.., last] if self.layers.iter().rev().skip(1).all(|layer| is_folded(layer)) => {
                last.name.clone()
            }
            [first, .., last] => format!("{}..{}", first.name, last.name),
        }
    }

    fn join(&mut self, other: Self) {
        self.layers.extend(other.layers);
        self.cycles = self.cycles.saturating_add(other.cycles);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.stream = self.stream.saturating_add(other.stream);
    }
}

fn is_folded(layer: &NetworkLayer) -> bool {
    layer.kind == LayerType::Activations
}

impl Network {
    /// Returns the number of units that are scheduled.
    pub fn units(&self, folding: Folding) -> usize {
        match folding {
            Folding::Apart => self.layers.len(),
            Folding::IntoNext => {
                let own = self.layers.iter().filter(|layer| !is_folded(layer)).count();
                own.max(1).min(self.layers.len())
            }
        }
    }
}

/// Lowers a network to a profile for an NPU.
///
/// A unit that is larger than the weight buffer is split into equal parts of at most half of the buffer, so that the
/// next part can be fetched while one computes. A unit that just fits is not split, as in the thesis.
///
/// ```
/// use dyno_npu::hardware::Npu;
/// use dyno_npu::lowering::{Granularity, LoweringOptions, lower};
/// use dyno_npu::workload::Network;
///
/// let bert = Network::preset("BB")?;
/// let npu = Npu::preset("memory-centric")?;
/// let mapping = "kcp+1".parse()?;
/// let layers = lower(&bert, &npu, mapping, &LoweringOptions::default())?.profile;
/// assert_eq!((layers.blocks.len(), layers.labels[1].as_str()), (75, "l0_q"));
///
/// let granularity = Granularity::Fused { bytes: 8_000_000 };
/// let options = LoweringOptions { granularity, ..LoweringOptions::default() };
/// let fused = lower(&bert, &npu, mapping, &options)?.profile;
/// assert!(fused.blocks.len() < layers.blocks.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the batch or a limit on blocks is 0, the mapping does not fit the array, a time exceeds 64 bits, a unit has
/// too many parts, or measured times would have to be changed.
pub fn lower(
    network: &Network,
    npu: &Npu,
    mapping: Mapping,
    options: &LoweringOptions,
) -> Result<Lowering, LoweringError> {
    let parts = npu.parameters();
    mapping.fits(parts.pes)?;
    if !(1..=MOST_SAMPLES).contains(&options.batch) {
        return Err(LoweringError::Batch { found: options.batch });
    }
    let (fused, tile) = match options.granularity {
        Granularity::Layer => (None, None),
        Granularity::Fused { bytes } => (Some(bytes), None),
        Granularity::Tile { bytes, time } => (None, Some(TileLimits { bytes, time })),
    };
    if fused == Some(0) || tile.is_some_and(|tile| tile.bytes == 0 || tile.time == 0) {
        return Err(LoweringError::EmptyBlocks);
    }
    let mut lowering = match &network.measured {
        Some(profile) if options.batch == 1 && fused.is_none() => {
            lower_profile(profile, npu, tile)?
        }
        Some(_) => return Err(LoweringError::Measured { network: network.name.clone() }),
        None => {
            let (units, spilled) = units(network, npu, mapping, options);
            let units = match fused {
                Some(bytes) => fuse(units, bytes.min(parts.weight_buffer)),
                None => units,
            };
            let mut lowering = Lowering { spilled, ..Lowering::default() };
            for unit in units {
                lowering.add(&unit, npu, tile)?;
            }
            lowering
        }
    };
    lowering.profile.name.clone_from(&network.name);
    let all = |time: fn(&Block) -> Picos| lowering.profile.blocks.iter().map(time);
    let fits = |time: fn(&Block) -> Picos| all(time).try_fold(0, Picos::checked_add).is_some();
    if fits(|block| block.compute) && fits(|block| block.fetch) {
        Ok(lowering)
    } else {
        Err(LoweringError::TooLong { layer: network.name.clone() })
    }
}

fn units<'n>(
    network: &'n Network,
    npu: &Npu,
    mapping: Mapping,
    options: &LoweringOptions,
) -> (Vec<Unit<'n>>, u64) {
    let parts = npu.parameters();
    let room = match options.traffic {
        Traffic::Weights => None,
        Traffic::WithActivations => parts.activation_buffer,
    };
    let batch = u128::from(options.batch);
    let mut spilled = 0_u128;
    // Output bytes of the previous layer that were spilled and that this layer reads back.
    let mut carried = 0;
    let mut units: Vec<Unit<'n>> = Vec::new();
    let mut pending: Option<Unit<'n>> = None;
    for (index, layer) in network.layers.iter().enumerate() {
        let stream = batch * u128::from(layer.stream_bytes) + 2 * carried;
        let mut unit = Unit {
            layers: vec![layer],
            cycles: npu.layer_cycles(layer, mapping, options.batch),
            bytes: fetched_bytes(layer, batch),
            stream,
        };
        let is_last = index + 1 == network.layers.len();
        carried = match room {
            Some(room) if !is_last => spilled_bytes(layer, batch, room),
            _ => 0,
        };
        spilled += carried;
        if let Some(mut before) = pending.take() {
            before.join(unit);
            unit = before;
        }
        let is_pending = is_folded(layer) && options.folding == Folding::IntoNext;
        match (is_pending, is_last, units.last_mut()) {
            (true, false, _) => pending = Some(unit),
            (true, true, Some(last)) => last.join(unit),
            _ => units.push(unit),
        }
    }
    (units, u64::try_from(spilled).unwrap_or(u64::MAX))
}

fn fetched_bytes(layer: &NetworkLayer, batch: u128) -> u128 {
    let times = if layer.weights_scale_with_batch { batch } else { 1 };
    u128::from(layer.weight_bytes) * times
}

/// Returns the output bytes that do not fit into the activation buffer beside the inputs.
fn spilled_bytes(layer: &NetworkLayer, batch: u128, room: u64) -> u128 {
    let output = batch * u128::from(layer.output_bytes);
    let occupied = output + batch * u128::from(layer.input_bytes);
    occupied.saturating_sub(room.into()).min(output)
}

/// Joins consecutive units while their weights together have at most `bytes` bytes.
fn fuse(units: Vec<Unit<'_>>, bytes: u64) -> Vec<Unit<'_>> {
    let mut fused: Vec<Unit<'_>> = Vec::new();
    for unit in units {
        match fused.last_mut() {
            Some(last) if last.bytes + unit.bytes <= bytes.into() => last.join(unit),
            _ => fused.push(unit),
        }
    }
    fused
}

/// Lowers measured times. Blocks are only split, never changed otherwise.
fn lower_profile(
    profile: &NetworkProfile,
    npu: &Npu,
    tile: Option<TileLimits>,
) -> Result<Lowering, LoweringError> {
    let mut lowering = Lowering::default();
    for (block, label) in profile.blocks.iter().zip(&profile.labels) {
        lowering.push_parts(label, *block, npu.parameters().weight_buffer, tile)?;
    }
    Ok(lowering)
}

impl Lowering {
    fn add(
        &mut self,
        unit: &Unit<'_>,
        npu: &Npu,
        tile: Option<TileLimits>,
    ) -> Result<(), LoweringError> {
        let layer = unit.name();
        let too_long = || LoweringError::TooLong { layer: layer.clone() };
        let compute = npu.cycles(unit.cycles).ok_or_else(too_long)?;
        let fetch = unit.bytes.checked_add(unit.stream).and_then(|bytes| npu.bytes(bytes));
        let fetch = fetch.ok_or_else(too_long)?;
        let bytes = u64::try_from(unit.bytes).map_err(|_| too_long())?;
        self.push_parts(
            &layer,
            Block { compute, fetch, bytes },
            npu.parameters().weight_buffer,
            tile,
        )
    }

    /// Appends a block, split into parts that fit into the buffer and into a tile.
    fn push_parts(
        &mut self,
        layer: &str,
        whole: Block,
        buffer: u64,
        tile: Option<TileLimits>,
    ) -> Result<(), LoweringError> {
        let Block { compute, fetch, bytes } = whole;
        let most = match tile {
            Some(tile) => tile.bytes.min(buffer),
            None if bytes > buffer => (buffer / 2).max(1),
            None => buffer,
        };
        let slices = tile.map_or(1, |tile| compute.div_ceil(tile.time));
        let parts = bytes.div_ceil(most).max(slices).max(1);
        if parts > MOST_PARTS {
            return Err(LoweringError::TooMany { layer: layer.to_owned(), parts });
        }
        if bytes > buffer {
            self.splits.push(LayerSplit { layer: layer.to_owned(), bytes, parts });
        }
        for part in 0..parts {
            self.profile.blocks.push(Block {
                compute: share(compute, part, parts),
                fetch: share(fetch, part, parts),
                bytes: share(bytes, part, parts),
            });
            self.profile.labels.push(match parts {
                1 => layer.to_owned(),
                _ => format!("{layer} ({} of {parts})", part + 1),
            });
        }
        Ok(())
    }
}

/// Returns the share of part number `part` of `parts`. The shares add up to `whole`, and none exceeds the quotient
/// rounded up.
fn share(whole: Picos, part: u64, parts: u64) -> Picos {
    let end_of = |part: u64| u128::from(whole) * u128::from(part) / u128::from(parts);
    // The difference is at most `whole`, which fits into 64 bits.
    (end_of(part + 1) - end_of(part)) as u64
}
