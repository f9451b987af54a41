//! One worker's part of a run: its products tile by tile, and their epilogues.

mod block;
mod one;
#[cfg(target_arch = "x86_64")]
mod tiled;

use std::ops::Range;

use super::{Base, MAX_BLOCK, MAX_WHOLE_TILES, SUMS, Scratch, narrows};
use crate::activation::Activation;
use crate::cell::{Block, Dequantization, Gru, HiddenMatrices, Lstm, Matrix, Rnn, StoreKernel};
use crate::isa::Isa;
use crate::lanes::{Kernel, LANES, Lanes};
use crate::narrow::{self, RowNarrowing, RowQuantization};
use crate::panels::Precision;
use crate::program::{
    self, Cadence, Epilogue, GeneralCell, Phase, Place, Product, Program, SlotIndex, Slots, Stage,
};
use crate::team::Turns;
use crate::tile::MAX_ROWS;

/// A call, shared by all workers.
pub(super) struct Run<'a> {
    pub(super) program: &'a Program,
    pub(super) bases: &'a [Base],
    pub(super) scratch: &'a [Scratch],
    pub(super) lengths: &'a [usize],
    pub(super) active: &'a [usize],
    pub(super) fresh: bool,
    pub(super) isa: Isa,
}

/// Steps that a product covers.
#[derive(Clone, Copy)]
struct Span {
    first: usize,
    steps: usize,
    length: usize,
    /// Whether `active` limits its rows.
    is_of_rows: bool,
}

/// Whether a span traverses the panels backward, as every other step does: if the weights exceed a
/// cache, those used last are still in it.
#[inline(always)]
fn is_back(span: Span) -> bool {
    span.steps == 1 && span.first % 2 == 1
}

/// A block of a product: some of its panels, and some of the rows of all steps of a span.
#[derive(Clone, Copy)]
struct Part {
    first_panel: usize,
    panels: usize,
    first_row: usize,
    count: usize,
}

/// Sources and destinations of a block's rows. Filled in place for each block: a vector copy would
/// stall on the scalar writes just before it.
struct Ends {
    /// Rows of the left operand.
    from: [*mut f32; MAX_BLOCK],
    /// Destinations of the sums: final places, or the worker's scratch memory panel by panel.
    sums: [*mut f32; MAX_BLOCK],
    /// Initial values of the sums that differ by row.
    starts: [*mut f32; MAX_BLOCK],
}

impl Ends {
    fn new() -> Self {
        let none = [std::ptr::null_mut(); MAX_BLOCK];
        Self { from: none, sums: none, starts: none }
    }
}

/// Division for operands that are mostly less than the divisor: a division takes as long as ten
/// vectors of products.
#[inline(always)]
fn div_ceil(a: usize, b: usize) -> usize {
    if a <= b { usize::from(a > 0) } else { a.div_ceil(b) }
}

/// One share of a run.
pub(super) struct Worker<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) worker: usize,
}

/// The shares of a run that one thread executes.
pub(super) struct Visit<'a, 'b> {
    pub(super) run: &'a Run<'a>,
    pub(super) turns: &'a mut Turns<'b>,
}

impl Kernel for Visit<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Self { run, turns } = self;
        let ends = &mut Ends::new();
        // Start of the phase with this number, and of the next one if it is known.
        let (mut phase, mut start, mut next) = (0, Position::default(), None);
        while let Some(turn) = turns.next() {
            while phase < turn.phase {
                start = next.take().unwrap_or_else(|| run.walk(start, |_, _| ()));
                phase += 1;
            }
            let worker = Worker { run, worker: turn.share };
            next = Some(run.walk(start, |phase, span| {
                for product in &phase.work[turn.share] {
                    worker.product(s, product, span, ends);
                }
            }));
        }
    }
}

/// Position in the loops of a program.
#[derive(Clone, Copy, Default)]
struct Position {
    looped: usize,
    /// First step of the chunk.
    start: usize,
    stage: usize,
    span: usize,
    phase: usize,
}

