//! One worker's part of a run: its products, tile by tile, and what becomes of their sums.

use std::ops::Range;

use super::{Base, MAX_BLOCK, SLICE, SUMS, Scratch, narrows};
use crate::activation::Activation;
use crate::cell::{Block, Gru, Hidden, Lstm, Matrix, Rnn, Store, Whole};
use crate::lanes::{Kernel, LANES, Lanes};
use crate::narrow::{self, Narrow, Worth};
use crate::panels::Precision;
use crate::program::{self, At, Every, General, Place, Product, Program, Slots, Then};
use crate::team::Meeting;
use crate::tile::{self, Start, Tile};

/// One call, as all workers see it.
pub(super) struct Run<'a> {
    pub(super) program: &'a Program,
    pub(super) bases: &'a [Base],
    pub(super) scratch: &'a [Scratch],
    pub(super) lengths: &'a [usize],
    pub(super) active: &'a [usize],
    pub(super) fresh: bool,
    pub(super) meeting: &'a Meeting,
    pub(super) met: u32,
}

/// Steps that a product is for.
#[derive(Clone, Copy)]
struct Span {
    first: usize,
    steps: usize,
    length: usize,
    /// Whether `active` counts its rows.
    is_of_rows: bool,
}

/// Whether a span goes through the panels from their end, as every other step does: of weights that
/// do not fit into a cache, those used last are then still there.
#[inline(always)]
fn is_back(span: Span) -> bool {
    span.steps == 1 && span.first % 2 == 1
}

/// Where the rows of a block come from and go to.
struct Ends {
    from: [*mut f32; MAX_BLOCK],
    /// Where sums are to be, or in the worker's own memory, panel by panel.
    sums: [*mut f32; MAX_BLOCK],
    starts: Option<[*mut f32; MAX_BLOCK]>,
    /// Whether a panel's sums go to its own columns.
    in_place: bool,
}

/// One worker's part.
pub(super) struct Worker<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) worker: usize,
}

impl Kernel for Worker<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let mut met = self.run.met;
        let alone = self.run.program.workers() == 1;
        let mut meet = || {
            met = met.wrapping_add(1);
            if !alone {
                self.run.meeting.wait(self.worker, met);
            }
        };
        for looped in self.run.program.loops() {
            let length = self.run.lengths[looped.length];
            let chunk = looped.chunk.max(1);
            for start in (0..length).step_by(chunk) {
                let end = start.saturating_add(chunk).min(length);
                for stage in &looped.stages {
                    let (each, spans) = match stage.every {
                        Every::Chunk => (end - start, 1),
                        Every::Step => (1, end - start),
                    };
                    for span in 0..spans {
                        let is_of_rows = stage.every == Every::Step
                            && looped.length == 0
                            && !self.run.active.is_empty();
                        let span = Span { first: start + span, steps: each, length, is_of_rows };
                        for phase in &stage.phases {
                            for product in &phase.work[self.worker] {
                                self.product(s, product, span);
                            }
                            if phase.meets {
                                meet();
                            }
                        }
                    }
                }
            }
            meet();
        }
    }
}

