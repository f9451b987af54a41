//! Sequences: a layer that is packed, planned and has states, ready to run.
//!
//! ```
//! use dyno_kernels::Precision;
//! use dyno_rnn::{Choice, Isa, Sequence, Team, model::Model};
//!
//! let model = Model::open("lstm:8x16")?;
//! let choice = Choice { chunk: 4, ..Choice::one_worker(Precision::F32) };
//! let mut sequence = Sequence::new(&model.layers()[0], 1, &choice, Isa::best())?;
//! let (mut team, mut output) = (Team::with_workers(1), [0.0; 10 * 16]);
//! sequence.run(&mut team, &[0.5; 10 * 8], &mut output)?;
//! // The hidden state is the output of the last step.
//! assert_eq!(sequence.states().hidden, output[9 * 16..]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ragged;
mod rows;

use half::bf16;

use dyno_kernels::{Call, Execution, Isa, ProgramError, RunError, Team};
use thiserror::Error;

use crate::layer::Layer;
use crate::plan::{self, Choice, PackedWeights, Phasing, Plan, StatePart};
use ragged::RaggedBatch;
use rows::StateKind;

/// A layer for a fixed batch, with its states.
pub struct Sequence {
    execution: Execution,
    /// Parts of the states of each direction.
    states: Vec<Vec<StatePart>>,
    /// Slot of the hidden states that was written last.
    slot: usize,
    batch: usize,
    inputs: usize,
    outputs: usize,
    /// Width of the hidden state and of the cell state of one direction.
    widths: [usize; 2],
    ragged: RaggedBatch,
    /// Rows in use at each step of a call; a field only to reuse its allocation.
    active: Vec<usize>,
}

/// States of a layer. Hidden states are `directions` x `batch` x width, where the width is that of
/// one direction's outputs; cell states are `directions` x `batch` x units.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct States {
    /// Hidden states.
    pub hidden: Vec<f32>,
    /// Cell states of an LSTM, otherwise empty.
    pub cells: Vec<f32>,
}

/// Error of a call of a sequence.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SequenceError {
    /// An input or output has the wrong size.
    #[error("{0}")]
    Run(RunError),
    /// There is not one length per row, or a length exceeds the steps of the input.
    #[error("expected a length for each row, none above the input's steps")]
    Lengths,
    /// The states do not fit the layer and batch.
    #[error("expected states of {expected} numbers, found {found}")]
    States {
        /// Expected numbers.
        expected: usize,
        /// Numbers found.
        found: usize,
    },
}

impl Sequence {
    /// Packs the weights of a layer and plans it.
    ///
    /// # Errors
    /// The choice leads to an invalid program.
    pub fn new(
        layer: &Layer,
        batch: usize,
        choice: &Choice,
        isa: Isa,
    ) -> Result<Self, ProgramError> {
        let packed: Vec<PackedWeights> = (0..layer.directions().count())
            .map(|direction| PackedWeights::new(layer, direction, choice.precision))
            .collect();
        Self::from_packed(layer, &packed, batch, choice, isa)
    }

    /// Plans with weights that are already packed in the precision of the choice; the weights are
    /// shared.
    ///
    /// # Errors
    /// The choice leads to an invalid program.
    pub fn from_packed(
        layer: &Layer,
        packed: &[PackedWeights],
        batch: usize,
        choice: &Choice,
        isa: Isa,
    ) -> Result<Self, ProgramError> {
        let plan = plan::build(layer, packed, batch, choice)?;
        Self::from_plan(layer, packed, batch, choice, isa, plan)
    }

    /// Plans with the products of a step in explicit phases instead of fused; on as many workers as
    /// divide the units. See [`Sequence::from_packed`].
    ///
    /// # Errors
    /// The choice leads to an invalid program.
    ///
    /// # Panics
    /// The layer has options.
    pub fn phased(
        layer: &Layer,
        packed: &[PackedWeights],
        batch: usize,
        choice: &Choice,
        phasing: Phasing,
        isa: Isa,
    ) -> Result<Self, ProgramError> {
        let plan = plan::build_phased(layer, packed, batch, choice, phasing)?;
        Self::from_plan(layer, packed, batch, choice, isa, plan)
    }

    fn from_plan(
        layer: &Layer,
        packed: &[PackedWeights],
        batch: usize,
        choice: &Choice,
        isa: Isa,
        plan: Plan,
    ) -> Result<Self, ProgramError> {
        Ok(Self {
            execution: Execution::new(plan.program, isa),
            states: plan.states,
            slot: 0,
            batch,
            inputs: layer.inputs(),
            outputs: layer.outputs(),
            widths: [layer.width(), layer.units()],
            ragged: RaggedBatch::new(layer, packed, batch, choice, isa)?,
            active: Vec::new(),
        })
    }

    /// Runs `steps` x `batch` x inputs numbers from zero states, and writes `steps` x `batch` x
    /// outputs.
    ///
    /// # Errors
    /// A size does not fit.
    pub fn run(
        &mut self,
        team: &mut Team,
        input: &[f32],
        output: &mut [f32],
    ) -> Result<(), SequenceError> {
        self.call(team, input, output, None, true)
    }

