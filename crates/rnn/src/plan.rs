//! Plans: compile a layer and a [`Choice`] into a program.
//!
//! Products with the input do not depend on the state, so they run for a chunk of steps at once
//! (DeepCPU, section 4.2: time-independent products first). The rest of a step is one product with
//! the state, fused with the cell. Workers divide units (columns of the weights), rows of the
//! batch, or directions.
//!
//! ```
//! use dyno_kernels::{Precision, Tanh};
//! use dyno_rnn::plan::{PackedWeights, build};
//! use dyno_rnn::{Choice, model::Model};
//!
//! let model = Model::open("lstm:8x64")?;
//! let layer = &model.layers()[0];
//! let (precision, tanh) = (Precision::F32, Tanh::Fitted98);
//! let choice = Choice { precision, tanh, chunk: 16, sides: 1, rows: 1, units: 2 };
//! let plan = build(layer, &[PackedWeights::new(layer, 0, precision)], 1, &choice)?;
//! // One direction, whose state is divided between two workers.
//! assert_eq!(plan.states[0].len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod general;
mod phased;

use std::ops::Range;
use std::sync::Arc;

use dyno_kernels::{
    Buffer, BufferKind, Cadence, Epilogue, Gru, HiddenState, LANES, Loop, Lstm, Panels, Phase,
    Place, Precision, Product, Program, ProgramError, Rnn, SlotIndex, Slots, Stage, Tanh, Work,
};

use crate::layer::{Cell, Layer};

pub use phased::{Phasing, build_phased};

/// How a layer runs. The outputs of all choices of one precision and activation are equal up to
/// rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Choice {
    /// Precision of the products.
    pub precision: Precision,
    /// Accuracy of tanh.
    pub tanh: Tanh,
    /// Steps whose products with the input run at once; 1 runs them with each step.
    pub chunk: usize,
    /// Directions that run side by side: 1 or 2.
    pub sides: usize,
    /// Workers that divide the rows of a batch (X_i of DeepCPU).
    pub rows: usize,
    /// Workers that divide the units (X_j of DeepCPU).
    pub units: usize,
}

impl Choice {
    /// Returns a choice for one worker, without chunks, and with a tanh as accurate as the precision.
    pub fn one_worker(precision: Precision) -> Self {
        let tanh = match precision {
            Precision::F32 => Tanh::Fitted98,
            Precision::Bf16 => Tanh::Fitted76,
            Precision::Int8 => Tanh::Fitted56,
        };
        Self { precision, tanh, chunk: 1, sides: 1, rows: 1, units: 1 }
    }

    /// Total number of workers.
    pub fn workers(&self) -> usize {
        self.sides * self.rows * self.units
    }
}

/// Program of a layer for a batch, and the places of its states.
pub struct Plan {
    /// The program.
    pub program: Program,
    /// Parts of the state of each direction.
    pub states: Vec<Vec<StatePart>>,
}

/// Part of a direction's state. Data that one worker reads and writes alone has buffers of its own:
/// next to another worker's data, hardware prefetching would fetch lines that the other worker
/// writes. All buffers have whole rows for the entire batch.
#[derive(Clone, Debug)]
pub struct StatePart {
    /// Rows of the batch.
    pub rows: Range<usize>,
    /// Units of the cell.
    pub units: Range<usize>,
    /// Buffer of the hidden state with two slots: after step t the state is in slot (t + 1) mod 2.
    /// Parts with the same rows share the buffer.
    pub hidden: usize,
    /// Buffer of the cell state with one slot; LSTM only.
    pub cell: Option<usize>,
    /// Buffer of the hidden state in bfloat16, with two slots; shared like `hidden`.
    pub narrow: Option<usize>,
}

/// Packed weights of one direction.
#[derive(Clone, Debug)]
pub struct PackedWeights {
    input: Arc<Panels>,
    state: Arc<Panels>,
    input_bias: Arc<[f32]>,
    /// GRU only: biases under the reset gate.
    state_bias: Option<Arc<[f32]>>,
    /// Layers with options only.
    extras: Option<general::Extras>,
}