impl Worker<'_> {
    /// The matrix of a place at a step, from its column on.
    #[inline(always)]
    fn matrix(&self, place: Place, step: usize, length: usize) -> Matrix {
        let buffer = &self.run.program.buffers()[place.buffer];
        let slot = match place.at {
            At::Fixed(slot) => slot,
            At::Step => step,
            At::Back => length - 1 - step,
            At::Turn { by } => match buffer.slots {
                Slots::Count(count) => step.wrapping_add(by) % count,
                Slots::Length(_) => 0,
            },
        };
        let words = slot * buffer.rows * buffer.columns + place.column;
        let first = self.run.bases[place.buffer].0.wrapping_add(words);
        Matrix { first, stride: buffer.columns }
    }

    #[inline(always)]
    fn product<S: Lanes>(&self, s: S, product: &Product, span: Span) {
        let mut rows = product.rows.clone();
        if span.is_of_rows {
            let step = if product.is_back() { span.length - 1 - span.first } else { span.first };
            rows.end = rows.end.min(self.run.active[step]);
        }
        if rows.is_empty() {
            return;
        }
        let vectors = product.weights.vectors();
        let all = rows.len() * span.steps;
        if narrows(product) {
            self.narrow(s, product, span, &rows);
        }
        let most = (SUMS / (vectors * LANES)).min(MAX_BLOCK);
        let block_rows = all.min(most);
        let block_panels = (SUMS / (vectors * LANES * block_rows)).max(1);
        let blocks = product.panels.len().div_ceil(block_panels);
        for block in 0..blocks {
            let block = if is_back(span) { blocks - 1 - block } else { block };
            let panel = product.panels.start + block * block_panels;
            let panels = block_panels.min(product.panels.end - panel);
            let mut row = 0;
            while row < all {
                let count = block_rows.min(all - row);
                self.multiply(s, product, span, &rows, (panel, panels), (row, count));
                if self.stores_at_once(product, span).is_none() {
                    self.finish(s, product, span, &rows, (panel, panels), (row, count));
                }
                row += count;
            }
        }
    }

    /// Whether a product's rows are zeros.
    #[inline(always)]
    fn is_zero(&self, product: &Product, span: Span) -> bool {
        product.of_state && self.run.fresh && span.first == 0 && span.steps == 1
    }

    /// In what sums are made: without anything to multiply they are the biases.
    #[inline(always)]
    fn precision(&self, product: &Product, span: Span) -> Precision {
        if self.is_zero(product, span) { Precision::F32 } else { product.weights.precision() }
    }

    /// Puts all rows of a product into the worker's own memory, in fewer bits.
    #[inline(always)]
    fn narrow<S: Lanes>(&self, s: S, product: &Product, span: Span, rows: &Range<usize>) {
        let (precision, k) = (product.weights.precision(), product.weights.k());
        let Scratch { rows: to, worths, .. } = self.run.scratch[self.worker];
        let stride = narrow::stride(precision, k);
        for step in 0..span.steps {
            let a = self.matrix(product.a, span.first + step, span.length);
            for row in 0..rows.len() {
                let from = a.first.wrapping_add((rows.start + row) * a.stride).cast_const();
                let index = step * rows.len() + row;
                let to = to.0.wrapping_add(index * stride).cast();
                let worth = s.plain().call(Narrow { from, k, to, precision });
                // SAFETY: `make_room` made room for all rows of all products of this worker.
                unsafe { worths.0.cast::<Worth>().add(index).write(worth) };
            }
        }
    }

    /// Where sums go that need nothing more: then tiles put them there.
    #[inline(always)]
    fn stores_at_once(&self, product: &Product, span: Span) -> Option<Place> {
        let width = product.weights.vectors() * LANES;
        match &product.then {
            Then::Store { to, activation: Activation::Identity, outputs }
                if product.panels.end * width <= *outputs
                    && self.precision(product, span) != Precision::Int8 =>
            {
                Some(*to)
            }
            _ => None,
        }
    }

    /// What the cell adds to the sums: then they begin with it.
    #[inline(always)]
    fn starts_with(&self, product: &Product, span: Span) -> Option<Place> {
        if product.bias.is_some() || self.precision(product, span) == Precision::Int8 {
            return None;
        }
        match &product.then {
            Then::Lstm(cell) => cell.input,
            Then::Rnn(cell) => Some(cell.input),
            _ => None,
        }
    }

    /// Where some rows begin in a place, of the rows of all steps of a span.
    #[inline(always)]
    fn rows(
        &self,
        place: Place,
        span: Span,
        rows: &Range<usize>,
        (first, count): (usize, usize),
    ) -> [*mut f32; MAX_BLOCK] {
        let mut found = [std::ptr::null_mut(); MAX_BLOCK];
        let (mut step, mut row) =
            if span.steps == 1 { (0, first) } else { (first / rows.len(), first % rows.len()) };
        let mut matrix = self.matrix(place, span.first + step, span.length);
        for pointer in &mut found[..count] {
            if row == rows.len() {
                (step, row) = (step + 1, 0);
                matrix = self.matrix(place, span.first + step, span.length);
            }
            *pointer = matrix.first.wrapping_add((rows.start + row) * matrix.stride);
            row += 1;
        }
        found
    }

    /// So many rows that follow one another.
    #[inline(always)]
    fn rows_from(first: *mut f32, stride: usize, count: usize) -> [*mut f32; MAX_BLOCK] {
        let mut found = [std::ptr::null_mut(); MAX_BLOCK];
        for (at, pointer) in found[..count].iter_mut().enumerate() {
            *pointer = first.wrapping_add(at * stride);
        }
        found
    }

    /// The rows of a block.
    #[inline(always)]
    fn ends(
        &self,
        product: &Product,
        span: Span,
        rows: &Range<usize>,
        block: (usize, usize),
    ) -> Ends {
        let weights = &product.weights;
        let (first_row, count) = block;
        let scratch = self.run.scratch[self.worker];
        let from = if narrows(product) {
            let stride = narrow::stride(weights.precision(), weights.k());
            Self::rows_from(scratch.rows.0.wrapping_add(first_row * stride), stride, count)
        } else {
            self.rows(product.a, span, rows, block)
        };
        let at_once = self.stores_at_once(product, span);
        let sums = match at_once {
            Some(to) => self.rows(to, span, rows, block),
            None => Self::rows_from(scratch.sums.0, weights.vectors() * LANES, count),
        };
        let starts = self.starts_with(product, span);
        let starts = starts.map(|place| self.rows(place, span, rows, block));
        Ends { from, sums, starts, in_place: at_once.is_some() }
    }

    /// Sums of a block: for each panel, slice of k and tile of rows.
    #[inline(always)]
    fn multiply<S: Lanes>(
        &self,
        s: S,
        product: &Product,
        span: Span,
        rows: &Range<usize>,
        (first_panel, panels): (usize, usize),
        (first_row, count): (usize, usize),
    ) {
        let weights = &product.weights;
        let (vectors, precision) = (weights.vectors(), self.precision(product, span));
        let words = if self.is_zero(product, span) { 0 } else { weights.words() };
        let width = vectors * LANES;
        let Ends { from, sums, starts, in_place } =
            self.ends(product, span, rows, (first_row, count));
        let most = tile::rows::<S>(vectors);
        let tiles = count.div_ceil(most);
        // One tile of few rows uses each weight once: then there is nothing to slice for.
        let slice = if tiles == 1 { words.max(1) } else { SLICE };
        for panel in 0..panels {
            let panel = if is_back(span) { panels - 1 - panel } else { panel };
            let packed = weights.panel(first_panel + panel).as_ptr();
            let at = (first_panel + panel) * width;
            let column = if in_place { at } else { panel * count * width };
            let mut word = 0;
            loop {
                let length = slice.min(words - word);
                let mut done = 0;
                for tile in 0..tiles {
                    // Equal shares: of ten rows five and five, not six and four.
                    let share = (count - done).div_ceil(tiles - tile);
                    let to = sums[done..].as_ptr();
                    let start = match (&starts, &product.bias) {
                        _ if word > 0 => Start::Rows(to.cast(), column),
                        (Some(rows), _) => Start::Rows(rows[done..].as_ptr().cast(), at),
                        (None, Some(bias)) if precision != Precision::Int8 => {
                            Start::Same(bias[at..].as_ptr())
                        }
                        _ => Start::Zeros,
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
                    // SAFETY: the program is proven, so rows and panels lie inside of their buffers; the
                    // sums of a block are at most `SUMS` words,
                    // or where the product stores them.
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

    /// Whether what is done to a block's sums can be done to all of them at once: rows of all steps follow one
    /// another wherever they come from and go to.
    #[inline(always)]
    fn finishes_at_once(
        &self,
        product: &Product,
        span: Span,
        rows: &Range<usize>,
        (first_row, count): (usize, usize),
    ) -> bool {
        let (first, last) = (first_row / rows.len(), (first_row + count - 1) / rows.len());
        let is_one = |place: &Place| {
            let buffer = &self.run.program.buffers()[place.buffer];
            let is_whole = rows.start == 0 && rows.len() == buffer.rows;
            is_whole
                && match (place.at, buffer.slots) {
                    (At::Step, _) => true,
                    (At::Turn { by }, Slots::Count(slots)) => {
                        (span.first + first).wrapping_add(by) % slots + (last - first) < slots
                    }
                    _ => false,
                }
        };
        match &product.then {
            _ if first == last => false,
            Then::Store { to, .. } => is_one(to),
            Then::General(cell) => match &**cell {
                General::Highway(highway) => is_one(&highway.x) && is_one(&highway.to),
                _ => false,
            },
            _ => false,
        }
    }

    /// What becomes of a block's sums, one step after the other, or all at once.
    #[inline(always)]
    fn finish<S: Lanes>(
        &self,
        s: S,
        product: &Product,
        span: Span,
        rows: &Range<usize>,
        (first_panel, panels): (usize, usize),
        (first_row, count): (usize, usize),
    ) {
        let vectors = product.weights.vectors();
        let sums = self.run.scratch[self.worker].sums.0.cast_const();
        let at_once = self.finishes_at_once(product, span, rows, (first_row, count));
        let mut done = 0;
        while done < count {
            let row = first_row + done;
            let (step, row) = (span.first + row / rows.len(), row % rows.len());
            let share = if at_once { count } else { (rows.len() - row).min(count - done) };
            let block = Block {
                sums: sums.wrapping_add(done * vectors * LANES),
                all_rows: count,
                first_panel,
                panels,
                first_row: rows.start + row,
                rows: share,
                vectors,
            };
            done += share;
            if self.precision(product, span) == Precision::Int8 {
                let worths = narrows(product).then(|| {
                    let worths =
                        self.run.scratch[self.worker].worths.0.cast::<Worth>().cast_const();
                    // SAFETY: `narrow` has written what all rows of the span are worth.
                    unsafe {
                        std::slice::from_raw_parts(worths.add(first_row + done - share), share)
                    }
                });
                let to = match &product.then {
                    Then::Store { to, activation: Activation::Identity, outputs } => {
                        Some((self.matrix(*to, step, span.length), *outputs))
                    }
                    _ => None,
                };
                self.whole(s, product, block, worths, to);
                if to.is_some() {
                    continue;
                }
            }
            self.finish_step(s, product, block, step, span);
        }
    }

    /// Whole numbers become `f32`.
    #[inline(always)]
    fn whole<S: Lanes>(
        &self,
        s: S,
        product: &Product,
        block: Block,
        worths: Option<&[Worth]>,
        to: Option<(Matrix, usize)>,
    ) {
        let (scales, excess) =
            product.weights.whole(block.first_panel..block.first_panel + block.panels);
        let bias = product.bias.as_deref();
        let bias = bias.map(|bias| &bias[block.first_panel * block.vectors * LANES..]);
        let scale = product.scale;
        s.plain().call(Whole { block, scales, excess, bias, scale, worths, to });
    }

    #[inline(always)]
    fn finish_step<S: Lanes>(
        &self,
        s: S,
        product: &Product,
        block: Block,
        step: usize,
        span: Span,
    ) {
        let s = s.plain();
        let started = self.starts_with(product, span).is_some();
        let matrix = |place| self.matrix(place, step, span.length);
        let hidden = |hidden: &program::Hidden| Hidden {
            state: matrix(hidden.state),
            narrow: hidden.narrow.map(|(place, precision)| (matrix(place), precision)),
            output: hidden.output.map(matrix),
            units: hidden.units,
        };
        match &product.then {
            Then::Store { to, activation, outputs } => {
                let (to, outputs, activation) = (matrix(*to), *outputs, *activation);
                s.call(Store { block, to, outputs, activation });
            }
            Then::Lstm(cell) => {
                let input = cell.input.filter(|_| !started).map(matrix);
                let state = matrix(cell.cell);
                let (hidden, curve) = (hidden(&cell.hidden), &cell.tanh.curve());
                match cell.tanh.terms() {
                    5 => s.call(Lstm::<5> { block, input, cell: state, hidden, curve }),
                    4 => s.call(Lstm::<4> { block, input, cell: state, hidden, curve }),
                    _ => s.call(Lstm::<3> { block, input, cell: state, hidden, curve }),
                }
            }
            Then::Gru(cell) => {
                let (input, last) = (matrix(cell.input), matrix(cell.last));
                let (hidden, curve) = (hidden(&cell.hidden), &cell.tanh.curve());
                match cell.tanh.terms() {
                    5 => s.call(Gru::<5> { block, input, last, hidden, curve }),
                    4 => s.call(Gru::<4> { block, input, last, hidden, curve }),
                    _ => s.call(Gru::<3> { block, input, last, hidden, curve }),
                }
            }
            Then::Rnn(cell) => {
                let input = (!started).then(|| matrix(cell.input));
                let activation = cell.activation;
                s.call(Rnn { block, input, hidden: hidden(&cell.hidden), activation });
            }
            Then::General(cell) => self.finish_general(s, cell, block, &matrix, &hidden),
        }
    }
}
