//! Narrowing: converts rows of a product to fewer bits just before the product.

use crate::lanes::{Kernel, LANES, Lanes};
use crate::panels::Precision;

/// Words between narrowed rows, with room for whole vectors of sixteen values.
pub(crate) fn stride(precision: Precision, k: usize) -> usize {
    precision.words(k.next_multiple_of(LANES))
}

/// Quantization of a row: byte b represents `middle + step (b - 128)`.
///
/// The range is that from the row's least to its greatest number, so that all bytes are used. Zero
/// is represented exactly, so that sparse rows have no error in their zeros.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub(crate) struct RowQuantization {
    pub step: f32,
    pub middle: f32,
}

impl RowQuantization {
    /// Size in words.
    pub(crate) const WORDS: usize = size_of::<Self>() / size_of::<f32>();

    /// Quantization of rows whose numbers are their values.
    pub(crate) const PLAIN: Self = Self { step: 1.0, middle: 0.0 };

    /// Quantization of numbers from `least` to `most`. If these are NaN, so are all bytes.
    fn between(least: f32, most: f32) -> Self {
        // Divides first: the difference may overflow.
        let step = most / 255.0 - least / 255.0;
        if step < f32::MIN_POSITIVE {
            return Self { step: 1.0, middle: least };
        }
        let middle = least + 128.0 * step;
        let holds_zero = least <= 0.0 && most >= 0.0;
        let middle = if holds_zero { (middle / step).round_ties_even() * step } else { middle };
        Self { step, middle }
    }
}

/// Narrows a row of `k` numbers.
pub(crate) struct RowNarrowing {
    /// `k` numbers.
    pub from: *const f32,
    pub k: usize,
    /// Room for [`stride`] words.
    pub to: *mut u32,
    pub precision: Precision,
}

// Closures are avoided: one that is called twice would be compiled separately, without the
// instructions of its token, and each instruction would become a function call.
impl RowNarrowing {
    /// Loads sixteen numbers from `at` on; zeros after the last.
    #[inline(always)]
    fn sixteen<S: Lanes>(&self, s: S, at: usize) -> S::F {
        let rest = self.k - at;
        // SAFETY: `Worker::narrow` passes a row of a checked product, which has `k` numbers; at
        // most `rest` of them are read.
        unsafe {
            let from = self.from.add(at);
            if rest >= LANES { s.load(from) } else { s.load_first(from, rest) }
        }
    }

    /// Returns the least and the greatest number, or NaN if a number is not finite.
    #[inline(always)]
    fn range<S: Lanes>(&self, s: S) -> (f32, f32) {
        // Products with zero are zeros, or NaN if a number is not finite. Comparisons lose NaN.
        let mut lanes = [[0.0; LANES]; 3];
        let mut count = self.k;
        // SAFETY: `Worker::narrow` passes a row of `k` numbers, and all arrays have 16.
        unsafe {
            if self.k < LANES {
                self.from.copy_to_nonoverlapping(lanes[0].as_mut_ptr(), self.k);
                self.from.copy_to_nonoverlapping(lanes[1].as_mut_ptr(), self.k);
                lanes[2] = lanes[0].map(|x| x * 0.0);
            } else {
                // The last sixteen numbers overlap those before.
                let last = s.load(self.from.add(self.k - LANES));
                let (mut least, mut most) = (last, last);
                let mut zeros = s.mul(last, s.splat(0.0));
                for at in 0..self.k / LANES {
                    let x = s.load(self.from.add(at * LANES));
                    least = s.min(least, x);
                    most = s.max(most, x);
                    zeros = s.fma(x, s.splat(0.0), zeros);
                }
                s.store(lanes[0].as_mut_ptr(), least);
                s.store(lanes[1].as_mut_ptr(), most);
                s.store(lanes[2].as_mut_ptr(), zeros);
                count = LANES;
            }
        }
        if lanes[2].iter().any(|zero| zero.is_nan()) {
            return (f32::NAN, f32::NAN);
        }
        let (mut least, mut most) = (lanes[0][0], lanes[1][0]);
        for (low, high) in lanes[0].iter().zip(&lanes[1]).take(count) {
            least = least.min(*low);
            most = most.max(*high);
        }
        (least, most)
    }
}

