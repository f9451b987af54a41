//! Recurrent layers: cell, sizes, weights and options.
//!
//! ```
//! use dyno_rnn::{Cell, Directions, Layer, Weights};
//!
//! let weights = Weights {
//!     input: vec![0.1; 4 * 16 * 8],
//!     state: vec![0.1; 4 * 16 * 16],
//!     input_bias: vec![0.0; 4 * 16],
//!     state_bias: vec![0.0; 4 * 16],
//! };
//! let layer = Layer::new(Cell::Lstm, 8, 16, Directions::Forward, vec![weights])?;
//! assert_eq!((layer.inputs(), layer.outputs()), (8, 16));
//! # Ok::<(), dyno_rnn::LayerError>(())
//! ```

use dyno_kernels::Activation;
use thiserror::Error;

/// A recurrent cell. Gates have the names used in most papers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    /// Gates i, f, g, o: `c = f c + i g`, `h = o tanh(c)`.
    Lstm,
    /// Gates z, r, n: `h = (1 - z) n + z h`, where r acts on the product of n with the state
    /// (PyTorch, Keras' `reset_after`, ONNX' `linear_before_reset = 1`).
    Gru,
    /// A single gate.
    Rnn(Activation),
}

impl Cell {
    /// Number of gates, which is the number of weight rows per unit.
    pub fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
            Self::Rnn(_) => 1,
        }
    }
}

/// Direction in which a layer reads a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directions {
    /// From the first step to the last.
    Forward,
    /// From the last step to the first.
    Backward,
    /// Both; the outputs of the backward direction follow those of the forward direction.
    Both,
}

impl Directions {
    /// Number of directions: 1 or 2.
    pub fn count(self) -> usize {
        if self == Self::Both { 2 } else { 1 }
    }

    /// Whether direction `index` reads backward.
    pub fn is_back(self, index: usize) -> bool {
        self == Self::Backward || index == 1
    }
}

/// Weights of one direction, row-major, gate by gate in the order of [`Cell`].
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// gates x units x inputs.
    pub input: Vec<f32>,
    /// gates x units x units, or gates x units x [`Layer::width`] with a projection.
    pub state: Vec<f32>,
    /// gates x units.
    pub input_bias: Vec<f32>,
    /// gates x units; in a GRU, the bias of n is multiplied by the reset gate.
    pub state_bias: Vec<f32>,
}

/// Optional features of a cell, as ONNX defines them. The default has none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CellOptions {
    /// Activations f, g and h of each direction, with the names of ONNX: for an LSTM those of the
    /// gates, of the cell's input and of its output; for a GRU f and g only; for an RNN f only. If
    /// empty, those of [`Cell`].
    pub activations: Vec<[Activation; 3]>,
    /// Limit on the absolute value of a gate's sum before its activation.
    pub clip: Option<f32>,
    /// LSTM only: f = 1 - i, ignoring the weights of f (`input_forget` in ONNX).
    pub coupled: bool,
    /// GRU only: r is applied to the state before its product with n (`linear_before_reset = 0` in
    /// ONNX).
    pub reset_first: bool,
    /// LSTM only: weights of the cell state in gates i, f and o of each direction, 3 x units. Empty
    /// without peepholes.
    pub peepholes: Vec<Vec<f32>>,
    /// LSTM only: projection of the cells' outputs to the hidden state for each direction,
    /// projected x units (LSTMP of Sak, Senior and Beaufays; `proj_size` in PyTorch). Empty without
    /// projection.
    pub projections: Vec<Vec<f32>>,
}

/// A recurrent layer with its weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    cell: Cell,
    inputs: usize,
    units: usize,
    directions: Directions,
    weights: Vec<Weights>,
    options: CellOptions,
}

/// Error of weights or options whose sizes do not fit the layer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected {expected} {what}, found {found}")]
pub struct LayerError {
    /// Description of the numbers.
    pub what: &'static str,
    /// Expected count.
    pub expected: usize,
    /// Count found.
    pub found: usize,
}

impl Layer {
    /// Returns a layer of `units` units over `inputs` numbers per step, with the weights of each
    /// direction.
    ///
    /// # Errors
    /// A size is 0 or the weights do not fit.
    pub fn new(
        cell: Cell,
        inputs: usize,
        units: usize,
        directions: Directions,
        weights: Vec<Weights>,
    ) -> Result<Self, LayerError> {
        Self::with_options(cell, inputs, units, directions, weights, CellOptions::default())
    }

