//! Exact products of integers: which formats allow them, and which integers they use.

use std::fmt;

use dyno_kernels::convert::{self, Grid};
use dyno_kernels::{Isa, MAX_BYTES};

use crate::format::{Format, Kind, Special};

/// Returns the unit of a format and its largest value in units, if all values are integer multiples
/// of the unit that fit 16 bits.
fn whole(format: Format) -> Option<(f32, u32)> {
    let is_plain = matches!(format.special(), Special::Finite | Special::SignedZero);
    let unit = format.min_positive();
    // Products of two units, and their sums, stay far from the limits of `f32`.
    let is_near = (2.0_f64.powi(-40)..=2.0_f64.powi(40)).contains(&unit);
    let most = format.max_value() / unit;
    let is_whole = is_plain && format.kind() != Kind::Binary && is_near;
    (is_whole && most <= f64::from(i16::MAX)).then_some((unit as f32, most as u32))
}

/// How the products of a layer are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProductPath {
    /// With integers of 8 bits and sums of 32 bits: exact.
    Bytes,
    /// With integers of 16 bits and sums of 32 bits: exact.
    Int16,
    /// In `f32`, for this reason.
    F32(FloatReason),
}

/// Why products are not computed with integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatReason {
    /// Values of the weights' format are not all integer multiples of one unit, up to 32,767.
    Weights(Format),
    /// Values of the activations' format are not all integer multiples of one unit, up to 32,767.
    Activations(Format),
    /// A sum of 32 bits may overflow with this number of products.
    Long(usize),
    /// The weights are a table, a bias or peepholes, which are not multiplied by a kernel.
    Read,
    /// A convolution in groups, or with dilations.
    Grouped,
}

impl fmt::Display for ProductPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let other = "has other values than whole numbers of at most 32767 units";
        match self {
            Self::Bytes => f.write_str("bytes, exact"),
            Self::Int16 => f.write_str("16 bits, exact"),
            Self::F32(FloatReason::Weights(format)) => {
                write!(f, "f32: {format} of weights {other}")
            }
            Self::F32(FloatReason::Activations(format)) => {
                write!(f, "f32: {format} of activations {other}")
            }
            Self::F32(FloatReason::Long(k)) => {
                write!(f, "f32: {k} products may not fit a sum of 32 bits")
            }
            Self::F32(FloatReason::Read) => f.write_str("f32: weights are read as they are"),
            Self::F32(FloatReason::Grouped) => {
                f.write_str("f32: groups of channels, or taps that lie apart")
            }
        }
    }
}

/// Width of the integers of a product, on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) enum IntegerWidth {
    Int8,
    Int16,
}

impl IntegerWidth {
    /// Returns the integers per word of 32 bits.
    pub fn per_word(self) -> usize {
        match self {
            Self::Int8 => 4,
            Self::Int16 => 2,
        }
    }
}

/// Parameters of a product of integers.
#[derive(Clone, Copy, Debug)]
pub(super) struct IntegerProduct {
    pub width: IntegerWidth,
    /// Unit of the weights, and of the activations.
    pub units: [f32; 2],
}

impl IntegerProduct {
    /// Chooses the integers for rows of `runs` runs of `run` numbers, or returns why `f32` is
    /// necessary.
    pub fn new(
        [weight, activation]: [Format; 2],
        [runs, run]: [usize; 2],
    ) -> Result<Self, FloatReason> {
        let weights = whole(weight).ok_or(FloatReason::Weights(weight))?;
        let activations = whole(activation).ok_or(FloatReason::Activations(activation))?;
        let (units, most) = ([weights.0, activations.0], [weights.1, activations.1]);
        let k = |width: IntegerWidth| runs * run.next_multiple_of(width.per_word());
        if most.iter().all(|most| *most <= 127) && k(IntegerWidth::Int8) <= MAX_BYTES {
            return Ok(Self { width: IntegerWidth::Int8, units });
        }
        let largest: u64 = most.iter().map(|most| u64::from(*most)).product();
        if largest.saturating_mul(k(IntegerWidth::Int16) as u64) <= i32::MAX as u64 {
            Ok(Self { width: IntegerWidth::Int16, units })
        } else {
            Err(FloatReason::Long(runs * run))
        }
    }
}