impl Run<'_> {
    /// Walks the program from a position to the next barrier. Returns the position behind it.
    #[inline(always)]
    fn walk(&self, from: Position, mut visit: impl FnMut(&Phase, Span)) -> Position {
        let Position { looped: index, mut start, mut stage, mut span, mut phase } = from;
        let Some(looped) = self.program.loops().get(index) else { return from };
        let length = self.lengths[looped.length];
        let chunk = looped.chunk.max(1);
        while start < length {
            let end = start.saturating_add(chunk).min(length);
            while let Some(Stage { cadence, phases }) = looped.stages.get(stage) {
                let (steps, spans) = match cadence {
                    Cadence::Chunk => (end - start, 1),
                    Cadence::Step => (1, end - start),
                };
                let is_of_rows = looped.length == 0 && !self.active.is_empty();
                while span < spans {
                    let steps = Span { first: start + span, steps, length, is_of_rows };
                    while let Some(current) = phases.get(phase) {
                        visit(current, steps);
                        phase += 1;
                        if current.has_barrier {
                            return Position { looped: index, start, stage, span, phase };
                        }
                    }
                    (span, phase) = (span + 1, 0);
                }
                (stage, span) = (stage + 1, 0);
            }
            (start, stage) = (end, 0);
        }
        Position { looped: index + 1, ..Position::default() }
    }
}

/// A step, which turns places into matrices.
pub(super) struct Step<'a> {
    worker: &'a Worker<'a>,
    step: usize,
    length: usize,
}

impl Step<'_> {
    #[inline(always)]
    pub(super) fn matrix(&self, place: Place) -> Matrix {
        self.worker.matrix(place, self.step, self.length)
    }

    #[inline(always)]
    pub(super) fn hidden(&self, hidden: &program::HiddenState) -> HiddenMatrices {
        HiddenMatrices {
            state: self.matrix(hidden.state),
            narrow: hidden.narrow.map(|(place, precision)| (self.matrix(place), precision)),
            output: hidden.output.map(|place| self.matrix(place)),
            units: hidden.units,
        }
    }
}

