//! Random programs: verified ones access only what they may.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use dyno_kernels::{
    Activation, Buffer, BufferKind, Cadence, Call, Epilogue, Execution, Gru, HiddenState, Isa,
    Loop, Lstm, Panels, Phase, Place, Precision, Product, Program, ProgramError, Rnn, SlotIndex,
    Slots, Stage, Tanh, Team,
};

use super::touches::{Run, Touches, Word, touches};
use super::{buffer, panels};

/// Numbers of a small generator, the same everywhere.
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % count.max(1)
    }

    fn one<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// One in `count`.
    fn is_rare(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

const ROWS: usize = 4;
const COLUMNS: usize = 144;

/// Generator of programs that are probably valid, and often enough invalid.
struct Maker {
    chance: Chance,
    weights: Vec<Arc<Panels>>,
}

impl Maker {
    fn new(seed: u64) -> Self {
        let mut weights = Vec::new();
        for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
            for vectors in 1..=4 {
                weights.push(panels(precision, vectors, 5 + 11 * (vectors % 3), 7 + vectors));
            }
        }
        Self { chance: Chance(seed), weights }
    }

    fn buffers(&mut self) -> Vec<Buffer> {
        let mut all = vec![
            buffer(BufferKind::Input(0), Slots::Length(0), ROWS, 12),
            buffer(BufferKind::Output(0), Slots::Length(0), ROWS, COLUMNS),
            buffer(BufferKind::Output(1), Slots::Count(2), ROWS, COLUMNS),
        ];
        for _ in 0..5 {
            let (length, count) = (self.chance.below(2), 1 + self.chance.below(3));
            let slots =
                if self.chance.is_rare(4) { Slots::Length(length) } else { Slots::Count(count) };
            let columns = self.chance.one(&[COLUMNS, COLUMNS, 40]);
            all.push(buffer(BufferKind::Inside, slots, ROWS, columns));
        }
        all
    }

    /// A random place, probably with an existing slot.
    fn place(&mut self, buffers: &[Buffer], writes: bool) -> Place {
        let first = usize::from(writes);
        let index = first + self.chance.below(buffers.len() - first);
        let at = match buffers[index].slots {
            Slots::Count(count) => self.chance.one(&[
                SlotIndex::Turn { by: 0 },
                SlotIndex::Turn { by: 1 },
                SlotIndex::Fixed(count - 1),
                SlotIndex::Fixed(0),
            ]),
            Slots::Length(_) => {
                self.chance.one(&[SlotIndex::Step, SlotIndex::Step, SlotIndex::Back])
            }
        };
        let column = self.chance.one(&[0, 0, 0, 0, 0, 16, 7, 64, 80]);
        Place { buffer: index, at, column }
    }

    fn hidden(&mut self, buffers: &[Buffer], units: usize) -> HiddenState {
        let state = self.place(buffers, true);
        let narrow = self.chance.one(&[None, Some(Precision::Bf16), Some(Precision::Int8)]);
        let narrow = narrow.map(|precision| (self.place(buffers, true), precision));
        let output = self.chance.is_rare(2).then(|| self.place(buffers, true));
        HiddenState { state, narrow, output, units }
    }

    fn product(&mut self, buffers: &[Buffer], rows: Range<usize>) -> Product {
        let weights = self.chance.one(&self.weights.clone());
        let outputs = weights.panels() * weights.vectors() * 16 - self.chance.below(9);
        let units = weights.panels() * 16 - self.chance.below(9);
        let tanh = self.chance.one(&[Tanh::Fitted98, Tanh::Fitted76, Tanh::Fraction(6)]);
        let input = self.place(buffers, false);
        let epilogue = match (weights.vectors(), self.chance.below(2)) {
            (4, 0) => {
                let cell = self.place(buffers, true);
                let input = self.chance.is_rare(2).then_some(input);
                Epilogue::Lstm(Arc::new(Lstm {
                    input,
                    cell,
                    hidden: self.hidden(buffers, units),
                    tanh,
                }))
            }
            (3, 0) => {
                let last = self.place(buffers, false);
                Epilogue::Gru(Arc::new(Gru {
                    input,
                    last,
                    hidden: self.hidden(buffers, units),
                    tanh,
                }))
            }
            (1, 0) => {
                let (hidden, activation) = (self.hidden(buffers, units), Activation::Softsign);
                Epilogue::Rnn(Arc::new(Rnn { input, hidden, activation }))
            }
            _ => {
                let activation = self.chance.one(&[Activation::Identity, Activation::Tanh]);
                Epilogue::Store { to: self.place(buffers, true), activation, outputs }
            }
        };
        let panels = if self.chance.is_rare(4) { 0..1 } else { 0..weights.panels() };
        let reads_state = self.chance.is_rare(3);
        let a = self.place(buffers, false);
        let narrows = self.chance.is_rare(3);
        let holds = if narrows { Precision::F32 } else { weights.precision() };
        Product { a, holds, weights, panels, rows, bias: None, scale: 0.01, reads_state, epilogue }
    }

    /// Work in which all workers do the same to their own rows, or each something else.
    fn phase(&mut self, buffers: &[Buffer], workers: usize) -> Phase {
        let alike = !self.chance.is_rare(3);
        let shared = self.product(buffers, 0..ROWS);
        let mut work = Vec::new();
        for worker in 0..workers {
            let rows = ROWS * worker / workers..ROWS * (worker + 1) / workers;
            let mut products = Vec::new();
            if alike {
                products.push(Product { rows, ..shared.clone() });
            } else if !self.chance.is_rare(3) {
                let rows = if self.chance.is_rare(4) { 0..ROWS } else { rows };
                products.push(self.product(buffers, rows));
            }
            work.push(products);
        }
        Phase { work, has_barrier: !self.chance.is_rare(4) }
    }

    fn program(&mut self) -> (usize, Vec<Buffer>, Vec<Loop>) {
        let (workers, buffers) = (1 + self.chance.below(3), self.buffers());
        let mut loops = Vec::new();
        for _ in 0..1 + self.chance.below(2) {
            let mut stages = Vec::new();
            for _ in 0..1 + self.chance.below(2) {
                let cadence = self.chance.one(&[Cadence::Step, Cadence::Step, Cadence::Chunk]);
                let count = 1 + self.chance.below(2);
                let phases = (0..count).map(|_| self.phase(&buffers, workers)).collect();
                stages.push(Stage { cadence, phases });
            }
            let length = usize::from(self.chance.is_rare(4));
            loops.push(Loop { length, chunk: self.chance.below(4), stages });
        }
        (workers, buffers, loops)
    }
}

