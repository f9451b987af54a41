//! LSTM, GRU and RNN of ONNX. Products use the tuned weights; everything else is `f32` (SPEC A9).

use dyno_kernels::{Activation, Isa, Tanh};

use super::super::stage::limited;
use super::step::StepError;
use super::target::Context;
use super::tensor::{Tensor, zeros};

/// Kind of cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Lstm,
    /// With `linear_before_reset`, the reset gate scales the product; otherwise it scales the state
    /// before the product.
    Gru {
        linear_before_reset: bool,
    },
    Rnn,
}

impl Cell {
    pub fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru { .. } => 3,
            Self::Rnn => 1,
        }
    }

    /// Returns the number of gates in each product with the state. The new state of a GRU is a
    /// product of its own if the state is reset before it.
    pub fn products(self) -> &'static [usize] {
        match self {
            Self::Lstm => &[4],
            Self::Gru { linear_before_reset: true } => &[3],
            Self::Gru { linear_before_reset: false } => &[2, 1],
            Self::Rnn => &[1],
        }
    }

    /// Returns the default activations of one direction.
    pub fn activations(self) -> &'static [Activation] {
        match self {
            Self::Lstm => &[Activation::Sigmoid, Activation::Tanh, Activation::Tanh],
            Self::Gru { .. } => &[Activation::Sigmoid, Activation::Tanh],
            Self::Rnn => &[Activation::Tanh],
        }
    }
}

/// A recurrent layer. Weights of its targets are laid out as in ONNX: `W`, `R` and the bias `B`.
#[derive(Debug)]
pub(super) struct RecurrentLayer {
    pub cell: Cell,
    pub hidden: usize,
    /// For each direction, whether it runs from the last step to the first.
    pub backward: Vec<bool>,
    /// Activations of each direction.
    pub activations: Vec<Vec<Activation>>,
    pub inputs: usize,
    pub states: usize,
    pub bias: Option<usize>,
    /// Target with the peephole weights of an LSTM, in the order input, output, forget.
    pub peepholes: Option<usize>,
    /// Sums of gates are limited to this magnitude.
    pub clip: Option<f32>,
    /// Whether the forget gate of an LSTM is one minus its input gate (`input_forget`).
    pub coupled: bool,
    /// Whether samples, and not steps, are the first axis (`layout` 1).
    pub samples_first: bool,
}

/// Lengths of the samples and initial states.
#[derive(Debug, Default)]
pub(super) struct InitialStates {
    pub lengths: Option<Tensor>,
    pub hidden: Option<Tensor>,
    pub cells: Option<Tensor>,
}

/// States of a direction: samples x units.
struct State {
    hidden: Vec<f32>,
    cells: Vec<f32>,
}

/// Product of the state with the recurrent weights, and the bias to add to it.
#[derive(Clone, Copy)]
struct StateProduct<'a> {
    sums: &'a [f32],
    bias: &'a [f32],
}

impl RecurrentLayer {
    /// Computes `Y`, `Y_h` and `Y_c` from steps x samples x inputs.
    ///
    /// # Errors
    /// An input does not fit, or a value is NaN.
    pub fn run(
        &self,
        x: &Tensor,
        given: &InitialStates,
        context: &mut Context<'_>,
    ) -> Result<Vec<Tensor>, StepError> {
        if !self.samples_first {
            return self.by_steps(x, given, context);
        }
        let turned =
            |state: &Option<Tensor>| state.as_ref().map(|state| state.transposed(&[1, 0, 2]));
        let given = InitialStates {
            lengths: given.lengths.clone(),
            hidden: turned(&given.hidden).transpose()?,
            cells: turned(&given.cells).transpose()?,
        };
        let found = self.by_steps(&x.transposed(&[1, 0, 2])?, &given, context)?;
        let orders: [&[usize]; 3] = [&[2, 0, 1, 3], &[1, 0, 2], &[1, 0, 2]];
        let turned = found.iter().zip(orders).map(|(output, order)| Ok(output.transposed(order)?));
        turned.collect()
    }