    /// Runs like [`Sequence::run`], but from the current states, so that a long sequence can be run
    /// in pieces.
    ///
    /// # Errors
    /// A size does not fit.
    pub fn run_on(
        &mut self,
        team: &mut Team,
        input: &[f32],
        output: &mut [f32],
    ) -> Result<(), SequenceError> {
        self.call(team, input, output, None, false)
    }

    /// Runs like [`Sequence::run`] with a number of steps for each row. Outputs after a row's last
    /// step are zeros, and its states are those after that step. The backward direction starts at a
    /// row's last step.
    ///
    /// # Errors
    /// A size does not fit.
    pub fn run_lengths(
        &mut self,
        team: &mut Team,
        input: &[f32],
        output: &mut [f32],
        lengths: &[usize],
    ) -> Result<(), SequenceError> {
        self.call(team, input, output, Some(lengths), true)
    }

    /// Runs like [`Sequence::run_lengths`], but from the current states.
    ///
    /// # Errors
    /// A size does not fit.
    pub fn run_lengths_on(
        &mut self,
        team: &mut Team,
        input: &[f32],
        output: &mut [f32],
        lengths: &[usize],
    ) -> Result<(), SequenceError> {
        self.call(team, input, output, Some(lengths), false)
    }

    /// Runs all rows for the steps of the input, or each row for its own number of steps.
    fn call(
        &mut self,
        team: &mut Team,
        input: &[f32],
        output: &mut [f32],
        lengths: Option<&[usize]>,
        fresh: bool,
    ) -> Result<(), SequenceError> {
        if fresh {
            self.clear();
        } else {
            self.settle();
        }
        let steps = input.len() / (self.batch * self.inputs).max(1);
        if let Some(lengths) = lengths {
            if lengths.len() != self.batch || lengths.iter().any(|length| *length > steps) {
                return Err(SequenceError::Lengths);
            }
            if lengths.iter().any(|length| *length < steps) {
                self.check_sizes(steps, input, output)?;
                if let Some(rows) = self.leading_rows(steps, lengths) {
                    return self.run_leading(team, input, output, (steps, rows), fresh);
                }
                self.ragged.load(&self.execution, &self.states, lengths);
                self.ragged.run(team, input, output, fresh)?;
                self.ragged.store(&mut self.execution, &self.states);
                return Ok(());
            }
        }
        let outputs: &mut [&mut [f32]] = &mut [output];
        let call = Call { lengths: &[steps], active: &[], fresh, inputs: &[input], outputs };
        self.execution.run(team, call).map_err(SequenceError::Run)?;
        self.slot = (self.slot + steps) % 2;
        Ok(())
    }

    /// Returns how many rows run if they are the first ones, as in a batch that is padded with rows, all
    /// for `steps` steps, and forward.
    fn leading_rows(&self, steps: usize, lengths: &[usize]) -> Option<usize> {
        let rows = lengths.iter().take_while(|length| **length == steps).count();
        let others_rest = lengths[rows..].iter().all(|length| *length == 0);
        (rows > 0 && others_rest && self.ragged.is_forward()).then_some(rows)
    }

    /// Runs the first `rows` rows for all steps. They need not be sorted, so no states are copied.
    fn run_leading(
        &mut self,
        team: &mut Team,
        input: &[f32],
        output: &mut [f32],
        (steps, rows): (usize, usize),
        fresh: bool,
    ) -> Result<(), SequenceError> {
        self.active.clear();
        self.active.resize(steps, rows);
        let (lengths, active) = (&[steps], &self.active[..]);
        let outputs: &mut [&mut [f32]] = &mut [&mut *output];
        let call = Call { lengths, active, fresh, inputs: &[input], outputs };
        self.execution.run(team, call).map_err(SequenceError::Run)?;
        self.slot = steps % 2;
        if self.slot == 1 {
            self.keep_states(rows);
        }
        for step in output.chunks_exact_mut(self.batch * self.outputs) {
            step[rows * self.outputs..].fill(0.0);
        }
        Ok(())
    }

    /// Copies the hidden states of the rows from `first` on, which did not run, to the second slot.
    fn keep_states(&mut self, first: usize) {
        for part in self.states.iter().flatten() {
            for buffer in [Some(part.hidden), part.narrow].into_iter().flatten() {
                let hidden = self.execution.inside_mut(buffer);
                let slot = hidden.len() / 2;
                let begin = slot / self.batch * first;
                hidden.copy_within(begin..slot, slot + begin);
            }
        }
    }

    /// Checks sizes as [`Execution::run`] does; here the execution gets other memory than the
    /// caller's.
    fn check_sizes(
        &self,
        steps: usize,
        input: &[f32],
        output: &[f32],
    ) -> Result<(), SequenceError> {
        let rows = steps * self.batch;
        for (buffer, expected, found) in
            [(0, rows * self.inputs, input.len()), (1, rows * self.outputs, output.len())]
        {
            if expected != found {
                return Err(SequenceError::Run(RunError::Size { buffer, expected, found }));
            }
        }
        Ok(())
    }

