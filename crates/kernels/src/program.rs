//! Programs: what a team of workers does, step by step, as data.
//!
//! A program is DeepCPU's phased schedule (section 4.2) written out: loops over the steps of a
//! sequence, in each loop phases, in each phase the products of each worker. Between phases all workers meet,
//! unless a phase says that they need not. [`Program::new`] proves that no worker writes what
//! another reads or writes between two meetings; only a proven program runs. That is the safety
//! argument of this crate: below it are pointers, above it none.

mod general;
mod proof;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::activation::{Activation, Tanh};
use crate::panels::{Panels, Precision};

pub use general::{Blend, Gates, General, GeneralGru, GeneralLstm, GeneralRnn, Highway, Reset};
pub use proof::ProgramError;

/// A sequence of matrices of 32-bit words, one for each slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Where its words are.
    pub kind: Kind,
    /// Matrices.
    pub slots: Slots,
    /// Rows of each.
    pub rows: usize,
    /// Words of a row, and from one row to the next.
    pub columns: usize,
}

impl Buffer {
    /// Words of that many slots, if a machine can have as many.
    pub(crate) fn words(&self, slots: usize) -> Option<usize> {
        let words = slots.checked_mul(self.rows)?.checked_mul(self.columns)?;
        (words <= isize::MAX as usize / size_of::<u32>()).then_some(words)
    }
}

/// Where a buffer's words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In memory of the program, zeros at first, kept from run to run.
    Inside,
    /// The caller's, read only: which of the inputs.
    Input(usize),
    /// The caller's, written: which of the outputs.
    Output(usize),
}

/// How many matrices a buffer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// This many.
    Count(usize),
    /// As many as the sequence of this number has steps.
    Length(usize),
}

/// Which matrix of a buffer is meant at step `t` of `length` steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Always this one.
    Fixed(usize),
    /// `t`.
    Step,
    /// `length - 1 - t`.
    Back,
    /// `t + by`, and round again: what one step leaves for the next.
    Turn {
        /// 0 or more.
        by: usize,
    },
}

/// Rows and columns of a buffer. How many columns follows from what is put there or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the buffer.
    pub buffer: usize,
    /// Which of its matrices.
    pub at: At,
    /// First column.
    pub column: usize,
}

/// A product and what becomes of its sums.
#[derive(Clone, Debug)]
pub struct Product {
    /// Rows of `weights.k()` values, in whole words. What the last word holds beyond the k of the panels is
    /// multiplied by zero weights: of bfloat16 it must be finite.
    pub a: Place,
    /// How `a` holds them: as the weights are, or in `f32`, of which each worker then makes what it
    /// needs, whole numbers with a scale for each row.
    pub holds: Precision,
    /// The weights.
    pub weights: Arc<Panels>,
    /// Which of their panels.
    pub panels: Range<usize>,
    /// Which rows of the batch.
    pub rows: Range<usize>,
    /// Added to each row: a number for each output of all panels, or nothing.
    pub bias: Option<Arc<[f32]>>,
    /// What one of `a` is worth, if it holds whole numbers.
    pub scale: f32,
    /// Whether `a` is a state, which is all zeros at the first step of a fresh sequence: then there is
    /// nothing to multiply.
    pub of_state: bool,
    /// What becomes of the sums.
    pub then: Then,
}

/// What becomes of the sums of a product. Units and outputs are counted from the first panel on.
#[derive(Clone, Debug)]
pub enum Then {
    /// They are stored, in the order of panels; the last vectors only as far as `outputs` go.
    Store {
        /// Where the outputs of panel 0 begin.
        to: Place,
        /// What is done to each.
        activation: Activation,
        /// Outputs of all panels, those that only fill the last one left out.
        outputs: usize,
    },
    /// Gates i, f, g, o of an LSTM.
    Lstm(Arc<Lstm>),
    /// Gates z, r, n of a GRU whose reset gate works on the product (`linear_before_reset` of ONNX).
    Gru(Arc<Gru>),
    /// A plain recurrent network.
    Rnn(Arc<Rnn>),
    /// A cell with options.
    General(Arc<General>),
}

/// Where a step's new state goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hidden {
    /// In `f32`, for the next step.
    pub state: Place,
    /// For the next product, if that is not in `f32`: where, and in what.
    pub narrow: Option<(Place, Precision)>,
    /// To the caller.
    pub output: Option<Place>,
    /// Units of the layer.
    pub units: usize,
}

