//! Workloads of an NPU: networks as tables of layers.

pub mod language;
mod model;
mod presets;
mod table;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub use dyno_onnx::products::LayerType;

pub use self::model::{DerivationError, DerivedNetwork};
pub use self::presets::{NetworkPreset, PRESETS, UnknownNetwork};
use crate::profile::NetworkProfile;
pub use crate::sheet::{TableError, TableProblem};

/// A layer of one sample: `groups` products of an `m` x `cin_g rs` matrix and a `cin_g rs` x `cout_g` matrix.
///
/// Unlike a [`dyno_onnx::products::Product`], a layer states bytes, which need not follow from counts and bits (cached
/// keys and values, for example). It states neither counts of numbers nor which layer feeds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkLayer {
    /// Name of the layer.
    pub name: String,
    /// Type of the layer.
    pub kind: LayerType,
    /// Number of independent products. At least 1.
    pub groups: u64,
    /// Output positions. At least 1.
    pub m: u64,
    /// Input channels per group; 0 for a table lookup.
    pub cin_g: u64,
    /// Kernel positions. At least 1.
    pub rs: u64,
    /// Output channels per group; 0 for a table lookup.
    pub cout_g: u64,
    /// Bytes fetched into the weight buffer: weights, rows of a table, or cached keys and values.
    pub weight_bytes: u64,
    /// Bytes of the inputs.
    pub input_bytes: u64,
    /// Bytes of the outputs.
    pub output_bytes: u64,
    /// Further bytes of memory traffic that do not occupy the weight buffer, such as keys and values written to the
    /// cache.
    pub stream_bytes: u64,
    /// Whether each sample of a batch fetches its own `weight_bytes`.
    pub weights_scale_with_batch: bool,
    /// Bits of a weight, an input and an output. 1 to 64.
    pub bits: [u32; 3],
    /// Sizes that grow with the sequence length.
    pub growth: SequenceGrowth,
}

/// Sizes of a layer that are proportional to the sequence length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceGrowth {
    /// Output positions.
    pub m: bool,
    /// Inputs: an attention has as many values as tokens.
    pub cin_g: bool,
    /// Outputs: an attention has as many scores as tokens.
    pub cout_g: bool,
}

/// A network: layers in execution order.
///
/// ```
/// use dyno_npu::workload::Network;
///
/// let bert = Network::preset("BB")?;
/// assert_eq!((bert.layers.len(), bert.seq_len), (99, Some(64)));
///
/// let long = bert.at_sequence(384)?;
/// assert!(long.macs() > 6 * bert.macs(), "attention grows with the square of the length");
/// let int8 = bert.in_bits(Some(8), Some(8))?;
/// assert_eq!(2 * int8.weight_bytes(), bert.weight_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Name of the network.
    pub name: String,
    /// Layers in execution order. At least one, except for a network with measured times.
    pub layers: Vec<NetworkLayer>,
    /// Tokens per sample; `None` if the sequence length cannot be changed.
    pub seq_len: Option<u64>,
    /// Times measured on a real engine, which replace the layers. They apply to the batch that was measured.
    pub measured: Option<NetworkProfile>,
}

/// Reason why a network cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The network's sizes do not depend on a sequence length.
    #[error(
        "network `{network}` has no sequence length, because its table has no columns seq_len and \
         seq_sizes"
    )]
    NoSequence {
        /// Name of the network.
        network: String,
    },
    /// The sequence has no tokens.
    #[error("sequence of 0 tokens: expected a length of at least 1")]
    EmptySequence,
    /// A size is not a multiple of the table's sequence length, so it cannot be scaled.
    #[error("layer `{layer}` has sizes that are not multiples of its seq_len {seq_len}")]
    Odd {
        /// Name of the layer.
        layer: String,
        /// Sequence length of the table.
        seq_len: u64,
    },
    /// The number of bits is not in 1 to 64.
    #[error("expected 1 to 64 bits, found {found}")]
    Bits {
        /// The requested bits.
        found: u32,
    },
    /// Measured times cannot be converted to other bits.
    #[error("`{network}` contains measured times, so its number of bits cannot be changed")]
    Measured {
        /// Name of the network.
        network: String,
    },
    /// The network has no layer of this name.
    #[error("unknown layer `{layer}`{near}")]
    UnknownLayer {
        /// The requested name.
        layer: String,
        /// Suggestion: `; the nearest is ...`, or empty.
        near: String,
    },
    /// A size exceeds 64 bits.
    #[error("layer `{layer}` has sizes that exceed 64 bits")]
    TooLarge {
        /// Name of the layer.
        layer: String,
    },
}

