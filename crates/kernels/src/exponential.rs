//! Exponentials of numbers, and their shares in the sum of all.
//!
//! ```
//! use dyno_kernels::{Isa, softmax};
//!
//! let mut line = [0.0, 0.0, f32::NEG_INFINITY];
//! softmax(Isa::best(), &mut line);
//! assert_eq!(line, [0.5, 0.5, 0.0]);
//! ```

#[cfg(test)]
mod tests;

use crate::activation::polynomial;
use crate::isa::Isa;
use crate::lanes::{Kernel, LANES, Lanes};
use crate::moments::total;
use crate::taps::{load, store};

/// Replaces each number by its exponential. The error is below two units in the last place; NaN
/// stays NaN.
pub fn exp(isa: Isa, numbers: &mut [f32]) {
    isa.run(ExpKernel(numbers));
}

/// Replaces numbers by the shares of their exponentials in the sum of all, which is computed in
/// `f64`. All shares are NaN if a number is NaN or positive infinity, or all are negative infinity.
///
/// The relative error of a share that is a normal number is below 7e-7 + 1.2e-7 d, where d is the
/// distance from the greatest number to the least finite one.
pub fn softmax(isa: Isa, line: &mut [f32]) {
    isa.run(SoftmaxKernel { line, is_logarithm: false });
}

/// Replaces numbers by the logarithms of what [`softmax`] computes.
pub fn log_softmax(isa: Isa, line: &mut [f32]) {
    isa.run(SoftmaxKernel { line, is_logarithm: true });
}

struct ExpKernel<'a>(&'a mut [f32]);

impl Kernel for ExpKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        for some in self.0.chunks_mut(LANES) {
            store(s, some, power_of_e(s, load(s, some)));
        }
    }
}

struct SoftmaxKernel<'a> {
    line: &'a mut [f32],
    is_logarithm: bool,
}

impl Kernel for SoftmaxKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Self { line, is_logarithm } = self;
        let most = s.splat(greatest(s, line));
        let mut sums = [0.0_f64; LANES];
        for some in line.chunks_mut(LANES) {
            let power = power_of_e(s, s.sub(load(s, some), most));
            let mut lanes = [0.0; LANES];
            store(s, &mut lanes[..some.len()], power);
            sums.iter_mut().zip(&lanes).for_each(|(sum, x)| *sum += f64::from(*x));
            if !is_logarithm {
                store(s, some, power);
            }
        }
        let sum = total(sums);
        let [shift, divisor] = [sum.ln() as f32, sum as f32].map(|x| s.splat(x));
        for some in line.chunks_mut(LANES) {
            let x = load(s, some);
            let x = if is_logarithm { s.sub(s.sub(x, most), shift) } else { s.div(x, divisor) };
            store(s, some, x);
        }
    }
}

/// Returns the greatest number, which is not NaN.
#[inline(always)]
fn greatest<S: Lanes>(s: S, line: &[f32]) -> f32 {
    let (whole, rest) = line.as_chunks::<LANES>();
    let mut most = s.splat(f32::NEG_INFINITY);
    for some in whole {
        most = s.max(load(s, some), most);
    }
    let mut lanes = [0.0; LANES];
    store(s, &mut lanes, most);
    lanes.iter_mut().zip(rest).for_each(|(most, x)| *most = most.max(*x));
    for half in [8, 4, 2, 1] {
        for at in 0..half {
            lanes[at] = lanes[at].max(lanes[at + half]);
        }
    }
    lanes[0]
}

/// Returns e to the power of x.
///
/// Source: the polynomial of `expf` in Cephes, S. L. Moshier.
#[inline(always)]
fn power_of_e<S: Lanes>(s: S, x: S::F) -> S::F {
    const WHOLE: f32 = 12_582_912.0;
    const TERMS: [f32; 6] =
        [0.5, 1.666_666_5e-1, 4.166_579_6e-2, 8.333_452e-3, 1.398_2e-3, 1.987_569_1e-4];
    // NaN stays NaN: it is the second operand of both.
    let x = s.min(s.splat(89.0), s.max(s.splat(-104.0), x));
    // x = n ln 2 + r; adding 1.5 * 2^23 rounds to an integer, which the lower bits hold.
    let whole = s.fma(x, s.splat(std::f32::consts::LOG2_E), s.splat(WHOLE));
    let n = s.sub(whole, s.splat(WHOLE));
    let r = s.fma(n, s.splat(2.121_944_4e-4), s.fma(n, s.splat(-0.693_359_4), x));
    let sum = polynomial::<S, 6>(s, &TERMS, r);
    let fraction = s.add(s.fma(sum, s.mul(r, r), r), s.splat(1.0));
    // Two factors, so that neither overflows for a result at the ends of the range. The sum of their
    // biased exponents is n + 254.
    let n = s.sub_i32(s.bits(whole), s.splat_i32(WHOLE.to_bits().cast_signed() - 254));
    let half = s.shift_right(n, 1);
    let first = s.with_bits(s.shift_left(half, 23));
    let second = s.with_bits(s.shift_left(s.sub_i32(n, half), 23));
    s.mul(s.mul(fraction, first), second)
}