impl Worker<'_> {
    /// Returns the matrix of a place at a step, from its column on.
    #[inline(always)]
    fn matrix(&self, place: Place, step: usize, length: usize) -> Matrix {
        let buffer = &self.run.program.buffers()[place.buffer];
        let slot = match place.at {
            SlotIndex::Fixed(slot) => slot,
            SlotIndex::Step => step,
            SlotIndex::Back => length - 1 - step,
            SlotIndex::Turn { by } => match buffer.slots {
                Slots::Count(1) | Slots::Length(_) => 0,
                Slots::Count(2) => step.wrapping_add(by) % 2,
                Slots::Count(count) => step.wrapping_add(by) % count,
            },
        };
        let words = slot * buffer.rows * buffer.columns + place.column;
        let first = self.run.bases[place.buffer].0.wrapping_add(words);
        Matrix { first, stride: buffer.columns }
    }

    #[inline(always)]
    fn product<S: Lanes>(&self, s: S, product: &Product, span: Span, ends: &mut Ends) {
        let mut rows = product.rows.clone();
        if span.is_of_rows {
            let end = span.first + span.steps;
            // The step of the span with the most rows in use.
            let step = if product.is_back() { span.length - end } else { span.first };
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
        // The order of a row's sums depends on the rows of its tile. Rows that fill whole tiles do
        // so in each block: calls of sequences rely on it.
        let is_whole = all.is_multiple_of(MAX_ROWS);
        let block_rows = all.min(if is_whole { MAX_WHOLE_TILES } else { MAX_BLOCK });
        let row_words = vectors * LANES * block_rows;
        let mut block_panels = product.panels.len();
        if block_panels * row_words > SUMS {
            block_panels = (SUMS / row_words).max(1);
        }
        let blocks = div_ceil(product.panels.len(), block_panels);
        if (all, blocks) == (1, 1) {
            return self.one(s, product, span, rows.start);
        }
        for block in 0..blocks {
            let block = if is_back(span) { blocks - 1 - block } else { block };
            let panel = product.panels.start + block * block_panels;
            let panels = block_panels.min(product.panels.end - panel);
            let mut row = 0;
            while row < all {
                let count = block_rows.min(all - row);
                let part = Part { first_panel: panel, panels, first_row: row, count };
                self.multiply(s, product, span, &rows, part, ends);
                if self.stores_at_once(product, span).is_none() {
                    self.finish(s, product, span, &rows, part);
                }
                row += count;
            }
        }
    }

    /// Whether the rows of a product are all zeros.
    #[inline(always)]
    fn is_zero(&self, product: &Product, span: Span) -> bool {
        product.reads_state && self.run.fresh && span.first == 0 && span.steps == 1
    }

    /// Precision of the sums; skipped products only have `f32` biases.
    #[inline(always)]
    fn precision(&self, product: &Product, span: Span) -> Precision {
        if self.is_zero(product, span) { Precision::F32 } else { product.weights.precision() }
    }

    /// Narrows all rows of a product into the worker's scratch memory.
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
                let worth = s.plain().call(RowNarrowing { from, k, to, precision });
                // SAFETY: `make_room` allocated memory for the scales of all rows of all products
                // of this worker.
                unsafe { worths.0.cast::<RowQuantization>().add(index).write(worth) };
            }
        }
    }

    /// Returns the destination of sums that need no epilogue; tiles write them there directly.
    #[inline(always)]
    fn stores_at_once(&self, product: &Product, span: Span) -> Option<Place> {
        let width = product.weights.vectors() * LANES;
        match &product.epilogue {
            Epilogue::Store { to, activation: Activation::Identity, outputs }
                if product.panels.end * width <= *outputs
                    && self.precision(product, span) != Precision::Int8 =>
            {
                Some(*to)
            }
            _ => None,
        }
    }

    /// Returns the place whose numbers the cell adds to the sums; the sums then start with them.
    #[inline(always)]
    fn starts_with(&self, product: &Product, span: Span) -> Option<Place> {
        if product.bias.is_some() || self.precision(product, span) == Precision::Int8 {
            return None;
        }
        match &product.epilogue {
            Epilogue::Lstm(cell) => cell.input,
            Epilogue::Rnn(cell) => Some(cell.input),
            _ => None,
        }
    }

    /// Writes pointers to some rows of a place, counted over all steps of a span.
    #[inline(always)]
    fn rows(
        &self,
        found: &mut [*mut f32; MAX_BLOCK],
        place: Place,
        span: Span,
        rows: &Range<usize>,
        (first, count): (usize, usize),
    ) {
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
    }

    /// Writes pointers to `count` rows at equal distances.
    #[inline(always)]
    fn rows_from(found: &mut [*mut f32; MAX_BLOCK], first: *mut f32, stride: usize, count: usize) {
        for (at, pointer) in found[..count].iter_mut().enumerate() {
            *pointer = first.wrapping_add(at * stride);
        }
    }

    /// Fills the sources and destinations of a block's rows.
    #[inline(always)]
    fn ends(
        &self,
        product: &Product,
        span: Span,
        rows: &Range<usize>,
        block: (usize, usize),
        ends: &mut Ends,
    ) {
        let weights = &product.weights;
        let (first_row, count) = block;
        let scratch = self.run.scratch[self.worker];
        if narrows(product) {
            let stride = narrow::stride(weights.precision(), weights.k());
            let first = scratch.rows.0.wrapping_add(first_row * stride);
            Self::rows_from(&mut ends.from, first, stride, count);
        } else {
            self.rows(&mut ends.from, product.a, span, rows, block);
        }
        match self.stores_at_once(product, span) {
            Some(to) => self.rows(&mut ends.sums, to, span, rows, block),
            None => {
                let stride = weights.vectors() * LANES;
                Self::rows_from(&mut ends.sums, scratch.sums.0, stride, count);
            }
        }
        if let Some(place) = self.starts_with(product, span) {
            self.rows(&mut ends.starts, place, span, rows, block);
        }
    }

    /// Whether the epilogue of a block can process all steps at once: the rows of all steps are
    /// contiguous in all of its places.
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
                    (SlotIndex::Step, _) => true,
                    (SlotIndex::Turn { by }, Slots::Count(slots)) => {
                        (span.first + first).wrapping_add(by) % slots + (last - first) < slots
                    }
                    _ => false,
                }
        };
        match &product.epilogue {
            _ if first == last => false,
            Epilogue::Store { to, .. } => is_one(to),
            Epilogue::General(cell) => match &**cell {
                GeneralCell::Highway(highway) => is_one(&highway.x) && is_one(&highway.to),
                _ => false,
            },
            _ => false,
        }
    }

    /// Runs the epilogue of a block's sums, step by step or for all steps at once.
    #[inline(always)]
    fn finish<S: Lanes>(
        &self,
        s: S,
        product: &Product,
        span: Span,
        rows: &Range<usize>,
        part: Part,
    ) {
        let Part { first_panel, panels, first_row, count } = part;
        let vectors = product.weights.vectors();
        let sums = self.run.scratch[self.worker].sums.0.cast_const();
        let at_once =
            span.steps > 1 && self.finishes_at_once(product, span, rows, (first_row, count));
        let mut done = 0;
        while done < count {
            let row = first_row + done;
            let (step, row) = match span.steps {
                1 => (span.first, row),
                _ => (span.first + row / rows.len(), row % rows.len()),
            };
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
                    let worths = self.run.scratch[self.worker]
                        .worths
                        .0
                        .cast::<RowQuantization>()
                        .cast_const();
                    // SAFETY: `narrow` has written the scales of all rows of the span.
                    unsafe {
                        std::slice::from_raw_parts(worths.add(first_row + done - share), share)
                    }
                });
                let to = match &product.epilogue {
                    Epilogue::Store { to, activation: Activation::Identity, outputs } => {
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

    /// Converts integer sums to `f32`.
    #[inline(always)]
    fn whole<S: Lanes>(
        &self,
        s: S,
        product: &Product,
        block: Block,
        worths: Option<&[RowQuantization]>,
        to: Option<(Matrix, usize)>,
    ) {
        let (scales, excess) =
            product.weights.whole(block.first_panel..block.first_panel + block.panels);
        let bias = product.bias.as_deref();
        let bias = bias.map(|bias| &bias[block.first_panel * block.vectors * LANES..]);
        let scale = product.scale;
        s.plain().call(Dequantization { block, scales, excess, bias, scale, worths, to });
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
        let at = Step { worker: self, step, length: span.length };
        match &product.epilogue {
            Epilogue::Store { to, activation, outputs } => {
                let (to, outputs, activation) = (at.matrix(*to), *outputs, *activation);
                s.call(StoreKernel { block, to, outputs, activation });
            }
            Epilogue::Lstm(cell) => {
                let input = cell.input.filter(|_| !started).map(|place| at.matrix(place));
                let state = at.matrix(cell.cell);
                let (hidden, curve) = (at.hidden(&cell.hidden), &cell.tanh.curve());
                match cell.tanh.terms() {
                    5 => s.call(Lstm::<5> { block, input, cell: state, hidden, curve }),
                    4 => s.call(Lstm::<4> { block, input, cell: state, hidden, curve }),
                    _ => s.call(Lstm::<3> { block, input, cell: state, hidden, curve }),
                }
            }
            Epilogue::Gru(cell) => {
                let (input, last) = (at.matrix(cell.input), at.matrix(cell.last));
                let (hidden, curve) = (at.hidden(&cell.hidden), &cell.tanh.curve());
                match cell.tanh.terms() {
                    5 => s.call(Gru::<5> { block, input, last, hidden, curve }),
                    4 => s.call(Gru::<4> { block, input, last, hidden, curve }),
                    _ => s.call(Gru::<3> { block, input, last, hidden, curve }),
                }
            }
            Epilogue::Rnn(cell) => {
                let input = (!started).then(|| at.matrix(cell.input));
                let activation = cell.activation;
                s.call(Rnn { block, input, hidden: at.hidden(&cell.hidden), activation });
            }
            Epilogue::General(cell) => self.finish_general(s, cell, block, &at),
        }
    }
}
