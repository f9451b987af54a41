//! Programs: the work of a team, step by step, as data.
//!
//! A program is a phased schedule of DeepCPU (section 4.2): loops over the steps of a sequence,
//! phases within a loop, and products of each worker within a phase. All workers synchronize after
//! each phase unless the phase has no barrier. [`Program::new`] verifies that between two barriers
//! no worker writes what another one reads or writes; only verified programs run. This is the
//! safety argument of this crate: code below uses pointers, code above is safe.

mod general;
mod proof;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::activation::{Activation, Tanh};
use crate::panels::{Panels, Precision};

pub use general::{
    BlendCell, Gates, GeneralCell, GeneralGru, GeneralLstm, GeneralRnn, HighwayCell, ResetCell,
};
pub use proof::ProgramError;

/// A sequence of matrices of 32-bit words, one per slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Location of the words.
    pub kind: BufferKind,
    /// Number of matrices.
    pub slots: Slots,
    /// Rows of each matrix.
    pub rows: usize,
    /// Words of a row, and from one row to the next.
    pub columns: usize,
}

impl Buffer {
    /// Words of `slots` slots; `None` if they exceed any memory.
    pub(crate) fn words(&self, slots: usize) -> Option<usize> {
        let words = slots.checked_mul(self.rows)?.checked_mul(self.columns)?;
        (words <= isize::MAX as usize / size_of::<u32>()).then_some(words)
    }
}

/// Location of a buffer's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferKind {
    /// In memory of the program, initially zeros, kept from run to run.
    Inside,
    /// In the caller's memory, read only, with the index of the input.
    Input(usize),
    /// In the caller's memory, for writing, with the index of the output.
    Output(usize),
}

/// Number of matrices in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// A fixed number.
    Count(usize),
    /// The number of steps of the sequence with this index.
    Length(usize),
}

/// Which matrix of a buffer is accessed at step `t` of `length` steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotIndex {
    /// Always this one.
    Fixed(usize),
    /// `t`.
    Step,
    /// `length - 1 - t`.
    Back,
    /// `(t + by) mod slots`: data that one step leaves for the next.
    Turn {
        /// Offset, >= 0.
        by: usize,
    },
}

/// A place in a buffer. The number of columns follows from the data read or written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the buffer.
    pub buffer: usize,
    /// Which of its matrices.
    pub at: SlotIndex,
    /// First column.
    pub column: usize,
}

/// A matrix product and the epilogue of its sums.
#[derive(Clone, Debug)]
pub struct Product {
    /// Rows of `weights.k()` values in whole words. Values of the last word beyond k are multiplied
    /// by zero weights; in bfloat16 they must be finite.
    pub a: Place,
    /// Precision of `a`: that of the weights, or `f32`. In the latter case, each worker narrows the
    /// rows that it needs, to integers with a scale per row.
    pub holds: Precision,
    /// The weights.
    pub weights: Arc<Panels>,
    /// Panels to multiply by.
    pub panels: Range<usize>,
    /// Rows of the batch.
    pub rows: Range<usize>,
    /// Bias added to each row: one number per output of all panels, or none.
    pub bias: Option<Arc<[f32]>>,
    /// Scale of `a` if it holds integers.
    pub scale: f32,
    /// Whether `a` is a state, which is zero at the first step of a fresh sequence, so that the
    /// product is skipped.
    pub reads_state: bool,
    /// Epilogue of the sums.
    pub epilogue: Epilogue,
}

/// Epilogue of a product's sums. Units and outputs are counted from the first panel on.
#[derive(Clone, Debug)]
pub enum Epilogue {
    /// Stores the sums in the order of panels; the last vectors only up to `outputs`.
    Store {
        /// Place of the outputs of panel 0.
        to: Place,
        /// Activation of each sum.
        activation: Activation,
        /// Outputs of all panels, without padding.
        outputs: usize,
    },
    /// Gates i, f, g, o of an LSTM.
    Lstm(Arc<Lstm>),
    /// Gates z, r, n of a GRU whose reset gate is applied to the product (`linear_before_reset` in
    /// ONNX).
    Gru(Arc<Gru>),
    /// A plain recurrent network.
    Rnn(Arc<Rnn>),
    /// A cell with options.
    General(Arc<GeneralCell>),
}

/// Destinations of a step's new state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HiddenState {
    /// State in `f32`, for the next step.
    pub state: Place,
    /// State for the next product, and its precision, unless that is `f32`.
    pub narrow: Option<(Place, Precision)>,
    /// State for the caller.
    pub output: Option<Place>,
    /// Units of the layer.
    pub units: usize,
}