    /// Moves the hidden states to the slot in which a run begins.
    fn settle(&mut self) {
        if self.slot == 1 {
            for part in self.states.iter().flatten() {
                for buffer in [Some(part.hidden), part.narrow].into_iter().flatten() {
                    let hidden = self.execution.inside_mut(buffer);
                    let (first, second) = hidden.split_at_mut(hidden.len() / 2);
                    first.copy_from_slice(&second[..first.len()]);
                }
            }
            self.slot = 0;
        }
    }

    /// Sets all states to zeros.
    pub fn clear(&mut self) {
        self.slot = 0;
        for part in self.states.iter().flatten() {
            for buffer in StateKind::ALL.iter().filter_map(|kind| kind.buffer(part)) {
                self.execution.inside_mut(buffer).fill(0.0);
            }
        }
    }

    /// Sets the states for [`Sequence::run_on`]; an empty array means zeros.
    ///
    /// # Errors
    /// An array has the wrong size, or the layer has no cell states.
    pub fn set_states(&mut self, states: &States) -> Result<(), SequenceError> {
        let directions = self.states.len();
        let has_cells = self.states.iter().flatten().any(|part| part.cell.is_some());
        let [hidden, cells] = self.widths.map(|width| directions * self.batch * width);
        let cells = if has_cells { cells } else { 0 };
        for (expected, found) in [(hidden, states.hidden.len()), (cells, states.cells.len())] {
            if found > 0 && found != expected {
                return Err(SequenceError::States { expected, found });
            }
        }
        self.clear();
        self.put_rows([&states.hidden, &states.cells], self.batch);
        Ok(())
    }

    /// Sets the states of the first `rows` rows for [`Sequence::run_lengths_on`]: hidden states and cell
    /// states, as [`States`] has them for as many rows. Those of other rows are undefined, so these rows
    /// must not run.
    pub(crate) fn put_rows(&mut self, states: [&[f32]; 2], rows: usize) {
        self.slot = 0;
        let kinds = [StateKind::Hidden, StateKind::Cell].into_iter();
        for ((kind, numbers), width) in kinds.zip(states).zip(self.widths) {
            let mut numbers = numbers.chunks_exact(width.max(1));
            for parts in &self.states {
                for (row, from) in numbers.by_ref().take(rows).enumerate() {
                    rows::put(&mut self.execution, parts, kind, 0, row, from);
                }
            }
        }
        for part in self.states.iter().flatten() {
            if let Some(narrow) = part.narrow {
                let words = narrowed(self.execution.inside(part.hidden));
                self.execution.inside_mut(narrow).copy_from_slice(&words);
            }
        }
    }

    /// Copies the states of rows to other rows, as (source, destination) in order.
    /// [`beam`](crate::decode::beam) passes such moves to its step function.
    ///
    /// # Panics
    /// A row is out of range.
    pub fn copy_rows(&mut self, moves: &[(usize, usize)]) {
        self.settle();
        for parts in &self.states {
            for kind in StateKind::ALL {
                let mut whole = vec![0.0; rows::columns(&self.execution, parts, kind)];
                for (from, to) in moves {
                    assert!(*from.max(to) < self.batch, "rows below {}", self.batch);
                    rows::take(&self.execution, parts, kind, 0, *from, &mut whole);
                    rows::put(&mut self.execution, parts, kind, 0, *to, &whole);
                }
            }
        }
    }

    /// Returns the states after the last step of each row.
    pub fn states(&self) -> States {
        let has_cells = self.states.iter().flatten().any(|part| part.cell.is_some());
        let numbers = |width: usize| vec![0.0; self.states.len() * self.batch * width];
        let [hidden, cells] = self.widths.map(numbers);
        let mut states = States { hidden, cells: if has_cells { cells } else { Vec::new() } };
        self.take_rows([&mut states.hidden, &mut states.cells], self.batch);
        states
    }

    /// Copies the states of the first `rows` rows after their last steps, in the order of
    /// [`Sequence::put_rows`].
    pub(crate) fn take_rows(&self, states: [&mut [f32]; 2], rows: usize) {
        let kinds = [(StateKind::Hidden, self.slot), (StateKind::Cell, 0)].into_iter();
        for (((kind, slot), numbers), width) in kinds.zip(states).zip(self.widths) {
            let mut numbers = numbers.chunks_exact_mut(width.max(1));
            for parts in &self.states {
                for (row, to) in numbers.by_ref().take(rows).enumerate() {
                    rows::take(&self.execution, parts, kind, slot, row, to);
                }
            }
        }
    }

    /// Numbers in the output of one step.
    pub fn outputs(&self) -> usize {
        self.outputs
    }
}

/// Encodes states in bfloat16, two in a 32-bit word, as the cells do.
fn narrowed(states: &[f32]) -> Vec<f32> {
    let bits = |x: Option<&f32>| x.map_or(0, |x| u32::from(bf16::from_f32(*x).to_bits()));
    let word = |pair: &[f32]| f32::from_bits(bits(pair.first()) | bits(pair.get(1)) << 16);
    states.chunks(2).map(word).collect()
}