    /// Returns a layer whose cells have options. The weights of the state are gates x units x
    /// [`Layer::width`].
    ///
    /// # Errors
    /// A size is 0, the weights do not fit, or the cell does not support an option.
    pub fn with_options(
        cell: Cell,
        inputs: usize,
        units: usize,
        directions: Directions,
        weights: Vec<Weights>,
        options: CellOptions,
    ) -> Result<Self, LayerError> {
        let outputs = cell.gates() * units;
        let check = |what, expected, found| {
            if expected == found { Ok(()) } else { Err(LayerError { what, expected, found }) }
        };
        check("inputs or more", 1, inputs.min(1))?;
        check("units or more", 1, units.min(1))?;
        check("directions with weights", directions.count(), weights.len())?;
        let allowed = |what, cells: Cell, given: usize| {
            let fits = std::mem::discriminant(&cells) == std::mem::discriminant(&cell);
            check(what, if fits && given > 0 { directions.count() } else { 0 }, given)
        };
        let given = options.activations.len();
        check(
            "directions with activations",
            if given > 0 { directions.count() } else { 0 },
            given,
        )?;
        allowed("directions with peepholes", Cell::Lstm, options.peepholes.len())?;
        allowed("directions with projections", Cell::Lstm, options.projections.len())?;
        check("gates coupled", 0, usize::from(options.coupled && cell != Cell::Lstm))?;
        check(
            "gates that reset the state",
            0,
            usize::from(options.reset_first && cell != Cell::Gru),
        )?;
        for peepholes in &options.peepholes {
            check("peepholes", 3 * units, peepholes.len())?;
        }
        let width = match options.projections.first() {
            Some(first) => first.len() / units.max(1),
            None => units,
        };
        for projection in &options.projections {
            check("weights of the projection", width.max(1) * units, projection.len())?;
        }
        for weights_of_direction in &weights {
            check("weights of the input", outputs * inputs, weights_of_direction.input.len())?;
            check("weights of the state", outputs * width, weights_of_direction.state.len())?;
            check("biases of the input", outputs, weights_of_direction.input_bias.len())?;
            check("biases of the state", outputs, weights_of_direction.state_bias.len())?;
        }
        Ok(Self { cell, inputs, units, directions, weights, options })
    }

    /// The cell.
    pub fn cell(&self) -> Cell {
        self.cell
    }

    /// Numbers in the input of one step.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Units of each direction.
    pub fn units(&self) -> usize {
        self.units
    }

    /// Numbers in the hidden state of one direction: the units, or their projection.
    pub fn width(&self) -> usize {
        self.options.projections.first().map_or(self.units, |first| first.len() / self.units.max(1))
    }

    /// Numbers in the output of one step.
    pub fn outputs(&self) -> usize {
        self.width() * self.directions.count()
    }

    /// Options of the cells.
    pub fn options(&self) -> &CellOptions {
        &self.options
    }

    /// Whether the cells have no options.
    pub fn is_plain(&self) -> bool {
        self.options == CellOptions::default()
    }

    /// Activations f, g and h of a direction.
    pub fn activations(&self, direction: usize) -> [Activation; 3] {
        let own = match self.cell {
            Cell::Lstm | Cell::Gru => [Activation::Sigmoid, Activation::Tanh, Activation::Tanh],
            Cell::Rnn(activation) => [activation; 3],
        };
        self.options.activations.get(direction).copied().unwrap_or(own)
    }

    /// Returns a forward layer with one direction's sizes and options, without weights: a plan for
    /// sequences that the caller has already reversed.
    pub(crate) fn alone(&self, direction: usize) -> Self {
        let one = |options: &[Vec<f32>]| options.get(direction).cloned().into_iter().collect();
        let options = CellOptions {
            activations: self.options.activations.get(direction).copied().into_iter().collect(),
            peepholes: one(&self.options.peepholes),
            projections: one(&self.options.projections),
            ..self.options
        };
        let directions = Directions::Forward;
        Self { directions, weights: Vec::new(), options, ..*self }
    }

    /// Returns a layer with the same sizes and options, without weights: a plan for packed weights.
    pub(crate) fn without_weights(&self) -> Self {
        Self { weights: Vec::new(), options: self.options.clone(), ..*self }
    }

    /// Direction in which the layer reads.
    pub fn directions(&self) -> Directions {
        self.directions
    }

    /// Weights of each direction.
    pub fn weights(&self) -> &[Weights] {
        &self.weights
    }
}