impl PackedWeights {
    /// Packs the weights of a direction.
    pub fn new(layer: &Layer, direction: usize, precision: Precision) -> Self {
        let units = layer.units();
        let weights = &layer.weights()[direction];
        // If r acts on the state, n has separate products.
        let gates = layer.cell().gates() - usize::from(layer.options().reset_first);
        let pack = |k: usize, rows: &[f32]| {
            Arc::new(if gates == 1 {
                Panels::pack_matrix(precision, k, rows)
            } else {
                Panels::pack(precision, gates, units, k, |gate, unit| {
                    &rows[(gate * units + unit) * k..][..k]
                })
            })
        };
        let input = pack(layer.inputs(), &weights.input);
        let order = |bias: &dyn Fn(usize, usize) -> f32| -> Arc<[f32]> {
            let count = input.panels() * input.vectors() * LANES;
            let vectors = if gates == 1 { 1 } else { gates };
            let element = |at: usize| {
                let panel = at / (vectors * LANES);
                let vector = at / LANES % vectors;
                let lane = at % LANES;
                let unit = panel * LANES + lane;
                if unit < units { bias(vector, unit) } else { 0.0 }
            };
            (0..count).map(element).collect()
        };
        let number = |bias: &[f32], gate: usize, unit: usize| bias[gate * units + unit];
        let is_gru = layer.cell() == Cell::Gru && !layer.options().reset_first;
        let input_bias = order(&|gate, unit| {
            let state = number(&weights.state_bias, gate, unit);
            let state = if is_gru && gate == 2 { 0.0 } else { state };
            number(&weights.input_bias, gate, unit) + state
        });
        let state_bias = is_gru.then(|| {
            order(&|gate, unit| {
                if gate == 2 { number(&weights.state_bias, gate, unit) } else { 0.0 }
            })
        });
        let extras = (!layer.is_plain()).then(|| general::Extras::new(layer, direction, precision));
        Self { state: pack(layer.width(), &weights.state), input, input_bias, state_bias, extras }
    }
}

/// Returns part `index` of `count` nearly equal parts of `0..all`.
fn share(all: usize, index: usize, count: usize) -> Range<usize> {
    all * index / count..all * (index + 1) / count
}

/// Builds the program of a layer. Input 0 is `steps` x `batch` x inputs, output 0 is `steps` x
/// `batch` x outputs.
///
/// # Errors
/// The program violates a rule of [`Program`]; choices of the tuner never do.
pub fn build(
    layer: &Layer,
    packed: &[PackedWeights],
    batch: usize,
    choice: &Choice,
) -> Result<Plan, ProgramError> {
    if !layer.is_plain() {
        return general::build(layer, packed, batch, choice);
    }
    let directions = layer.directions().count();
    let mut buffers = outer_buffers(layer, batch);
    let mut states = Vec::new();
    let workers = choice.workers();
    let mut input_work: Vec<Work> = vec![Vec::new(); workers];
    let mut state_work: Vec<Work> = vec![Vec::new(); workers];
    for (direction, packed) in packed.iter().enumerate().take(directions) {
        let time =
            if layer.directions().is_back(direction) { SlotIndex::Back } else { SlotIndex::Step };
        let side = direction % choice.sides;
        let mut parts = Vec::new();
        for row in 0..choice.rows {
            let rows = share(batch, row, choice.rows);
            let hidden = hidden_buffers(packed, layer, batch, choice, &mut buffers);
            for unit in 0..choice.units {
                let panels = share(packed.input.panels(), unit, choice.units);
                let own = own_buffers(packed, layer, batch, choice, &mut buffers);
                let rows = rows.clone();
                let part =
                    Part { layer, packed, time, direction, rows, panels, choice, hidden, own };
                let worker = (side * choice.rows + row) * choice.units + unit;
                input_work[worker].push(part.input());
                state_work[worker].push(part.state());
                parts.push(part.state_part());
            }
        }
        states.push(parts);
    }
    // Workers that divide only rows or directions share no state, so they need no barrier.
    let has_barrier = choice.units > 1;
    let stages = if choice.chunk <= 1 {
        let work =
            input_work.into_iter().zip(state_work).map(|(input, state)| [input, state].concat());
        let phases = vec![Phase { work: work.collect(), has_barrier }];
        vec![Stage { cadence: Cadence::Step, phases }]
    } else {
        // Each worker computes the products that it needs itself, so that no barrier separates the
        // stages.
        let first = Stage {
            cadence: Cadence::Chunk,
            phases: vec![Phase { work: input_work, has_barrier }],
        };
        let steps =
            Stage { cadence: Cadence::Step, phases: vec![Phase { work: state_work, has_barrier }] };
        vec![first, steps]
    };
    let looped = Loop { length: 0, chunk: choice.chunk.max(1), stages };
    Ok(Plan { program: Program::new(workers, buffers, vec![looped])?, states })
}

/// Buffers of the caller's input and output.
fn outer_buffers(layer: &Layer, batch: usize) -> Vec<Buffer> {
    let buffer = |kind, columns| Buffer { kind, slots: Slots::Length(0), rows: batch, columns };
    vec![
        buffer(BufferKind::Input(0), layer.inputs()),
        buffer(BufferKind::Output(0), layer.outputs()),
    ]
}

/// Buffers shared by the workers of the same rows.
#[derive(Clone, Copy)]
struct HiddenBuffers {
    state: usize,
    /// The state in bfloat16 if products with it are in that precision: two slots. For products of
    /// bytes, each worker converts the state itself, with a scale for each row and step: states of
    /// most activations, and initial states, have no bounds.
    narrow: Option<usize>,
}

