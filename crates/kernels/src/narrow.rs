//! Rows of a product in fewer bits, made just before it.

use crate::lanes::{Kernel, LANES, Lanes};
use crate::panels::Precision;

/// Words between rows that were narrowed: whole vectors of sixteen values fit.
pub(crate) fn stride(precision: Precision, k: usize) -> usize {
    precision.words(k.next_multiple_of(LANES))
}

/// Narrows `k` numbers. The output is what one of a whole number is worth: the row's largest value
/// is 127.
pub(crate) struct Narrow {
    pub from: *const f32,
    pub k: usize,
    /// [`stride`] words.
    pub to: *mut u32,
    pub precision: Precision,
}

impl Narrow {
    /// Calls `each` with every sixteen numbers, zeros after the last.
    #[inline(always)]
    fn each<S: Lanes>(&self, s: S, mut each: impl FnMut(usize, S::F)) {
        let whole = self.k / LANES;
        for at in 0..whole {
            // SAFETY: who made this vouches for `k` numbers.
            each(at, unsafe { s.load(self.from.add(at * LANES)) });
        }
        let rest = self.k % LANES;
        if rest > 0 {
            let mut last = [0.0; LANES];
            // SAFETY: as above; `last` has room for fewer than 16.
            unsafe {
                self.from.add(whole * LANES).copy_to_nonoverlapping(last.as_mut_ptr(), rest);
                each(whole, s.load(last.as_ptr()));
            }
        }
    }
}

impl Kernel for Narrow {
    type Output = f32;

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> f32 {
        match self.precision {
            Precision::F32 => 1.0,
            Precision::Bf16 => {
                // SAFETY: who made this vouches for `stride` words: 32 bytes for sixteen numbers.
                self.each(s, |at, x| unsafe {
                    s.store_bf16(self.to.cast::<u16>().add(at * LANES), x);
                });
                1.0
            }
            Precision::Int8 => {
                let mut most = s.splat(0.0);
                self.each(s, |_, x| {
                    most = s.max(most, s.max(x, s.sub(s.splat(0.0), x)));
                });
                let mut lanes = [0.0; LANES];
                // SAFETY: `lanes` are 16 numbers.
                unsafe { s.store(lanes.as_mut_ptr(), most) };
                let most = lanes.into_iter().fold(0.0, f32::max);
                let scale = if most > 0.0 { most / 127.0 } else { 1.0 };
                let per_one = s.splat(scale.recip());
                // SAFETY: who made this vouches for `stride` words: 16 bytes for sixteen numbers.
                self.each(s, |at, x| unsafe {
                    s.store_u8(self.to.cast::<u8>().add(at * LANES), s.mul(x, per_one));
                });
                scale
            }
        }
    }
}
