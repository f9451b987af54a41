//! What an NPU computes: networks as tables of layers.

pub mod language;
mod model;
mod presets;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

pub use dyno_onnx::products::LayerType;

pub use self::model::{DerivationError, DerivedNetwork};
pub use self::presets::{NetworkPreset, PRESETS, UnknownNetwork};
use crate::profile::NetworkProfile;
pub use crate::sheet::{TableError, TableProblem};

/// A layer of one sample: `groups` times a product of `m` x `cin_g rs` and `cin_g rs` x `cout_g` numbers.
///
/// Not a [`dyno_onnx::products::Product`] with more behind it: a table says bytes, which need not follow from counts and
/// bits, such as keys and values that are fetched; and no table says counts, or which layer is fed by which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Of the layer.
    pub name: String,
    /// What it is.
    pub kind: LayerType,
    /// Products beside each other. At least 1.
    pub groups: u64,
    /// Positions of the output. At least 1.
    pub m: u64,
    /// Inputs of a group; 0 of a table.
    pub cin_g: u64,
    /// Positions of the kernel. At least 1.
    pub rs: u64,
    /// Outputs of a group; 0 of a table.
    pub cout_g: u64,
    /// What is fetched to compute it: weights, rows of a table, or keys and values of before.
    pub weight_bytes: u64,
    /// Of what comes in.
    pub input_bytes: u64,
    /// Of what comes out.
    pub output_bytes: u64,
    /// What passes the memory's wires besides, such as keys and values that are kept, and takes no room.
    pub stream_bytes: u64,
    /// Each sample of a batch fetches its own.
    pub weights_scale_with_batch: bool,
    /// Bits of a weight, of a number that comes in, and of one that comes out. 1 to 64.
    pub bits: [u32; 3],
    /// Which sizes grow with the length of a sequence.
    pub growth: SequenceGrowth,
}

/// Which sizes of a layer are proportional to the length of the sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceGrowth {
    /// Positions of the output.
    pub m: bool,
    /// Inputs: values of an attention are as many as tokens.
    pub cin_g: bool,
    /// Outputs: scores of an attention are as many as tokens.
    pub cout_g: bool,
}

/// A network: its layers in the order of execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Of the network.
    pub name: String,
    /// At least one, but for a network that was measured.
    pub layers: Vec<Layer>,
    /// How many tokens a sample has, where that can be changed.
    pub seq_len: Option<u64>,
    /// Times of its layers on a real engine, in place of layers: of one sample, or of whatever batch was measured.
    pub measured: Option<NetworkProfile>,
}

/// A network cannot be changed in this way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeError {
    /// Its sizes do not grow with a sequence.
    NoSequence {
        /// Which network.
        network: String,
    },
    /// A sequence of no tokens.
    EmptySequence,
    /// A size is no whole number of the length that the table has, so it cannot be had for another.
    Odd {
        /// Which layer.
        layer: String,
        /// The length of the table.
        seq_len: u64,
    },
    /// Numbers of 0 or of more than 64 bits.
    Bits {
        /// How many.
        found: u32,
    },
    /// Times that were measured are of the numbers that they were measured of.
    Measured {
        /// Of which network.
        network: String,
    },
    /// Formats of layers that the network has not.
    UnknownLayer {
        /// Its name.
        layer: String,
        /// ` ; the nearest is ...`.
        near: String,
    },
    /// Sizes beyond 64 bits.
    TooLarge {
        /// Which layer.
        layer: String,
    },
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSequence { network } => write!(
                f,
                "network `{network}` has no sequence length: its table has no columns seq_len and seq_sizes"
            ),
            Self::EmptySequence => {
                f.write_str("a sequence of 0 tokens: expected a length of at least 1")
            }
            Self::Odd { layer, seq_len } => {
                write!(f, "layer `{layer}` has sizes that are no multiple of its seq_len {seq_len}")
            }
            Self::Bits { found } => write!(f, "numbers of {found} bits: expected 1 to 64"),
            Self::Measured { network } => {
                write!(
                    f,
                    "`{network}` holds times that were measured, of the bits that they were measured of"
                )
            }
            Self::UnknownLayer { layer, near } => write!(f, "there is no layer `{layer}`{near}"),
            Self::TooLarge { layer } => {
                write!(f, "layer `{layer}` has sizes beyond what 64 bits count")
            }
        }
    }
}

