//! Rows of a product in fewer bits, made just before it.

use crate::lanes::{Kernel, LANES, Lanes};
use crate::panels::Precision;

/// Words between rows that were narrowed: whole vectors of sixteen values fit.
pub(crate) fn stride(precision: Precision, k: usize) -> usize {
    precision.words(k.next_multiple_of(LANES))
}

/// What bytes of a row are worth: byte b stands for `middle + step (b - 128)`.
///
/// From the row's least number to its greatest, so that all bytes are used wherever it lies. A zero stays a
/// zero: of rows that are zeros for the most part, those add no error.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub(crate) struct Worth {
    pub step: f32,
    pub middle: f32,
}

impl Worth {
    /// In words.
    pub(crate) const WORDS: usize = size_of::<Self>() / size_of::<f32>();

    /// Of numbers that are what they stand for.
    pub(crate) const PLAIN: Self = Self { step: 1.0, middle: 0.0 };

    /// Of numbers between two.
    fn between(least: f32, most: f32) -> Self {
        // Divided first: the difference of two numbers may be infinite.
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

/// Narrows `k` numbers.
pub(crate) struct Narrow {
    pub from: *const f32,
    pub k: usize,
    /// [`stride`] words.
    pub to: *mut u32,
    pub precision: Precision,
}

// No closure computes here: one that is called twice would be compiled by itself, without the instructions
// of its token, and call each of them as a function.
impl Narrow {
    /// Sixteen numbers from `at` on, zeros after the last.
    #[inline(always)]
    fn sixteen<S: Lanes>(&self, s: S, at: usize) -> S::F {
        let rest = self.k - at;
        // SAFETY: who made this vouches for `k` numbers.
        unsafe {
            let from = self.from.add(at);
            if rest >= LANES { s.load(from) } else { s.load_first(from, rest) }
        }
    }

    /// The least and the greatest number.
    #[inline(always)]
    fn range<S: Lanes>(&self, s: S) -> (f32, f32) {
        let mut lanes = [[0.0; LANES]; 2];
        let mut count = self.k;
        // SAFETY: who made this vouches for `k` numbers; both arrays are 16.
        unsafe {
            if self.k < LANES {
                self.from.copy_to_nonoverlapping(lanes[0].as_mut_ptr(), self.k);
                self.from.copy_to_nonoverlapping(lanes[1].as_mut_ptr(), self.k);
            } else {
                // The last sixteen overlap those before.
                let last = s.load(self.from.add(self.k - LANES));
                let (mut least, mut most) = (last, last);
                for at in 0..self.k / LANES {
                    let x = s.load(self.from.add(at * LANES));
                    least = s.min(least, x);
                    most = s.max(most, x);
                }
                s.store(lanes[0].as_mut_ptr(), least);
                s.store(lanes[1].as_mut_ptr(), most);
                count = LANES;
            }
        }
        let (mut least, mut most) = (lanes[0][0], lanes[1][0]);
        for (low, high) in lanes[0].iter().zip(&lanes[1]).take(count) {
            least = least.min(*low);
            most = most.max(*high);
        }
        (least, most)
    }
}

impl Kernel for Narrow {
    type Output = Worth;

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> Worth {
        match self.precision {
            Precision::F32 => Worth::PLAIN,
            Precision::Bf16 => {
                for at in (0..self.k).step_by(LANES) {
                    let x = self.sixteen(s, at);
                    // SAFETY: who made this vouches for `stride` words: 32 bytes for sixteen numbers.
                    unsafe { s.store_bf16(self.to.cast::<u16>().add(at), x) };
                }
                Worth::PLAIN
            }
            Precision::Int8 => {
                let (least, most) = self.range(s);
                let worth = Worth::between(least, most);
                let (middle, per_one) = (s.splat(worth.middle), s.splat(worth.step.recip()));
                for at in (0..self.k).step_by(LANES) {
                    let steps = s.mul(s.sub(self.sixteen(s, at), middle), per_one);
                    // SAFETY: as above, 16 bytes for sixteen numbers.
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
    fn narrowed(isa: Isa, row: &[f32]) -> (Vec<u8>, Worth) {
        let precision = Precision::Int8;
        let mut to = vec![0_u32; stride(precision, row.len())];
        let worth =
            isa.run(Narrow { from: row.as_ptr(), k: row.len(), to: to.as_mut_ptr(), precision });
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
                let (bytes, Worth { step, middle }) = narrowed(isa, &row);
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
