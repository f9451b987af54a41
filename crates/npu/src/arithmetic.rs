//! Arithmetic of PEs: how the bits of numbers change the cycles of a layer.
//!
//! The thesis' PEs multiply numbers of 16 bits, and numbers of fewer bits take as long. That fewer bits also compute
//! faster is left to future work there; these are two published ways to do it.

#[cfg(test)]
mod tests;

use thiserror::Error;

use crate::nearest::alternatives;
use crate::workload::{LayerType, NetworkLayer};

/// Bits of the numbers that a PE multiplies in one cycle.
const NATIVE: u32 = 16;

/// What a PE does in a cycle, depending on the bits of its operands.
///
/// ```
/// use dyno_npu::arithmetic::Arithmetic;
///
/// assert_eq!("packed".parse(), Ok(Arithmetic::Packed));
/// let error = "serial".parse::<Arithmetic>().unwrap_err();
/// assert!(error.to_string().contains("fixed, packed, bit-serial"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    /// One product of any numbers, as in the thesis.
    #[default]
    Fixed,
    /// One product of numbers of up to 16 bits, two of up to 8, four of up to 4, and so on: the wider operand counts,
    /// rounded up to a power of two. This is how vector instructions and packed multipliers work. Wider numbers take as
    /// many times longer.
    Packed,
    /// A sixteenth of a product for each bit of the input, so that an input of 8 bits takes half as long: Stripes (Judd
    /// et al., MICRO 2016). The bits of weights do not matter.
    BitSerial,
}

/// All kinds of arithmetic, with their names and descriptions in commands.
pub(crate) const ARITHMETICS: [(Arithmetic, &str, &str); 3] = [
    (Arithmetic::Fixed, "fixed", "the number of bits does not change the cycles (the thesis)"),
    (Arithmetic::Packed, "packed", "two 8-bit products replace one 16-bit product, and so on"),
    (Arithmetic::BitSerial, "bit-serial", "cycles in proportion to the bits of inputs (Stripes)"),
];

/// Error: no arithmetic has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "unknown arithmetic `{name}`{}",
    alternatives(name, ARITHMETICS.iter().map(|(_, name, _)| *name))
)]
pub struct UnknownArithmetic {
    /// The requested name.
    pub name: String,
}

impl std::str::FromStr for Arithmetic {
    type Err = UnknownArithmetic;

    fn from_str(name: &str) -> Result<Self, UnknownArithmetic> {
        let found = ARITHMETICS.iter().find(|(_, known, _)| *known == name);
        let unknown = || UnknownArithmetic { name: name.to_owned() };
        found.map(|(arithmetic, ..)| *arithmetic).ok_or_else(unknown)
    }
}

impl Arithmetic {
    /// Returns the cycles of a layer that takes `cycles` in numbers of 16 bits, rounded up; saturates.
    pub fn cycles(self, layer: &NetworkLayer, cycles: u128) -> u128 {
        let [weight, input, _] = layer.bits;
        // Both operands of a product of activations are inputs.
        let weight = if layer.kind == LayerType::Activations { input } else { weight };
        let width = match self {
            Self::Fixed => NATIVE,
            Self::Packed => weight.max(input).max(1).next_power_of_two(),
            Self::BitSerial => input.max(1),
        };
        cycles.saturating_mul(width.into()).div_ceil(NATIVE.into())
    }
}
