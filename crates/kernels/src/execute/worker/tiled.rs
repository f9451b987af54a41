//! Blocks on the matrix tiles of AMX.

use crate::arch::Amx;
use crate::arch::amx::{self, Block, MAX_ROWS, TILE_WORDS};
use crate::isa::Isa;
use crate::lanes::LANES;
use crate::panels::{MAX_VECTORS, Precision};
use crate::tile::Start;

/// Zeros from which the sums of a row start.
static ZEROS: [f32; MAX_VECTORS * LANES] = [0.0; MAX_VECTORS * LANES];

/// Whether tiles are faster than vectors, as `cargo bench -p dyno-rnn --bench isas` measures on
/// Sapphire Rapids: products of bytes are fast enough on vectors that the fixed cost of a tile
/// needs many of them. Single rows are limited by reading weights (`one.rs`).
fn pays_off(precision: Precision, rows: usize, words: usize) -> bool {
    match precision {
        Precision::F32 => false,
        Precision::Bf16 => rows >= 2 && words > 0,
        Precision::Int8 => rows >= 5 && words >= 4 * TILE_WORDS,
    }
}

/// A block whose rows are at equal distances, as tiles need them.
pub(super) struct TiledBlock<'a> {
    amx: Amx,
    precision: Precision,
    rows: usize,
    vectors: usize,
    /// The whole block, without weights and initial values.
    block: Block,
    /// Destinations of the sums, if these are not at equal distances.
    places: Option<&'a [*mut f32]>,
}

impl<'a> TiledBlock<'a> {
    /// Returns the block of rows `from` with these sums and initial values, if tiles may be used
    /// and pay off. Sums of rows at different distances, as those of several steps for a part of
    /// the batch, are computed in `scratch`, which has room for one panel.
    pub(super) fn new(
        isa: Isa,
        (precision, words, vectors): (Precision, usize, usize),
        from: &[*mut f32],
        (sums, scratch): (&'a [*mut f32], *mut f32),
        starts: Option<&[*mut f32]>,
    ) -> Option<Self> {
        let (amx, rows) = (isa.tiles()?, from.len());
        if !pays_off(precision, rows, words) {
            return None;
        }
        let width = vectors * LANES * size_of::<u32>();
        let (first, sum_stride, places) = match distance(sums) {
            Some(stride) => (sums[0], stride, None),
            None => (scratch, width.cast_signed(), Some(sums)),
        };
        let block = Block {
            rows: from[0].cast(),
            row_stride: distance(from)?,
            words,
            weights: std::ptr::null(),
            word_stride: width,
            start: std::ptr::null(),
            start_stride: starts.map_or(Some(0), distance)?,
            sums: first.cast(),
            sum_stride,
        };
        Some(Self { amx, precision, rows, vectors, block, places })
    }

    /// Multiplies by a panel.
    ///
    /// # Safety
    /// The rows are valid for reads of their words, `panel` for reads of these words in each
    /// vector, `start` for reads and, from `column` on, the sums for writes of all vectors of each
    /// row. `scratch` is valid for writes of all vectors of all rows.
    pub(super) unsafe fn multiply(&self, panel: *const u32, start: Start, column: usize) {
        let Self { amx, precision, rows, vectors, block, places } = *self;
        let first = if places.is_some() { 0 } else { column };
        let (start, start_stride) = match start {
            Start::Zeros => (ZEROS.as_ptr(), 0),
            Start::Same(start) => (start, 0),
            Start::Rows(starts, column) => {
                // SAFETY: the caller guarantees a pointer to the initial values of each row.
                let first = unsafe { *starts };
                (first.wrapping_add(column), block.start_stride)
            }
        };
        for row in (0..rows).step_by(MAX_ROWS) {
            let by = |stride: isize| row.cast_signed() * stride;
            let part = Block {
                rows: block.rows.wrapping_offset(by(block.row_stride)),
                weights: panel.cast(),
                start: start.cast::<u8>().wrapping_offset(by(start_stride)),
                start_stride,
                sums: block
                    .sums
                    .wrapping_add(first * size_of::<f32>())
                    .wrapping_offset(by(block.sum_stride)),
                ..block
            };
            // SAFETY: `new` has verified that the rows are at equal distances, that they have words,
            // and the precision; the caller guarantees that all rows are valid.
            unsafe {
                amx::multiply_block(amx, precision, (rows - row).min(MAX_ROWS), vectors, part);
            }
        }
        for (row, place) in places.into_iter().flatten().enumerate() {
            let width = vectors * LANES;
            let from = block.sums.cast_const().cast::<f32>().wrapping_add(row * width);
            // SAFETY: the sums of all rows have been written to the scratch memory, in which no
            // place of a product lies, and the caller guarantees the places.
            unsafe { place.wrapping_add(column).copy_from_nonoverlapping(from, width) };
        }
    }
}

/// Returns the bytes from each pointer to the next if they are equal.
fn distance(pointers: &[*mut f32]) -> Option<isize> {
    let between = |pair: &[*mut f32]| pair[1].addr().wrapping_sub(pair[0].addr()).cast_signed();
    let mut all = pointers.windows(2).map(between);
    let first = all.next().unwrap_or(0);
    all.all(|next| next == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of two equal small whole numbers in bfloat16.
    fn pair(number: usize) -> u32 {
        (number as f32).to_bits() >> 16 | (number as f32).to_bits()
    }

    #[test]
    fn sums_at_different_distances_are_put_in_their_places() {
        let Ok(isa) = Isa::named("amx") else { return };
        let (rows, words, vectors, column) = (5, 20, 2, 3);
        let width = vectors * LANES;
        let places = [0, 40, 100, 141, 190];
        let mut a: Vec<u32> = (0..rows * words).map(|at| pair(at / words + 1)).collect();
        let panel: Vec<u32> = (0..words * width).map(|at| pair(at % width)).collect();
        let bias = vec![0.5; width];
        let (mut sums, mut scratch) = (vec![-1.0; 240], vec![0.0; rows * width]);
        let first = a.as_mut_ptr().cast::<f32>();
        let from: Vec<*mut f32> = (0..rows).map(|row| first.wrapping_add(row * words)).collect();
        let to = places.map(|place| sums.as_mut_ptr().wrapping_add(place));
        let sizes = (Precision::Bf16, words, vectors);
        let block = TiledBlock::new(isa, sizes, &from, (&to, scratch.as_mut_ptr()), None)
            .expect("rows at equal distances");
        // SAFETY: all rows have their words, `panel` and `bias` all vectors, `scratch` all sums, and
        // each place is followed by at least as many numbers as it needs.
        unsafe { block.multiply(panel.as_ptr(), Start::Same(bias.as_ptr()), column) };
        let mut expected = vec![-1.0; sums.len()];
        for (row, place) in places.into_iter().enumerate() {
            for output in 0..width {
                let sum = 2 * words * (row + 1) * output;
                expected[place + column + output] = sum as f32 + 0.5;
            }
        }
        assert_eq!(sums, expected);
        // Rows at different distances are left to vectors.
        let uneven = [from[0], from[1], from[3]];
        let found = TiledBlock::new(isa, sizes, &uneven, (&to[..3], scratch.as_mut_ptr()), None);
        assert!(found.is_none());
    }
}
