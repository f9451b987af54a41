//! Execution of checked programs: the only place that turns places into pointers.

mod general;

mod worker;

use thiserror::Error;

use self::worker::{Run, Visit};
use crate::isa::Isa;
use crate::memory::Memory;
use crate::narrow;
use crate::program::{self, BufferKind, Cadence, Loop, Product, Program, Slots};
use crate::team::Team;
use crate::tile::MAX_ROWS;

/// Words of a worker's sums: they stay in the L1 cache beside a slice of weights.
const SUMS: usize = 4096;
/// Maximum rows of a block of sums.
const MAX_BLOCK: usize = 64;
/// Maximum rows of a block of sums that consists of whole tiles.
const MAX_WHOLE_TILES: usize = MAX_BLOCK - MAX_BLOCK % MAX_ROWS;
/// Words of k by which all tiles of a panel are multiplied before the next words: 32 KiB of four
/// vectors.
const SLICE: usize = 128;

/// Bound above the memory of any machine: 2^45 bytes.
const MOST_WORDS: usize = (isize::MAX as usize) >> 20;

/// Reason why a program did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RunError {
    /// Fewer lengths, inputs or outputs than the program needs.
    #[error("expected {expected} {what}, found {found}")]
    Count {
        /// Description of the count.
        what: &'static str,
        /// Minimum count.
        expected: usize,
        /// Count found.
        found: usize,
    },
    /// An input or output does not have the size of its buffer.
    #[error("expected {expected} numbers for buffer {buffer}, found {found}")]
    Size {
        /// Index of the buffer.
        buffer: usize,
        /// Size of the buffer in numbers.
        expected: usize,
        /// Size found.
        found: usize,
    },
    /// A sequence is too long for the memory of any machine.
    #[error("expected a sequence that fits into memory, found a longer one for buffer {buffer}")]
    Memory {
        /// Index of the buffer.
        buffer: usize,
    },
    /// A sequence has too many steps for the count of a team's phases.
    #[error("expected sequences of fewer than 2^31 phases, found longer ones")]
    Phases,
    /// The team has fewer workers than the program.
    #[error("expected a team of {expected} workers, found {found}")]
    Workers {
        /// Workers of the program.
        expected: usize,
        /// Workers of the team.
        found: usize,
    },
}

/// Arguments of a run.
#[derive(Default)]
pub struct Call<'a> {
    /// Steps of each sequence.
    pub lengths: &'a [usize],
    /// Number of rows in use at each step of the first sequence, for rows sorted by decreasing
    /// length; if empty, all rows are in use. Products of a chunk leave the rows unchanged that none of
    /// its steps uses. For products that read the sequence backward, the counts of the steps that they
    /// read apply.
    pub active: &'a [usize],
    /// Whether all states are zeros, so that the first step skips the products with them.
    pub fresh: bool,
    /// Inputs, indexed by the numbers in [`BufferKind::Input`].
    pub inputs: &'a [&'a [f32]],
    /// Outputs, indexed by the numbers in [`BufferKind::Output`].
    pub outputs: &'a mut [&'a mut [f32]],
}

/// A program with its memory.
pub struct Execution {
    program: Program,
    isa: Isa,
    inside: Vec<Memory>,
    sums: Vec<Memory>,
    /// Memory of each worker for narrowed rows, and for the scale of each row.
    narrow: Vec<(Memory, Memory)>,
    /// Start of each buffer in a run; a field only to reuse its allocation.
    bases: Vec<Base>,
}

/// Scratch memory of one worker.
#[derive(Clone, Copy)]
struct Scratch {
    sums: Base,
    rows: Base,
    /// A [`narrow::RowQuantization`] for each row.
    worths: Base,
}

/// Pointer to the start of a buffer.
#[derive(Clone, Copy)]
struct Base(*mut f32);

// SAFETY: `Program::new` has verified that between two barriers no worker accesses a word that
// another one writes, so pointers may be used by all workers at once.
unsafe impl Send for Base {}
// SAFETY: as for `Send`.
unsafe impl Sync for Base {}

