//! Running a proven program: the only place that turns places into pointers.

use std::fmt;

use crate::cell::{Block, Gru, Hidden, Lstm, Matrix, Rnn, Store, Whole};
use crate::isa::Isa;
use crate::lanes::{Kernel, LANES, Lanes};
use crate::memory::Memory;
use crate::panels::Precision;
use crate::program::{self, At, Every, Kind, Loop, Place, Product, Program, Slots, Then};
use crate::team::{Meeting, Team};
use crate::tile::{self, MAX_ROWS, Tile};

/// Sums of a worker, in words: they stay in the first cache beside a slice of weights.
const SUMS: usize = 4096;
/// Words of k that all tiles of a panel are multiplied by before the next: 32 KiB of four vectors.
const SLICE: usize = 128;

/// Why a program did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// Not as many lengths, inputs or outputs as the program names.
    Count {
        /// Of what.
        what: &'static str,
        /// At least so many.
        expected: usize,
        /// How many there were.
        found: usize,
    },
    /// An input or output has not the numbers of its buffer.
    Size {
        /// Index of the buffer.
        buffer: usize,
        /// Its numbers.
        expected: usize,
        /// Those given.
        found: usize,
    },
    /// A sequence is so long that no machine has memory for a buffer.
    Memory {
        /// Index of the buffer.
        buffer: usize,
    },
    /// The team has fewer workers than the program.
    Workers {
        /// Of the program.
        expected: usize,
        /// Of the team.
        found: usize,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { what, expected, found } => {
                write!(f, "expected {expected} {what}, found {found}")
            }
            Self::Size { buffer, expected, found } => {
                write!(f, "expected {expected} numbers for buffer {buffer}, found {found}")
            }
            Self::Memory { buffer } => {
                write!(
                    f,
                    "expected a sequence that fits into memory, found a longer one for buffer {buffer}"
                )
            }
            Self::Workers { expected, found } => {
                write!(f, "expected a team of {expected} workers, found {found}")
            }
        }
    }
}

impl std::error::Error for RunError {}

/// What a run works on.
#[derive(Default)]
pub struct Call<'a> {
    /// Steps of each sequence.
    pub lengths: &'a [usize],
    /// Rows that are in use at each step of the first sequence, of rows sorted by falling length; all
    /// where it is empty. Products of single steps leave the others as they are; of those that go
    /// through the sequence from its end the rows are those in use at the step that they are at.
    pub active: &'a [usize],
    /// Whether the states are zeros, so that the first step needs no product with them.
    pub fresh: bool,
    /// In the order of the buffers' numbers.
    pub inputs: &'a [&'a [f32]],
    /// In the order of the buffers' numbers.
    pub outputs: &'a mut [&'a mut [f32]],
}

/// A program with its memory.
pub struct Execution {
    program: Program,
    isa: Isa,
    inside: Vec<Memory>,
    sums: Vec<Memory>,
    meeting: Meeting,
    met: u32,
    /// Where each buffer begins in a run; kept only for its allocation.
    bases: Vec<Base>,
}

#[derive(Clone, Copy)]
struct Base(*mut f32);

// SAFETY: the program is proven: no two workers touch one word, one of them writing, between meetings.
unsafe impl Send for Base {}
// SAFETY: as above.
unsafe impl Sync for Base {}

impl Execution {
    /// Takes the memory that the program needs for one step; more is taken when a run is longer.
    #[must_use]
    pub fn new(program: Program, isa: Isa) -> Self {
        let inside = program.buffers().iter().map(|buffer| match buffer {
            program::Buffer { kind: Kind::Inside, slots: Slots::Count(count), .. } => {
                Memory::zeroed(
                    buffer.words(*count).expect("a proven program's buffers have a size"),
                )
            }
            _ => Memory::zeroed(0),
        });
        Self {
            inside: inside.collect(),
            sums: (0..program.workers()).map(|_| Memory::zeroed(SUMS)).collect(),
            meeting: Meeting::new(program.workers()),
            met: 0,
            bases: Vec::with_capacity(program.buffers().len()),
            program,
            isa,
        }
    }

    /// What it runs.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// A buffer of the kind [`Kind::Inside`]: states, between runs.
    #[must_use]
    pub fn inside(&self, buffer: usize) -> &[f32] {
        self.inside[buffer].numbers()
    }

    /// A buffer of the kind [`Kind::Inside`], to be written.
    pub fn inside_mut(&mut self, buffer: usize) -> &mut [f32] {
        self.inside[buffer].numbers_mut()
    }

