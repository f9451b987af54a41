//! A small LSTM that reads an image row by row and runs on the engine of recurrent networks.

use std::sync::Arc;

use dyno_rnn::engine::{Engine as Recurrent, EngineError, EngineOptions};
use dyno_rnn::model::Model;
use dyno_rnn::{Cell, Directions, Layer, Weights};

use super::{CLASSES, PIXELS, TEST_COUNT, test_digits};
use crate::engine::Port;
use crate::rnn::{Runner, SequenceLibrary, Sequences, Stack};
use crate::top1;

/// Steps of a sequence: rows of an image.
pub const ROWS: usize = 8;
/// Numbers per step: pixels of a row.
pub const ROW: usize = PIXELS / ROWS;
/// Units of the LSTM.
pub const UNITS: usize = 32;
/// Number of test images that the embedded weights classify correctly.
pub const LSTM_CORRECT: usize = 520;

/// Ink of a black pixel. Pixels are divided by it before they enter the network.
const FULL_INK: f32 = 16.0;

/// Number of weights in the file.
const WEIGHTS: usize = 4 * UNITS * (ROW + UNITS + 1) + CLASSES * (UNITS + 1);

static TRAINED: [u8; 4 * WEIGHTS] = *include_bytes!("../../data/digits-lstm.bin");

/// Weights of an LSTM over the rows of an image, top row first, and of ten scores of its last
/// state.
#[derive(Debug, Clone, PartialEq)]
pub struct LstmWeights {
    /// Weights of the inputs, gates i, f, g, o: `[4, 32, 8]`.
    pub input: Vec<f32>,
    /// Weights of the state: `[4, 32, 32]`.
    pub state: Vec<f32>,
    /// Biases of the gates: `[4, 32]`.
    pub bias: Vec<f32>,
    /// Weights of the scores: `[10, 32]`.
    pub output: Vec<f32>,
    /// Biases of the scores: `[10]`.
    pub output_bias: Vec<f32>,
}

impl LstmWeights {
    /// Returns a network whose weights are all 0.
    pub fn zeros() -> Self {
        Self {
            input: vec![0.0; 4 * UNITS * ROW],
            state: vec![0.0; 4 * UNITS * UNITS],
            bias: vec![0.0; 4 * UNITS],
            output: vec![0.0; CLASSES * UNITS],
            output_bias: vec![0.0; CLASSES],
        }
    }

    /// Returns the network trained by `examples/train_digits_lstm.rs`.
    pub fn trained() -> Self {
        let mut network = Self::zeros();
        let (numbers, _) = TRAINED.as_chunks::<4>();
        for (weight, bytes) in network.parts_mut().into_iter().flatten().zip(numbers) {
            *weight = f32::from_le_bytes(*bytes);
        }
        network
    }

    /// Returns the content of the weight file: all parts in order, as little-endian `f32`.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.parts().into_iter().flatten().flat_map(|weight| weight.to_le_bytes()).collect()
    }

    /// Returns the parts in the order of the file.
    pub fn parts(&self) -> [&Vec<f32>; 5] {
        [&self.input, &self.state, &self.bias, &self.output, &self.output_bias]
    }

    /// Returns the parts in the order of the file, for changes.
    pub fn parts_mut(&mut self) -> [&mut Vec<f32>; 5] {
        [&mut self.input, &mut self.state, &mut self.bias, &mut self.output, &mut self.output_bias]
    }

    /// Returns the input of the network for an image: ink in [0, 1], row by row.
    pub fn input(pixels: &[u8; PIXELS]) -> [f32; PIXELS] {
        pixels.map(|ink| f32::from(ink) / FULL_INK)
    }

    /// Returns one score per class for the last state.
    pub fn scores(&self, state: &[f32; UNITS]) -> [f32; CLASSES] {
        std::array::from_fn(|class| {
            let row = &self.output[class * UNITS..][..UNITS];
            self.output_bias[class] + row.iter().zip(state).map(|(w, h)| w * h).sum::<f32>()
        })
    }

    /// Returns the LSTM without its scores.
    fn model(&self) -> Model {
        let weights = Weights {
            input: self.input.clone(),
            state: self.state.clone(),
            input_bias: self.bias.clone(),
            state_bias: vec![0.0; 4 * UNITS],
        };
        let layer = Layer::new(Cell::Lstm, ROW, UNITS, Directions::Forward, vec![weights]);
        let layer = layer.expect("weights have the sizes of the constants");
        Model::from_layers("digits-lstm", vec![layer]).expect("one layer follows no other")
    }
}

