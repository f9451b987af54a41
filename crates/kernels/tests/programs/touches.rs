//! Interpreter of programs that records every access of every worker, word by word between
//! barriers. It relies on the documentation of programs only.

use std::collections::HashMap;

use dyno_kernels::{
    Buffer, Cadence, Epilogue, HiddenState, LANES, Loop, Place, Product, SlotIndex, Slots,
};

/// Parameters of a run that determine places.
pub struct Run<'a> {
    pub buffers: &'a [Buffer],
    pub loops: &'a [Loop],
    pub lengths: &'a [usize],
    pub active: &'a [usize],
    pub fresh: bool,
}

/// A word: index of the buffer, and index of the word.
pub type Word = (usize, usize);

/// Recorded accesses, barriers since the start of the run, and conflicts.
#[derive(Default)]
pub struct Touches {
    pub read: Vec<Word>,
    pub written: Vec<Word>,
    pub races: Vec<(Word, usize, usize)>,
    pub outside: Vec<(Word, usize)>,
    /// Accesses since the last barrier: a bit for each reader and each writer.
    now: HashMap<Word, (u32, u32)>,
}

/// Position of a product in a run.
#[derive(Clone, Copy)]
struct Moment<'a> {
    run: &'a Run<'a>,
    looped: &'a Loop,
    step: usize,
    worker: usize,
}

/// Runs all workers from barrier to barrier.
pub fn touches(run: &Run<'_>) -> Touches {
    let mut touches = Touches::default();
    // Between barriers the order of workers is arbitrary, so that all accesses are compared.
    for looped in run.loops {
        let (length, chunk) = (run.lengths[looped.length], looped.chunk.max(1));
        let mut start = 0;
        while start < length {
            let end = length.min(start + chunk);
            for stage in &looped.stages {
                let rounds: Vec<Vec<usize>> = match stage.cadence {
                    Cadence::Chunk => vec![(start..end).collect()],
                    Cadence::Step => (start..end).map(|step| vec![step]).collect(),
                };
                for steps in rounds {
                    for phase in &stage.phases {
                        for (worker, work) in phase.work.iter().enumerate() {
                            for (product, step) in
                                work.iter().flat_map(|p| steps.iter().map(move |s| (p, *s)))
                            {
                                let moment = Moment { run, looped, step, worker };
                                touches.product(moment, product, stage.cadence);
                            }
                        }
                        if phase.has_barrier {
                            touches.now.clear();
                        }
                    }
                }
            }
            start = end;
        }
        touches.now.clear();
    }
    touches
}

impl Touches {
    fn product(&mut self, moment: Moment<'_>, product: &Product, cadence: Cadence) {
        let Moment { run, looped, step, .. } = moment;
        let mut rows = product.rows.clone();
        if looped.length == 0 && !run.active.is_empty() {
            let places = places(product);
            let is_back = places.iter().any(|place| place.at == SlotIndex::Back);
            let chunk = if cadence == Cadence::Step { 1 } else { looped.chunk.max(1) };
            let first = step - step % chunk;
            let steps = first..run.lengths[0].min(first + chunk);
            let used = steps.map(|step| if is_back { run.lengths[0] - 1 - step } else { step });
            rows.end = used.map(|at| rows.end.min(run.active[at])).max().expect("a step");
        }
        let chunk_of_one =
            cadence == Cadence::Step || looped.chunk.min(run.lengths[looped.length]) <= 1;
        let nothing = product.reads_state && run.fresh && step == 0 && chunk_of_one;
        for row in rows {
            for panel in product.panels.clone() {
                for word in 0..product.holds.words(product.weights.k()) {
                    if !nothing {
                        self.touch(moment, product.a, (row, word), false);
                    }
                }
                for lane in 0..LANES {
                    self.lane(moment, product, row, panel, lane);
                }
            }
        }
    }

