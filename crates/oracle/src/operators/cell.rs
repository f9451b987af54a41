//! One step of a recurrent cell in one direction, by the equations of the standard.

use super::activation::{
    elu, hard_sigmoid, leaky_relu, sigmoid, softplus, softsign, thresholded_relu,
};
use super::arithmetic::{greater, limit};
use crate::fault::{Fault, fault};

/// An activation function with its parameters.
#[derive(Debug, Clone, Copy)]
pub(super) enum Activation {
    Relu,
    Tanh,
    Sigmoid,
    Softsign,
    Softplus,
    LeakyRelu(f64),
    ThresholdedRelu(f64),
    Elu(f64),
    HardSigmoid(f64, f64),
    Affine(f64, f64),
    ScaledTanh(f64, f64),
}

impl Activation {
    /// Reads functions by name. Each takes its parameters from the front of the lists.
    pub fn parse_all(
        names: &[String],
        alphas: &[f64],
        betas: &[f64],
    ) -> Result<Vec<Activation>, Fault> {
        let (mut alphas, mut betas) = (alphas.iter().copied(), betas.iter().copied());
        let mut functions = Vec::new();
        for name in names {
            let mut alpha = |default: Option<f32>| required(name, alphas.next(), default);
            let mut beta = |default: Option<f32>| required(name, betas.next(), default);
            functions.push(match name.as_str() {
                "Relu" => Activation::Relu,
                "Tanh" => Activation::Tanh,
                "Sigmoid" => Activation::Sigmoid,
                "Softsign" => Activation::Softsign,
                "Softplus" => Activation::Softplus,
                "LeakyRelu" => Activation::LeakyRelu(alpha(Some(0.01))?),
                "ThresholdedRelu" => Activation::ThresholdedRelu(alpha(Some(1.0))?),
                "Elu" => Activation::Elu(alpha(Some(1.0))?),
                "HardSigmoid" => Activation::HardSigmoid(alpha(Some(0.2))?, beta(Some(0.5))?),
                // No operator of opset 7 or later defines defaults for these two.
                "Affine" => Activation::Affine(alpha(None)?, beta(None)?),
                "ScaledTanh" => Activation::ScaledTanh(alpha(None)?, beta(None)?),
                _ => return fault(format!("activation {name:?} is not supported")),
            });
        }
        if alphas.next().is_some() || betas.next().is_some() {
            return fault("activation_alpha or activation_beta has more numbers than are used");
        }
        Ok(functions)
    }

    fn apply(self, x: f64) -> f64 {
        match self {
            Activation::Relu => greater(x, 0.0),
            Activation::Tanh => x.tanh(),
            Activation::Sigmoid => sigmoid(x),
            Activation::Softsign => softsign(x),
            Activation::Softplus => softplus(x),
            Activation::LeakyRelu(alpha) => leaky_relu(x, alpha),
            Activation::ThresholdedRelu(alpha) => thresholded_relu(x, alpha),
            Activation::Elu(alpha) => elu(x, alpha),
            Activation::HardSigmoid(alpha, beta) => hard_sigmoid(x, alpha, beta),
            Activation::Affine(alpha, beta) => alpha * x + beta,
            Activation::ScaledTanh(alpha, beta) => alpha * (beta * x).tanh(),
        }
    }
}

fn required(name: &str, given: Option<f64>, default: Option<f32>) -> Result<f64, Fault> {
    match given.or(default.map(f64::from)) {
        Some(value) => Ok(value),
        None => fault(format!("activation {name:?} needs activation_alpha and activation_beta")),
    }
}

/// Weights and settings of one direction.
pub(super) struct Direction<'a> {
    /// Rows of the input weights: those of the first gate, then those of the next.
    pub input_weights: &'a [f64],
    pub state_weights: &'a [f64],
    pub input_bias: &'a [f64],
    pub state_bias: &'a [f64],
    /// Weights from the cell state to the gates i, o and f.
    pub peepholes: &'a [f64],
    pub activations: &'a [Activation],
    pub hidden: usize,
    pub clip: Option<f64>,
    pub couples_forget: bool,
    pub resets_after: bool,
}

impl Direction<'_> {
    /// Returns Xt · W^T + Wb of one unit of a gate.
    fn input_sum(&self, gate: usize, unit: usize, x: &[f64]) -> f64 {
        let row = gate * self.hidden + unit;
        dot(&self.input_weights[row * x.len()..], x) + self.input_bias[row]
    }

    /// Returns H · R^T + Rb of one unit of a gate.
    fn state_sum(&self, gate: usize, unit: usize, h: &[f64]) -> f64 {
        let row = gate * self.hidden + unit;
        dot(&self.state_weights[row * self.hidden..], h) + self.state_bias[row]
    }

    /// Applies an activation function; clip limits what goes into it.
    fn activate(&self, number: usize, x: f64) -> f64 {
        let clip = self.clip.unwrap_or(f64::INFINITY);
        self.activations[number].apply(limit(x, -clip, clip))
    }

    /// Returns Ht = f(Xt · W^T + Ht-1 · R^T + Wb + Rb).
    pub fn rnn(&self, x: &[f64], h: &[f64]) -> Vec<f64> {
        let sum = |unit| self.input_sum(0, unit, x) + self.state_sum(0, unit, h);
        (0..self.hidden).map(|unit| self.activate(0, sum(unit))).collect()
    }

    /// Returns Ht of a GRU, whose gates are z, r and h.
    pub fn gru(&self, x: &[f64], h: &[f64]) -> Vec<f64> {
        let units = 0..self.hidden;
        let gate = |gate: usize, unit: usize| {
            self.activate(0, self.input_sum(gate, unit, x) + self.state_sum(gate, unit, h))
        };
        let reset: Vec<f64> = units.clone().map(|unit| gate(1, unit)).collect();
        let reset_state: Vec<f64> = reset.iter().zip(h).map(|(r, h)| r * h).collect();
        units
            .map(|unit| {
                let update = gate(0, unit);
                let state = if self.resets_after {
                    reset[unit] * self.state_sum(2, unit, h)
                } else {
                    self.state_sum(2, unit, &reset_state)
                };
                let candidate = self.activate(1, self.input_sum(2, unit, x) + state);
                (1.0 - update) * candidate + update * h[unit]
            })
            .collect()
    }

    /// Returns Ht and Ct of an LSTM, whose gates are i, o, f and c.
    pub fn lstm(&self, x: &[f64], h: &[f64], c: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let one = |unit: usize| {
            let sum = |gate| self.input_sum(gate, unit, x) + self.state_sum(gate, unit, h);
            let peephole =
                |gate: usize, cell: f64| self.peepholes[gate * self.hidden + unit] * cell;
            let input = self.activate(0, sum(0) + peephole(0, c[unit]));
            let forget = if self.couples_forget {
                1.0 - input
            } else {
                self.activate(0, sum(2) + peephole(2, c[unit]))
            };
            let cell = forget * c[unit] + input * self.activate(1, sum(3));
            let output = self.activate(0, sum(1) + peephole(1, cell));
            // The standard has clip limit what goes into activations. Neither ONNX Runtime, which
            // introduced the operator, nor any other engine does so for the cell state.
            (output * self.activations[2].apply(cell), cell)
        };
        (0..self.hidden).map(one).unzip()
    }
}

/// Returns the product of `x` with the first numbers of `row`.
fn dot(row: &[f64], x: &[f64]) -> f64 {
    row.iter().zip(x).map(|(a, b)| a * b).sum()
}