    fn by_steps(
        &self,
        x: &Tensor,
        given: &InitialStates,
        context: &mut Context<'_>,
    ) -> Result<Vec<Tensor>, StepError> {
        let [steps, samples, _] = x.dims[..] else {
            return Err(format!("is fed {:?}, not steps, samples and numbers", x.dims).into());
        };
        let directions = self.backward.len();
        let wide = context.targets[self.inputs].stages[0].input.len();
        if x.dims[2] != wide {
            return Err(format!("is fed {} numbers a step, not {wide}", x.dims[2]).into());
        }
        let lengths = match &given.lengths {
            None => vec![steps; samples],
            Some(lengths) => lengths.values.iter().map(|n| *n as usize).collect(),
        };
        if lengths.len() != samples || lengths.iter().any(|n| *n > steps) {
            return Err(
                format!("is fed {samples} samples of {steps} steps, and other lengths").into()
            );
        }
        let size = samples * self.hidden;
        let first = |state: &Option<Tensor>| match state {
            None => Ok(vec![0.0; directions * size]),
            Some(state) if state.values.len() == directions * size => Ok(state.values.to_vec()),
            Some(state) => Err(format!("begins with a state of {:?}", state.dims)),
        };
        let (mut hidden, mut cells) = (first(&given.hidden)?, first(&given.cells)?);
        let mut all = zeros(&[steps, directions, size])?;
        for direction in 0..directions {
            let part = direction * size..(direction + 1) * size;
            let mut state = State {
                hidden: hidden[part.clone()].to_vec(),
                cells: cells[part.clone()].to_vec(),
            };
            let outputs = &mut all[..];
            self.run_direction(direction, x, &lengths, &mut state, outputs, context)?;
            hidden[part.clone()].copy_from_slice(&state.hidden);
            cells[part].copy_from_slice(&state.cells);
        }
        let state = vec![directions, samples, self.hidden];
        Ok(vec![
            Tensor::new(vec![steps, directions, samples, self.hidden], all),
            Tensor::new(state.clone(), hidden),
            Tensor::new(state, cells),
        ])
    }

    fn run_direction(
        &self,
        direction: usize,
        x: &Tensor,
        lengths: &[usize],
        state: &mut State,
        all: &mut [f32],
        context: &mut Context<'_>,
    ) -> Result<(), StepError> {
        let samples = lengths.len();
        let hidden = self.hidden;
        let directions = self.backward.len();
        let wide = self.cell.gates() * hidden;
        // All directions have equal inputs, which count once in statistics.
        let fed = match direction {
            0 => context.product(self.inputs, direction, &x.values)?,
            _ => context.product_again(self.inputs, direction, &x.values)?,
        };
        let biases = self.bias.map(|bias| {
            let all = &context.prepared[bias].weights;
            let (input_bias, state_bias) = all[direction * 2 * wide..][..2 * wide].split_at(wide);
            (input_bias.to_vec(), state_bias.to_vec())
        });
        let (input_bias, state_bias) = biases.unwrap_or((vec![0.0; wide], vec![0.0; wide]));
        let longest = lengths.iter().copied().max().unwrap_or(0);
        for step in 0..longest {
            let time = |sample: usize| {
                let last = lengths[sample].checked_sub(1 + step)?;
                Some(if self.backward[direction] { last } else { step })
            };
            let mut gates = Vec::with_capacity(samples * wide);
            for sample in 0..samples {
                // Rows of samples that have ended are not used.
                let row = time(sample).unwrap_or(0) * samples + sample;
                let fed = &fed[row * wide..][..wide];
                gates.extend(fed.iter().zip(&input_bias).map(|(x, bias)| x + bias));
            }
            let next = self.step(direction, &gates, &state_bias, state, context)?;
            for sample in 0..samples {
                let Some(time) = time(sample) else { continue };
                let part = sample * hidden..(sample + 1) * hidden;
                let to = ((time * directions + direction) * samples + sample) * hidden;
                all[to..to + hidden].copy_from_slice(&next.hidden[part.clone()]);
                state.hidden[part.clone()].copy_from_slice(&next.hidden[part.clone()]);
                state.cells[part.clone()].copy_from_slice(&next.cells[part]);
            }
        }
        Ok(())
    }

    /// Returns the states after a step; `gates` are the products with its input.
    fn step(
        &self,
        direction: usize,
        gates: &[f32],
        bias: &[f32],
        state: &State,
        context: &mut Context<'_>,
    ) -> Result<State, StepError> {
        let activations = &self.activations[direction];
        let first = direction * self.cell.products().len();
        let State { hidden, cells } = state;
        let sums = context.product(self.states, first, hidden)?;
        let recurrent = StateProduct { sums: &sums, bias };
        let mut next = State { hidden: hidden.clone(), cells: cells.clone() };
        match self.cell {
            Cell::Lstm => {
                let peepholes = self.peepholes.map(|peepholes| {
                    let wide = 3 * self.hidden;
                    context.prepared[peepholes].weights[direction * wide..][..wide].to_vec()
                });
                self.lstm(activations, gates, recurrent, peepholes.as_deref(), &mut next);
            }
            Cell::Rnn => {
                let sums = sums.iter().zip(bias.iter().cycle());
                let sums = gates.iter().zip(sums).map(|(fed, (sum, bias))| fed + sum + bias);
                next.hidden = sums.collect();
                self.shape(activations[0], &mut next.hidden);
            }
            Cell::Gru { .. } => self.gru(direction, gates, recurrent, &mut next.hidden, context)?,
        }
        Ok(next)
    }