impl NetworkLayer {
    /// Returns the multiply-accumulates of one sample; saturates.
    pub fn macs(&self) -> u64 {
        let sizes = [self.m, self.cin_g, self.rs, self.cout_g];
        sizes.into_iter().fold(self.groups, u64::saturating_mul)
    }

    /// Returns the bytes of weights that a batch fetches; saturates.
    pub fn fetched(&self, batch: u64) -> u64 {
        let times = if self.weights_scale_with_batch { batch } else { 1 };
        self.weight_bytes.saturating_mul(times)
    }

    /// Returns the layer for sequences of `new` instead of `old` tokens.
    fn at_sequence(&self, old: u64, new: u64) -> Result<Self, ChangeError> {
        let too_large = || ChangeError::TooLarge { layer: self.name.clone() };
        let grown = |size: u64, grows: bool| {
            if !grows {
                Ok(size)
            } else if size.is_multiple_of(old) {
                (size / old).checked_mul(new).ok_or_else(too_large)
            } else {
                Err(ChangeError::Odd { layer: self.name.clone(), seq_len: old })
            }
        };
        let m = grown(self.m, self.growth.m)?;
        let cin_g = grown(self.cin_g, self.growth.cin_g)?;
        let cout_g = grown(self.cout_g, self.growth.cout_g)?;
        let grown = Self { m, cin_g, cout_g, ..self.clone() };
        if grown.macs() == u64::MAX {
            return Err(too_large());
        }
        let per = |bytes: u64, numbers: fn(&Self) -> u128| {
            scaled(bytes, numbers(&grown), numbers(self)).ok_or_else(too_large)
        };
        let rows = |layer: &Self| u128::from(layer.m);
        let output = |layer: &Self| u128::from(layer.m).saturating_mul(layer.cout_g.into());
        let first = |layer: &Self| u128::from(layer.m).saturating_mul(layer.cin_g.into());
        let second = |layer: &Self| u128::from(layer.cin_g).saturating_mul(layer.cout_g.into());
        let (weight_bytes, input_bytes, output_bytes) = match self.kind {
            // A table lookup yields one row per position.
            LayerType::Gather => {
                let [weights, input] = [self.weight_bytes, self.input_bytes].map(|b| per(b, rows));
                (weights?, input?, per(self.output_bytes, rows)?)
            }
            // Both operands are inputs, unless the second is fetched as cached keys or values.
            LayerType::Activations => {
                let own = self.first_bytes().min(self.input_bytes);
                let other = per(self.input_bytes - own, second)?;
                let input = per(own, first)?.checked_add(other).ok_or_else(too_large)?;
                (per(self.weight_bytes, second)?, input, per(self.output_bytes, output)?)
            }
            _ => {
                (self.weight_bytes, per(self.input_bytes, first)?, per(self.output_bytes, output)?)
            }
        };
        let stream_bytes = per(self.stream_bytes, rows)?;
        Ok(Self { weight_bytes, input_bytes, output_bytes, stream_bytes, ..grown })
    }

    /// Returns the bytes of the first operand, all groups together.
    fn first_bytes(&self) -> u64 {
        let numbers = self.groups.saturating_mul(self.m).saturating_mul(self.cin_g);
        scaled(numbers, self.bits[1].into(), 8).unwrap_or(u64::MAX)
    }

    /// Returns the layer with other bits for weights, inputs and outputs.
    fn in_bits(&self, bits: [u32; 3]) -> Result<Self, ChangeError> {
        if let Some(&found) = bits.iter().find(|bits| !(1..=64).contains(*bits)) {
            return Err(ChangeError::Bits { found });
        }
        let [weight, input, output] = bits;
        // Indices into a table keep their bits.
        let input = if self.kind == LayerType::Gather { self.bits[1] } else { input };
        let bits = [weight, input, output];
        let rescaled = |bytes: u64, operand: usize| {
            let new = scaled(bytes, bits[operand].into(), self.bits[operand].into());
            new.ok_or_else(|| ChangeError::TooLarge { layer: self.name.clone() })
        };
        Ok(Self {
            weight_bytes: rescaled(self.weight_bytes, 0)?,
            input_bytes: rescaled(self.input_bytes, 1)?,
            output_bytes: rescaled(self.output_bytes, 2)?,
            // Cached values are outputs.
            stream_bytes: rescaled(self.stream_bytes, 2)?,
            bits,
            ..self.clone()
        })
    }
}

