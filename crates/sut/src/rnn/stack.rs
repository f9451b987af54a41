//! Runner of the layers of a model.

use std::ops::Range;

use dyno_rnn::engine::Engine as Recurrent;

use super::Runner;
use super::states::{self, LayerState, StateLayout};
use crate::engine::Port;

/// Runner of the layers of a model. The answer is the hidden state of the last layer after the last
/// step of each direction, as little-endian `f32`.
///
/// ```
/// use dyno_rnn::engine::{Engine, EngineOptions};
/// use dyno_rnn::model::Model;
/// use dyno_sut::rnn::{Runner, Stack};
///
/// let engine = Engine::new(Model::open("lstm:3x8")?, &EngineOptions::default())?;
/// let mut stack = Stack::new(engine);
/// stack.prepare(1)?;
/// // One row of two steps.
/// stack.run(&[0.5; 6], &[2])?;
/// let mut answer = Vec::new();
/// stack.answer(0, &mut answer);
/// assert_eq!(answer.len(), 8 * size_of::<f32>());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Stack {
    engine: Recurrent,
    output: Vec<f32>,
    lengths: Vec<usize>,
    /// States after the last batch, in the layout of the engine, if they are kept.
    states: Vec<f32>,
    layout: StateLayout,
    keeps_states: bool,
    outputs: Vec<Output>,
}

/// Output of a row.
#[derive(Debug, Clone)]
enum Output {
    /// Hidden state of the last layer after the last step of each direction.
    Last,
    /// Hidden states of the last layer after each step.
    Steps,
    /// These numbers of the states of a row.
    States(Range<usize>),
}

impl Stack {
    /// Returns a runner on this engine.
    pub fn new(engine: Recurrent) -> Self {
        let mut stack = Self {
            layout: StateLayout::new(&engine),
            engine,
            output: Vec::new(),
            lengths: Vec::new(),
            states: Vec::new(),
            keeps_states: false,
            outputs: Vec::new(),
        };
        stack.outputs = stack.named_outputs().into_iter().map(|(output, _)| output).collect();
        stack
    }

    /// Returns all outputs with their descriptions. Each layer has its hidden state, and its cell
    /// state if it is an LSTM; the names of several layers end with their numbers.
    fn named_outputs(&self) -> Vec<(Output, Port)> {
        let float = |name: String, shape: Vec<Option<usize>>| Port {
            name,
            element: "float32".into(),
            shape,
        };
        let model = self.engine.model();
        let width = Some(model.outputs());
        let mut all = vec![
            (Output::Last, float("last".into(), vec![width])),
            (Output::Steps, float("Y".into(), vec![None, width])),
        ];
        for state in states::layer_states(&self.engine) {
            let LayerState { layer, name, directions, width, numbers } = state;
            let name = match model.layers().len() {
                1 => name.to_owned(),
                _ => format!("{name}.{layer}"),
            };
            let port = float(name, vec![Some(directions), Some(width)]);
            all.push((Output::States(numbers), port));
        }
        all
    }

    /// Returns a copy on other cores, which shares the weights.
    pub(crate) fn fork(&self, cores: Vec<usize>) -> Self {
        let other = Self::new(self.engine.beside(cores));
        Self { keeps_states: self.keeps_states, ..other }
    }

    /// Returns the last hidden state of a row of the last batch.
    pub(crate) fn last_state(&self, row: usize) -> impl Iterator<Item = f32> {
        self.engine.last(&self.output, &self.lengths, row)
    }

    /// Makes room for the outputs of a batch.
    fn begin(&mut self, input: &[f32], lengths: &[usize]) {
        let model = self.engine.model();
        let steps = input.len() / (model.inputs() * lengths.len()).max(1);
        self.output.resize(steps * lengths.len() * model.outputs(), 0.0);
        self.lengths.clear();
        self.lengths.extend_from_slice(lengths);
    }
}

impl Runner for Stack {
    fn inputs(&self) -> usize {
        self.engine.model().inputs()
    }

    fn answers(&self) -> Port {
        let shape = vec![Some(self.engine.model().outputs())];
        Port { name: "last".into(), element: "float32".into(), shape }
    }

    fn prepare(&mut self, rows: usize) -> Result<(), String> {
        self.engine.prepare(rows).map_err(|error| error.to_string())
    }

    fn run(&mut self, input: &[f32], lengths: &[usize]) -> Result<(), String> {
        self.begin(input, lengths);
        let states = if self.keeps_states {
            let first = self.engine.initial_states(lengths.len());
            self.states = first.map_err(|error| error.to_string())?;
            Some(&mut self.states[..])
        } else {
            None
        };
        let run = self.engine.run(input, lengths, states, &mut self.output);
        run.map_err(|error| error.to_string())
    }

    fn answer(&self, row: usize, bytes: &mut Vec<u8>) {
        self.last_state(row).for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    }

    fn ports(&self) -> Vec<Port> {
        self.named_outputs().into_iter().map(|(_, port)| port).collect()
    }

    fn keep_states(&mut self) {
        self.keeps_states = true;
    }

    fn output(&self, port: usize, row: usize, bytes: &mut Vec<u8>) {
        let rows = self.lengths.len();
        let mut write = |numbers: &[f32]| {
            numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        };
        match &self.outputs[port] {
            Output::Last => self.answer(row, bytes),
            Output::Steps => {
                let width = self.engine.model().outputs();
                let steps = self.output.chunks_exact(rows * width).take(self.lengths[row]);
                steps.for_each(|step| write(&step[row * width..][..width]));
            }
            Output::States(numbers) => {
                let mut own = vec![0.0; self.layout.len()];
                self.layout.split(&self.states, rows, row, &mut own);
                write(&own[numbers.clone()]);
            }
        }
    }

    fn initial_states(&self) -> Result<Vec<f32>, String> {
        states::start(&self.engine)
    }

    fn run_on(
        &mut self,
        input: &[f32],
        lengths: &[usize],
        states: &mut [Vec<f32>],
    ) -> Result<(), String> {
        self.begin(input, lengths);
        self.layout.joined(states, &mut self.states);
        let run = self.engine.run(input, lengths, Some(&mut self.states), &mut self.output);
        run.map_err(|error| error.to_string())?;
        for (at, own) in states.iter_mut().enumerate().filter(|(_, own)| !own.is_empty()) {
            self.layout.split(&self.states, lengths.len(), at, own);
        }
        Ok(())
    }

    fn on_cores(&self, cores: Vec<usize>) -> Result<Box<dyn Runner>, String> {
        Ok(Box::new(self.fork(cores)))
    }
}