/// Lengths of both sequences, rows in use at the steps of the first, and whether it is fresh.
const CALLS: [([usize; 2], &[usize], bool); 5] = [
    ([3, 2], &[], false),
    ([1, 1], &[], true),
    ([0, 2], &[], true),
    ([2, 5], &[3, 1], true),
    ([5, 0], &[9, 4, 2, 2, 0], false),
];

#[test]
fn proven_programs_neither_race_nor_leave_their_buffers() {
    let mut maker = Maker::new(0x9e37_79b9_7f4a_7c15);
    let (mut proven, mut shared, mut races, mut real) = (0, 0, 0, 0);
    for _ in 0..4000 {
        let (workers, buffers, loops) = maker.program();
        let proof = Program::new(workers, buffers.clone(), loops.clone());
        let refused = matches!(proof, Err(ProgramError::Race { .. }));
        if proof.is_err() && !refused {
            continue;
        }
        let run = |(lengths, active, fresh): &([usize; 2], &'static [usize], bool)| {
            let run = Run { buffers: &buffers, loops: &loops, lengths, active, fresh: *fresh };
            touches(&run)
        };
        let touched: Vec<Touches> = CALLS.iter().map(run).collect();
        if refused {
            races += 1;
            real += usize::from(touched.iter().any(|touches| !touches.races.is_empty()));
            continue;
        }
        proven += 1;
        for touches in touched {
            assert_eq!(touches.outside, [], "{loops:#?}");
            assert_eq!(touches.races, [], "{loops:#?}");
            shared += usize::from(workers > 1 && !touches.written.is_empty());
        }
    }
    // There are enough valid and invalid programs, and few valid ones are rejected.
    assert!(proven > 200 && shared > 200, "{proven} proven, {shared} runs of several workers");
    assert!(races > 20 && real * 2 > races, "{races} refused, {real} of them races");
}

