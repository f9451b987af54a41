//! Plans: a layer and a choice become a program.
//!
//! Products with the input do not depend on the state: they are done for a chunk of steps at once
//! (DeepCPU, section 4.2: time-independent first). What is left of a step is one product with the
//! state and the cell, fused. Workers share units (columns of the weights), rows of the batch, or
//! directions.

mod general;
mod phased;

use std::ops::Range;
use std::sync::Arc;

use dyno_kernels::{
    At, Buffer, Every, Gru, Hidden, Kind, LANES, Loop, Lstm, Panels, Phase, Place, Precision,
    Product, Program, ProgramError, Rnn, Slots, Stage, Tanh, Then, Work,
};

use crate::layer::{Cell, Layer};

pub use phased::{Phasing, build_phased};

/// What is chosen of a layer's execution. Whatever is chosen, the outputs are the same up to
/// rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Choice {
    /// How numbers of products are held.
    pub precision: Precision,
    /// How near to tanh.
    pub tanh: Tanh,
    /// Steps whose products with the input are done at once: 1 does them with the step.
    pub chunk: usize,
    /// Directions side by side: 1 or 2.
    pub sides: usize,
    /// Workers that share the rows of a batch (DeepCPU's X_i).
    pub rows: usize,
    /// Workers that share the units (its X_j).
    pub units: usize,
}

impl Choice {
    /// All workers at once.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.sides * self.rows * self.units
    }
}

/// A layer's program for a batch, and where its states are.
pub struct Plan {
    /// What runs.
    pub program: Program,
    /// Of each direction, the state's parts.
    pub states: Vec<Vec<StatePart>>,
}

/// Part of a direction's state. What one worker alone reads and writes is in buffers of its own: side
/// by side with another's, prefetching would take lines from it that it writes. All buffers have
/// rows for the whole batch, and whole rows.
#[derive(Clone, Debug)]
pub struct StatePart {
    /// Which rows of the batch.
    pub rows: Range<usize>,
    /// Which units of the cell.
    pub units: Range<usize>,
    /// Two slots: after step t of T the state is in slot t + 1, and round. Parts of the same rows
    /// have it in common.
    pub hidden: usize,
    /// One slot, of an LSTM.
    pub cell: Option<usize>,
    /// The hidden state in fewer bits, two slots; in common as well.
    pub narrow: Option<usize>,
}

/// Packed weights of a direction.
#[derive(Clone, Debug)]
pub struct Packed {
    input: Arc<Panels>,
    state: Arc<Panels>,
    input_bias: Arc<[f32]>,
    /// Only of a GRU: under the reset gate.
    state_bias: Option<Arc<[f32]>>,
    /// Only of a layer with options.
    extras: Option<general::Extras>,
}

impl Packed {
    /// Packs a direction's weights; in `f32` if the layer has options.
    #[must_use]
    pub fn new(layer: &Layer, direction: usize, precision: Precision) -> Self {
        let (units, weights) = (layer.units(), &layer.weights()[direction]);
        let precision = if layer.is_plain() { precision } else { Precision::F32 };
        // If r acts on the state, n has products of its own.
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
            let of = |at: usize| {
                let (panel, vector, lane) =
                    (at / (vectors * LANES), at / LANES % vectors, at % LANES);
                let unit = panel * LANES + lane;
                if unit < units { bias(vector, unit) } else { 0.0 }
            };
            (0..count).map(of).collect()
        };
        let of = |bias: &[f32], gate: usize, unit: usize| bias[gate * units + unit];
        let is_gru = layer.cell() == Cell::Gru && !layer.options().reset_first;
        let input_bias = order(&|gate, unit| {
            let state = of(&weights.state_bias, gate, unit);
            let state = if is_gru && gate == 2 { 0.0 } else { state };
            of(&weights.input_bias, gate, unit) + state
        });
        let state_bias = is_gru.then(|| {
            order(&|gate, unit| if gate == 2 { of(&weights.state_bias, gate, unit) } else { 0.0 })
        });
        let extras = (!layer.is_plain()).then(|| general::Extras::new(layer, direction));
        Self { state: pack(layer.width(), &weights.state), input, input_bias, state_bias, extras }
    }
}

/// Share `index` of `count` of `all`, as equal as whole numbers can be.
fn share(all: usize, index: usize, count: usize) -> Range<usize> {
    all * index / count..all * (index + 1) / count
}

