//! Products of a single row.

use super::{Part, Span, Step, Worker, is_back};
use crate::cell::Matrix;
use crate::execute::narrows;
use crate::lanes::{LANES, Lanes};
use crate::panels::Precision;
use crate::program::Product;
use crate::tile::{self, Start, Tile};

impl Worker<'_> {
    /// Computes the product of one row at one step, in one block. For batches of one row, the
    /// overhead beside the product would take as long as the product.
    #[inline(always)]
    pub(super) fn one<S: Lanes>(&self, s: S, product: &Product, span: Span, row: usize) {
        let (weights, scratch) = (&product.weights, self.run.scratch[self.worker]);
        let (vectors, precision) = (weights.vectors(), self.precision(product, span));
        let words = if self.is_zero(product, span) { 0 } else { weights.words() };
        let (width, panels) = (vectors * LANES, product.panels.len());
        let at = Step { worker: self, step: span.first, length: span.length };
        let row_of = |matrix: Matrix| matrix.first.wrapping_add(row * matrix.stride);
        let from = if narrows(product) { scratch.rows.0 } else { row_of(at.matrix(product.a)) };
        let starts = self.starts_with(product, span).map(|place| row_of(at.matrix(place)));
        let at_once = self.stores_at_once(product, span).map(|to| row_of(at.matrix(to)));
        let first = product.panels.start * width;
        let to = at_once.map_or(scratch.sums.0, |to| to.wrapping_add(first));
        let starts = match (starts, &product.bias) {
            (Some(row), _) => Some(row.wrapping_add(first).cast_const()),
            (None, Some(bias)) if precision != Precision::Int8 => Some(bias[first..].as_ptr()),
            _ => None,
        };
        for panel in 0..panels {
            let panel = if is_back(span) { panels - 1 - panel } else { panel };
            let column = panel * width;
            let tile = Tile {
                rows: (&raw const from).cast(),
                first: 0,
                words,
                panel: weights.panel(product.panels.start + panel).as_ptr(),
                start: starts.map_or(Start::Zeros, |from| Start::Same(from.wrapping_add(column))),
                sums: &raw const to,
                column,
            };
            // SAFETY: as in `multiply`; the sums of one block fit in the worker's scratch memory.
            unsafe { tile::multiply(s, precision, 1, vectors, tile) };
        }
        if at_once.is_none() {
            let part = Part { first_panel: product.panels.start, panels, first_row: 0, count: 1 };
            self.finish(s, product, span, &(row..row + 1), part);
        }
    }
}