    /// Runs the program. Takes memory only if a sequence is longer than all before.
    ///
    /// # Errors
    /// What is given does not fit the program's buffers.
    pub fn run(&mut self, team: &mut Team, call: Call<'_>) -> Result<(), RunError> {
        let workers = self.program.workers();
        if team.workers() < workers {
            return Err(RunError::Workers { expected: workers, found: team.workers() });
        }
        let lengths = self
            .program
            .loops()
            .iter()
            .map(|looped| looped.length.saturating_add(1))
            .max()
            .unwrap_or(0);
        count("lengths", lengths, call.lengths.len())?;
        self.bases.clear();
        let Call { lengths, active, fresh, inputs, outputs } = call;
        if let (false, Some(steps)) = (active.is_empty(), lengths.first()) {
            count("rows in use", *steps, active.len())?;
        }
        for index in 0..self.program.buffers().len() {
            let base = self.base(index, lengths, inputs, outputs)?;
            self.bases.push(base);
        }
        let sums: smallvec::SmallVec<[Base; 16]> =
            self.sums.iter_mut().map(|sums| Base(sums.numbers_mut().as_mut_ptr())).collect();
        let run = Run {
            program: &self.program,
            bases: &self.bases,
            sums: &sums,
            lengths,
            active,
            fresh,
            meeting: &self.meeting,
            met: self.met,
        };
        let isa = self.isa;
        if workers == 1 {
            isa.run(Worker { run: &run, worker: 0 });
        } else {
            team.run(&|worker| {
                if worker < workers {
                    isa.run(Worker { run: &run, worker });
                }
            });
        }
        self.met = self.met.wrapping_add(self.program.meetings(lengths));
        Ok(())
    }

    /// Where a buffer begins in a run; one inside gets the memory that it needs.
    fn base(
        &mut self,
        index: usize,
        lengths: &[usize],
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
    ) -> Result<Base, RunError> {
        let buffer = &self.program.buffers()[index];
        let slots = match buffer.slots {
            Slots::Count(count) => count,
            Slots::Length(length) => {
                count("lengths", length.saturating_add(1), lengths.len())?;
                lengths[length]
            }
        };
        let expected = buffer.words(slots).ok_or(RunError::Memory { buffer: index })?;
        let first = match buffer.kind {
            Kind::Inside => {
                let kept = self.inside[index].words().len();
                if kept < expected {
                    let mut longer = Memory::zeroed(expected);
                    longer.words_mut()[..kept].copy_from_slice(self.inside[index].words());
                    self.inside[index] = longer;
                }
                self.inside[index].numbers_mut().as_mut_ptr()
            }
            Kind::Input(input) => {
                let numbers = inputs.get(input).map_or(0, |numbers| numbers.len());
                size(index, expected, numbers)?;
                inputs.get(input).map_or(std::ptr::null_mut(), |n| n.as_ptr().cast_mut())
            }
            Kind::Output(output) => {
                let numbers = outputs.get(output).map_or(0, |numbers| numbers.len());
                size(index, expected, numbers)?;
                outputs.get_mut(output).map_or(std::ptr::null_mut(), |n| n.as_mut_ptr())
            }
        };
        Ok(Base(first))
    }
}

fn count(what: &'static str, expected: usize, found: usize) -> Result<(), RunError> {
    if found < expected { Err(RunError::Count { what, expected, found }) } else { Ok(()) }
}

fn size(buffer: usize, expected: usize, found: usize) -> Result<(), RunError> {
    if found == expected { Ok(()) } else { Err(RunError::Size { buffer, expected, found }) }
}

impl Program {
    /// How often all workers meet in a run.
    fn meetings(&self, lengths: &[usize]) -> u32 {
        let of = |looped: &Loop| {
            let steps = lengths[looped.length];
            let stages = looped.stages.iter().map(|stage| {
                let times = match stage.every {
                    Every::Chunk => steps.div_ceil(looped.chunk.max(1)),
                    Every::Step => steps,
                };
                times * stage.phases.iter().filter(|phase| phase.meets).count()
            });
            stages.sum::<usize>() + 1
        };
        self.loops().iter().map(of).sum::<usize>() as u32
    }
}

/// One call, as all workers see it.
struct Run<'a> {
    program: &'a Program,
    bases: &'a [Base],
    sums: &'a [Base],
    lengths: &'a [usize],
    active: &'a [usize],
    fresh: bool,
    meeting: &'a Meeting,
    met: u32,
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

