//! A layer ready to run: packed, planned, with its states.

mod ragged;
mod rows;

use std::fmt;

use half::bf16;

use dyno_kernels::{Call, Execution, Isa, Precision, ProgramError, RunError, Team};

use crate::layer::Layer;
use crate::plan::{self, Choice, Packed, Phasing, Plan, StatePart};
use ragged::Ragged;
use rows::Of;

/// A layer for a batch, with its states.
pub struct Sequence {
    execution: Execution,
    /// Of each direction.
    states: Vec<Vec<StatePart>>,
    /// Which slot of the hidden states is the last that was written.
    slot: usize,
    batch: usize,
    inputs: usize,
    outputs: usize,
    precision: Precision,
    /// Numbers of a row of each direction's hidden states and cells.
    widths: [usize; 2],
    ragged: Ragged,
}

/// States of a layer: `directions` x `batch` x units each, hidden ones as wide as a direction's
/// outputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct States {
    /// Hidden states.
    pub hidden: Vec<f32>,
    /// Cells of an LSTM.
    pub cells: Vec<f32>,
}

/// Rows of a call that are not those of the sequence.
#[derive(Clone, Debug, PartialEq)]
pub enum SequenceError {
    /// What is given is too long or too short.
    Run(RunError),
    /// Lengths are not one for each row, or one is longer than the input.
    Lengths,
    /// States that are not those of this layer and batch.
    States {
        /// Numbers that there should be.
        expected: usize,
        /// Numbers that there are.
        found: usize,
    },
}

impl fmt::Display for SequenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(error) => error.fmt(f),
            Self::Lengths => {
                f.write_str("expected a length for each row, none above the input's steps")
            }
            Self::States { expected, found } => {
                write!(f, "expected states of {expected} numbers, found {found}")
            }
        }
    }
}

impl std::error::Error for SequenceError {}

impl Sequence {
    /// Packs and plans.
    ///
    /// # Errors
    /// The choice asks for what a program must not do.
    pub fn new(
        layer: &Layer,
        batch: usize,
        choice: &Choice,
        isa: Isa,
    ) -> Result<Self, ProgramError> {
        let packed: Vec<Packed> = (0..layer.directions().count())
            .map(|direction| Packed::new(layer, direction, choice.precision))
            .collect();
        Self::of_packed(layer, &packed, batch, choice, isa)
    }

    /// Plans for weights that are packed already, in the precision of the choice; they are shared.
    ///
    /// # Errors
    /// The choice asks for what a program must not do.
    pub fn of_packed(
        layer: &Layer,
        packed: &[Packed],
        batch: usize,
        choice: &Choice,
        isa: Isa,
    ) -> Result<Self, ProgramError> {
        let plan = plan::build(layer, packed, batch, choice)?;
        Self::of_plan(layer, packed, batch, choice, isa, plan)
    }

    /// As [`Sequence::of_packed`], with the products of a step laid into phases by hand; on as many workers as
    /// share the units by the choice.
    ///
    /// # Errors
    /// The choice asks for what a program must not do.
    ///
    /// # Panics
    /// If the layer has options.
    pub fn phased(
        layer: &Layer,
        packed: &[Packed],
        batch: usize,
        choice: &Choice,
        phasing: Phasing,
        isa: Isa,
    ) -> Result<Self, ProgramError> {
        let plan = plan::build_phased(layer, packed, batch, choice, phasing)?;
        Self::of_plan(layer, packed, batch, choice, isa, plan)
    }

