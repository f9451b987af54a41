//! Cost model: the predicted time of a [`Choice`] in closed form, and a lower bound for any plan.
//!
//! ```
//! use dyno_kernels::{Precision, Tanh};
//! use dyno_rnn::cost::{LayerShape, predict, roofline};
//! use dyno_rnn::{Choice, machine::Machine, model::Model};
//!
//! let model = Model::open("lstm:64x256")?;
//! let shape = LayerShape::from_layer(&model.layers()[0], 1, 100);
//! let (precision, tanh) = (Precision::F32, Tanh::Fitted98);
//! let choice = Choice { precision, tanh, chunk: 16, sides: 1, rows: 1, units: 2 };
//! let machine = Machine::sapphire_rapids();
//! let predicted_ns = predict(&shape, &choice, &machine).ns();
//! assert!(predicted_ns > roofline(&shape, precision, &machine, choice.workers()));
//! # Ok::<(), dyno_rnn::model::ModelError>(())
//! ```

use dyno_kernels::{LANES, Precision};

use crate::layer::{Cell, Layer};
use crate::machine::Machine;
use crate::partition::{ReadCost, Sweep, reading};
use crate::plan::Choice;

/// Sizes of a layer's run: the layer without its weights, and its batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerShape {
    /// The cell.
    pub cell: Cell,
    /// Numbers in the input of one step.
    pub inputs: usize,
    /// Units of one direction.
    pub units: usize,
    /// Numbers in one direction's state: the units, or their projection.
    pub width: usize,
    /// Phases of a step: two if its products depend on one another (a GRU with `reset_first`, a
    /// projection), otherwise one.
    pub phases: usize,
    /// Number of directions: 1 or 2.
    pub directions: usize,
    /// Rows of the batch.
    pub batch: usize,
    /// Steps of a sequence.
    pub steps: usize,
}

impl LayerShape {
    /// Returns the sizes of a layer that runs `batch` rows for `steps` steps.
    pub fn from_layer(layer: &Layer, batch: usize, steps: usize) -> Self {
        let directions = layer.directions().count();
        let inputs = layer.inputs();
        let units = layer.units();
        let width = layer.width();
        let options = layer.options();
        let two = options.reset_first || !options.projections.is_empty();
        Self {
            cell: layer.cell(),
            inputs,
            units,
            width,
            phases: 1 + usize::from(two),
            directions,
            batch,
            steps,
        }
    }

    /// Weights that a row of the state is multiplied with: the gates of all units, and the
    /// projection.
    fn state_weights(&self) -> usize {
        let projected = self.phases == 2 && self.cell == Cell::Lstm;
        (self.cell.gates() + usize::from(projected)) * self.units * self.width
    }

    /// Units and vectors of a panel: the gates of sixteen units, or 64 units of a single gate.
    pub fn panel(&self) -> (usize, usize) {
        match self.cell.gates() {
            1 => (4 * LANES, 4),
            gates => (LANES, gates),
        }
    }

    /// Panels of one direction.
    pub fn panels(&self) -> usize {
        self.units.div_ceil(self.panel().0)
    }

    /// Floating-point operations of a call; a multiply-add counts twice. For an LSTM: 8 H (E + H) B
    /// T, as in the SPEC.
    pub fn flops(&self) -> f64 {
        let per_step = 2 * (self.cell.gates() * self.units * self.inputs + self.state_weights());
        (per_step * self.batch * self.steps * self.directions) as f64
    }

    /// Bytes of the input weights and of the state weights, unpadded, in all directions.
    pub fn weights(&self, precision: Precision) -> [f64; 2] {
        let of_input = self.cell.gates() * self.units * self.inputs;
        let bytes = |weights: usize| (self.directions * weights * 4) as f64;
        let per_word = precision.per_word() as f64;
        [of_input, self.state_weights()].map(|weights| bytes(weights) / per_word)
    }
}