/// One worker's part.
struct Worker<'a> {
    run: &'a Run<'a>,
    worker: usize,
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
        let most = (SUMS / (vectors * LANES)).max(1);
        let block_rows = if all <= most { all } else { most };
        let block_panels = (SUMS / (vectors * LANES * block_rows)).max(1);
        let mut panel = product.panels.start;
        while panel < product.panels.end {
            let panels = block_panels.min(product.panels.end - panel);
            let mut row = 0;
            while row < all {
                let count = block_rows.min(all - row);
                self.multiply(s, product, span, &rows, (panel, panels), (row, count));
                self.finish(s, product, span, &rows, (panel, panels), (row, count));
                row += count;
            }
            panel += panels;
        }
    }

    /// Whether all that there is to multiply is a state of zeros.
    #[inline(always)]
    fn is_of_nothing(&self, product: &Product, span: Span) -> bool {
        product.of_state && self.run.fresh && span.first == 0 && span.steps == 1
    }

    /// Sums of a block: for each panel, slice of k and tile of rows.
    #[inline(always)]
    fn multiply<S: Lanes>(
        &self,
        s: S,
        product: &Product,
        span: Span,
        rows: &std::ops::Range<usize>,
        (first_panel, panels): (usize, usize),
        (first_row, count): (usize, usize),
    ) {
        let weights = &product.weights;
        let words = if self.is_of_nothing(product, span) { 0 } else { weights.words() };
        let vectors = weights.vectors();
        let width = vectors * LANES;
        let sums = self.run.sums[self.worker].0;
        let most = tile::rows::<S>(vectors);
        let tiles = count.div_ceil(most);
        // One tile of few rows uses each weight once: then there is nothing to slice for.
        let slice = if tiles == 1 { words.max(1) } else { SLICE };
        for panel in 0..panels {
            let packed = weights.panel(first_panel + panel).as_ptr();
            let mut word = 0;
            loop {
                let length = slice.min(words - word);
                let mut done = 0;
                for tile in 0..tiles {
                    // Equal shares: of ten rows five and five, not six and four.
                    let share = (count - done).div_ceil(tiles - tile);
                    let to = sums.wrapping_add((panel * count + done) * width);
                    let (start, start_stride) = match &product.bias {
                        _ if word > 0 => (to.cast_const(), width),
                        Some(bias) if weights.precision() != Precision::Int8 => {
                            (bias[(first_panel + panel) * width..].as_ptr(), 0)
                        }
                        _ => (std::ptr::null(), 0),
                    };
                    let mut pointers = [std::ptr::null(); MAX_ROWS];
                    for (at, pointer) in pointers[..share].iter_mut().enumerate() {
                        let row = first_row + done + at;
                        let (step, row) = if span.steps == 1 {
                            (0, row)
                        } else {
                            (row / rows.len(), row % rows.len())
                        };
                        let a = self.matrix(product.a, span.first + step, span.length);
                        let from = a.first.wrapping_add((rows.start + row) * a.stride + word);
                        *pointer = from.cast::<u32>().cast_const();
                    }
                    let tile = Tile {
                        rows: pointers,
                        words: length,
                        panel: packed.wrapping_add(word * width),
                        start,
                        start_stride,
                        sums: to,
                        sums_stride: width,
                    };
                    // SAFETY: the program is proven, so rows and panels lie inside of their buffers; the
                    // sums of a block are at most `SUMS` words.
                    unsafe { tile::multiply(s, weights.precision(), share, vectors, tile) };
                    done += share;
                }
                word += length;
                if word >= words {
                    break;
                }
            }
        }
    }

    /// What becomes of a block's sums, one step after the other.
    #[inline(always)]
    fn finish<S: Lanes>(
        &self,
        s: S,
        product: &Product,
        span: Span,
        rows: &std::ops::Range<usize>,
        (first_panel, panels): (usize, usize),
        (first_row, count): (usize, usize),
    ) {
        let vectors = product.weights.vectors();
        let sums = self.run.sums[self.worker].0.cast_const();
        let mut done = 0;
        while done < count {
            let row = first_row + done;
            let (step, row) = (span.first + row / rows.len(), row % rows.len());
            let share = (rows.len() - row).min(count - done);
            let block = Block {
                sums: sums.wrapping_add(done * vectors * LANES),
                all_rows: count,
                first_panel,
                panels,
                first_row: rows.start + row,
                rows: share,
                vectors,
            };
            let nothing = self.is_of_nothing(product, span);
            self.finish_step(s, product, block, nothing, (step, span.length));
            done += share;
        }
    }

    #[inline(always)]
    fn finish_step<S: Lanes>(
        &self,
        s: S,
        product: &Product,
        block: Block,
        nothing: bool,
        (step, length): (usize, usize),
    ) {
        let (s, weights) = (s.plain(), &product.weights);
        if weights.precision() == Precision::Int8 {
            let (scales, excess) =
                weights.whole(block.first_panel..block.first_panel + block.panels);
            // What was not multiplied has no excess.
            let excess = (!nothing).then_some(excess);
            let bias = product.bias.as_deref();
            let bias = bias.map(|bias| &bias[block.first_panel * block.vectors * LANES..]);
            s.call(Whole { block, scales, excess, bias, scale: product.scale });
        }
        let matrix = |place| self.matrix(place, step, length);
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
                let (input, state) = (cell.input.map(matrix), matrix(cell.cell));
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
                let (input, activation) = (matrix(cell.input), cell.activation);
                s.call(Rnn { block, input, hidden: hidden(&cell.hidden), activation });
            }
        }
    }
}