    fn of_plan(
        layer: &Layer,
        packed: &[Packed],
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
            precision: choice.precision,
            widths: [layer.width(), layer.units()],
            ragged: Ragged::new(layer, packed, batch, choice, isa)?,
        })
    }

    /// Runs `steps` x `batch` x inputs numbers from zero states to `steps` x `batch` x outputs.
    ///
    /// # Errors
    /// Sizes do not fit.
    pub fn run(
        &mut self,
        team: &mut Team,
        input: &[f32],
        output: &mut [f32],
    ) -> Result<(), SequenceError> {
        self.call(team, input, output, None, true)
    }

    /// As [`Sequence::run`], from the states that were left or set: a long sequence may be run piece by
    /// piece.
    ///
    /// # Errors
    /// Sizes do not fit.
    pub fn run_on(
        &mut self,
        team: &mut Team,
        input: &[f32],
        output: &mut [f32],
    ) -> Result<(), SequenceError> {
        self.call(team, input, output, None, false)
    }

    /// As [`Sequence::run`], of rows that have only so many steps each: outputs behind a row's last step
    /// are zeros, its states are those after that step, and backwards it begins there.
    ///
    /// # Errors
    /// Sizes do not fit.
    pub fn run_lengths(
        &mut self,
        team: &mut Team,
        input: &[f32],
        output: &mut [f32],
        lengths: &[usize],
    ) -> Result<(), SequenceError> {
        self.call(team, input, output, Some(lengths), true)
    }

    /// As [`Sequence::run_lengths`], from the states that were left or set.
    ///
    /// # Errors
    /// Sizes do not fit.
    pub fn run_lengths_on(
        &mut self,
        team: &mut Team,
        input: &[f32],
        output: &mut [f32],
        lengths: &[usize],
    ) -> Result<(), SequenceError> {
        self.call(team, input, output, Some(lengths), false)
    }

    /// Runs all rows for as many steps as the input has, or each for its own.
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

    /// As an execution would, which here gets other memory than the caller's.
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

    /// Moves the hidden states to where a run begins.
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
            for of in Of::ALL {
                let zero = match (of, self.precision) {
                    (Of::Narrow, Precision::Int8) => f32::from_le_bytes([128; 4]),
                    _ => 0.0,
                };
                if let Some(buffer) = of.buffer(part) {
                    self.execution.inside_mut(buffer).fill(zero);
                }
            }
        }
    }

    /// Sets the states for [`Sequence::run_on`]; what is empty becomes zeros.
    ///
    /// # Errors
    /// They have not the numbers of this layer's, or cells where it has none.
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
        let given = [
            (Of::Hidden, self.widths[0], &states.hidden),
            (Of::Cell, self.widths[1], &states.cells),
        ];
        for (of, width, numbers) in given {
            let mut rows = numbers.chunks_exact(width.max(1));
            for parts in &self.states {
                let mut whole = vec![0.0; rows::columns(&self.execution, parts, of)];
                for (row, from) in rows.by_ref().take(self.batch).enumerate() {
                    whole[..width].copy_from_slice(from);
                    rows::put(&mut self.execution, parts, of, (0, row), &whole);
                }
            }
        }
        for part in self.states.iter().flatten() {
            if let Some(narrow) = part.narrow {
                let words = narrowed(self.execution.inside(part.hidden), self.precision);
                self.execution.inside_mut(narrow).copy_from_slice(&words);
            }
        }
        Ok(())
    }

    /// Overwrites states of rows with those of others: from, to, one after the other. What
    /// [`beam`](crate::decode::beam) tells a step to move.
    ///
    /// # Panics
    /// There are no such rows.
    pub fn copy_rows(&mut self, moves: &[(usize, usize)]) {
        self.settle();
        for parts in &self.states {
            for of in Of::ALL {
                let mut whole = vec![0.0; rows::columns(&self.execution, parts, of)];
                for (from, to) in moves {
                    assert!(*from.max(to) < self.batch, "rows below {}", self.batch);
                    rows::take(&self.execution, parts, of, (0, *from), &mut whole);
                    rows::put(&mut self.execution, parts, of, (0, *to), &whole);
                }
            }
        }
    }

    /// States after the last step of each row.
    #[must_use]
    pub fn states(&self) -> States {
        let mut states = States::default();
        for parts in &self.states {
            let rows = |of: Of, slot: usize, width: usize, to: &mut Vec<f32>| {
                let mut whole = vec![0.0; rows::columns(&self.execution, parts, of)];
                for row in 0..if whole.is_empty() { 0 } else { self.batch } {
                    rows::take(&self.execution, parts, of, (slot, row), &mut whole);
                    to.extend_from_slice(&whole[..width]);
                }
            };
            rows(Of::Hidden, self.slot, self.widths[0], &mut states.hidden);
            rows(Of::Cell, 0, self.widths[1], &mut states.cells);
        }
        states
    }

    /// Numbers of a step's output.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs
    }
}

/// States in fewer bits, as the cells leave them: words of 32 bits.
fn narrowed(states: &[f32], precision: Precision) -> Vec<f32> {
    let words = states.chunks(precision.per_word()).map(|states| match precision {
        Precision::F32 => states[0],
        Precision::Bf16 => {
            let bits =
                |at: usize| states.get(at).map_or(0, |x| u32::from(bf16::from_f32(*x).to_bits()));
            f32::from_bits(bits(0) | bits(1) << 16)
        }
        Precision::Int8 => {
            let byte = |at: usize| states.get(at).map_or(0.0, |x| (x * 127.0).round_ties_even());
            f32::from_le_bytes([0, 1, 2, 3].map(|at| (byte(at) + 128.0) as u8))
        }
    });
    words.collect()
}