/// Words of every buffer after a run.
type Contents = Vec<Vec<u32>>;

/// Runs a program whose words are all `fill`, except small numbers in `known`.
fn contents(
    execution: &mut Execution,
    team: &mut Team,
    (lengths, active, fresh): ([usize; 2], &[usize], bool),
    known: &HashSet<Word>,
    fill: u32,
) -> (Contents, Contents) {
    let buffers = execution.program().buffers().to_vec();
    let mut before: Contents = Vec::new();
    for (index, buffer) in buffers.iter().enumerate() {
        let slots = match buffer.slots {
            Slots::Count(count) => count,
            Slots::Length(length) => lengths[length],
        };
        let word = |at| {
            let small = f32::from((at % 7) as u8) * 0.25 - 0.5;
            if known.contains(&(index, at)) { small.to_bits() } else { fill }
        };
        before.push((0..slots * buffer.rows * buffer.columns).map(word).collect());
    }
    let mut after: Vec<Vec<f32>> = Vec::new();
    for words in &before {
        after.push(words.iter().copied().map(f32::from_bits).collect());
    }
    for (index, buffer) in buffers.iter().enumerate() {
        if buffer.kind == BufferKind::Inside {
            // The first run allocates buffers as long as a sequence.
            let words = execution.inside_mut(index);
            let count = after[index].len().min(words.len());
            words[..count].copy_from_slice(&after[index][..count]);
        }
    }
    let input = after[0].clone();
    let [_, first, second, ..] = &mut after[..] else { panic!("an input and two outputs") };
    let outputs: &mut [&mut [f32]] = &mut [first, second];
    let call = Call { lengths: &lengths, active, fresh, inputs: &[&input], outputs };
    execution.run(team, call).expect("sizes that fit");
    for (index, buffer) in buffers.iter().enumerate() {
        if buffer.kind == BufferKind::Inside {
            let count = after[index].len();
            after[index].copy_from_slice(&execution.inside(index)[..count]);
        }
    }
    let bits = |numbers: &Vec<f32>| numbers.iter().map(|number| number.to_bits()).collect();
    (before, after.iter().map(bits).collect())
}

#[test]
fn runs_touch_what_the_interpreter_says_and_nothing_else() {
    let mut maker = Maker::new(0x2545_f491_4f6c_dd1d);
    let mut teams = [Team::with_workers(1), Team::with_workers(2), Team::with_workers(3)];
    let isas = Isa::all();
    let (mut runs, mut changed) = (0, 0);
    while runs < 150 {
        let (workers, buffers, loops) = maker.program();
        let Ok(program) = Program::new(workers, buffers.clone(), loops.clone()) else { continue };
        let isa = isas[runs % isas.len()];
        let (lengths, active, fresh) = CALLS[runs % CALLS.len()];
        let call = (lengths, active, fresh);
        let run = Run { buffers: &buffers, loops: &loops, lengths: &lengths, active, fresh };
        let touched = touches(&run);
        let read: HashSet<Word> = touched.read.into_iter().collect();
        let written: HashSet<Word> = touched.written.into_iter().collect();
        let mut execution = Execution::new(program, isa);
        let team = &mut teams[workers - 1];
        contents(&mut execution, team, call, &read, 0);
        let (before, after) = contents(&mut execution, team, call, &read, 0x7fc1_2345);
        let (_, other) = contents(&mut execution, team, call, &read, 0xc2c8_c2c8);
        for (buffer, words) in before.iter().enumerate() {
            for (at, word) in words.iter().enumerate() {
                let is_written = written.contains(&(buffer, at));
                let what = (isa, buffer, at, execution.program());
                if !is_written {
                    assert_eq!(after[buffer][at], *word, "written by nobody: {what:?}");
                    continue;
                }
                changed += usize::from(after[buffer][at] != *word);
                if !read.contains(&(buffer, at)) {
                    assert_ne!(after[buffer][at], *word, "not written: {what:?}");
                }
                assert_eq!(after[buffer][at], other[buffer][at], "read where not: {what:?}");
            }
        }
        runs += 1;
    }
    assert!(changed > 10_000, "{changed} words in {runs} runs");
}