    /// Accesses of the epilogue for one lane of every vector.
    fn lane(
        &mut self,
        moment: Moment<'_>,
        product: &Product,
        row: usize,
        panel: usize,
        lane: usize,
    ) {
        let vectors = product.weights.vectors();
        let unit = panel * LANES + lane;
        let output = |vector: usize| (panel * vectors + vector) * LANES + lane;
        match &product.epilogue {
            Epilogue::Store { to, outputs, .. } => {
                for at in (0..vectors).map(output).filter(|at| at < outputs) {
                    self.touch(moment, *to, (row, at), true);
                }
            }
            Epilogue::Lstm(cell) => {
                for (input, vector) in cell.input.iter().flat_map(|i| (0..4).map(move |v| (i, v))) {
                    self.touch(moment, *input, (row, output(vector)), false);
                }
                self.touch(moment, cell.cell, (row, unit), false);
                self.touch(moment, cell.cell, (row, unit), true);
                self.hidden(moment, &cell.hidden, row, unit);
            }
            Epilogue::Gru(cell) => {
                for vector in 0..3 {
                    self.touch(moment, cell.input, (row, output(vector)), false);
                }
                self.touch(moment, cell.last, (row, unit), false);
                self.hidden(moment, &cell.hidden, row, unit);
            }
            Epilogue::Rnn(cell) => {
                for at in (0..vectors).map(output) {
                    self.touch(moment, cell.input, (row, at), false);
                    self.hidden(moment, &cell.hidden, row, at);
                }
            }
            Epilogue::General(_) => {
                unreachable!("random programs have none: tests/general.rs does")
            }
        }
    }

    fn hidden(&mut self, moment: Moment<'_>, hidden: &HiddenState, row: usize, unit: usize) {
        self.touch(moment, hidden.state, (row, unit), true);
        if let Some((place, precision)) = hidden.narrow
            && precision != dyno_kernels::Precision::F32
        {
            self.touch(moment, place, (row, unit / precision.per_word()), true);
        }
        if let Some(place) = hidden.output
            && unit < hidden.units
        {
            self.touch(moment, place, (row, unit), true);
        }
    }

    fn touch(&mut self, moment: Moment<'_>, place: Place, at: (usize, usize), writes: bool) {
        let Moment { run, looped, step, worker } = moment;
        let buffer = &run.buffers[place.buffer];
        let (row, column) = (at.0, place.column + at.1);
        let slots = match buffer.slots {
            Slots::Count(count) => count,
            Slots::Length(length) => run.lengths[length],
        };
        let slot = match place.at {
            SlotIndex::Fixed(slot) => slot,
            SlotIndex::Step => step,
            SlotIndex::Back => run.lengths[looped.length] - 1 - step,
            SlotIndex::Turn { by } => (step + by) % slots,
        };
        let word = (place.buffer, (slot * buffer.rows + row) * buffer.columns + column);
        if slot >= slots || row >= buffer.rows || column >= buffer.columns {
            self.outside.push((word, worker));
        }
        let (mut readers, mut writers) = self.now.get(&word).copied().unwrap_or_default();
        let others = if writes { readers | writers } else { writers } & !(1 << worker);
        if others != 0 {
            self.races.push((word, worker, others.trailing_zeros() as usize));
        }
        if writes {
            writers |= 1 << worker;
            self.written.push(word);
        } else {
            readers |= 1 << worker;
            self.read.push(word);
        }
        self.now.insert(word, (readers, writers));
    }
}

/// All places of a product.
fn places(product: &Product) -> Vec<Place> {
    let places_of = |hidden: &HiddenState| {
        let narrow = hidden.narrow.map(|(place, _)| place);
        [Some(hidden.state), narrow, hidden.output].into_iter().flatten().collect::<Vec<_>>()
    };
    let more = match &product.epilogue {
        Epilogue::Store { to, .. } => vec![*to],
        Epilogue::Lstm(cell) => {
            [cell.input.into_iter().collect(), vec![cell.cell], places_of(&cell.hidden)].concat()
        }
        Epilogue::Gru(cell) => [vec![cell.input, cell.last], places_of(&cell.hidden)].concat(),
        Epilogue::Rnn(cell) => [vec![cell.input], places_of(&cell.hidden)].concat(),
        Epilogue::General(_) => unreachable!("random programs have none: tests/general.rs does"),
    };
    [vec![product.a], more].concat()
}
