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

    /// Gates of each product with the state. The new state of a GRU has its own.
    pub fn products(self) -> &'static [usize] {
        match self {
            Self::Lstm => &[4],
            Self::Gru { .. } => &[2, 1],
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
        let fed = context.product(self.inputs, way, &x.values)?;
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
        let next = State { hidden: hidden.clone(), cells: cells.clone() };
        Ok(match self.cell {
            Cell::Lstm => self.lstm(activations, gates, (&sums, bias), next),
            Cell::Rnn => {
                let mut next = next;
                let sums = sums.iter().zip(bias.iter().cycle());
                let sums = gates.iter().zip(sums).map(|(fed, (sum, bias))| fed + sum + bias);
                next.hidden = sums.collect();
                apply(activations[0], &mut next.hidden);
                next
            }
            Cell::Gru { linear_before_reset } => {
                let mut next = next;
                let h = self.hidden;
                let (of_gates, of_new) = bias.split_at(2 * h);
                let mut shares = Vec::with_capacity(sums.len());
                for (fed, sums) in gates.chunks_exact(3 * h).zip(sums.chunks_exact(2 * h)) {
                    let sums = sums.iter().zip(of_gates);
                    shares.extend(fed.iter().zip(sums).map(|(fed, (sum, bias))| fed + sum + bias));
                }
                apply(activations[0], &mut shares);
                // Update, then reset, of each sample.
                let reset = |at: usize| shares[at / h * 2 * h + h + at % h];
                let update = |at: usize| shares[at / h * 2 * h + at % h];
                let mut new = if linear_before_reset {
                    let new = context.product(self.states, first + 1, hidden)?;
                    let of = |(at, sum): (usize, &f32)| reset(at) * (sum + of_new[at % h]);
                    new.iter().enumerate().map(of).collect::<Vec<_>>()
                } else {
                    let kept = hidden.iter().enumerate().map(|(at, x)| reset(at) * x);
                    let kept: Vec<f32> = kept.collect();
                    let new = context.product(self.states, first + 1, &kept)?;
                    new.iter().enumerate().map(|(at, sum)| sum + of_new[at % h]).collect()
                };
                for (at, new) in new.iter_mut().enumerate() {
                    *new += gates[at / h * 3 * h + 2 * h + at % h];
                }
                apply(activations[1], &mut new);
                for (at, to) in next.hidden.iter_mut().enumerate() {
                    let update = update(at);
                    *to = (1.0 - update) * new[at] + update * *to;
                }
                next
            }
        })
    }

    /// Gates stand in the order input, output, forget, cell.
    fn lstm(
        &self,
        activations: &[Activation],
        gates: &[f32],
        (sums, bias): (&[f32], &[f32]),
        mut next: State,
    ) -> State {
        let h = self.hidden;
        let rows = gates.chunks_exact(4 * h).zip(sums.chunks_exact(4 * h));
        let mut row = vec![0.0; 4 * h];
        let states = next.hidden.chunks_exact_mut(h).zip(next.cells.chunks_exact_mut(h));
        for ((fed, sums), (hidden, cells)) in rows.zip(states) {
            for (to, ((fed, sum), bias)) in row.iter_mut().zip(fed.iter().zip(sums).zip(bias)) {
                *to = fed + sum + bias;
            }
            let (shares, new) = row.split_at_mut(3 * h);
            apply(activations[0], shares);
            apply(activations[1], new);
            for (at, cell) in cells.iter_mut().enumerate() {
                *cell = shares[2 * h + at] * *cell + shares[at] * new[at];
            }
            hidden.copy_from_slice(cells);
            apply(activations[2], hidden);
            hidden.iter_mut().zip(&shares[h..]).for_each(|(x, share)| *x *= share);
        }
        next
    }
}

/// Each number by itself.
pub(super) fn apply(activation: Activation, numbers: &mut [f32]) {
    match activation {
        Activation::Sigmoid => Tanh::default().logistic(Isa::best(), numbers),
        Activation::Tanh => Tanh::default().tanh(Isa::best(), numbers),
        other => numbers.iter_mut().for_each(|x| *x = other.of(*x)),
    }
}
