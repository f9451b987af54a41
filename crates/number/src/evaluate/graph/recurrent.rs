//! LSTM, GRU and RNN of ONNX: products by the tuned weights, all else in `f32` (SPEC A9).

use dyno_kernels::{Activation, Isa, Tanh};

use super::step::Trouble;
use super::target::Context;
use super::tensor::Tensor;

/// Which cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Lstm,
    /// With `linear_before_reset`, the reset takes a share of the product; else of the state before it.
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

    /// Gates of each product with the state. The new state of a GRU has its own, unless it is reset after it.
    pub fn products(self) -> &'static [usize] {
        match self {
            Self::Lstm => &[4],
            Self::Gru { linear_before_reset: true } => &[3],
            Self::Gru { linear_before_reset: false } => &[2, 1],
            Self::Rnn => &[1],
        }
    }

    /// Those of one direction, where a node says nothing.
    pub fn activations(self) -> &'static [Activation] {
        match self {
            Self::Lstm => &[Activation::Sigmoid, Activation::Tanh, Activation::Tanh],
            Self::Gru { .. } => &[Activation::Sigmoid, Activation::Tanh],
            Self::Rnn => &[Activation::Tanh],
        }
    }
}

/// A layer of cells. Weights of its targets are as ONNX has them: `W`, `R`, and the bias `B`.
#[derive(Debug)]
pub(super) struct Recurrent {
    pub cell: Cell,
    pub hidden: usize,
    /// Whether each direction goes from the last step to the first.
    pub backward: Vec<bool>,
    /// Of each direction.
    pub activations: Vec<Vec<Activation>>,
    pub inputs: usize,
    pub states: usize,
    pub bias: Option<usize>,
    /// What the gates of an LSTM see of its cells: weights in the order input, output, forget.
    pub peepholes: Option<usize>,
    /// Sums of gates are kept within this on both sides.
    pub clip: Option<f32>,
    /// An LSTM forgets as much as it takes in (`input_forget`).
    pub coupled: bool,
    /// Samples are the first axis, and not steps (`layout` 1).
    pub samples_first: bool,
}

/// Where it begins and how long samples are.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub lengths: Option<Tensor>,
    pub hidden: Option<Tensor>,
    pub cells: Option<Tensor>,
}

/// States of a direction: samples x units.
struct State {
    hidden: Vec<f32>,
    cells: Vec<f32>,
}

impl Recurrent {
    /// `Y`, `Y_h` and `Y_c` of steps x samples x inputs.
    ///
    /// # Errors
    /// What does not fit, or NaN.
    pub fn run(
        &self,
        x: &Tensor,
        given: &Given,
        context: &mut Context<'_>,
    ) -> Result<Vec<Tensor>, Trouble> {
        if !self.samples_first {
            return self.by_steps(x, given, context);
        }
        let turned = |of: &Option<Tensor>| of.as_ref().map(|of| of.transposed(&[1, 0, 2]));
        let given = Given {
            lengths: given.lengths.clone(),
            hidden: turned(&given.hidden).transpose()?,
            cells: turned(&given.cells).transpose()?,
        };
        let found = self.by_steps(&x.transposed(&[1, 0, 2])?, &given, context)?;
        let orders: [&[usize]; 3] = [&[2, 0, 1, 3], &[1, 0, 2], &[1, 0, 2]];
        let turned = found.iter().zip(orders).map(|(of, order)| Ok(of.transposed(order)?));
        turned.collect()
    }

    fn by_steps(
        &self,
        x: &Tensor,
        given: &Given,
        context: &mut Context<'_>,
    ) -> Result<Vec<Tensor>, Trouble> {
        let [steps, samples, _] = x.dims[..] else {
            return Err(format!("is fed {:?}, not steps, samples and numbers", x.dims).into());
        };
        let ways = self.backward.len();
        let wide = context.targets[self.inputs].stages[0].input.len();
        if x.dims[2] != wide {
            return Err(format!("is fed {} numbers a step, not {wide}", x.dims[2]).into());
        }
        let lengths = match &given.lengths {
            None => vec![steps; samples],
            Some(of) => of.values.iter().map(|n| *n as usize).collect(),
        };
        if lengths.len() != samples || lengths.iter().any(|n| *n > steps) {
            return Err(
                format!("is fed {samples} samples of {steps} steps, and other lengths").into()
            );
        }
        let size = samples * self.hidden;
        let first = |of: &Option<Tensor>| match of {
            None => Ok(vec![0.0; ways * size]),
            Some(of) if of.values.len() == ways * size => Ok(of.values.to_vec()),
            Some(of) => Err(format!("begins with a state of {:?}", of.dims)),
        };
        let (mut hidden, mut cells) = (first(&given.hidden)?, first(&given.cells)?);
        let mut all = vec![0.0; steps * ways * size];
        for way in 0..ways {
            let part = way * size..(way + 1) * size;
            let mut state = State {
                hidden: hidden[part.clone()].to_vec(),
                cells: cells[part.clone()].to_vec(),
            };
            let outputs = &mut all[..];
            self.direction(way, x, &lengths, &mut state, outputs, context)?;
            hidden[part.clone()].copy_from_slice(&state.hidden);
            cells[part].copy_from_slice(&state.cells);
        }
        let state = vec![ways, samples, self.hidden];
        Ok(vec![
            Tensor::new(vec![steps, ways, samples, self.hidden], all),
            Tensor::new(state.clone(), hidden),
            Tensor::new(state, cells),
        ])
    }