impl Execution {
    /// Allocates the memory that the program needs for one step; longer runs allocate more.
    pub fn new(program: Program, isa: Isa) -> Self {
        let inside = program.buffers().iter().map(|buffer| match buffer {
            program::Buffer { kind: BufferKind::Inside, slots: Slots::Count(count), .. } => {
                Memory::zeroed(
                    buffer.words(*count).expect("a proven program's buffers have a size"),
                )
            }
            _ => Memory::zeroed(0),
        });
        Self {
            inside: inside.collect(),
            sums: (0..program.workers()).map(|_| Memory::zeroed(SUMS)).collect(),
            narrow: (0..program.workers())
                .map(|_| (Memory::zeroed(0), Memory::zeroed(0)))
                .collect(),
            bases: Vec::with_capacity(program.buffers().len()),
            program,
            isa,
        }
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns a buffer of kind [`BufferKind::Inside`], such as the states between runs.
    pub fn inside(&self, buffer: usize) -> &[f32] {
        self.inside[buffer].numbers()
    }

    /// Returns a buffer of kind [`BufferKind::Inside`] for writing.
    pub fn inside_mut(&mut self, buffer: usize) -> &mut [f32] {
        self.inside[buffer].numbers_mut()
    }

    /// Runs the program. Allocates memory only if a sequence is longer than in all previous runs.
    ///
    /// # Errors
    /// An argument does not fit the program's buffers.
    ///
    /// # Panics
    /// A worker panicked, which is a defect of this crate.
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
        let Call { lengths, active, fresh, inputs, outputs } = call;
        if let (false, Some(steps)) = (active.is_empty(), lengths.first()) {
            count("rows in use", *steps, active.len())?;
        }
        self.bases.clear();
        for index in 0..self.program.buffers().len() {
            let base = self.base(index, lengths, inputs, outputs)?;
            self.bases.push(base);
        }
        for worker in 0..workers {
            self.make_room(worker, lengths)?;
        }
        let base = |memory: &mut Memory| Base(memory.numbers_mut().as_mut_ptr());
        let sums = self.sums.iter_mut().zip(&mut self.narrow).map(|(sums, (rows, worths))| {
            Scratch { sums: base(sums), rows: base(rows), worths: base(worths) }
        });
        let scratch: smallvec::SmallVec<[Scratch; 16]> = sums.collect();
        let run = Run {
            program: &self.program,
            bases: &self.bases,
            scratch: &scratch,
            lengths,
            active,
            fresh,
            isa: self.isa,
        };
        let isa = self.isa;
        let phases = self.program.barriers(lengths).ok_or(RunError::Phases)?;
        team.run_phases(workers, phases, &|turns| isa.run(Visit { run: &run, turns }));
        Ok(())
    }

    /// Ensures room for the rows that a worker narrows at once, and for their scales.
    fn make_room(&mut self, worker: usize, lengths: &[usize]) -> Result<(), RunError> {
        let (mut words, mut worths) = (0_usize, 0_usize);
        for looped in self.program.loops() {
            for stage in &looped.stages {
                let steps = match stage.cadence {
                    Cadence::Chunk => looped.chunk.max(1).min(lengths[looped.length]),
                    Cadence::Step => 1,
                };
                let work = stage.phases.iter().flat_map(|phase| &phase.work[worker]);
                for product in work.filter(|product| narrows(product)) {
                    let memory = RunError::Memory { buffer: product.a.buffer };
                    let rows = product.rows.len().checked_mul(steps).ok_or(memory)?;
                    let stride = narrow::stride(product.weights.precision(), product.weights.k());
                    let needed = rows.checked_mul(stride).filter(|words| *words <= MOST_WORDS);
                    words = words.max(needed.ok_or(memory)?);
                    worths =
                        worths.max(rows.checked_mul(narrow::RowQuantization::WORDS).ok_or(memory)?);
                }
            }
        }
        let (rows, dispatch_rows) = &mut self.narrow[worker];
        if rows.words().len() < words {
            *rows = Memory::zeroed(words);
        }
        if dispatch_rows.words().len() < worths {
            *dispatch_rows = Memory::zeroed(worths);
        }
        Ok(())
    }

    /// Returns the start of a buffer in a run, growing an inside buffer if needed.
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
            BufferKind::Inside => {
                let kept = self.inside[index].words().len();
                if kept < expected {
                    let mut longer = Memory::zeroed(expected);
                    longer.words_mut()[..kept].copy_from_slice(self.inside[index].words());
                    self.inside[index] = longer;
                }
                self.inside[index].numbers_mut().as_mut_ptr()
            }
            BufferKind::Input(input) => {
                let numbers = inputs.get(input).map_or(0, |numbers| numbers.len());
                size(index, expected, numbers)?;
                inputs.get(input).map_or(std::ptr::null_mut(), |n| n.as_ptr().cast_mut())
            }
            BufferKind::Output(output) => {
                let numbers = outputs.get(output).map_or(0, |numbers| numbers.len());
                size(index, expected, numbers)?;
                outputs.get_mut(output).map_or(std::ptr::null_mut(), |n| n.as_mut_ptr())
            }
        };
        Ok(Base(first))
    }
}

/// Whether the rows of a product are narrowed first.
#[inline(always)]
fn narrows(product: &Product) -> bool {
    product.holds != product.weights.precision()
}

fn count(what: &'static str, expected: usize, found: usize) -> Result<(), RunError> {
    if found < expected { Err(RunError::Count { what, expected, found }) } else { Ok(()) }
}

fn size(buffer: usize, expected: usize, found: usize) -> Result<(), RunError> {
    if found == expected { Ok(()) } else { Err(RunError::Size { buffer, expected, found }) }
}

impl Program {
    /// Number of barriers of a run; `None` if it exceeds the times that a team can tell apart.
    fn barriers(&self, lengths: &[usize]) -> Option<u32> {
        let barriers_of = |looped: &Loop| {
            let steps = lengths[looped.length];
            let mut stages = looped.stages.iter().map(|stage| {
                let times = match stage.cadence {
                    Cadence::Chunk => steps.div_ceil(looped.chunk.max(1)),
                    Cadence::Step => steps,
                };
                times.checked_mul(stage.phases.iter().filter(|phase| phase.has_barrier).count())
            });
            stages.try_fold(1_usize, |sum, count| sum.checked_add(count?))
        };
        let mut all = self.loops().iter().map(barriers_of);
        let sum = all.try_fold(0_usize, |sum, count| sum.checked_add(count?))?;
        i32::try_from(sum).ok().map(i32::cast_unsigned)
    }
}