/// An integer of an input, as the kernels multiply it.
pub(super) trait IntegerWord: Copy {
    const ZERO: Self;
    /// Quantizes numbers to integers; returns whether one is NaN. See [`convert::bytes`].
    fn all(isa: Isa, grid: &Grid, unit: f32, from: &[f32], to: &mut [Self]) -> bool;
    /// Converts one integer that fits.
    fn one(whole: f32) -> Self;
}

impl IntegerWord for u8 {
    /// Bytes have an offset of 128.
    const ZERO: Self = 128;
    fn all(isa: Isa, grid: &Grid, unit: f32, from: &[f32], to: &mut [Self]) -> bool {
        convert::bytes(isa, grid, unit, from, to)
    }
    fn one(whole: f32) -> Self {
        (whole + f32::from(Self::ZERO)) as Self
    }
}

impl IntegerWord for i16 {
    const ZERO: Self = 0;
    fn all(isa: Isa, grid: &Grid, unit: f32, from: &[f32], to: &mut [Self]) -> bool {
        convert::int16(isa, grid, unit, from, to)
    }
    fn one(whole: f32) -> Self {
        whole as Self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In formats of every shape, all values are multiples of the unit, up to the returned limit.
    #[test]
    fn all_values_are_whole_numbers() {
        let mut wholes = 0;
        for special in [Special::Finite, Special::SignedZero, Special::Ieee, Special::Complement] {
            for (exponent, fraction) in (0..5).flat_map(|e| (0..16 - e).map(move |f| (e, f))) {
                for has_sign in [true, false] {
                    let format = Format::new(has_sign, exponent, fraction, 3, special);
                    let Some((format, (unit, most))) =
                        format.ok().and_then(|format| Some((format, whole(format)?)))
                    else {
                        continue;
                    };
                    wholes += 1;
                    let mut largest = 0.0_f64;
                    for code in 0..1 << format.bits() {
                        let number = format.decode(code) / f64::from(unit);
                        assert_eq!(number.fract(), 0.0, "{format}: {number} of {unit}");
                        largest = largest.max(number.abs());
                    }
                    assert_eq!(largest, f64::from(most), "{format}");
                    assert!(most <= 32_767, "{format}: {most}");
                }
            }
        }
        assert!(wholes > 100, "{wholes}");
    }

    /// The longest sums fit 32 bits; one more word would not.
    #[test]
    fn the_longest_sums_fit() {
        let fixed = |bits| Format::fixed(bits, 0).unwrap();
        for [weight, activation] in
            [[9, 9], [11, 11], [12, 11], [2, 16], [16, 16]].map(|b| b.map(fixed))
        {
            let most = whole(weight).unwrap().1 as usize * whole(activation).unwrap().1 as usize;
            let longest = i32::MAX as usize / most / 2 * 2;
            let path =
                |k| IntegerProduct::new([weight, activation], [1, k]).map(|whole| whole.width);
            assert_eq!(path(longest), Ok(IntegerWidth::Int16), "{weight} {activation} {longest}");
            assert_eq!(path(longest + 1), Err(FloatReason::Long(longest + 1)), "a word more");
        }
        // Limits as in docs/tasks/tune.md.
        let fits = |bits: [u32; 2], k| IntegerProduct::new(bits.map(fixed), [1, k]).is_ok();
        assert!(fits([11, 11], 2_052) && !fits([11, 11], 2_053));
        assert!(fits([12, 11], 1_024) && !fits([12, 11], 1_025));
        // Beyond the limit of bytes, 16 bits still fit.
        assert_eq!(
            IntegerProduct::new([fixed(8), fixed(8)], [1, MAX_BYTES + 4]).map(|w| w.width),
            Ok(IntegerWidth::Int16)
        );
    }
}