/// Predicted nanoseconds of a call by part, and the bytes it reads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prediction {
    /// Products with the input.
    pub input: f64,
    /// Products with the state.
    pub state: f64,
    /// Cells: from sums to new states.
    pub cells: f64,
    /// Barriers between workers.
    pub barriers: f64,
    /// Reads of data that other workers wrote.
    pub exchange: f64,
    /// Start of the team.
    pub call: f64,
    /// Bytes of weights and sums that one worker reads and writes.
    pub bytes: f64,
    /// Part of these bytes that comes from outside the worker's private cache.
    pub far_bytes: f64,
}

impl Prediction {
    /// Total nanoseconds.
    pub fn ns(&self) -> f64 {
        self.input + self.state + self.cells + self.barriers + self.exchange + self.call
    }
}

/// Work of the worker with the largest share.
struct Share {
    /// Directions, one after the other.
    directions: usize,
    rows: usize,
    panels: usize,
    /// Numbers in the sums of one row.
    sums: usize,
    /// Bytes of the input weights of all directions.
    input: f64,
    /// Bytes of the state weights of all directions.
    state: f64,
}

impl Share {
    fn largest(shape: &LayerShape, choice: &Choice) -> Self {
        let directions = shape.directions.div_ceil(choice.sides.max(1));
        let rows = shape.batch.div_ceil(choice.rows.max(1));
        let panels = shape.panels().div_ceil(choice.units.max(1));
        let sums = panels * shape.panel().1 * LANES;
        let bytes = |k: usize| (directions * sums * choice.precision.words(k) * 4) as f64;
        // The outputs of a projection are divided as the units are.
        let gates = shape.cell.gates() * shape.units * shape.width;
        let input = bytes(shape.inputs);
        let state = bytes(shape.width);
        let state = state * shape.state_weights() as f64 / gates.max(1) as f64;
        Self { directions, rows, panels, sums, input, state }
    }

    /// Operations of one step's product with `bytes` of weights.
    fn flops(&self, bytes: f64, precision: Precision) -> f64 {
        2.0 * self.rows as f64 * bytes / 4.0 * precision.per_word() as f64
    }
}

/// Predicts the time of a plan's call: the work of the worker with the largest share, and its
/// waiting time.
///
/// The prediction depends on the chunk, sides, rows, units and precision of the choice. Activations
/// cost what the machine's cells cost.
pub fn predict(shape: &LayerShape, choice: &Choice, machine: &Machine) -> Prediction {
    let share = Share::largest(shape, choice);
    let workers = choice.workers().max(1);
    let steps = shape.steps as f64;
    let mut prediction = if choice.chunk <= 1 {
        step_by_step(shape, choice, machine, &share)
    } else {
        by_chunks(shape, choice, machine, &share)
    };
    let per_step = share.directions * share.rows;
    let sixteens = per_step * share.panels * shape.panel().0 / LANES;
    prediction.cells = steps * sixteens as f64 * machine.cell(shape.cell);
    prediction.cells += tiles(shape, choice, machine, &share);
    if choice.units > 1 {
        // All workers synchronize after each chunk's products with the input and after each step.
        let chunks = if choice.chunk > 1 { shape.steps.div_ceil(choice.chunk) } else { 0 };
        let barriers = (shape.steps * shape.phases + chunks) as f64;
        prediction.barriers = barriers * machine.barrier(workers);
        let others = shape.units.saturating_sub(share.panels * shape.panel().0);
        // Other workers read bfloat16, or `f32` that they convert to bytes themselves.
        let size = if choice.precision == Precision::Bf16 { 2 } else { 4 };
        let bytes = others * share.rows * size;
        let exchanges = steps * (share.directions * shape.phases) as f64;
        prediction.exchange = exchanges * machine.exchange(bytes as f64);
    }
    if workers > 1 {
        prediction.call = machine.barriers.call + machine.barrier(workers);
    }
    prediction
}

/// Fixed costs of tiles, in nanoseconds: those of products with the input, for all rows of a chunk
/// together, and of products with the state.
fn tiles(shape: &LayerShape, choice: &Choice, machine: &Machine, share: &Share) -> f64 {
    let chunk = choice.chunk.clamp(1, shape.steps.max(1));
    let steps = shape.steps as f64;
    let panels = (share.directions * share.panels) as f64;
    let fixed = |rows: usize| {
        panels
            * (rows as f64 * machine.cells.tile + rows.div_ceil(TILE) as f64 * machine.cells.panel)
    };
    steps / chunk as f64 * fixed(share.rows * chunk) + steps * fixed(share.rows)
}

