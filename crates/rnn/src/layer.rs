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
    /// gates x units x units, or what these are projected to.
    pub state: Vec<f32>,
    /// gates x units.
    pub input_bias: Vec<f32>,
    /// gates x units: of a GRU's n this one is under the reset gate.
    pub state_bias: Vec<f32>,
}

/// What a cell may have besides, as ONNX defines it. The default is a cell without any of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Of each direction f, g and h, as ONNX names them: of an LSTM those of the gates, of what goes
    /// into the cell and of what comes out; of a GRU the first two; of a plain network the first.
    /// Empty: those of [`Cell`].
    pub activations: Vec<[Activation; 3]>,
    /// Sums of gates are kept within this distance of zero before their activation.
    pub clip: Option<f32>,
    /// Of an LSTM: f is 1 - i, whatever its weights (`input_forget`).
    pub coupled: bool,
    /// Of a GRU: r acts on the state before its product with n (`linear_before_reset = 0`).
    pub reset_first: bool,
    /// Of each direction of an LSTM, 3 x units: what gates i, f and o see of each cell's state. Empty: nothing.
    pub peepholes: Vec<Vec<f32>>,
    /// Of each direction of an LSTM, projected x units: what makes the state of the cells' outputs (LSTMP of
    /// Sak, Senior and Beaufays; `proj_size` of PyTorch). Empty: they are the state.
    pub projections: Vec<Vec<f32>>,
}

/// A layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    cell: Cell,
    inputs: usize,
    units: usize,
    directions: Directions,
    weights: Vec<Weights>,
    options: Options,
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
        Self::with_options(cell, inputs, units, directions, weights, Options::default())
    }

    /// As [`Layer::new`], of cells with options. Weights of the state are gates x units x
    /// [`Layer::width`].
    ///
    /// # Errors
    /// Weights do not fit, or the cell has no such option.
    pub fn with_options(
        cell: Cell,
        inputs: usize,
        units: usize,
        directions: Directions,
        weights: Vec<Weights>,
        options: Options,
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
        for of in &options.peepholes {
            check("peepholes", 3 * units, of.len())?;
        }
        let width = match options.projections.first() {
            Some(first) => first.len() / units.max(1),
            None => units,
        };
        for of in &options.projections {
            check("weights of the projection", width.max(1) * units, of.len())?;
        }
        for of in &weights {
            check("weights of the input", outputs * inputs, of.input.len())?;
            check("weights of the state", outputs * width, of.state.len())?;
            check("biases of the input", outputs, of.input_bias.len())?;
            check("biases of the state", outputs, of.state_bias.len())?;
        }
        Ok(Self { cell, inputs, units, directions, weights, options })
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

    /// Numbers of a direction's hidden state: units, or what they are projected to.
    #[must_use]
    pub fn width(&self) -> usize {
        self.options.projections.first().map_or(self.units, |first| first.len() / self.units.max(1))
    }

    /// Numbers of a step's output.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.width() * self.directions.count()
    }

    /// What its cells have besides.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether its cells have nothing besides.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.options == Options::default()
    }

    /// Activations f, g and h of a direction.
    #[must_use]
    pub fn activations(&self, direction: usize) -> [Activation; 3] {
        let own = match self.cell {
            Cell::Lstm | Cell::Gru => [Activation::Sigmoid, Activation::Tanh, Activation::Tanh],
            Cell::Rnn(activation) => [activation; 3],
        };
        self.options.activations.get(direction).copied().unwrap_or(own)
    }

    /// A layer of one direction's sizes and options that reads forward, without weights: what plans
    /// are made of when its sequences have been turned round before.
    pub(crate) fn alone(&self, direction: usize) -> Self {
        let one = |of: &[Vec<f32>]| of.get(direction).cloned().into_iter().collect();
        let options = Options {
            activations: self.options.activations.get(direction).copied().into_iter().collect(),
            peepholes: one(&self.options.peepholes),
            projections: one(&self.options.projections),
            ..self.options
        };
        let directions = Directions::Forward;
        Self { directions, weights: Vec::new(), options, ..*self }
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