/// Builds the program of a layer: input 0 is `steps` x `batch` x inputs, output 0 `steps` x
/// `batch` x outputs.
///
/// # Errors
/// The choice asks for what a program must not do; of the choices of the planner none does.
pub fn build(
    layer: &Layer,
    packed: &[Packed],
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
    let mut of_input: Vec<Work> = vec![Vec::new(); workers];
    let mut of_state: Vec<Work> = vec![Vec::new(); workers];
    for (direction, packed) in packed.iter().enumerate().take(directions) {
        let time = if layer.directions().is_back(direction) { At::Back } else { At::Step };
        let side = direction % choice.sides;
        let mut parts = Vec::new();
        for row in 0..choice.rows {
            let rows = share(batch, row, choice.rows);
            let hidden = hidden_buffers(packed, layer, batch, choice, &mut buffers);
            for unit in 0..choice.units {
                let panels = share(packed.input.panels(), unit, choice.units);
                let own = own_buffers(packed, layer, batch, choice, &mut buffers);
                let rows = rows.clone();
                let of = Part { layer, packed, time, direction, rows, panels, choice, hidden, own };
                let worker = (side * choice.rows + row) * choice.units + unit;
                of_input[worker].push(of.input());
                of_state[worker].push(of.state());
                parts.push(of.of_states());
            }
        }
        states.push(parts);
    }
    // Whoever shares neither units nor state with another worker need not wait for it.
    let meets = choice.units > 1;
    let stages = if choice.chunk <= 1 {
        let work = of_input.into_iter().zip(of_state).map(|(input, state)| [input, state].concat());
        let phases = vec![Phase { work: work.collect(), meets }];
        vec![Stage { every: Every::Step, phases }]
    } else {
        // Each worker multiplies what it needs itself, so that there is nothing to wait for between.
        let first = Stage { every: Every::Chunk, phases: vec![Phase { work: of_input, meets }] };
        let steps = Stage { every: Every::Step, phases: vec![Phase { work: of_state, meets }] };
        vec![first, steps]
    };
    let looped = Loop { length: 0, chunk: choice.chunk.max(1), stages };
    Ok(Plan { program: Program::new(workers, buffers, vec![looped])?, states })
}

/// The caller's input and output.
fn outer_buffers(layer: &Layer, batch: usize) -> Vec<Buffer> {
    let of = |kind, columns| Buffer { kind, slots: Slots::Length(0), rows: batch, columns };
    vec![of(Kind::Input(0), layer.inputs()), of(Kind::Output(0), layer.outputs())]
}

/// Buffers that workers of the same rows have in common.
#[derive(Clone, Copy)]
struct HiddenBuffers {
    state: usize,
    /// The state as products with it want it, if that is not in `f32`: two slots.
    narrow: Option<usize>,
}

/// Buffers of one worker.
#[derive(Clone, Copy)]
struct OwnBuffers {
    /// Products with the input, for each step of a chunk.
    gates: usize,
    cell: Option<usize>,
}

fn inside(buffers: &mut Vec<Buffer>, batch: usize, slots: usize, columns: usize) -> usize {
    let slots = Slots::Count(slots);
    buffers.push(Buffer { kind: Kind::Inside, slots, rows: batch, columns });
    buffers.len() - 1
}

/// Words of a row of products with the input, and of a state: units, and zeros up to a whole panel.
fn columns(packed: &Packed, layer: &Layer) -> (usize, usize) {
    let sums = packed.input.panels() * packed.input.vectors() * LANES;
    (sums, sums / layer.cell().gates())
}

fn hidden_buffers(
    packed: &Packed,
    layer: &Layer,
    batch: usize,
    choice: &Choice,
    buffers: &mut Vec<Buffer>,
) -> HiddenBuffers {
    let (_, units) = columns(packed, layer);
    let words = choice.precision.words(units);
    HiddenBuffers {
        state: inside(buffers, batch, 2, units),
        narrow: (choice.precision != Precision::F32).then(|| inside(buffers, batch, 2, words)),
    }
}

fn own_buffers(
    packed: &Packed,
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

/// A worker's part of a direction.
struct Part<'a> {
    layer: &'a Layer,
    packed: &'a Packed,
    time: At,
    direction: usize,
    rows: Range<usize>,
    panels: Range<usize>,
    choice: &'a Choice,
    hidden: HiddenBuffers,
    own: OwnBuffers,
}

impl Part<'_> {
    fn of_states(&self) -> StatePart {
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
            of_state: false,
            then: Then::Store {
                to: Place { buffer: self.own.gates, at: At::Turn { by: 0 }, column: 0 },
                activation: dyno_kernels::Activation::Identity,
                outputs,
            },
        }
    }

    fn state(&self) -> Product {
        let at = |buffer, at| Place { buffer, at, column: 0 };
        let HiddenBuffers { state: hidden, narrow } = self.hidden;
        let last = at(hidden, At::Turn { by: 0 });
        let input = at(self.own.gates, At::Turn { by: 0 });
        let (units, precision) = (self.layer.units(), self.choice.precision);
        let next = Hidden {
            state: at(hidden, At::Turn { by: 1 }),
            narrow: narrow.map(|buffer| (at(buffer, At::Turn { by: 1 }), precision)),
            output: Some(Place { buffer: 1, at: self.time, column: self.direction * units }),
            units,
        };
        let tanh = self.choice.tanh;
        let then = match (self.layer.cell(), self.own.cell) {
            (Cell::Lstm, Some(cell)) => {
                let cell = at(cell, At::Fixed(0));
                Then::Lstm(Arc::new(Lstm { input: Some(input), cell, hidden: next, tanh }))
            }
            (Cell::Rnn(activation), _) => {
                Then::Rnn(Arc::new(Rnn { input, hidden: next, activation }))
            }
            _ => Then::Gru(Arc::new(Gru { input, last, hidden: next, tanh })),
        };
        Product {
            a: narrow.map_or(last, |buffer| at(buffer, At::Turn { by: 0 })),
            holds: precision,
            weights: Arc::clone(&self.packed.state),
            panels: self.panels.clone(),
            rows: self.rows.clone(),
            bias: self.packed.state_bias.clone(),
            // States are in (-1, 1): `Hidden` puts 127 for 1.
            scale: if precision == Precision::Int8 { 1.0 / 127.0 } else { 1.0 },
            of_state: true,
            then,
        }
    }
}