/// Approximate rows of a tile; the exact number depends on the instruction set.
const TILE: usize = 6;

/// Predicts a plan that reads the weights of the input and of the state at each step.
fn step_by_step(
    shape: &LayerShape,
    choice: &Choice,
    machine: &Machine,
    share: &Share,
) -> Prediction {
    let steps = shape.steps as f64;
    let all = shape.weights(choice.precision).iter().sum();
    // A fresh sequence needs no product with the state at its first step.
    let state = if shape.steps > 1 { share.state } else { 0.0 };
    let read = read(choice, machine, share.input + state, all);
    let part = share.input / (share.input + state).max(1.0);
    let peak = machine.peak_among(choice.precision, share.rows, choice.workers());
    let [of_input, state_weights] =
        [share.input, share.state].map(|of| share.flops(of, choice.precision) / peak);
    Prediction {
        input: steps * of_input.max(read.ns * part),
        state: (steps - 1.0).max(0.0) * state_weights.max(read.ns * (1.0 - part)),
        bytes: steps * share.input + (steps - 1.0).max(0.0) * share.state,
        far_bytes: steps * read.far_bytes,
        ..Prediction::default()
    }
}

/// Predicts a plan that reads the weights of the input once per chunk and stores its sums until
/// their step.
fn by_chunks(shape: &LayerShape, choice: &Choice, machine: &Machine, share: &Share) -> Prediction {
    let chunk = choice.chunk.min(shape.steps.max(1));
    let chunks = shape.steps.div_ceil(chunk) as f64;
    let steps = shape.steps as f64;
    let workers = choice.workers().max(1);
    let weights = shape.weights(choice.precision);
    let near = machine.bandwidths.l2;
    let far = machine.far(workers, weights.iter().sum());
    let sums = (4 * share.directions * share.rows * chunk * share.sums) as f64;
    let together = share.input + share.state + sums;
    let fits = together <= machine.resident_l2();
    // The products with the input evict the state's weights, which are read again once per chunk.
    let (input_ns, again) = if fits {
        (share.input / near, 0.0)
    } else if share.state <= machine.resident_l2() {
        (share.input / far, share.state)
    } else {
        (share.input / far, 0.0)
    };
    // Sums are written, and read at their step. The last chunk may have fewer steps.
    let whole = steps / chunk as f64;
    let stay = sums <= machine.resident_l2();
    // Outside the L1 cache a line is read before it is written.
    let sums_ns = if sums <= machine.kept_l1() / 2.0 {
        2.0 * whole * sums / machine.bandwidths.l1
    } else {
        3.0 * whole * sums / if stay { near } else { far }
    };
    let peak = machine.peak_among(choice.precision, share.rows * chunk, workers);
    let multiply = share.flops(share.input, choice.precision) * steps / peak;
    // Between chunks only the state's weights are read again.
    let step = read(choice, machine, share.state, weights[1]);
    let peak = machine.peak_among(choice.precision, share.rows, workers);
    let state = share.flops(share.state, choice.precision) / peak;
    let far_sums = if stay { 0.0 } else { 2.0 * whole * sums };
    let far_input = if fits { 0.0 } else { share.input };
    Prediction {
        input: multiply.max(chunks * input_ns) + sums_ns + chunks * again / far,
        state: (steps - 1.0).max(0.0) * state.max(step.ns),
        bytes: chunks * share.input + 2.0 * whole * sums + steps * share.state,
        far_bytes: chunks * (far_input + again) + far_sums + steps * step.far_bytes,
        ..Prediction::default()
    }
}

/// Cost of reading a worker's weights at each step, where all workers together read `all` bytes;
/// workers that share rows read identical weights.
fn read(choice: &Choice, machine: &Machine, bytes: f64, all: f64) -> ReadCost {
    reading(machine, bytes, choice.workers().max(1), all, Sweep::Forward)
}

