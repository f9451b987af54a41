//! Windows of bytes by tiles of AMX: rows are laid out first, whole sums are made in place, and then become
//! numbers.

use std::cell::RefCell;

use super::{Whole, Windows, put_sum};
use crate::arch::amx::{self, Amx, Pair, ROW, ROWS, Strip};
use crate::lanes::{Kernel, LANES, Lanes};
use crate::panels::Panels;

/// Fewer rows leave most of a tile empty.
pub(super) const LEAST_ROWS: usize = ROWS;

/// What rows may take that are laid out at once, in bytes: they stay in the second cache.
const MOST_BYTES: usize = 256 << 10;

thread_local! {
    /// Rows of a call, one after the other, each with a whole number of tiles.
    static LAID: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// As [`super::multiply_windows`], which has seen that all is inside, for words that are these bytes and whole
/// numbers of this unit. There are at least [`LEAST_ROWS`] rows.
pub(super) fn multiply(
    amx: Amx,
    windows: &Windows<'_>,
    (bytes, unit): (&[u8], f32),
    weights: &Panels,
    to: &mut [f32],
) {
    let (vectors, width) = (weights.vectors(), weights.panels() * weights.vectors() * LANES);
    let tiles = weights.words().div_ceil(ROW / size_of::<u32>());
    let stride = tiles * ROW;
    let (rows, s) = (windows.starts.len(), amx.vectors());
    LAID.with_borrow_mut(|laid| {
        let most = (MOST_BYTES / stride.max(1)).max(2 * ROWS) / ROWS * ROWS;
        // The last piece written may reach beyond the last row.
        laid.resize(laid.len().max(most.min(rows) * stride + ROW), 0);
        let mut done = 0;
        while done < rows && tiles > 0 {
            // Never fewer than a tile has: the last rows again.
            let first = done.min(rows - ROWS);
            let count = (rows - first).min(most);
            let starts = &windows.starts[first..first + count];
            s.call(Lay { windows: Windows { starts, ..*windows }, bytes, laid, stride });
            let block = |at: usize| (at * ROWS).min(count - ROWS);
            for panel in 0..weights.panels() {
                for vector in (0..vectors).step_by(2) {
                    // An odd one out is done together with the one before it.
                    let vector = vector.min(vectors.saturating_sub(2));
                    let column = (panel * vectors + vector) * LANES;
                    let sums = to[first * width + column..].as_mut_ptr().cast::<i32>();
                    let pair = |at: usize| {
                        let blocks = [block(2 * at), block(2 * at + 1)];
                        Pair {
                            rows: blocks.map(|row| laid[row * stride..].as_ptr()),
                            sums: blocks.map(|row| sums.wrapping_add(row * width)),
                        }
                    };
                    let pairs: Vec<Pair> = (0..count.div_ceil(2 * ROWS)).map(pair).collect();
                    let strip = Strip {
                        row_stride: stride,
                        tiles,
                        weights: weights.panel(panel)[vector * LANES..].as_ptr(),
                        word_stride: vectors * LANES * size_of::<u32>(),
                        sum_stride: width * size_of::<f32>(),
                    };
                    // SAFETY: blocks are of 16 rows below `count`, each of `tiles` x 64 bytes in `laid`; panels
                    // of bytes hold zeros up to a whole number of tiles; `to` has `width` numbers for each row.
                    unsafe { amx::multiply(amx, &pairs, strip, vectors > 1) };
                }
            }
            done = first + count;
        }
    });
    if tiles == 0 {
        to.fill(0.0);
    }
    s.call(Finish { weights, width, unit, to });
}

/// Puts the runs of each row beside one another.
struct Lay<'a> {
    windows: Windows<'a>,
    bytes: &'a [u8],
    laid: &'a mut [u8],
    stride: usize,
}

impl Kernel for Lay<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, _: S) {
        match self.windows.run * size_of::<u32>() {
            0..=8 => self.pieces::<8>(),
            9..=16 => self.pieces::<16>(),
            17..=32 => self.pieces::<32>(),
            _ => self.pieces::<64>(),
        }
    }
}

impl Lay<'_> {
    /// In pieces of `P` bytes, of which the last of a run may reach beyond it: what it writes there is written
    /// again by the next run or row, or meets weights that are zeros.
    #[inline(always)]
    fn pieces<const P: usize>(self) {
        let Windows { starts, runs, run, apart, .. } = self.windows;
        let (run, Self { bytes, laid, stride, .. }) = (run * size_of::<u32>(), self);
        let reach = runs.saturating_sub(1) * apart + run.next_multiple_of(P);
        assert!(runs * run <= stride && starts.len() * stride + ROW <= laid.len(), "room for all");
        for (row, start) in starts.iter().enumerate() {
            let (mut from, mut to) = (*start, row * stride);
            let is_inside = start + reach <= bytes.len();
            for _ in 0..runs {
                if is_inside {
                    for at in (0..run).step_by(P) {
                        // SAFETY: the last run, in whole pieces, ends within `bytes`; what is written ends at most
                        // a piece after the last row, where there are `ROW` bytes more.
                        unsafe {
                            let piece = bytes.as_ptr().add(from + at).cast::<[u8; P]>();
                            let place = laid.as_mut_ptr().add(to + at).cast::<[u8; P]>();
                            place.write_unaligned(piece.read_unaligned());
                        }
                    }
                } else {
                    laid[to..to + run].copy_from_slice(&bytes[from..from + run]);
                }
                (from, to) = (from + apart, to + run);
            }
        }
    }
}

/// Makes numbers of whole sums.
struct Finish<'a> {
    weights: &'a Panels,
    width: usize,
    unit: f32,
    to: &'a mut [f32],
}

impl Kernel for Finish<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let (scales, excess) = self.weights.whole(0..self.weights.panels());
        for row in self.to.chunks_exact_mut(self.width) {
            for (at, to) in row.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                let (scales, excess) =
                    (scales[at * LANES..].as_ptr(), excess[at * LANES..].as_ptr());
                let whole = Whole { scales, excess, unit: self.unit };
                // SAFETY: `to` is 16 numbers, whole ones until now; there is a scale and an excess for each of a
                // row.
                unsafe { put_sum(s, to.as_mut_ptr(), s.load_i32(to.as_ptr().cast()), whole) };
            }
        }
    }
}