/// An LSTM cell. Places of units begin with unit 0.
#[derive(Clone, Debug)]
pub struct Lstm {
    /// Products with the input including biases, in the order of the panels; `None` if the sums
    /// include them.
    pub input: Option<Place>,
    /// Cell state, updated in place.
    pub cell: Place,
    /// Destinations of the new state.
    pub hidden: HiddenState,
    /// Accuracy of tanh.
    pub tanh: Tanh,
}

/// A GRU cell. Gate r is applied to the sum of n, which includes the biases of the state.
#[derive(Clone, Debug)]
pub struct Gru {
    /// Products with the input including biases, in the order of the panels.
    pub input: Place,
    /// State after the last step.
    pub last: Place,
    /// Destinations of the new state.
    pub hidden: HiddenState,
    /// Accuracy of tanh.
    pub tanh: Tanh,
}

/// A cell of a plain recurrent network.
#[derive(Clone, Debug)]
pub struct Rnn {
    /// Products with the input including biases, in the order of the panels.
    pub input: Place,
    /// Destinations of the new state.
    pub hidden: HiddenState,
    /// Activation of the sum.
    pub activation: Activation,
}

/// Products of one worker in a phase, in order.
pub type Work = Vec<Product>;

/// Work of all workers between two barriers.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Work of each worker.
    pub work: Vec<Work>,
    /// Whether all workers synchronize at the end.
    pub has_barrier: bool,
}

/// Phases that repeat.
#[derive(Clone, Debug)]
pub struct Stage {
    /// How often the phases repeat.
    pub cadence: Cadence,
    /// Phases in order.
    pub phases: Vec<Phase>,
}

/// How often phases repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cadence {
    /// Once per chunk of steps, for all of its steps at once.
    Chunk,
    /// Once per step of a chunk.
    Step,
}

/// Stages for each chunk of a sequence. All workers synchronize at the end.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Index of the length that counts its steps.
    pub length: usize,
    /// Steps of a chunk, where 0 means 1; the last chunk may have fewer.
    pub chunk: usize,
    /// Stages of each chunk, in order.
    pub stages: Vec<Stage>,
}

impl Product {
    /// Whether any of its places is at [`SlotIndex::Back`].
    pub(crate) fn is_back(&self) -> bool {
        let back = |place: &Place| place.at == SlotIndex::Back;
        let some = |place: &Option<Place>| place.as_ref().is_some_and(back);
        let hidden = |hidden: &HiddenState| {
            back(&hidden.state)
                || hidden.narrow.as_ref().is_some_and(|(place, _)| back(place))
                || some(&hidden.output)
        };
        back(&self.a)
            || match &self.epilogue {
                Epilogue::Store { to, .. } => back(to),
                Epilogue::Lstm(cell) => {
                    some(&cell.input) || back(&cell.cell) || hidden(&cell.hidden)
                }
                Epilogue::Gru(cell) => {
                    back(&cell.input) || back(&cell.last) || hidden(&cell.hidden)
                }
                Epilogue::Rnn(cell) => back(&cell.input) || hidden(&cell.hidden),
                Epilogue::General(cell) => {
                    let mut found = false;
                    let mut touch = |place: Place, _: Range<usize>, _| found |= back(&place);
                    let last = cell.touches(&(0..0), 1, &mut touch);
                    last.is_some_and(|(state, _)| hidden(state)) || found
                }
            }
    }
}

/// A verified program.
#[derive(Clone, Debug)]
pub struct Program {
    workers: usize,
    buffers: Vec<Buffer>,
    loops: Vec<Loop>,
}

impl Program {
    /// Verifies a program of `workers` workers.
    ///
    /// # Errors
    /// A place lies outside of its buffer, or two workers could access the same place without a
    /// barrier between them.
    pub fn new(
        workers: usize,
        buffers: Vec<Buffer>,
        loops: Vec<Loop>,
    ) -> Result<Self, ProgramError> {
        proof::check(workers, &buffers, &loops)?;
        Ok(Self { workers, buffers, loops })
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Buffers.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// Loops.
    pub fn loops(&self) -> &[Loop] {
        &self.loops
    }
}

impl fmt::Display for SlotIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(slot) => write!(f, "{slot}"),
            Self::Step => f.write_str("t"),
            Self::Back => f.write_str("T-1-t"),
            Self::Turn { by } => write!(f, "t+{by}"),
        }
    }
}