/// Lower bound in nanoseconds for any plan on `workers` cores: operations at peak rate, weights
/// from the nearest cache that can hold them, cells and barriers free (SPEC section 2, roofline).
pub fn roofline(
    shape: &LayerShape,
    precision: Precision,
    machine: &Machine,
    workers: usize,
) -> f64 {
    let workers = workers.max(1) as f64;
    let [input, state] = shape.weights(precision).map(|bytes| bytes / workers);
    let rates = &machine.bandwidths;
    let l2 = machine.caches.l2 as f64;
    let per_weight = 2.0 * (shape.directions * shape.batch) as f64;
    let flops = |weights: usize| per_weight * weights as f64 / workers;
    let near = if (input + state) * workers <= l2 { rates.l2 } else { rates.l3 };
    let of_input = shape.cell.gates() * shape.units * shape.inputs;
    let first =
        flops(of_input) * shape.steps as f64 / machine.peak(precision, shape.batch * shape.steps);
    let read = if state <= machine.kept_l1() {
        state / rates.l1
    } else {
        (state / rates.l2).max((state - l2).max(0.0) / rates.l3)
    };
    let step = (flops(shape.state_weights()) / machine.peak(precision, shape.batch)).max(read);
    first.max(input / near) + step * shape.steps.saturating_sub(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_kernels::Tanh;

    fn shape(cell: Cell, inputs: usize, units: usize, batch: usize, steps: usize) -> LayerShape {
        let width = units;
        let phases = 1;
        LayerShape { cell, inputs, units, width, phases, directions: 1, batch, steps }
    }

    /// Milliseconds of `tables_quiet.md`, which its `roofline.py` made from the same limits.
    #[test]
    fn rooflines_are_those_of_the_reference() {
        use Precision::{Bf16, F32, Int8};
        let machine = Machine::sapphire_rapids();
        let rows = [
            (64, 64, 1, 100, [(F32, 1, 0.0742), (F32, 2, 0.0238), (Bf16, 1, 0.0146)]),
            (1024, 64, 1, 100, [(F32, 1, 0.3843), (F32, 2, 0.1788), (Int8, 2, 0.0080)]),
            (64, 256, 1, 100, [(F32, 1, 0.9385), (Bf16, 2, 0.2163), (Int8, 2, 0.1081)]),
            (64, 1024, 1, 100, [(F32, 1, 53.179), (Bf16, 2, 7.5593), (Int8, 2, 1.7164)]),
            (256, 256, 20, 100, [(F32, 2, 6.5825), (Bf16, 1, 0.7973), (Int8, 2, 0.1993)]),
            (1024, 1024, 10, 100, [(F32, 2, 52.6603), (Bf16, 1, 25.6041), (Int8, 2, 2.4503)]),
        ];
        for (inputs, units, batch, steps, cells) in rows {
            for (precision, cores, expected) in cells {
                let shape = shape(Cell::Lstm, inputs, units, batch, steps);
                let found = roofline(&shape, precision, &machine, cores) / 1e6;
                let what = format!("{inputs},{units},{batch} {precision:?} {cores}: {found} ms");
                assert!((found / expected - 1.0).abs() < 0.012, "{what}, expected {expected}");
            }
        }
    }

    #[test]
    fn no_plan_is_predicted_below_the_roofline() {
        let tanh = Tanh::Fitted98;
        for machine in [Machine::sapphire_rapids(), Machine::paper()] {
            for (inputs, units, batch) in [(64, 64, 1), (256, 256, 20), (1024, 1024, 1)] {
                for chunk in [1, 16, 100] {
                    for (rows, units_by) in [(1, 1), (1, 2), (2, 1), (4, 4)] {
                        let precision = Precision::F32;
                        let rows = rows.min(batch);
                        let choice =
                            Choice { precision, tanh, chunk, sides: 1, rows, units: units_by };
                        let shape = shape(Cell::Lstm, inputs, units, batch, 100);
                        let least = roofline(&shape, precision, &machine, choice.workers());
                        let found = predict(&shape, &choice, &machine).ns();
                        assert!(found >= 0.99 * least, "{choice:?}: {found} below {least}");
                    }
                }
            }
        }
    }
}
