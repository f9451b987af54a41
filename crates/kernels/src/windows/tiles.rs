//! Windows of bytes on AMX tiles: rows are laid out first, integer sums are computed in place and
//! then converted to `f32` unless they are exact.

use std::cell::RefCell;

use super::{SumScale, Windows, put_sum};
use crate::arch::amx::{self, Amx, Pair, ROW, ROWS, Strip};
use crate::lanes::{Kernel, LANES, Lanes};
use crate::panels::Panels;

/// Minimum rows; fewer would leave most of a tile empty.
pub(super) const LEAST_ROWS: usize = ROWS;

/// Maximum bytes of rows that are laid out at once: they stay in the L2 cache.
const MOST_BYTES: usize = 256 << 10;

thread_local! {
    /// Rows of a call, each padded to a whole number of tiles.
    static LAID: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Multiplies like [`super::multiply`], which has checked all bounds, for these bytes with this
/// unit; sums are exact without one. There are at least [`LEAST_ROWS`] rows.
pub(super) fn multiply(
    amx: Amx,
    windows: &Windows<'_>,
    (bytes, unit): (&[u8], Option<f32>),
    weights: &Panels,
    to: &mut [f32],
) {
    let (vectors, width) = (weights.vectors(), weights.panels() * weights.vectors() * LANES);
    let tiles = weights.words().div_ceil(ROW / size_of::<u32>());
    let stride = tiles * ROW;
    let (rows, s) = (windows.starts.len(), amx.vectors());
    LAID.with_borrow_mut(|laid| {
        let most = (MOST_BYTES / stride.max(1)).max(2 * ROWS) / ROWS * ROWS;
        // The last piece written may extend beyond the last row.
        laid.resize(laid.len().max(most.min(rows) * stride + ROW), 0);
        let mut done = 0;
        while done < rows && tiles > 0 {
            // If fewer rows than a tile are left, repeats the last rows.
            let first = done.min(rows - ROWS);
            let count = (rows - first).min(most);
            let starts = &windows.starts[first..first + count];
            s.call(RowLayout { windows: Windows { starts, ..*windows }, bytes, laid, stride });
            let block = |at: usize| (at * ROWS).min(count - ROWS);
            for panel in 0..weights.panels() {
                for vector in (0..vectors).step_by(2) {
                    // An odd last vector is computed together with the one before it.
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
                    // SAFETY: each block has 16 rows below `count`, with `tiles` x 64 bytes each in
                    // `laid`. Panels of bytes are padded with zeros to whole tiles, and `to` has
                    // `width` numbers for each row.
                    unsafe { amx::multiply(amx, &pairs, strip, vectors > 1) };
                }
            }
            done = first + count;
        }
    });
    if tiles == 0 {
        to.fill(0.0);
    }
    s.call(Finalization { weights, width, unit, to });
}

/// Copies the runs of each row next to one another.
struct RowLayout<'a> {
    windows: Windows<'a>,
    bytes: &'a [u8],
    laid: &'a mut [u8],
    stride: usize,
}

impl Kernel for RowLayout<'_> {
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

impl RowLayout<'_> {
    /// Copies in pieces of `P` bytes. The last piece of a run may extend beyond it: the bytes there
    /// are overwritten by the next run or row, or meet weights that are zeros.
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
                        // SAFETY: the last run in whole pieces ends within `bytes`. Writes end at
                        // most one piece after the last row, where `ROW` more bytes exist.
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

/// Subtracts the excess of integer sums, and converts them to `f32` if they have a unit.
struct Finalization<'a> {
    weights: &'a Panels,
    width: usize,
    unit: Option<f32>,
    to: &'a mut [f32],
}

impl Kernel for Finalization<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let (scales, excess) = self.weights.whole(0..self.weights.panels());
        for row in self.to.chunks_exact_mut(self.width) {
            for (at, to) in row.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                let (scales, excess) =
                    (scales[at * LANES..].as_ptr(), excess[at * LANES..].as_ptr());
                let (unit, is_exact) = (self.unit.unwrap_or(1.0), self.unit.is_none());
                let whole = SumScale { scales, excess, unit, is_exact };
                // SAFETY: `to` has 16 numbers, integers until now, and each number of a row has a
                // scale and an excess.
                unsafe { put_sum(s, to.as_mut_ptr(), s.load_i32(to.as_ptr().cast()), whole) };
            }
        }
    }
}
