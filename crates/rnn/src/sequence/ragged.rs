//! Rows of different lengths.
//!
//! Rows are sorted by falling length, so that those still in use at a step are the first ones (the
//! batch shrinks), and sequences that are read backwards are turned round first, each about its own end:
//! then both directions are forward programs. They run one after the other, on as many workers as the
//! choice has.

use dyno_kernels::{Call, Execution, Isa, ProgramError, Team};

use super::SequenceError;
use super::rows::{self, Of};
use crate::layer::Layer;
use crate::plan::{self, Choice, Packed, Plan, StatePart};

/// Programs of each direction by itself, and room for its rows.
pub(super) struct Ragged {
    directions: Vec<Direction>,
    batch: usize,
    inputs: usize,
    /// Outputs of a direction.
    width: usize,
    isa: Isa,
    /// Rows by falling length.
    order: Vec<usize>,
    /// In that order.
    lengths: Vec<usize>,
    /// Rows in use at each step.
    active: Vec<usize>,
    input: Vec<f32>,
    output: Vec<f32>,
    /// A row of a state on its way.
    row: Vec<f32>,
}

struct Direction {
    is_back: bool,
    plan: Plan,
    /// Taken when rows of different lengths come for the first time.
    execution: Option<Execution>,
}

impl Ragged {
    pub(super) fn new(
        layer: &Layer,
        packed: &[Packed],
        batch: usize,
        choice: &Choice,
        isa: Isa,
    ) -> Result<Self, ProgramError> {
        // What would be the other direction's workers share the rows instead.
        let choice = Choice { sides: 1, rows: choice.rows * choice.sides, ..*choice };
        let direction = |(direction, packed): (usize, &Packed)| {
            let packed = std::slice::from_ref(packed);
            let plan = plan::build(&layer.alone(direction), packed, batch, &choice)?;
            Ok(Direction { is_back: layer.directions().is_back(direction), plan, execution: None })
        };
        Ok(Self {
            directions: packed.iter().enumerate().map(direction).collect::<Result<_, _>>()?,
            batch,
            inputs: layer.inputs(),
            width: layer.width(),
            isa,
            order: Vec::new(),
            lengths: Vec::new(),
            active: Vec::new(),
            input: Vec::new(),
            output: Vec::new(),
            row: Vec::new(),
        })
    }

    /// Sorts the rows and takes their states, which are in the first slots.
    pub(super) fn load(&mut self, from: &Execution, states: &[Vec<StatePart>], lengths: &[usize]) {
        self.order.clear();
        self.order.extend(0..self.batch);
        self.order.sort_unstable_by_key(|row| (std::cmp::Reverse(lengths[*row]), *row));
        self.lengths.clear();
        self.lengths.extend(self.order.iter().map(|row| lengths[*row]));
        let steps = self.lengths.first().copied().unwrap_or(0);
        self.active.clear();
        let in_use = |step: usize| self.lengths.partition_point(|length| *length > step);
        self.active.extend((0..steps).map(in_use));
        self.input.resize(steps * self.batch * self.inputs, 0.0);
        self.output.resize(steps * self.batch * self.width, 0.0);
        for (direction, outer) in self.directions.iter_mut().zip(states) {
            let isa = self.isa;
            let program = &direction.plan.program;
            let execution =
                direction.execution.get_or_insert_with(|| Execution::new(program.clone(), isa));
            let inner = &direction.plan.states[0];
            for of in Of::ALL {
                self.row.resize(rows::columns(execution, inner, of), 0.0);
                for (at, row) in self.order.iter().enumerate() {
                    rows::take(from, outer, of, (0, *row), &mut self.row);
                    rows::put(execution, inner, of, (0, at), &self.row);
                }
            }
        }
    }

    /// Gives the states back to the first slots.
    pub(super) fn store(&mut self, to: &mut Execution, states: &[Vec<StatePart>]) {
        for (direction, outer) in self.directions.iter().zip(states) {
            let Some(execution) = &direction.execution else { continue };
            let inner = &direction.plan.states[0];
            for of in Of::ALL {
                self.row.resize(rows::columns(execution, inner, of), 0.0);
                for (at, (row, length)) in self.order.iter().zip(&self.lengths).enumerate() {
                    let slot = if of == Of::Cell { 0 } else { length % 2 };
                    rows::take(execution, inner, of, (slot, at), &mut self.row);
                    rows::put(to, outer, of, (0, *row), &self.row);
                }
            }
        }
    }

    /// Runs `steps` x `batch` x inputs numbers.
    pub(super) fn run(
        &mut self,
        team: &mut Team,
        input: &[f32],
        output: &mut [f32],
        fresh: bool,
    ) -> Result<(), SequenceError> {
        output.fill(0.0);
        let (inputs, width, batch) = (self.inputs, self.width, self.batch);
        let all = width * self.directions.len();
        for (index, direction) in self.directions.iter_mut().enumerate() {
            let Some(execution) = &mut direction.execution else { continue };
            // Where a row's step is in the caller's memory.
            let place = |step: usize, row: usize, length: usize| {
                let time = if direction.is_back { length - 1 - step } else { step };
                time * batch + row
            };
            for (at, (row, length)) in self.order.iter().zip(&self.lengths).enumerate() {
                for step in 0..*length {
                    let from = &input[place(step, *row, *length) * inputs..][..inputs];
                    self.input[(step * batch + at) * inputs..][..inputs].copy_from_slice(from);
                }
            }
            let call = Call {
                lengths: &[self.active.len()],
                active: &self.active,
                fresh,
                inputs: &[&self.input],
                outputs: &mut [&mut self.output],
            };
            execution.run(team, call).map_err(SequenceError::Run)?;
            for (at, (row, length)) in self.order.iter().zip(&self.lengths).enumerate() {
                for step in 0..*length {
                    let to = place(step, *row, *length) * all + index * width;
                    let from = &self.output[(step * batch + at) * width..][..width];
                    output[to..][..width].copy_from_slice(from);
                }
            }
        }
        Ok(())
    }
}