/// The trained LSTM. Its answers are classes, encoded by [`top1::encode`].
///
/// ```
/// use dyno_rnn::engine::EngineOptions;
/// use dyno_sut::digits::{DigitsLstm, ROW, ROWS};
/// use dyno_sut::rnn::Runner;
///
/// let options = EngineOptions { steps: ROWS, ..EngineOptions::default() };
/// let lstm = DigitsLstm::new(DigitsLstm::engine(&options).expect("the options are valid"));
/// assert_eq!(lstm.inputs(), ROW);
/// assert_eq!(DigitsLstm::library().sets()[0].count(), 540);
/// ```
#[derive(Debug)]
pub struct DigitsLstm {
    weights: Arc<LstmWeights>,
    stack: Stack,
}

impl DigitsLstm {
    /// Returns an engine with the trained weights.
    ///
    /// # Errors
    /// [`EngineError`] if the engine cannot be planned with these options.
    pub fn engine(options: &EngineOptions) -> Result<Recurrent, EngineError> {
        Recurrent::new(LstmWeights::trained().model(), options)
    }

    /// Returns the classifier on an engine, which is either from [`DigitsLstm::engine`] or a
    /// [copy](Recurrent::beside) of one.
    pub fn new(engine: Recurrent) -> Self {
        Self { weights: Arc::new(LstmWeights::trained()), stack: Stack::new(engine) }
    }

    /// Returns the classifier with its own engine.
    ///
    /// # Errors
    /// The message of the [`EngineError`] if the engine cannot be planned with these options.
    pub fn runner(options: &EngineOptions) -> Result<Box<dyn Runner>, String> {
        let engine = Self::engine(options).map_err(|error| error.to_string())?;
        Ok(Box::new(Self::new(engine)))
    }

    /// Returns the test images as sequences of rows.
    pub fn library() -> SequenceLibrary {
        let numbers = test_digits().flat_map(|digit| LstmWeights::input(digit.pixels)).collect();
        let sequences = Sequences::new(ROW, numbers, &[ROWS; TEST_COUNT]);
        SequenceLibrary::new("digits", vec![sequences.expect("ink is finite")])
    }
}

impl Runner for DigitsLstm {
    fn inputs(&self) -> usize {
        self.stack.inputs()
    }

    fn answers(&self) -> Port {
        Port { name: "class".into(), element: "int64".into(), shape: vec![Some(1)] }
    }

    fn prepare(&mut self, rows: usize) -> Result<(), String> {
        self.stack.prepare(rows)
    }

    fn run(&mut self, input: &[f32], lengths: &[usize]) -> Result<(), String> {
        self.stack.run(input, lengths)
    }

    fn answer(&self, row: usize, bytes: &mut Vec<u8>) {
        let mut state = [0.0; UNITS];
        state.iter_mut().zip(self.stack.last_state(row)).for_each(|(to, h)| *to = h);
        bytes.extend_from_slice(&top1::encode(top1::argmax(&self.weights.scores(&state))));
    }

    fn on_cores(&self, cores: Vec<usize>) -> Result<Box<dyn Runner>, String> {
        let (weights, stack) = (Arc::clone(&self.weights), self.stack.fork(cores));
        Ok(Box::new(Self { weights, stack }))
    }
}
