//! Products of several rows, block by block.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use super::tiled::TiledBlock;
use super::{Ends, Part, Span, Worker, div_ceil, is_back};
use crate::execute::SLICE;
use crate::lanes::{LANES, Lanes};
use crate::panels::Precision;
use crate::program::Product;
use crate::tile::{self, Start, Tile};

impl Worker<'_> {
    /// Computes the sums of a block: for each panel, slice of k and tile of rows.
    #[inline(always)]
    pub(super) fn multiply<S: Lanes>(
        &self,
        s: S,
        product: &Product,
        span: Span,
        rows: &Range<usize>,
        part: Part,
        ends: &mut Ends,
    ) {
        let Part { first_panel, panels, first_row, count } = part;
        let weights = &product.weights;
        let (vectors, precision) = (weights.vectors(), self.precision(product, span));
        let words = if self.is_zero(product, span) { 0 } else { weights.words() };
        let width = vectors * LANES;
        self.ends(product, span, rows, (first_row, count), ends);
        let Ends { from, sums, starts } = &*ends;
        let starts = self.starts_with(product, span).map(|_| starts);
        let in_place = self.stores_at_once(product, span).is_some();
        let tiles = div_ceil(count, tile::rows::<S>(precision, vectors));
        // A single tile uses each weight once, so that slices would not help.
        let slice = if tiles == 1 { words.max(1) } else { SLICE };
        #[cfg(target_arch = "x86_64")]
        let tiled = TiledBlock::new(
            self.run.isa,
            (precision, words, vectors),
            &from[..count],
            (&sums[..count], self.run.scratch[self.worker].sums.0),
            starts.map(|starts| &starts[..count]),
        );
        for panel in 0..panels {
            let panel = if is_back(span) { panels - 1 - panel } else { panel };
            let packed = weights.panel(first_panel + panel).as_ptr();
            let at = (first_panel + panel) * width;
            let column = if in_place { at } else { panel * count * width };
            let initial = match (starts, &product.bias) {
                (Some(rows), _) => Start::Rows(rows.as_ptr().cast(), at),
                (None, Some(bias)) if precision != Precision::Int8 => {
                    Start::Same(bias[at..].as_ptr())
                }
                _ => Start::Zeros,
            };
            #[cfg(target_arch = "x86_64")]
            if let Some(tiled) = &tiled {
                // SAFETY: as for `tile::multiply`; `tiled` is made of the rows of this block.
                unsafe { tiled.multiply(packed, initial, column) };
                continue;
            }
            let mut word = 0;
            loop {
                let length = slice.min(words - word);
                let mut done = 0;
                for tile in 0..tiles {
                    // Equal shares: ten rows become five and five, not six and four.
                    let share = if tile + 1 == tiles {
                        count - done
                    } else {
                        (count - done).div_ceil(tiles - tile)
                    };
                    let to = sums[done..].as_ptr();
                    let start = match initial {
                        _ if word > 0 => Start::Rows(to.cast(), column),
                        Start::Rows(rows, column) => Start::Rows(rows.wrapping_add(done), column),
                        same => same,
                    };
                    let tile = Tile {
                        rows: from[done..].as_ptr().cast(),
                        first: word,
                        words: length,
                        panel: packed.wrapping_add(word * width),
                        start,
                        sums: to,
                        column,
                    };
                    // SAFETY: `Program::new` has verified that the rows and panels lie inside of
                    // their buffers. The sums of a block fit in the scratch memory of `SUMS` words,
                    // or go to the verified place where the product stores them.
                    unsafe { tile::multiply(s, precision, share, vectors, tile) };
                    done += share;
                }
                word += length;
                if word >= words {
                    break;
                }
            }
        }
    }
}
