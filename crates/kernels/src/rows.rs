//! Products of rows with rows, for attention: both operands are known only at the call, so that
//! nothing can be packed.
//!
//! ```
//! use dyno_kernels::{Isa, Rows, dots, mix};
//!
//! let (keys, query) = ([1.0, 0.0, 0.0, 2.0], [3.0, 4.0]);
//! let keys = Rows::new(&keys, 2, 2, 2);
//! let mut scores = [0.0; 2];
//! dots(Isa::best(), Rows::new(&query, 1, 2, 2), keys, &mut scores);
//! assert_eq!(scores, [3.0, 8.0]);
//! let mut sum = [0.0; 2];
//! mix(Isa::best(), &scores, keys, &mut sum);
//! assert_eq!(sum, [3.0, 16.0]);
//! ```

use crate::isa::Isa;
use crate::lanes::{Kernel, LANES, Lanes};

/// Rows of numbers at equal distances.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    numbers: &'a [f32],
    count: usize,
    width: usize,
    stride: usize,
}

impl<'a> Rows<'a> {
    /// Returns `count` rows of `width` numbers: the first at the start of `numbers`, each `stride`
    /// after the one before.
    ///
    /// # Panics
    /// The rows exceed `numbers`.
    pub fn new(numbers: &'a [f32], count: usize, width: usize, stride: usize) -> Self {
        let end = count.checked_sub(1).map_or(Some(0), |last| last.checked_mul(stride));
        let end = end.and_then(|last| last.checked_add(if count > 0 { width } else { 0 }));
        assert!(
            end.is_some_and(|end| end <= numbers.len()),
            "{count} rows of {width} numbers, {stride} apart, are not in {}",
            numbers.len()
        );
        Self { numbers, count, width, stride }
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns a row.
    ///
    /// # Panics
    /// `index` is out of range.
    pub fn row(&self, index: usize) -> &'a [f32] {
        assert!(index < self.count, "row {index} of {}", self.count);
        &self.numbers[index * self.stride..][..self.width]
    }
}

/// Computes the dot product of each row of `a` with each row of `b`: `to[i * b.count() + j]` is
/// that of rows i and j.
///
/// # Panics
/// The rows differ in width, or `to` does not have one number per pair.
pub fn dots(isa: Isa, a: Rows<'_>, b: Rows<'_>, to: &mut [f32]) {
    assert_eq!(a.width, b.width, "rows of one width");
    assert_eq!(Some(to.len()), a.count.checked_mul(b.count), "a number for each pair of rows");
    isa.run(Dots { a, b, to });
}

/// Computes the weighted sum of all rows.
///
/// # Panics
/// There is not one weight per row, or `to` does not have the width of the rows.
pub fn mix(isa: Isa, weights: &[f32], rows: Rows<'_>, to: &mut [f32]) {
    assert_eq!(weights.len(), rows.count, "a weight for each row");
    assert_eq!(to.len(), rows.width, "as wide as the rows");
    isa.run(Mix { weights, rows, to });
}

/// Rows of `b` that share each load from a row of `a`, and columns of [`mix`] that share each
/// weight.
const SHARE: usize = 4;

struct Dots<'a> {
    a: Rows<'a>,
    b: Rows<'a>,
    to: &'a mut [f32],
}

/// Loads sixteen numbers of a row from `at` on; zeros after its end.
#[inline(always)]
fn sixteen<S: Lanes>(s: S, row: &[f32], at: usize) -> S::F {
    let rest = &row[at..];
    if let Some(whole) = rest.first_chunk::<LANES>() {
        // SAFETY: `whole` holds 16 numbers.
        return unsafe { s.load(whole.as_ptr()) };
    }
    // SAFETY: `rest` has fewer than 16 numbers.
    unsafe { s.load_first(rest.as_ptr(), rest.len()) }
}