/// An LSTM's cell. Places of units begin with unit 0.
#[derive(Clone, Debug)]
pub struct Lstm {
    /// Products with the input, as the panels order them, biases in them; nothing if the sums have all.
    pub input: Option<Place>,
    /// State of the cell, in place.
    pub cell: Place,
    /// The new state.
    pub hidden: Hidden,
    /// How near to tanh.
    pub tanh: Tanh,
}

/// A GRU's cell. Its `r` acts on the sum of `n`, biases of the state's side in the product.
#[derive(Clone, Debug)]
pub struct Gru {
    /// Products with the input, as the panels order them, biases in them.
    pub input: Place,
    /// The last state.
    pub last: Place,
    /// The new one.
    pub hidden: Hidden,
    /// How near to tanh.
    pub tanh: Tanh,
}

/// A plain network's cell.
#[derive(Clone, Debug)]
pub struct Rnn {
    /// Products with the input, as the panels order them, biases in them.
    pub input: Place,
    /// The new state.
    pub hidden: Hidden,
    /// What is done to the sum.
    pub activation: Activation,
}

/// What one worker does in a phase, in this order.
pub type Work = Vec<Product>;

/// What all workers do before they meet.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Of each worker.
    pub work: Vec<Work>,
    /// Whether all wait for all at the end.
    pub meets: bool,
}

/// Phases that repeat.
#[derive(Clone, Debug)]
pub struct Stage {
    /// How often.
    pub every: Every,
    /// In this order.
    pub phases: Vec<Phase>,
}

/// How often phases repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// Once for each chunk of steps, and then for all of its steps at once.
    Chunk,
    /// Once for each step of a chunk.
    Step,
}

/// Stages for each chunk of a sequence. At the end all workers meet.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Which length counts its steps.
    pub length: usize,
    /// Steps of a chunk, 0 for 1; the last may have fewer.
    pub chunk: usize,
    /// In this order, for each chunk.
    pub stages: Vec<Stage>,
}

impl Product {
    /// Whether any of its places goes through the sequence from the end.
    pub(crate) fn is_back(&self) -> bool {
        let back = |place: &Place| place.at == At::Back;
        let some = |place: &Option<Place>| place.as_ref().is_some_and(back);
        let hidden = |hidden: &Hidden| {
            back(&hidden.state)
                || hidden.narrow.as_ref().is_some_and(|(place, _)| back(place))
                || some(&hidden.output)
        };
        back(&self.a)
            || match &self.then {
                Then::Store { to, .. } => back(to),
                Then::Lstm(cell) => some(&cell.input) || back(&cell.cell) || hidden(&cell.hidden),
                Then::Gru(cell) => back(&cell.input) || back(&cell.last) || hidden(&cell.hidden),
                Then::Rnn(cell) => back(&cell.input) || hidden(&cell.hidden),
                Then::General(cell) => {
                    let mut found = false;
                    let mut touch = |place: Place, _: Range<usize>, _| found |= back(&place);
                    let last = cell.touches(&(0..0), 1, &mut touch);
                    last.is_some_and(|(of, _)| hidden(of)) || found
                }
            }
    }
}

/// A proven program.
#[derive(Clone, Debug)]
pub struct Program {
    workers: usize,
    buffers: Vec<Buffer>,
    loops: Vec<Loop>,
}

impl Program {
    /// Proves a program of `workers` workers.
    ///
    /// # Errors
    /// Something lies outside of its buffer, or two workers would meet in one place.
    pub fn new(
        workers: usize,
        buffers: Vec<Buffer>,
        loops: Vec<Loop>,
    ) -> Result<Self, ProgramError> {
        proof::check(workers, &buffers, &loops)?;
        Ok(Self { workers, buffers, loops })
    }

    /// How many workers it needs.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Its buffers.
    #[must_use]
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// Its loops.
    #[must_use]
    pub fn loops(&self) -> &[Loop] {
        &self.loops
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(slot) => write!(f, "{slot}"),
            Self::Step => f.write_str("t"),
            Self::Back => f.write_str("T-1-t"),
            Self::Turn { by } => write!(f, "t+{by}"),
        }
    }
}
