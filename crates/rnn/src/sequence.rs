//! A layer ready to run: packed, planned, with its states.

use std::fmt;

use dyno_kernels::{Call, Execution, Isa, ProgramError, RunError, Team};

use crate::layer::Layer;
use crate::plan::{self, Choice, Packed, StateBuffers};

/// A layer for a batch, with its states.
pub struct Sequence {
    execution: Execution,
    states: Vec<StateBuffers>,
    batch: usize,
    units: usize,
    inputs: usize,
    outputs: usize,
}

/// States of a layer: `directions` x `batch` x `units` each.
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
    /// Lengths are not one for each row, fall not, or are longer than the input.
    Lengths,
}

impl fmt::Display for SequenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(error) => error.fmt(f),
            Self::Lengths => f.write_str(
                "expected a length for each row, sorted from the longest on, none above the input's steps",
            ),
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
        let packed: Vec<Packed> =
            layer.weights().iter().map(|of| Packed::new(layer, of, choice.precision)).collect();
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
        Ok(Self {
            execution: Execution::new(plan.program, isa),
            states: plan.states,
            batch,
            units: layer.units(),
            inputs: layer.inputs(),
            outputs: layer.outputs(),
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
        self.clear();
        self.call(team, input, output, &[], true)
    }

    /// As [`Sequence::run`], from the states that were left or set.
    ///
    /// # Errors
    /// Sizes do not fit.
    pub fn run_on(
        &mut self,
        team: &mut Team,
        input: &[f32],
        output: &mut [f32],
    ) -> Result<(), SequenceError> {
        self.call(team, input, output, &[], false)
    }

    fn call(
        &mut self,
        team: &mut Team,
        input: &[f32],
        output: &mut [f32],
        active: &[usize],
        fresh: bool,
    ) -> Result<(), SequenceError> {
        let steps = input.len() / (self.batch * self.inputs).max(1);
        let outputs: &mut [&mut [f32]] = &mut [output];
        let call = Call { lengths: &[steps], active, fresh, inputs: &[input], outputs };
        self.execution.run(team, call).map_err(SequenceError::Run)
    }

    /// Sets all states to zeros.
    pub fn clear(&mut self) {
        for state in self.states.clone() {
            self.execution.inside_mut(state.hidden).fill(0.0);
            if let Some(cell) = state.cell {
                self.execution.inside_mut(cell).fill(0.0);
            }
        }
    }

    /// States after `steps` steps.
    #[must_use]
    pub fn states(&self, steps: usize) -> States {
        let mut states = States::default();
        for state in &self.states {
            let rows = |buffer: usize, slot: usize, to: &mut Vec<f32>| {
                let numbers = self.execution.inside(buffer);
                for row in 0..self.batch {
                    let at = (slot * self.batch + row) * state.columns;
                    to.extend_from_slice(&numbers[at..][..self.units]);
                }
            };
            rows(state.hidden, steps % 2, &mut states.hidden);
            if let Some(cell) = state.cell {
                rows(cell, 0, &mut states.cells);
            }
        }
        states
    }

    /// Numbers of a step's output.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs
    }
}