/// Returns `bytes` times `new` over `old`, rounded up.
fn scaled(bytes: u64, new: u128, old: u128) -> Option<u64> {
    let product = u128::from(bytes).checked_mul(new)?;
    u64::try_from(product.div_ceil(old.max(1))).ok()
}

impl Network {
    /// Returns the multiply-accumulates of one sample; saturates.
    pub fn macs(&self) -> u64 {
        self.layers.iter().map(NetworkLayer::macs).fold(0, u64::saturating_add)
    }

    /// Returns the bytes of weights that one sample fetches; saturates.
    pub fn weight_bytes(&self) -> u64 {
        self.layers.iter().map(|layer| layer.weight_bytes).fold(0, u64::saturating_add)
    }

    /// Returns the network for sequences of `seq_len` tokens. Products of attention grow with the square of the length,
    /// other products linearly. Weights stay the same; rows of tables, keys and values grow.
    ///
    /// # Errors
    /// Fails if the network has no sequences, the length is 0, a size is not a multiple of the current length, or a
    /// size exceeds 64 bits.
    pub fn at_sequence(&self, seq_len: u64) -> Result<Self, ChangeError> {
        let Some(old) = self.seq_len.filter(|old| *old > 0) else {
            return Err(ChangeError::NoSequence { network: self.name.clone() });
        };
        if seq_len == 0 {
            return Err(ChangeError::EmptySequence);
        }
        let layers: Result<_, _> =
            self.layers.iter().map(|layer| layer.at_sequence(old, seq_len)).collect();
        Ok(Self { layers: layers?, seq_len: Some(seq_len), ..self.clone() })
    }

    /// Creates a network from measured times, without layers.
    pub fn from_profile(profile: NetworkProfile) -> Self {
        let name = profile.name.clone();
        Self { name, layers: Vec::new(), seq_len: None, measured: Some(profile) }
    }

    /// Returns the network with other bits for weights and activations; `None` keeps the current bits. Compute times
    /// change only on an NPU whose [`Arithmetic`](crate::arithmetic::Arithmetic) depends on bits.
    ///
    /// # Errors
    /// Fails if the bits are not in 1 to 64, a size exceeds 64 bits, or the network has measured times.
    pub fn in_bits(
        &self,
        weight: Option<u32>,
        activation: Option<u32>,
    ) -> Result<Self, ChangeError> {
        if self.measured.is_some() && (weight.is_some() || activation.is_some()) {
            return Err(ChangeError::Measured { network: self.name.clone() });
        }
        let change = |layer: &NetworkLayer| {
            let [own_weight, own_input, own_output] = layer.bits;
            let [input, output] = [own_input, own_output].map(|own| activation.unwrap_or(own));
            layer.in_bits([weight.unwrap_or(own_weight), input, output])
        };
        let layers: Result<_, _> = self.layers.iter().map(change).collect();
        Ok(Self { layers: layers?, ..self.clone() })
    }

    /// Returns the network with other bits for the weights and inputs of some layers, given by name. Outputs keep their
    /// bits.
    ///
    /// # Errors
    /// Fails if a layer does not exist, the bits are not in 1 to 64, or a size exceeds 64 bits.
    pub(crate) fn in_layer_bits<'a>(
        &self,
        formats: impl IntoIterator<Item = (&'a str, [u32; 2])>,
    ) -> Result<Self, ChangeError> {
        let mut changed = self.clone();
        for (name, [weight, input]) in formats {
            let found = changed.layers.iter_mut().find(|layer| layer.name == name);
            let Some(layer) = found else {
                let names = self.layers.iter().map(|layer| layer.name.as_str());
                let near = crate::nearest::nearest(name, names);
                return Err(ChangeError::UnknownLayer { layer: name.to_owned(), near });
            };
            *layer = layer.in_bits([weight, input, layer.bits[2]])?;
        }
        Ok(changed)
    }
}