    fn direction(
        &self,
        way: usize,
        x: &Tensor,
        lengths: &[usize],
        state: &mut State,
        all: &mut [f32],
        context: &mut Context<'_>,
    ) -> Result<(), Trouble> {
        let (samples, hidden, ways) = (lengths.len(), self.hidden, self.backward.len());
        let wide = self.cell.gates() * hidden;
        // All directions are fed the same numbers.
        let fed = match way {
            0 => context.product(self.inputs, way, &x.values)?,
            _ => context.product_again(self.inputs, way, &x.values)?,
        };
        let biases = self.bias.map(|bias| {
            let all = &context.prepared[bias].weights;
            let (of_inputs, of_states) = all[way * 2 * wide..][..2 * wide].split_at(wide);
            (of_inputs.to_vec(), of_states.to_vec())
        });
        let (of_inputs, of_states) = biases.unwrap_or((vec![0.0; wide], vec![0.0; wide]));
        let longest = lengths.iter().copied().max().unwrap_or(0);
        for step in 0..longest {
            let time = |sample: usize| match self.backward[way] {
                _ if step >= lengths[sample] => None,
                true => Some(lengths[sample] - 1 - step),
                false => Some(step),
            };
            let mut gates = Vec::with_capacity(samples * wide);
            for sample in 0..samples {
                // Rows of samples that are over are not used.
                let row = time(sample).unwrap_or(0) * samples + sample;
                let fed = &fed[row * wide..][..wide];
                gates.extend(fed.iter().zip(&of_inputs).map(|(x, bias)| x + bias));
            }
            let next = self.step(way, &gates, &of_states, state, context)?;
            for sample in 0..samples {
                let Some(time) = time(sample) else { continue };
                let part = sample * hidden..(sample + 1) * hidden;
                let to = ((time * ways + way) * samples + sample) * hidden;
                all[to..to + hidden].copy_from_slice(&next.hidden[part.clone()]);
                state.hidden[part.clone()].copy_from_slice(&next.hidden[part.clone()]);
                state.cells[part.clone()].copy_from_slice(&next.cells[part]);
            }
        }
        Ok(())
    }

    /// The states after a step; `gates` are what inputs bring to it.
    fn step(
        &self,
        way: usize,
        gates: &[f32],
        bias: &[f32],
        state: &State,
        context: &mut Context<'_>,
    ) -> Result<State, Trouble> {
        let activations = &self.activations[way];
        let first = way * self.cell.products().len();
        let State { hidden, cells } = state;
        let sums = context.product(self.states, first, hidden)?;
        let mut next = State { hidden: hidden.clone(), cells: cells.clone() };
        match self.cell {
            Cell::Lstm => {
                let peepholes = self.peepholes.map(|of| {
                    let wide = 3 * self.hidden;
                    context.prepared[of].weights[way * wide..][..wide].to_vec()
                });
                self.lstm(activations, gates, (&sums, bias), peepholes.as_deref(), &mut next);
            }
            Cell::Rnn => {
                let sums = sums.iter().zip(bias.iter().cycle());
                let sums = gates.iter().zip(sums).map(|(fed, (sum, bias))| fed + sum + bias);
                next.hidden = sums.collect();
                self.shape(activations[0], &mut next.hidden);
            }
            Cell::Gru { .. } => self.gru(way, gates, (&sums, bias), &mut next.hidden, context)?,
        }
        Ok(next)
    }