/// Sum of all lanes.
#[inline(always)]
fn total<S: Lanes>(s: S, x: S::F) -> f32 {
    let mut lanes = [0.0; LANES];
    // SAFETY: `lanes` has room for 16 numbers.
    unsafe { s.store(lanes.as_mut_ptr(), x) };
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

impl Kernel for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        // Many rows times one row is the same as one row times many.
        let (a, b) = if self.b.count == 1 { (self.b, self.a) } else { (self.a, self.b) };
        let count = b.count;
        for i in 0..a.count {
            let row = a.row(i);
            let to = &mut self.to[i * count..][..count];
            let mut j = 0;
            while j < count {
                if count < SHARE {
                    let [sum] = products(s, row, [b.row(j)]);
                    to[j] = sum;
                    j += 1;
                    continue;
                }
                // If fewer than four rows are left, the last four are computed again.
                let start = j.min(count - SHARE);
                let sums =
                    products::<S, SHARE>(s, row, std::array::from_fn(|at| b.row(start + at)));
                to[start..start + SHARE].copy_from_slice(&sums);
                j = start + SHARE;
            }
        }
    }
}

/// Dot products of a row with several others.
#[inline(always)]
fn products<S: Lanes, const N: usize>(s: S, row: &[f32], others: [&[f32]; N]) -> [f32; N] {
    let mut sums = [s.splat(0.0); N];
    for at in (0..row.len()).step_by(LANES) {
        let x = sixteen(s, row, at);
        for (sum, other) in sums.iter_mut().zip(&others) {
            *sum = s.fma(x, sixteen(s, other, at), *sum);
        }
    }
    let mut found = [0.0; N];
    for (found, sum) in found.iter_mut().zip(sums) {
        *found = total(s, sum);
    }
    found
}

struct Mix<'a> {
    weights: &'a [f32],
    rows: Rows<'a>,
    to: &'a mut [f32],
}

impl Kernel for Mix<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        for (block, to) in self.to.chunks_mut(SHARE * LANES).enumerate() {
            let first = block * SHARE * LANES;
            let mut sums = [s.splat(0.0); SHARE];
            for (index, weight) in self.weights.iter().enumerate() {
                let (row, weight) = (self.rows.row(index), s.splat(*weight));
                for (vector, sum) in sums.iter_mut().enumerate() {
                    let at = first + vector * LANES;
                    if at < row.len() {
                        *sum = s.fma(weight, sixteen(s, row, at), *sum);
                    }
                }
            }
            for (to, sum) in to.chunks_mut(LANES).zip(sums) {
                let mut lanes = [0.0; LANES];
                // SAFETY: `lanes` has room for 16 numbers.
                unsafe { s.store(lanes.as_mut_ptr(), sum) };
                to.copy_from_slice(&lanes[..to.len()]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|at| ((at * 31 + seed) % 17) as f32 * 0.25 - 2.0).collect()
    }

    proptest! {
        // Quarters of small numbers add without rounding, whatever the order.
        #[test]
        fn products_of_rows_are_those_of_their_numbers(
            count in 0_usize..9, others in 0_usize..11, width in 0_usize..70, apart in 0_usize..5,
        ) {
            let stride = width + apart;
            let (a, b) = (numbers(count * stride, 1), numbers(others * width, 2));
            let (a, b) = (Rows::new(&a, count, width, stride), Rows::new(&b, others, width, width));
            let weights = numbers(count, 5);
            for isa in Isa::all() {
                let mut to = vec![f32::NAN; count * others];
                dots(isa, a, b, &mut to);
                for (at, found) in to.iter().enumerate() {
                    let (i, j) = (a.row(at / others), b.row(at % others));
                    let expected: f32 = i.iter().zip(j).map(|(x, y)| x * y).sum();
                    prop_assert_eq!(*found, expected, "{} {}", at, isa);
                }
                let mut to = vec![f32::NAN; width];
                mix(isa, &weights, a, &mut to);
                for (column, found) in to.iter().enumerate() {
                    let expected: f32 =
                        weights.iter().enumerate().map(|(row, w)| w * a.row(row)[column]).sum();
                    prop_assert_eq!(*found, expected, "{} {}", column, isa);
                }
            }
        }
    }

    #[test]
    fn rows_lie_inside_of_their_numbers() {
        let inside = |length: usize, count, width, stride| {
            let numbers = vec![0.0; length];
            std::panic::catch_unwind(|| Rows::new(&numbers, count, width, stride).count()).ok()
        };
        assert_eq!(inside(10, 3, 4, 3), Some(3));
        assert_eq!(inside(9, 3, 4, 3), None);
        assert_eq!(inside(0, 0, 4, 3), Some(0));
        assert_eq!(inside(10, usize::MAX, 4, 3), None);
    }
}