/// Buffers of one worker.
#[derive(Clone, Copy)]
struct OwnBuffers {
    /// Products with the input for each step of a chunk.
    gates: usize,
    cell: Option<usize>,
}

fn inside(buffers: &mut Vec<Buffer>, batch: usize, slots: usize, columns: usize) -> usize {
    let slots = Slots::Count(slots);
    buffers.push(Buffer { kind: BufferKind::Inside, slots, rows: batch, columns });
    buffers.len() - 1
}

/// Words in a row of products with the input, and of a state: the units, padded with zeros to whole
/// panels.
fn columns(packed: &PackedWeights, layer: &Layer) -> (usize, usize) {
    let sums = packed.input.panels() * packed.input.vectors() * LANES;
    (sums, sums / layer.cell().gates())
}

fn hidden_buffers(
    packed: &PackedWeights,
    layer: &Layer,
    batch: usize,
    choice: &Choice,
    buffers: &mut Vec<Buffer>,
) -> HiddenBuffers {
    let (_, units) = columns(packed, layer);
    let words = choice.precision.words(units);
    HiddenBuffers {
        state: inside(buffers, batch, 2, units),
        narrow: (choice.precision == Precision::Bf16).then(|| inside(buffers, batch, 2, words)),
    }
}

fn own_buffers(
    packed: &PackedWeights,
    layer: &Layer,
    batch: usize,
    choice: &Choice,
    buffers: &mut Vec<Buffer>,
) -> OwnBuffers {
    let (sums, units) = columns(packed, layer);
    OwnBuffers {
        gates: inside(buffers, batch, choice.chunk.max(1), sums),
        cell: (layer.cell() == Cell::Lstm).then(|| inside(buffers, batch, 1, units)),
    }
}

/// One worker's part of a direction.
struct Part<'a> {
    layer: &'a Layer,
    packed: &'a PackedWeights,
    time: SlotIndex,
    direction: usize,
    rows: Range<usize>,
    panels: Range<usize>,
    choice: &'a Choice,
    hidden: HiddenBuffers,
    own: OwnBuffers,
}

impl Part<'_> {
    fn state_part(&self) -> StatePart {
        let (_, columns) = columns(self.packed, self.layer);
        let width = columns / self.packed.input.panels().max(1);
        StatePart {
            rows: self.rows.clone(),
            units: self.panels.start * width..self.panels.end * width,
            hidden: self.hidden.state,
            cell: self.own.cell,
            narrow: self.hidden.narrow,
        }
    }

    fn input(&self) -> Product {
        let outputs = self.packed.input.panels() * self.packed.input.vectors() * LANES;
        Product {
            a: Place { buffer: 0, at: self.time, column: 0 },
            holds: Precision::F32,
            weights: Arc::clone(&self.packed.input),
            panels: self.panels.clone(),
            rows: self.rows.clone(),
            bias: Some(Arc::clone(&self.packed.input_bias)),
            scale: 1.0,
            reads_state: false,
            epilogue: Epilogue::Store {
                to: Place { buffer: self.own.gates, at: SlotIndex::Turn { by: 0 }, column: 0 },
                activation: dyno_kernels::Activation::Identity,
                outputs,
            },
        }
    }

    fn state(&self) -> Product {
        let at = |buffer, at| Place { buffer, at, column: 0 };
        let HiddenBuffers { state: hidden, narrow } = self.hidden;
        let last = at(hidden, SlotIndex::Turn { by: 0 });
        let input = at(self.own.gates, SlotIndex::Turn { by: 0 });
        let units = self.layer.units();
        let precision = self.choice.precision;
        let next = HiddenState {
            state: at(hidden, SlotIndex::Turn { by: 1 }),
            narrow: narrow.map(|buffer| (at(buffer, SlotIndex::Turn { by: 1 }), precision)),
            output: Some(Place { buffer: 1, at: self.time, column: self.direction * units }),
            units,
        };
        let tanh = self.choice.tanh;
        let epilogue = match (self.layer.cell(), self.own.cell) {
            (Cell::Lstm, Some(cell)) => {
                let cell = at(cell, SlotIndex::Fixed(0));
                Epilogue::Lstm(Arc::new(Lstm { input: Some(input), cell, hidden: next, tanh }))
            }
            (Cell::Rnn(activation), _) => {
                Epilogue::Rnn(Arc::new(Rnn { input, hidden: next, activation }))
            }
            _ => Epilogue::Gru(Arc::new(Gru { input, last, hidden: next, tanh })),
        };
        Product {
            a: narrow.map_or(last, |buffer| at(buffer, SlotIndex::Turn { by: 0 })),
            holds: if narrow.is_some() { precision } else { Precision::F32 },
            weights: Arc::clone(&self.packed.state),
            panels: self.panels.clone(),
            rows: self.rows.clone(),
            bias: self.packed.state_bias.clone(),
            scale: 1.0,
            reads_state: true,
            epilogue,
        }
    }
}
