//! Rounding to numbers of 16 bits.
//!
//! `f16::from_f64` rounds to `f32` first on processors with conversions of 16 bits, and
//! `bf16::from_f64` ignores the last 32 bits of a number. Both round some numbers next to the middle of
//! two neighbors to the wrong one.

use half::{bf16, f16};

/// Returns the nearest number, ties to even.
///
/// ```
/// // The neighbors are 1 and 1 + 2^-10.
/// let x = 1.0 + 2_f64.powi(-11) + 2_f64.powi(-40);
/// assert_eq!(dyno_tensors::nearest_f16(x).to_f64(), 1.0 + 2_f64.powi(-10));
/// ```
pub fn nearest_f16(x: f64) -> f16 {
    f16::from_f32(odd(x))
}

/// Returns the nearest number, ties to even.
///
/// ```
/// // The neighbors are 1 and 1 + 2^-7.
/// let x = 1.0 + 2_f64.powi(-8) + 2_f64.powi(-50);
/// assert_eq!(dyno_tensors::nearest_bf16(x).to_f64(), 1.0 + 2_f64.powi(-7));
/// ```
pub fn nearest_bf16(x: f64) -> bf16 {
    bf16::from_f32(odd(x))
}

/// Returns the number as `f32`. If it has none, returns the neighbor whose last bit is set: it is no
/// tie between numbers of 16 bits, so that rounding it gives the nearest one to the number.
fn odd(x: f64) -> f32 {
    let near = x as f32;
    let (found, bits) = (f64::from(near), near.to_bits());
    if found == x || x.is_nan() {
        near
    } else if found.abs() > x.abs() {
        f32::from_bits((bits - 1) | 1)
    } else {
        f32::from_bits(bits | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All positive numbers of float16, and the middles of neighbors: the middle rounds to the even
    /// one, and numbers next to it to the nearer one.
    #[test]
    fn middles_round_to_even_and_others_to_the_nearer_number() {
        for bits in 0..0x7bff_u16 {
            let [low, high] = [bits, bits + 1].map(|bits| f16::from_bits(bits).to_f64());
            let middle = f64::midpoint(low, high);
            let even = if bits.is_multiple_of(2) { low } else { high };
            for (x, expected) in [
                (low, low),
                (middle.next_down(), low),
                (middle, even),
                (middle.next_up(), high),
                (high, high),
            ] {
                assert_eq!(nearest_f16(x).to_f64(), expected, "{x:e}");
                assert_eq!(nearest_f16(-x).to_f64(), -expected, "-{x:e}");
            }
        }
        // The largest number is 65504; infinity begins where the next one would be rounded to.
        assert_eq!(nearest_f16(65_520_f64.next_down()).to_f64(), 65_504.0);
        assert_eq!(nearest_f16(65_520.0).to_f64(), f64::INFINITY);
    }

    #[test]
    fn bfloat16_has_eight_bits_and_the_range_of_float32() {
        for bits in (0..0x7f7f_u16).step_by(61) {
            let [low, high] = [bits, bits + 1].map(|bits| bf16::from_bits(bits).to_f64());
            let middle = f64::midpoint(low, high);
            let even = if bits.is_multiple_of(2) { low } else { high };
            for (x, expected) in
                [(middle.next_down(), low), (middle, even), (middle.next_up(), high)]
            {
                assert_eq!(nearest_bf16(x).to_f64(), expected, "{x:e}");
            }
        }
        assert_eq!(nearest_bf16(1e300).to_f64(), f64::INFINITY);
        assert_eq!(nearest_bf16(-1e-300).to_f64(), 0.0);
        assert!(nearest_bf16(f64::NAN).is_nan() && nearest_f16(f64::NAN).is_nan());
    }
}
