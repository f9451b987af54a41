//! Layers in `f64`, loop by loop, as the definitions say: what engines are compared with.

use crate::layer::{Cell, Layer};

/// States of all directions: `directions` x `batch` x `units`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Oracle {
    /// Outputs: `steps` x `batch` x (`directions` x `units`).
    pub outputs: Vec<f64>,
    /// Hidden states after the last step.
    pub hidden: Vec<f64>,
    /// Cells' states after the last step; zeros where the cell has none.
    pub cells: Vec<f64>,
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Runs a layer over `steps` x `batch` x `inputs` numbers from the given states, which may be
/// empty for zeros. `lengths` are the steps of each row; outputs after them are zeros.
#[must_use]
pub fn run(
    layer: &Layer,
    batch: usize,
    input: &[f32],
    lengths: &[usize],
    states: [&[f32]; 2],
) -> Oracle {
    let (inputs, units, cell) = (layer.inputs(), layer.units(), layer.cell());
    let (steps, width) = (input.len() / (batch * inputs).max(1), layer.outputs());
    let mut oracle = Oracle { outputs: vec![0.0; steps * batch * width], ..Oracle::default() };
    for (direction, weights) in layer.weights().iter().enumerate() {
        for (row, length) in lengths.iter().enumerate() {
            let at = (direction * batch + row) * units;
            let state = |numbers: &[f32]| -> Vec<f64> {
                (0..units)
                    .map(|unit| numbers.get(at + unit).map_or(0.0, |x| f64::from(*x)))
                    .collect()
            };
            let (mut h, mut c) = (state(states[0]), state(states[1]));
            for t in 0..*length {
                let time = if layer.directions().is_back(direction) { length - 1 - t } else { t };
                let x = &input[(time * batch + row) * inputs..][..inputs];
                let product = |weights: &[f32],
                               bias: &[f32],
                               output: usize,
                               x: &mut dyn Iterator<Item = f64>| {
                    let k = weights.len() / bias.len();
                    let row = &weights[output * k..][..k];
                    f64::from(bias[output])
                        + row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum::<f64>()
                };
                let of_input = |gate: usize, unit: usize| {
                    let x = &mut x.iter().map(|x| f64::from(*x));
                    product(&weights.input, &weights.input_bias, gate * units + unit, x)
                };
                let of_state = |gate: usize, unit: usize| {
                    let h = &mut h.iter().copied();
                    product(&weights.state, &weights.state_bias, gate * units + unit, h)
                };
                let sum = |gate, unit| of_input(gate, unit) + of_state(gate, unit);
                let next = (0..units).map(|unit| match cell {
                    Cell::Lstm => {
                        let [i, f, o] = [0, 1, 3].map(|gate| logistic(sum(gate, unit)));
                        c[unit] = f * c[unit] + i * sum(2, unit).tanh();
                        o * c[unit].tanh()
                    }
                    Cell::Gru => {
                        let [z, r] = [0, 1].map(|gate| logistic(sum(gate, unit)));
                        let n = (of_input(2, unit) + r * of_state(2, unit)).tanh();
                        (1.0 - z) * n + z * h[unit]
                    }
                    Cell::Rnn(activation) => f64::from(activation.of(sum(0, unit) as f32)),
                });
                let next: Vec<f64> = next.collect();
                h = next;
                let place = (time * batch + row) * width + direction * units;
                oracle.outputs[place..][..units].copy_from_slice(&h);
            }
            oracle.hidden.extend(h);
            oracle.cells.extend(c);
        }
    }
    oracle
}
