//! Means and mean squares of numbers, in `f64`.
//!
//! ```
//! use dyno_kernels::{Isa, mean, mean_square, standardize};
//!
//! let (isa, mut line) = (Isa::best(), [1.0, 5.0]);
//! assert_eq!((mean(isa, &line), mean_square(isa, &line, 3.0)), (3.0, 4.0));
//! standardize(isa, &mut line, 3.0, 0.5);
//! assert_eq!(line, [-1.0, 1.0]);
//! ```

#[cfg(test)]
mod tests;

use crate::isa::Isa;
use crate::lanes::{Kernel, LANES, Lanes};

/// Returns the mean of numbers; NaN without numbers.
pub fn mean(isa: Isa, line: &[f32]) -> f64 {
    isa.run(SumKernel(line)) / line.len() as f64
}

/// Returns the mean square of the distances from `center`; NaN without numbers.
pub fn mean_square(isa: Isa, line: &[f32], center: f64) -> f64 {
    isa.run(SquaresKernel { line, center }) / line.len() as f64
}

/// Replaces each number x by `(x - mean) * factor`, computed in `f64`.
pub fn standardize(isa: Isa, line: &mut [f32], mean: f64, factor: f64) {
    isa.run(StandardKernel { line, mean, factor });
}

/// Returns the sum of all lanes.
#[inline(always)]
pub(crate) fn total(mut lanes: [f64; LANES]) -> f64 {
    for half in [8, 4, 2, 1] {
        for at in 0..half {
            lanes[at] += lanes[at + half];
        }
    }
    lanes[0]
}

/// Sum of numbers. Compilers make vectors of the loops of this kernel and the next two: their sums are
/// in lanes.
struct SumKernel<'a>(&'a [f32]);

impl Kernel for SumKernel<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<S: Lanes>(self, _: S) -> f64 {
        let (whole, rest) = self.0.as_chunks::<LANES>();
        let mut sums = [0.0; LANES];
        for some in whole {
            sums.iter_mut().zip(some).for_each(|(sum, x)| *sum += f64::from(*x));
        }
        sums.iter_mut().zip(rest).for_each(|(sum, x)| *sum += f64::from(*x));
        total(sums)
    }
}

struct SquaresKernel<'a> {
    line: &'a [f32],
    center: f64,
}

impl Kernel for SquaresKernel<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<S: Lanes>(self, _: S) -> f64 {
        let (whole, rest) = self.line.as_chunks::<LANES>();
        let square = |x: f32| (f64::from(x) - self.center) * (f64::from(x) - self.center);
        let mut sums = [0.0; LANES];
        for some in whole {
            sums.iter_mut().zip(some).for_each(|(sum, x)| *sum += square(*x));
        }
        sums.iter_mut().zip(rest).for_each(|(sum, x)| *sum += square(*x));
        total(sums)
    }
}

struct StandardKernel<'a> {
    line: &'a mut [f32],
    mean: f64,
    factor: f64,
}

impl Kernel for StandardKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, _: S) {
        for x in self.line {
            *x = ((f64::from(*x) - self.mean) * self.factor) as f32;
        }
    }
}
