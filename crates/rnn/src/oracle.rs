//! Reference implementation of layers in `f64`, written as plain loops from the definitions.
//!
//! ```
//! use dyno_rnn::{model::Model, oracle};
//!
//! let model = Model::open("gru:2x3")?;
//! // One row of two steps, from zero states.
//! let reference = oracle::run(&model.layers()[0], 1, &[0.5; 4], &[2], [&[], &[]]);
//! assert_eq!((reference.outputs.len(), reference.hidden.len()), (6, 3));
//! assert_eq!(reference.outputs[3..], reference.hidden[..]);
//! # Ok::<(), dyno_rnn::model::ModelError>(())
//! ```

use dyno_kernels::Activation;

use crate::layer::{Cell, Layer, Weights};

/// Outputs and final states of a layer; states are `directions` x `batch` x `units`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OracleOutput {
    /// Outputs: `steps` x `batch` x (`directions` x `units`).
    pub outputs: Vec<f64>,
    /// Hidden states after the last step, as wide as the outputs of a direction.
    pub hidden: Vec<f64>,
    /// Cell states after the last step; initial states if the cell has none.
    pub cells: Vec<f64>,
}

/// Applies an activation in `f64`, by its definition in ONNX.
pub fn activate(activation: Activation, x: f64) -> f64 {
    let wide = f64::from;
    match activation {
        Activation::Identity => x,
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Tanh => x.tanh(),
        Activation::Relu => x.max(0.0),
        Activation::Affine { alpha, beta } => wide(alpha) * x + wide(beta),
        Activation::LeakyRelu { alpha } => {
            if x < 0.0 {
                wide(alpha) * x
            } else {
                x
            }
        }
        Activation::ThresholdedRelu { alpha } => {
            if x > wide(alpha) {
                x
            } else {
                0.0
            }
        }
        Activation::ScaledTanh { alpha, beta } => wide(alpha) * (wide(beta) * x).tanh(),
        Activation::HardSigmoid { alpha, beta } => (wide(alpha) * x + wide(beta)).clamp(0.0, 1.0),
        Activation::Elu { alpha } => {
            if x < 0.0 {
                wide(alpha) * x.exp_m1()
            } else {
                x
            }
        }
        Activation::Softsign => x / (1.0 + x.abs()),
        Activation::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
    }
}

/// Product of `weights` (outputs x `x.len()`) with `x`, plus `bias`.
fn product(weights: &[f32], bias: &[f32], x: &[f64]) -> Vec<f64> {
    let rows = bias.iter().enumerate().map(|(output, bias)| {
        let row = &weights[output * x.len()..][..x.len()];
        f64::from(*bias) + row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum::<f64>()
    });
    rows.collect()
}

/// One step of one direction.
struct Step<'a> {
    layer: &'a Layer,
    direction: usize,
    /// Sums of the input including biases: gates x units.
    input: &'a [f64],
    /// Sums of the state including biases: gates x units.
    state: &'a [f64],
}

impl Step<'_> {
    /// Clips a sum if the layer does, and applies activation `which` (f, g or h).
    fn shaped(&self, which: usize, x: f64) -> f64 {
        let x = match self.layer.options().clip {
            Some(clip) => x.clamp(-f64::from(clip), f64::from(clip)),
            None => x,
        };
        activate(self.layer.activations(self.direction)[which], x)
    }

    fn sum(&self, gate: usize, unit: usize) -> f64 {
        let at = gate * self.layer.units() + unit;
        self.input[at] + self.state[at]
    }

    fn lstm(&self, unit: usize, cell: &mut f64) -> f64 {
        let options = self.layer.options();
        let units = self.layer.units();
        let peephole = |which: usize| {
            let weights = options.peepholes.get(self.direction);
            weights.map_or(0.0, |weights| f64::from(weights[which * units + unit]))
        };
        let i = self.shaped(0, self.sum(0, unit) + peephole(0) * *cell);
        let own = self.shaped(0, self.sum(1, unit) + peephole(1) * *cell);
        let f = if options.coupled { 1.0 - i } else { own };
        *cell = f * *cell + i * self.shaped(1, self.sum(2, unit));
        let o = self.shaped(0, self.sum(3, unit) + peephole(2) * *cell);
        o * activate(self.layer.activations(self.direction)[2], *cell)
    }

    fn gru(&self, weights: &Weights, last: &[f64]) -> Vec<f64> {
        let units = self.layer.units();
        let gates = |gate: usize| (0..units).map(move |unit| self.shaped(0, self.sum(gate, unit)));
        let r: Vec<f64> = gates(1).collect();
        let of_state: Vec<f64> = if self.layer.options().reset_first {
            let reset: Vec<f64> = r.iter().zip(last).map(|(r, h)| r * h).collect();
            product(&weights.state[2 * units * units..], &weights.state_bias[2 * units..], &reset)
        } else {
            self.state[2 * units..].iter().zip(&r).map(|(sum, r)| sum * r).collect()
        };
        let blend = |(unit, z): (usize, f64)| {
            let n = self.shaped(1, self.input[2 * units + unit] + of_state[unit]);
            (1.0 - z) * n + z * last[unit]
        };
        gates(0).enumerate().map(blend).collect()
    }
}

/// Runs a layer over `steps` x `batch` x `inputs` numbers. Empty `states` (hidden states, cell
/// states) mean zeros. `lengths` are the steps of each row; outputs after them are zeros.
pub fn run(
    layer: &Layer,
    batch: usize,
    input: &[f32],
    lengths: &[usize],
    states: [&[f32]; 2],
) -> OracleOutput {
    let inputs = layer.inputs();
    let units = layer.units();
    let width = layer.width();
    let steps = input.len() / (batch * inputs).max(1);
    let mut oracle = OracleOutput {
        outputs: vec![0.0; steps * batch * layer.outputs()],
        ..OracleOutput::default()
    };
    let from = |numbers: &[f32], width: usize, row: usize| -> Vec<f64> {
        let number = |unit| numbers.get(row * width + unit).map_or(0.0, |x| f64::from(*x));
        (0..width).map(number).collect()
    };
    for (direction, weights) in layer.weights().iter().enumerate() {
        for (row, length) in lengths.iter().enumerate() {
            let at = direction * batch + row;
            let mut h = from(states[0], width, at);
            let mut c = from(states[1], units, at);
            for t in 0..*length {
                let time = if layer.directions().is_back(direction) { length - 1 - t } else { t };
                let x = from(input, inputs, time * batch + row);
                let of_input = product(&weights.input, &weights.input_bias, &x);
                let of_state = product(&weights.state, &weights.state_bias, &h);
                let step = Step { layer, direction, input: &of_input, state: &of_state };
                h = match layer.cell() {
                    Cell::Lstm => {
                        c.iter_mut().enumerate().map(|(unit, c)| step.lstm(unit, c)).collect()
                    }
                    Cell::Gru => step.gru(weights, &h),
                    Cell::Rnn(_) => {
                        (0..units).map(|unit| step.shaped(0, step.sum(0, unit))).collect()
                    }
                };
                if let Some(projection) = layer.options().projections.get(direction) {
                    h = product(projection, &vec![0.0; width], &h);
                }
                let place = (time * batch + row) * layer.outputs() + direction * width;
                oracle.outputs[place..][..width].copy_from_slice(&h);
            }
            oracle.hidden.extend(h);
            oracle.cells.extend(c);
        }
    }
    oracle
}