    /// Computes the states of a GRU. Gates have the order update, reset, new. `recurrent.sums` has
    /// the same order, without the last gate if the state is reset before its product.
    fn gru(
        &self,
        direction: usize,
        gates: &[f32],
        recurrent: StateProduct<'_>,
        hidden: &mut [f32],
        context: &mut Context<'_>,
    ) -> Result<(), StepError> {
        let StateProduct { sums, bias } = recurrent;
        let products = self.cell.products();
        let h = self.hidden;
        let (gate_bias, new_bias) = bias.split_at(2 * h);
        let mut shares = Vec::with_capacity(2 * hidden.len());
        let wide = products[0] * h;
        for (fed, sums) in gates.chunks_exact(3 * h).zip(sums.chunks_exact(wide)) {
            let sums = sums.iter().zip(gate_bias);
            shares.extend(fed.iter().zip(sums).map(|(fed, (sum, bias))| fed + sum + bias));
        }
        self.shape(self.activations[direction][0], &mut shares);
        // Update and reset of each sample.
        let shares = shares.chunks_exact(2 * h).map(|row| row.split_at(h));
        let mut new = hidden.to_vec();
        if self.cell == (Cell::Gru { linear_before_reset: true }) {
            let rows = new.chunks_exact_mut(h).zip(sums.chunks_exact(wide));
            for ((new, sums), (_, reset)) in rows.zip(shares.clone()) {
                let sums = sums[2 * h..].iter().zip(new_bias);
                for ((to, (sum, bias)), reset) in new.iter_mut().zip(sums).zip(reset) {
                    *to = reset * (sum + bias);
                }
            }
        } else {
            for (new, (_, reset)) in new.chunks_exact_mut(h).zip(shares.clone()) {
                new.iter_mut().zip(reset).for_each(|(x, reset)| *x *= reset);
            }
            new = context.product(self.states, direction * products.len() + 1, &new)?;
            for new in new.chunks_exact_mut(h) {
                new.iter_mut().zip(new_bias).for_each(|(sum, bias)| *sum += bias);
            }
        }
        for (new, fed) in new.chunks_exact_mut(h).zip(gates.chunks_exact(3 * h)) {
            new.iter_mut().zip(&fed[2 * h..]).for_each(|(new, fed)| *new += fed);
        }
        self.shape(self.activations[direction][1], &mut new);
        let rows = hidden.chunks_exact_mut(h).zip(new.chunks_exact(h));
        for ((to, new), (update, _)) in rows.zip(shares) {
            for ((to, new), update) in to.iter_mut().zip(new).zip(update) {
                *to = (1.0 - update) * new + update * *to;
            }
        }
        Ok(())
    }

    /// Clips sums of gates, and applies the activation to each.
    fn shape(&self, activation: Activation, sums: &mut [f32]) {
        if let Some(most) = self.clip {
            sums.iter_mut().for_each(|sum| *sum = limited(*sum, -most, most));
        }
        apply(activation, sums);
    }

    /// Computes the states of an LSTM. Gates have the order input, output, forget, cell; peepholes
    /// have the order input, output, forget.
    fn lstm(
        &self,
        activations: &[Activation],
        gates: &[f32],
        recurrent: StateProduct<'_>,
        peepholes: Option<&[f32]>,
        next: &mut State,
    ) {
        let StateProduct { sums, bias } = recurrent;
        let h = self.hidden;
        let rows = gates.chunks_exact(4 * h).zip(sums.chunks_exact(4 * h));
        let mut row = vec![0.0; 4 * h];
        let states = next.hidden.chunks_exact_mut(h).zip(next.cells.chunks_exact_mut(h));
        let add_peephole = |gate: &mut [f32], part: usize, cells: &[f32]| {
            let Some(weights) = peepholes else { return };
            let products = weights[part * h..].iter().zip(cells);
            gate.iter_mut().zip(products).for_each(|(sum, (weight, cell))| *sum += weight * cell);
        };
        for ((fed, sums), (hidden, cells)) in rows.zip(states) {
            for (to, ((fed, sum), bias)) in row.iter_mut().zip(fed.iter().zip(sums).zip(bias)) {
                *to = fed + sum + bias;
            }
            let (input, rest) = row.split_at_mut(h);
            let (output, rest) = rest.split_at_mut(h);
            let (forget, new) = rest.split_at_mut(h);
            add_peephole(input, 0, cells);
            self.shape(activations[0], input);
            if self.coupled {
                forget.iter_mut().zip(&*input).for_each(|(forget, input)| *forget = 1.0 - input);
            } else {
                add_peephole(forget, 2, cells);
                self.shape(activations[0], forget);
            }
            self.shape(activations[1], new);
            for (at, cell) in cells.iter_mut().enumerate() {
                *cell = forget[at] * *cell + input[at] * new[at];
            }
            add_peephole(output, 1, cells);
            self.shape(activations[0], output);
            hidden.copy_from_slice(cells);
            apply(activations[2], hidden);
            hidden.iter_mut().zip(&*output).for_each(|(x, share)| *x *= share);
        }
    }
}

/// Applies an activation to each number.
pub(super) fn apply(activation: Activation, numbers: &mut [f32]) {
    match activation {
        Activation::Sigmoid => Tanh::default().logistic(Isa::best(), numbers),
        Activation::Tanh => Tanh::default().tanh(Isa::best(), numbers),
        other => numbers.iter_mut().for_each(|x| *x = other.apply_scalar(*x)),
    }
}
