//! Profiles out of networks: how long each unit computes and fetches on an NPU.

#[cfg(test)]
mod tests;

use std::fmt;

use crate::hardware::Npu;
use crate::mapping::{Mapping, MappingError};
use crate::profile::{Block, NetworkProfile, Picos};
use crate::workload::{Layer, LayerType, Network};

/// How a network is lowering into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoweringOptions {
    /// Samples that are computed together. 1 to 2^32.
    pub batch: u64,
    /// Of products of two activations.
    pub folding: Folding,
    /// What a block is.
    pub granularity: Granularity,
    /// What passes the memory's wires.
    pub traffic: Traffic,
}

impl Default for LoweringOptions {
    /// A sample, as the thesis has it.
    fn default() -> Self {
        Self {
            batch: 1,
            folding: Folding::IntoNext,
            granularity: Granularity::Layer,
            traffic: Traffic::Weights,
        }
    }
}

/// Where products of two activations are computed: they have no weights, so nothing is gained by scheduling
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folding {
    /// With the next layer that has weights, or the last where none follows. BERT base has 75 units, as the
    /// thesis counts them.
    IntoNext,
    /// On their own.
    Apart,
}

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// Layers one after another whose weights are at most so many bytes together. At least 1.
    Fused {
        /// Of weights.
        bytes: u64,
    },
    /// A layer.
    Layer,
    /// Equal parts of a layer, each of at most so many bytes of weights that compute for at most so long, as parts of
    /// the outputs do. Both at least 1.
    Tile {
        /// Of weights.
        bytes: u64,
        /// Of computation, ps.
        time: Picos,
    },
}

/// What passes the memory's wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Weights, and keys and values of before: all that the thesis counts.
    Weights,
    /// Also what of activations has no room in their buffer: it is written, and read again.
    ///
    /// A layer keeps what comes in and what goes out. What of the latter has no room is added twice to the
    /// fetch of the next block, which is as long as it takes but may be earlier than it could be.
    WithActivations,
}

/// A profile, and what had to be done for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lowering {
    /// The profile.
    pub profile: NetworkProfile,
    /// Units that the weight buffer cannot hold, in the order of execution.
    pub splits: Vec<LayerSplit>,
    /// Bytes of activations that are written and read again, in all; 0 of [`Traffic::Weights`].
    pub spilled: u64,
}

/// A unit that the weight buffer cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSplit {
    /// Its layers.
    pub layer: String,
    /// Its weights.
    pub bytes: u64,
    /// Into how many parts of at most half of the buffer it is split.
    pub parts: u64,
}

impl fmt::Display for LayerSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layer, bytes, parts } = self;
        write!(
            f,
            "`{layer}` has {bytes} bytes, more than the weight buffer; it is split into {parts} parts"
        )
    }
}

/// A profile that cannot be lowering.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoweringError {
    /// Of no samples, or of more than anybody has.
    Batch {
        /// How many.
        found: u64,
    },
    /// Of blocks of no bytes.
    EmptyBlocks,
    /// The array cannot have the mapping.
    Mapping(MappingError),
    /// A time beyond 64 bits of ps, 213 days.
    TooLong {
        /// Of which layer.
        layer: String,
    },
    /// So many parts that no list holds them.
    TooMany {
        /// Of which layer.
        layer: String,
        /// How many.
        parts: u64,
    },
    /// Times that were measured are of the batch and the blocks that they were measured of.
    Measured {
        /// Of which network.
        network: String,
    },
}

impl fmt::Display for LoweringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batch { found } => {
                write!(f, "a batch of {found} samples: expected 1 to {MOST_SAMPLES}")
            }
            Self::EmptyBlocks => f.write_str("blocks of 0 bytes or no time: expected at least 1"),
            Self::Mapping(error) => error.fmt(f),
            Self::TooLong { layer } => {
                write!(f, "`{layer}` takes longer than 213 days: its sizes or the NPU's are wrong")
            }
            Self::TooMany { layer, parts } => write!(
                f,
                "`{layer}` would be split into {parts} parts, more than {MOST_PARTS}; take larger blocks or \
                 a larger weight buffer"
            ),
            Self::Measured { network } => write!(
                f,
                "`{network}` holds times that were measured: they are of one batch, and no layers to fuse; leave the \
                 batch at 1, and blocks layers or tiles"
            ),
        }
    }
}

impl std::error::Error for LoweringError {}

impl From<MappingError> for LoweringError {
    fn from(error: MappingError) -> Self {
        Self::Mapping(error)
    }
}

/// Of a batch: products with bytes of 64 bits fit into 128 bits with room.
const MOST_SAMPLES: u64 = 1 << 32;
/// Of one unit.
const MOST_PARTS: u64 = 1 << 20;

/// Upper bounds of one tile, both at least 1.
#[derive(Clone, Copy)]
struct TileLimits {
    bytes: u64,
    time: Picos,
}

/// What is scheduled as one before it is split: layers and what they take.
struct Unit<'n> {
    layers: Vec<&'n Layer>,
    cycles: u128,
    /// Reservation in the weight buffer.
    bytes: u128,
    /// Passes the wires besides.
    stream: u128,
}

impl Unit<'_> {
    fn name(&self) -> String {
        match &self.layers[..] {
            [] => String::new(),
            [one] => one.name.clone(),
            // The layer that has the weights gives the name; what is folded into it comes before.
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

fn is_folded(layer: &Layer) -> bool {
    layer.kind == LayerType::Activations
}

impl Network {
    /// How many units are scheduled.
    #[must_use]
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

/// The blocks of a network on an NPU.
///
/// A unit that is larger than the weight buffer is split into equal parts of at most half of the buffer: the
/// next may be fetched while one computes. One that just fits is not, as in the thesis.
///
/// # Errors
/// A batch or blocks of nothing; a mapping that the array cannot have; times beyond 64 bits.
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
    // What the layer before has written and this one reads.
    let mut carried = 0;
    let mut units: Vec<Unit<'n>> = Vec::new();
    let mut pending: Option<Unit<'n>> = None;
    for (index, layer) in network.layers.iter().enumerate() {
        let stream = batch * u128::from(layer.stream_bytes) + 2 * carried;
        let mut unit = Unit {
            layers: vec![layer],
            cycles: mapping.cycles(layer, options.batch, parts.pes),
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

fn fetched_bytes(layer: &Layer, batch: u128) -> u128 {
    let times = if layer.weights_scale_with_batch { batch } else { 1 };
    u128::from(layer.weight_bytes) * times
}

/// Bytes of what comes out for which there is no room beside what comes in.
fn spilled_bytes(layer: &Layer, batch: u128, room: u64) -> u128 {
    let output = batch * u128::from(layer.output_bytes);
    let held = output + batch * u128::from(layer.input_bytes);
    held.saturating_sub(room.into()).min(output)
}

/// Units one after another, as long as their weights are at most so many bytes.
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

/// What was measured, of which nothing is changed but that blocks are cut where they must be.
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

    /// Adds what is one block as parts that fit: into the buffer, and into a tile.
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

/// What part `part` of `parts` has of a whole: all of them together have all of it, and none has more than the
/// quotient rounded up.
fn share(whole: Picos, part: u64, parts: u64) -> Picos {
    let end_of = |part: u64| u128::from(whole) * u128::from(part) / u128::from(parts);
    // The difference is at most `whole`, which fits into 64 bits.
    (end_of(part + 1) - end_of(part)) as u64
}
