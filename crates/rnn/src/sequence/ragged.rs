//! Batches with rows of different lengths.
//!
//! Rows are sorted by decreasing length, so that the rows in use at a step come first and the batch
//! shrinks. Sequences to be read backward are reversed first, each within its own length, so that
//! both directions are forward programs. These run one after the other, on as many workers as the
//! choice has.

use dyno_kernels::{Call, Execution, Isa, ProgramError, Team};

use super::SequenceError;
use super::rows::{self, StateKind};
use crate::layer::Layer;
use crate::plan::{self, Choice, PackedWeights, Plan, StatePart};

/// Programs of the single directions, and memory for their rows.
pub(super) struct RaggedBatch {
    directions: Vec<Direction>,
    batch: usize,
    inputs: usize,
    /// Outputs of one direction.
    width: usize,
    isa: Isa,
    /// Rows by decreasing length.
    order: Vec<usize>,
    /// Lengths in that order.
    lengths: Vec<usize>,
    /// Number of rows in use at each step.
    active: Vec<usize>,
    input: Vec<f32>,
    output: Vec<f32>,
    /// Buffer for copying a row of a state.
    row: Vec<f32>,
}

struct Direction {
    is_back: bool,
    plan: Plan,
    /// Created when rows of different lengths occur for the first time.
    execution: Option<Execution>,
}

impl RaggedBatch {
    pub(super) fn new(
        layer: &Layer,
        packed: &[PackedWeights],
        batch: usize,
        choice: &Choice,
        isa: Isa,
    ) -> Result<Self, ProgramError> {
        // Workers for the other direction divide the rows instead.
        let choice = Choice { sides: 1, rows: choice.rows * choice.sides, ..*choice };
        let direction = |(direction, packed): (usize, &PackedWeights)| {
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

    /// Returns whether the layer has one direction, which is forward.
    pub(super) fn is_forward(&self) -> bool {
        matches!(&self.directions[..], [Direction { is_back: false, .. }])
    }

    /// Sorts the rows and copies their states from the first slots.
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
            for kind in StateKind::ALL {
                self.row.resize(rows::columns(execution, inner, kind), 0.0);
                for (at, row) in self.order.iter().enumerate() {
                    rows::take(from, outer, kind, 0, *row, &mut self.row);
                    rows::put(execution, inner, kind, 0, at, &self.row);
                }
            }
        }
    }

    /// Copies the states back to the first slots.
    pub(super) fn store(&mut self, to: &mut Execution, states: &[Vec<StatePart>]) {
        for (direction, outer) in self.directions.iter().zip(states) {
            let Some(execution) = &direction.execution else { continue };
            let inner = &direction.plan.states[0];
            for kind in StateKind::ALL {
                self.row.resize(rows::columns(execution, inner, kind), 0.0);
                for (at, (row, length)) in self.order.iter().zip(&self.lengths).enumerate() {
                    let slot = if kind == StateKind::Cell { 0 } else { length % 2 };
                    rows::take(execution, inner, kind, slot, at, &mut self.row);
                    rows::put(to, outer, kind, 0, *row, &self.row);
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
        let inputs = self.inputs;
        let width = self.width;
        let batch = self.batch;
        let all = width * self.directions.len();
        for (index, direction) in self.directions.iter_mut().enumerate() {
            let Some(execution) = &mut direction.execution else { continue };
            // Index of a row's step in the caller's memory.
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
