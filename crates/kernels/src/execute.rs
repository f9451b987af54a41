//! Running a proven program: the only place that turns places into pointers.

mod general;

mod worker;

use std::fmt;

use self::worker::{Run, Worker};
use crate::isa::Isa;
use crate::memory::Memory;
use crate::narrow;
use crate::program::{self, Every, Kind, Loop, Product, Program, Slots};
use crate::team::{Meeting, Team};

/// Sums of a worker, in words: they stay in the first cache beside a slice of weights.
const SUMS: usize = 4096;
/// The most rows of a block of sums.
const MAX_BLOCK: usize = 64;
/// Words of k that all tiles of a panel are multiplied by before the next: 32 KiB of four vectors.
const SLICE: usize = 128;

/// More than any machine has: 2^45 bytes.
const MOST_WORDS: usize = (isize::MAX as usize) >> 20;

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
    /// Of each worker: rows in fewer bits, and what the bytes of each are worth.
    narrow: Vec<(Memory, Memory)>,
    meeting: Meeting,
    met: u32,
    /// Where each buffer begins in a run; kept only for its allocation.
    bases: Vec<Base>,
}

/// Memory of one worker.
#[derive(Clone, Copy)]
struct Scratch {
    sums: Base,
    rows: Base,
    /// [`narrow::Worth`] of each row.
    worths: Base,
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
            narrow: (0..program.workers())
                .map(|_| (Memory::zeroed(0), Memory::zeroed(0)))
                .collect(),
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

    /// Room for the rows that a worker narrows at once, and for what they are worth.
    fn make_room(&mut self, worker: usize, lengths: &[usize]) -> Result<(), RunError> {
        let (mut words, mut worths) = (0_usize, 0_usize);
        for looped in self.program.loops() {
            for stage in &looped.stages {
                let steps = match stage.every {
                    Every::Chunk => looped.chunk.max(1).min(lengths[looped.length]),
                    Every::Step => 1,
                };
                let work = stage.phases.iter().flat_map(|phase| &phase.work[worker]);
                for product in work.filter(|product| narrows(product)) {
                    let memory = RunError::Memory { buffer: product.a.buffer };
                    let rows = product.rows.len().checked_mul(steps).ok_or(memory)?;
                    let stride = narrow::stride(product.weights.precision(), product.weights.k());
                    let needed = rows.checked_mul(stride).filter(|words| *words <= MOST_WORDS);
                    words = words.max(needed.ok_or(memory)?);
                    worths = worths.max(rows.checked_mul(narrow::Worth::WORDS).ok_or(memory)?);
                }
            }
        }
        let (rows, of_rows) = &mut self.narrow[worker];
        if rows.words().len() < words {
            *rows = Memory::zeroed(words);
        }
        if of_rows.words().len() < worths {
            *of_rows = Memory::zeroed(worths);
        }
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

/// Whether a product's rows are narrowed first.
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