impl std::error::Error for ChangeError {}

impl Layer {
    /// Multiply-accumulates of a sample; saturates.
    #[must_use]
    pub fn macs(&self) -> u64 {
        let sizes = [self.m, self.cin_g, self.rs, self.cout_g];
        sizes.into_iter().fold(self.groups, u64::saturating_mul)
    }

    /// Bytes of weights that a batch fetches; saturates.
    #[must_use]
    pub fn fetched(&self, batch: u64) -> u64 {
        let times = if self.weights_scale_with_batch { batch } else { 1 };
        self.weight_bytes.saturating_mul(times)
    }

    /// For sequences of `to` instead of `from` tokens.
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
            // A table yields one row a position.
            LayerType::Gather => {
                let [weights, input] = [self.weight_bytes, self.input_bytes].map(|b| per(b, rows));
                (weights?, input?, per(self.output_bytes, rows)?)
            }
            // Both operands come in, or the second is fetched: keys and values of before.
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

    /// Of the first operand of all groups.
    fn first_bytes(&self) -> u64 {
        let numbers = self.groups.saturating_mul(self.m).saturating_mul(self.cin_g);
        scaled(numbers, self.bits[1].into(), 8).unwrap_or(u64::MAX)
    }

    /// With other bits of weights, of what comes in and of what comes out.
    fn in_bits(&self, bits: [u32; 3]) -> Result<Self, ChangeError> {
        if let Some(&found) = bits.iter().find(|bits| !(1..=64).contains(*bits)) {
            return Err(ChangeError::Bits { found });
        }
        let [weight, input, output] = bits;
        // Places in a table stay what they are.
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
            // What is kept for later is what comes out.
            stream_bytes: rescaled(self.stream_bytes, 2)?,
            bits,
            ..self.clone()
        })
    }
}

/// `bytes` times `new` over `old`, rounded up.
fn scaled(bytes: u64, new: u128, old: u128) -> Option<u64> {
    let product = u128::from(bytes).checked_mul(new)?;
    u64::try_from(product.div_ceil(old.max(1))).ok()
}

impl Network {
    /// Multiply-accumulates of a sample; saturates.
    #[must_use]
    pub fn macs(&self) -> u64 {
        self.layers.iter().map(Layer::macs).fold(0, u64::saturating_add)
    }

    /// Bytes of weights that a sample fetches; saturates.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        self.layers.iter().map(|layer| layer.weight_bytes).fold(0, u64::saturating_add)
    }

    /// The largest that flows from one layer to another.
    #[must_use]
    pub fn largest_activation(&self) -> u64 {
        let both = |layer: &Layer| layer.input_bytes.max(layer.output_bytes);
        self.layers.iter().map(both).max().unwrap_or(0)
    }

    /// For sequences of so many tokens: products of attentions grow with its square, all others in proportion;
    /// weights stay, rows of tables, keys and values do not.
    ///
    /// # Errors
    /// A network without sequences, a length of 0, or one beyond 64 bits.
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

    /// A network of which nothing is known but what a profiler says of it.
    #[must_use]
    pub fn from_profile(profile: NetworkProfile) -> Self {
        let name = profile.name.clone();
        Self { name, layers: Vec::new(), seq_len: None, measured: Some(profile) }
    }

    /// With weights and activations of so many bits; of what is not given, as many as before. How long products
    /// take does not change: the PEs are what they are.
    ///
    /// # Errors
    /// Bits that are not 1 to 64; a network of times.
    pub fn in_bits(
        &self,
        weight: Option<u32>,
        activation: Option<u32>,
    ) -> Result<Self, ChangeError> {
        if self.measured.is_some() && (weight.is_some() || activation.is_some()) {
            return Err(ChangeError::Measured { network: self.name.clone() });
        }
        let change = |layer: &Layer| {
            let [own_weight, own_input, own_output] = layer.bits;
            let [input, output] = [own_input, own_output].map(|own| activation.unwrap_or(own));
            layer.in_bits([weight.unwrap_or(own_weight), input, output])
        };
        let layers: Result<_, _> = self.layers.iter().map(change).collect();
        Ok(Self { layers: layers?, ..self.clone() })
    }

    /// With bits of weights and of what comes in of some layers, by their names. What comes out keeps its bits.
    ///
    /// # Errors
    /// A layer that the network has not; bits that are not 1 to 64.
    pub fn in_layer_bits<'a>(
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
