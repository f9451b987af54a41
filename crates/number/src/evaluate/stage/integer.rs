//! Products of whole numbers, which are exact: where formats have them, and how they are held.

use std::fmt;

use dyno_kernels::convert::{self, Grid};
use dyno_kernels::{Isa, MAX_BYTES};

use crate::format::{Format, Kind, Special};

/// What the values of a format are whole numbers of, and how many of it the largest is, if no more than 16 bits
/// hold: then products can be made of whole numbers, exactly.
fn whole(format: Format) -> Option<(f32, u32)> {
    let is_plain = matches!(format.special(), Special::Finite | Special::SignedZero);
    let unit = format.min_positive();
    // Products of two units, and their sums, stay far from the ends of f32.
    let is_near = (2.0_f64.powi(-40)..=2.0_f64.powi(40)).contains(&unit);
    let most = format.max_value() / unit;
    let is_whole = is_plain && format.kind() != Kind::Binary && is_near;
    (is_whole && most <= f64::from(i16::MAX)).then_some((unit as f32, most as u32))
}

/// How the products of a layer are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Of bytes, with sums of 32 bits: exact.
    Bytes,
    /// Of 16 bits each, with sums of 32 bits: exact.
    Int16,
    /// Of `f32`, with sums of `f32`, for this reason.
    F32(Reason),
}

/// Why products are not made of whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The format of the weights has other values than whole numbers of one unit, at most 32,767 of it.
    Weights(Format),
    /// So has that of the activations.
    Activations(Format),
    /// So many products of the largest values do not fit a sum of 32 bits.
    Long(usize),
    /// The weights are a table, a bias or peepholes: nothing is multiplied by panels of them.
    Read,
    /// It is a convolution in groups, or with taps that lie apart.
    Grouped,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let other = "has other values than whole numbers of at most 32767 units";
        match self {
            Self::Bytes => f.write_str("bytes, exact"),
            Self::Int16 => f.write_str("16 bits, exact"),
            Self::F32(Reason::Weights(format)) => write!(f, "f32: {format} of weights {other}"),
            Self::F32(Reason::Activations(format)) => {
                write!(f, "f32: {format} of activations {other}")
            }
            Self::F32(Reason::Long(k)) => {
                write!(f, "f32: {k} products may not fit a sum of 32 bits")
            }
            Self::F32(Reason::Read) => f.write_str("f32: weights are read as they are"),
            Self::F32(Reason::Grouped) => {
                f.write_str("f32: groups of channels, or taps that lie apart")
            }
        }
    }
}

/// How whole numbers of a product are held, on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) enum Held {
    Int8,
    Int16,
}

impl Held {
    /// Numbers of a word.
    pub fn per_word(self) -> usize {
        match self {
            Self::Int8 => 4,
            Self::Int16 => 2,
        }
    }
}

/// The whole numbers that a product is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    pub held: Held,
    /// What one of the weights is worth, and one of the activations.
    pub units: [f32; 2],
}

impl Whole {
    /// Of rows of `runs` runs of `run` numbers; or why there are none.
    pub fn of([weight, activation]: [Format; 2], [runs, run]: [usize; 2]) -> Result<Self, Reason> {
        let weights = whole(weight).ok_or(Reason::Weights(weight))?;
        let activations = whole(activation).ok_or(Reason::Activations(activation))?;
        let (units, most) = ([weights.0, activations.0], [weights.1, activations.1]);
        let k = |held: Held| runs * run.next_multiple_of(held.per_word());
        if most.iter().all(|most| *most <= 127) && k(Held::Int8) <= MAX_BYTES {
            return Ok(Self { held: Held::Int8, units });
        }
        let of_one: u64 = most.iter().map(|most| u64::from(*most)).product();
        match of_one.saturating_mul(k(Held::Int16) as u64) <= i32::MAX as u64 {
            true => Ok(Self { held: Held::Int16, units }),
            false => Err(Reason::Long(runs * run)),
        }
    }
}

/// A whole number of an input, as kernels multiply it.
pub(super) trait Small: Copy {
    const ZERO: Self;
    /// As [`convert::bytes`].
    fn all(isa: Isa, grid: &Grid, unit: f32, from: &[f32], to: &mut [Self]) -> bool;
    /// One that it holds.
    fn one(whole: f32) -> Self;
}

impl Small for u8 {
    /// 128 are added to each.
    const ZERO: Self = 128;
    fn all(isa: Isa, grid: &Grid, unit: f32, from: &[f32], to: &mut [Self]) -> bool {
        convert::bytes(isa, grid, unit, from, to)
    }
    fn one(whole: f32) -> Self {
        (whole + f32::from(Self::ZERO)) as Self
    }
}

impl Small for i16 {
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

    /// Formats of every shape: no value is a fraction of the unit, or more than was said.
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

    /// No sum that is made of whole numbers leaves 32 bits, and the next longer one would.
    #[test]
    fn the_longest_sums_fit() {
        let of = |bits| Format::fixed(bits, 0).unwrap();
        for [weight, activation] in
            [[9, 9], [11, 11], [12, 11], [2, 16], [16, 16]].map(|b| b.map(of))
        {
            let most = whole(weight).unwrap().1 as usize * whole(activation).unwrap().1 as usize;
            let longest = i32::MAX as usize / most / 2 * 2;
            let path = |k| Whole::of([weight, activation], [1, k]).map(|whole| whole.held);
            assert_eq!(path(longest), Ok(Held::Int16), "{weight} {activation} {longest}");
            assert_eq!(path(longest + 1), Err(Reason::Long(longest + 1)), "a word more");
        }
        // As docs/tasks/tune.md has them.
        let fits = |bits: [u32; 2], k| Whole::of(bits.map(of), [1, k]).is_ok();
        assert!(fits([11, 11], 2_052) && !fits([11, 11], 2_053));
        assert!(fits([12, 11], 1_024) && !fits([12, 11], 1_025));
        // Bytes have their own limit, after which 16 bits still have room.
        assert_eq!(Whole::of([of(8), of(8)], [1, MAX_BYTES + 4]).map(|w| w.held), Ok(Held::Int16));
    }
}