impl Kernel for RowNarrowing {
    type Output = RowQuantization;

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> RowQuantization {
        match self.precision {
            Precision::F32 => RowQuantization::PLAIN,
            Precision::Bf16 => {
                for at in (0..self.k).step_by(LANES) {
                    let x = self.sixteen(s, at);
                    // SAFETY: `Execution::make_room` allocated `stride` words per row, which hold
                    // `k` numbers of 16 bits rounded up to whole vectors.
                    unsafe { s.store_bf16(self.to.cast::<u16>().add(at), x) };
                }
                RowQuantization::PLAIN
            }
            Precision::Int8 => {
                let (least, most) = self.range(s);
                let worth = RowQuantization::between(least, most);
                let (middle, per_one) = (s.splat(worth.middle), s.splat(worth.step.recip()));
                for at in (0..self.k).step_by(LANES) {
                    let steps = s.mul(s.sub(self.sixteen(s, at), middle), per_one);
                    // SAFETY: `Execution::make_room` allocated `stride` words per row, which hold
                    // `k` bytes rounded up to whole vectors.
                    unsafe { s.store_u8(self.to.cast::<u8>().add(at), steps) };
                }
                worth
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;

    /// Bytes of a row and what they are worth.
    fn narrowed(isa: Isa, row: &[f32]) -> (Vec<u8>, RowQuantization) {
        let precision = Precision::Int8;
        let mut to = vec![0_u32; stride(precision, row.len())];
        let worth = isa.run(RowNarrowing {
            from: row.as_ptr(),
            k: row.len(),
            to: to.as_mut_ptr(),
            precision,
        });
        (to.into_iter().flat_map(u32::to_le_bytes).take(row.len()).collect(), worth)
    }

    /// Rows about zero, above and below it, with a lone zero, of one number and of tiny ones.
    fn rows() -> Vec<Vec<f32>> {
        let numbers = |count: usize, scale: f32, shift: f32| -> Vec<f32> {
            (0..count)
                .map(|at| ((at * 37 + 5) % 101) as f32 * scale - scale * 50.0 + shift)
                .collect()
        };
        let mut rows = Vec::new();
        for count in [1, 2, 15, 16, 17, 40, 257] {
            for (scale, shift) in [(0.05, 0.0), (0.05, 0.7), (1.0, 300.0), (2.0, -1e3), (0.0, 4.0)]
            {
                rows.push(numbers(count, scale, shift));
            }
            rows.push(numbers(count, 1e-40, 0.0));
            rows.push(numbers(count, 3e36, 0.0));
        }
        rows
    }

    #[test]
    fn a_row_is_off_by_half_a_step_of_its_own_range() {
        for isa in Isa::all() {
            for row in rows() {
                let (bytes, RowQuantization { step, middle }) = narrowed(isa, &row);
                let least = f64::from(row.iter().copied().fold(f32::INFINITY, f32::min));
                let most = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
                let largest = least.abs().max(most.abs());
                for (x, byte) in row.iter().zip(bytes) {
                    let found = f64::from(middle) + f64::from(step) * (f64::from(byte) - 128.0);
                    let within = (most - least) / 255.0 * 0.5001 + largest * 1e-6 + 1e-38;
                    let error = (found - f64::from(*x)).abs();
                    assert!(
                        error <= within,
                        "{x:e} as {found:e} between {least:e} and {most:e} {isa}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_row_with_a_number_that_is_not_finite_is_nan() {
        for isa in Isa::all() {
            for count in [1, 2, 15, 16, 17, 40] {
                for at in 0..count {
                    for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                        let mut row = vec![0.5; count];
                        row[at] = odd;
                        let (_, worth) = narrowed(isa, &row);
                        assert!(worth.step.is_nan(), "{odd} at {at} of {count} {isa}");
                    }
                }
            }
        }
    }

    #[test]
    fn zeros_stay_zeros() {
        for isa in Isa::all() {
            for row in [
                [0.0, 0.0, 3.7, 0.0, -0.31],
                [0.0, 0.9, 0.4, 0.0, 0.0],
                [-7.0, 0.0, -1.0, 0.0, 0.0],
            ] {
                let (bytes, worth) = narrowed(isa, &row);
                for (x, byte) in row.iter().zip(bytes) {
                    let found = worth.middle + worth.step * (f32::from(byte) - 128.0);
                    assert_eq!(*x == 0.0, found.abs() <= worth.step * 1e-5, "{x} as {found} {isa}");
                }
            }
            assert_eq!(narrowed(isa, &[0.0; 5]).1.middle, 0.0);
        }
    }
}