    /// Gates stand in the order update, reset, new; so do `sums`, without the last where the state is reset
    /// before that product.
    fn gru(
        &self,
        way: usize,
        gates: &[f32],
        (sums, bias): (&[f32], &[f32]),
        hidden: &mut [f32],
        context: &mut Context<'_>,
    ) -> Result<(), Trouble> {
        let products = self.cell.products();
        let h = self.hidden;
        let (of_gates, of_new) = bias.split_at(2 * h);
        let mut shares = Vec::with_capacity(2 * hidden.len());
        let wide = products[0] * h;
        for (fed, sums) in gates.chunks_exact(3 * h).zip(sums.chunks_exact(wide)) {
            let sums = sums.iter().zip(of_gates);
            shares.extend(fed.iter().zip(sums).map(|(fed, (sum, bias))| fed + sum + bias));
        }
        self.shape(self.activations[way][0], &mut shares);
        // Update, then reset, of each sample.
        let shares = shares.chunks_exact(2 * h).map(|row| row.split_at(h));
        let mut new = hidden.to_vec();
        if self.cell == (Cell::Gru { linear_before_reset: true }) {
            let rows = new.chunks_exact_mut(h).zip(sums.chunks_exact(wide));
            for ((new, sums), (_, reset)) in rows.zip(shares.clone()) {
                let sums = sums[2 * h..].iter().zip(of_new);
                for ((to, (sum, bias)), reset) in new.iter_mut().zip(sums).zip(reset) {
                    *to = reset * (sum + bias);
                }
            }
        } else {
            for (new, (_, reset)) in new.chunks_exact_mut(h).zip(shares.clone()) {
                new.iter_mut().zip(reset).for_each(|(x, reset)| *x *= reset);
            }
            new = context.product(self.states, way * products.len() + 1, &new)?;
            for new in new.chunks_exact_mut(h) {
                new.iter_mut().zip(of_new).for_each(|(sum, bias)| *sum += bias);
            }
        }
        for (new, fed) in new.chunks_exact_mut(h).zip(gates.chunks_exact(3 * h)) {
            new.iter_mut().zip(&fed[2 * h..]).for_each(|(new, fed)| *new += fed);
        }
        self.shape(self.activations[way][1], &mut new);
        let rows = hidden.chunks_exact_mut(h).zip(new.chunks_exact(h));
        for ((to, new), (update, _)) in rows.zip(shares) {
            for ((to, new), update) in to.iter_mut().zip(new).zip(update) {
                *to = (1.0 - update) * new + update * *to;
            }
        }
        Ok(())
    }

    /// Each sum of a gate by itself, clipped before.
    fn shape(&self, activation: Activation, sums: &mut [f32]) {
        if let Some(most) = self.clip {
            sums.iter_mut().for_each(|sum| *sum = sum.max(-most).min(most));
        }
        apply(activation, sums);
    }

    /// Gates stand in the order input, output, forget, cell; what they see of cells in the order input,
    /// output, forget.
    fn lstm(
        &self,
        activations: &[Activation],
        gates: &[f32],
        (sums, bias): (&[f32], &[f32]),
        peepholes: Option<&[f32]>,
        next: &mut State,
    ) {
        let h = self.hidden;
        let rows = gates.chunks_exact(4 * h).zip(sums.chunks_exact(4 * h));
        let mut row = vec![0.0; 4 * h];
        let states = next.hidden.chunks_exact_mut(h).zip(next.cells.chunks_exact_mut(h));
        let see = |gate: &mut [f32], part: usize, cells: &[f32]| {
            let Some(weights) = peepholes else { return };
            let seen = weights[part * h..].iter().zip(cells);
            gate.iter_mut().zip(seen).for_each(|(sum, (weight, cell))| *sum += weight * cell);
        };
        for ((fed, sums), (hidden, cells)) in rows.zip(states) {
            for (to, ((fed, sum), bias)) in row.iter_mut().zip(fed.iter().zip(sums).zip(bias)) {
                *to = fed + sum + bias;
            }
            let (taken, rest) = row.split_at_mut(h);
            let (output, rest) = rest.split_at_mut(h);
            let (kept, new) = rest.split_at_mut(h);
            see(taken, 0, cells);
            self.shape(activations[0], taken);
            if self.coupled {
                kept.iter_mut().zip(&*taken).for_each(|(kept, taken)| *kept = 1.0 - taken);
            } else {
                see(kept, 2, cells);
                self.shape(activations[0], kept);
            }
            self.shape(activations[1], new);
            for (at, cell) in cells.iter_mut().enumerate() {
                *cell = kept[at] * *cell + taken[at] * new[at];
            }
            see(output, 1, cells);
            self.shape(activations[0], output);
            hidden.copy_from_slice(cells);
            apply(activations[2], hidden);
            hidden.iter_mut().zip(&*output).for_each(|(x, share)| *x *= share);
        }
    }
}

/// Each number by itself.
pub(super) fn apply(activation: Activation, numbers: &mut [f32]) {
    match activation {
        Activation::Sigmoid => Tanh::default().logistic(Isa::best(), numbers),
        Activation::Tanh => Tanh::default().tanh(Isa::best(), numbers),
        other => numbers.iter_mut().for_each(|x| *x = other.apply_scalar(*x)),
    }
}
