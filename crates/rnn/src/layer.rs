//! Layers: what is computed, whoever trained it and however.

use std::fmt;

use dyno_kernels::Activation;

/// A recurrent cell. Names of gates are those of most papers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    /// Gates i, f, g, o: `c = f c + i g`, `h = o tanh(c)`.
    Lstm,
    /// Gates z, r, n: `h = (1 - z) n + z h`, where r acts on the product of n with the state
    /// (PyTorch, Keras' `reset_after`, ONNX' `linear_before_reset = 1`).
    Gru,
    /// One gate.
    Rnn(Activation),
}

impl Cell {
    /// Rows of weights of a unit.
    #[must_use]
    pub fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
            Self::Rnn(_) => 1,
        }
    }
}

/// Which way a layer reads a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directions {
    /// From the first step to the last.
    Forward,
    /// From the last to the first.
    Backward,
    /// Both; outputs of the second stand behind those of the first.
    Both,
}

impl Directions {
    /// One or two.
    #[must_use]
    pub fn count(self) -> usize {
        if self == Self::Both { 2 } else { 1 }
    }

    /// Whether direction `index` reads backwards.
    #[must_use]
    pub fn is_back(self, index: usize) -> bool {
        self == Self::Backward || index == 1
    }
}

/// Weights of one direction, gate after gate in the order of [`Cell`], row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// gates x units x inputs.
    pub input: Vec<f32>,
    /// gates x units x units.
    pub state: Vec<f32>,
    /// gates x units.
    pub input_bias: Vec<f32>,
    /// gates x units: of a GRU's n this one is under the reset gate.
    pub state_bias: Vec<f32>,
}

/// A layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    cell: Cell,
    inputs: usize,
    units: usize,
    directions: Directions,
    weights: Vec<Weights>,
}

/// Weights that are not those of a layer of this size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerError {
    /// Which.
    pub what: &'static str,
    /// Numbers that there should be.
    pub expected: usize,
    /// Numbers that there are.
    pub found: usize,
}

impl fmt::Display for LayerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {} {}, found {}", self.expected, self.what, self.found)
    }
}

impl std::error::Error for LayerError {}

impl Layer {
    /// A layer of `units` over `inputs` numbers a step, with the weights of each direction.
    ///
    /// # Errors
    /// Weights do not fit.
    pub fn new(
        cell: Cell,
        inputs: usize,
        units: usize,
        directions: Directions,
        weights: Vec<Weights>,
    ) -> Result<Self, LayerError> {
        let outputs = cell.gates() * units;
        let check = |what, expected, found| {
            if expected == found { Ok(()) } else { Err(LayerError { what, expected, found }) }
        };
        check("directions with weights", directions.count(), weights.len())?;
        for of in &weights {
            check("weights of the input", outputs * inputs, of.input.len())?;
            check("weights of the state", outputs * units, of.state.len())?;
            check("biases of the input", outputs, of.input_bias.len())?;
            check("biases of the state", outputs, of.state_bias.len())?;
        }
        Ok(Self { cell, inputs, units, directions, weights })
    }

    /// What a unit computes.
    #[must_use]
    pub fn cell(&self) -> Cell {
        self.cell
    }

    /// Numbers of a step's input.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Units of each direction.
    #[must_use]
    pub fn units(&self) -> usize {
        self.units
    }

    /// Numbers of a step's output.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.units * self.directions.count()
    }

    /// Which way it reads.
    #[must_use]
    pub fn directions(&self) -> Directions {
        self.directions
    }

    /// Of each direction.
    #[must_use]
    pub fn weights(&self) -> &[Weights] {
        &self.weights
    }
}
