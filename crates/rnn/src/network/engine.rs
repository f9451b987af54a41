//! Execution of networks.

use std::mem;
use std::sync::Arc;

use dyno_kernels::{Isa, Precision, ProgramError, RunError, Tanh, Team};
use thiserror::Error;

use super::attention::{self, Scratch};
use super::dense::{ProductSettings, Sums};
use super::recurrent::{Packs, Recurrent, StackSchedule};
use super::shared::shared;
use super::view::View;
use super::{Network, Node, TensorId, TensorShape};
use crate::layer::{Directions, Layer};
use crate::machine::Machine;
use crate::plan::Choice;
use crate::sequence::SequenceError;
use crate::tuner::{Constraints, Effort, Goal, TuneError};

/// Settings of a network engine; the tuner decides the rest.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Precision of products with weights.
    pub precision: Precision,
    /// Accuracy of tanh.
    pub tanh: Tanh,
    /// The instruction set.
    pub isa: Isa,
    /// Machine for which plans are ranked.
    pub machine: Machine,
    /// Time for tuning each recurrent layer.
    pub effort: Effort,
    /// Fixed parts of the choices for recurrent layers.
    pub forced: Constraints,
    /// How stacked layers share the team; `None` uses the predicted best.
    pub stacked: Option<StackSchedule>,
}

impl Setup {
    /// Returns settings without timing, with activations as accurate as the precision.
    pub fn new(precision: Precision, isa: Isa, machine: Machine) -> Self {
        let tanh = Choice::one_worker(precision).tanh;
        let effort = Effort { choices: 1, ..Effort::default() };
        let forced = Constraints::default();
        let stacked = None;
        Self { precision, tanh, isa, machine, effort, forced, stacked }
    }

    /// Returns the tuning goal of one layer.
    pub(super) fn goal<'a>(
        &self,
        layer: &'a Layer,
        shape: TensorShape,
        threads: usize,
    ) -> Goal<'a> {
        let Self { precision, tanh, forced, .. } = *self;
        let base = Choice { tanh, ..Choice::one_worker(precision) };
        Goal { layer, batch: shape.batch, steps: shape.steps, base, forced, threads }
    }
}

/// An input of a call.
#[derive(Clone, Copy, Debug)]
pub enum Feed<'a> {
    /// Input of a [`Node::Ids`].
    Ids {
        /// Ids, steps x batch; determines the steps of the call.
        ids: &'a [u32],
        /// Steps of each row; empty if all rows have all steps.
        lengths: &'a [usize],
    },
    /// Input of a [`Node::Numbers`].
    Numbers {
        /// Numbers, steps x batch x width.
        numbers: &'a [f32],
        /// Steps of each row; empty if all rows have all steps.
        lengths: &'a [usize],
    },
}

/// Reason why an engine could not be built.
#[derive(Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum NetworkEngineError {
    /// A plan is invalid.
    #[error("{0}")]
    Plan(#[from] ProgramError),
    /// Tuning a recurrent layer failed.
    #[error("{0}")]
    Tune(#[from] TuneError),
    /// The first run failed.
    #[error("{0}")]
    Call(CallError),
}

/// Reason why a call failed.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum CallError {
    /// The number of feeds differs from that of the inputs.
    #[error("expected a feed for each of {expected} inputs, found {found}")]
    Feeds {
        /// Number of inputs.
        expected: usize,
        /// Number of feeds.
        found: usize,
    },
    /// A feed does not fit its input.
    #[error("input {input}: expected {what}")]
    Feed {
        /// Index of the input, from 0.
        input: usize,
        /// Expected property of the feed.
        what: &'static str,
    },
    /// An id is not below the number of words.
    #[error("expected numbers of {words} words, found {found}")]
    Word {
        /// The id.
        found: u32,
        /// Number of words.
        words: usize,
    },
    /// A recurrent layer failed.
    #[error("{0}")]
    Sequence(#[from] SequenceError),
    /// A dense or highway layer failed.
    #[error("{0}")]
    Run(#[from] RunError),
}

/// A network with its programs and memory.
pub struct NetworkEngine {
    network: Network,
    isa: Isa,
    parts: Vec<Part>,
    memory: Memory,
    scratch: Scratch,
}

/// Compiled part of a node.
enum Part {
    Recurrent(Recurrent),
    Sums(Sums),
    /// The node needs no preparation.
    Plain,
}

/// Tensors of a call.
struct Memory {
    shapes: Vec<TensorShape>,
    numbers: Vec<Vec<f32>>,
    ids: Vec<Vec<u32>>,
    /// Steps of the call, by input.
    steps: Vec<usize>,
    /// Steps of each row, by input.
    lengths: Vec<Vec<usize>>,
    /// Lengths of single vectors.
    ones: Vec<usize>,
}

impl Memory {
    fn new(network: &Network) -> Self {
        let shapes = network.shapes.clone();
        let each = |shape: &TensorShape| shape.steps * shape.batch;
        let inputs = |take: &dyn Fn(&TensorShape) -> usize| -> Vec<usize> {
            let is_own = |(index, shape): (usize, &TensorShape)| {
                let is_input =
                    matches!(network.nodes[index].1, Node::Ids { .. } | Node::Numbers { .. });
                if is_input { take(shape) } else { 0 }
            };
            shapes.iter().enumerate().map(is_own).collect()
        };
        let most = shapes.iter().map(|shape| shape.batch).max().unwrap_or(0);
        Self {
            numbers: shapes.iter().map(|shape| vec![0.0; each(shape) * shape.width]).collect(),
            ids: shapes
                .iter()
                .map(|shape| vec![0; if shape.width == 0 { each(shape) } else { 0 }])
                .collect(),
            steps: inputs(&|shape| shape.steps),
            lengths: inputs(&|shape| shape.batch).into_iter().map(|rows| vec![0; rows]).collect(),
            ones: vec![1; most],
            shapes,
        }
    }

    fn steps(&self, tensor: TensorId) -> usize {
        self.shapes[tensor.0].source.map_or(1, |source| self.steps[source.0])
    }

    fn view(&self, tensor: TensorId) -> View<'_> {
        let TensorShape { source, batch, width, .. } = self.shapes[tensor.0];
        let steps = self.steps(tensor);
        let count = if width == 0 { steps * batch } else { 0 };
        View {
            numbers: &self.numbers[tensor.0][..steps * batch * width],
            ids: &self.ids[tensor.0][..count],
            steps,
            batch,
            width,
            lengths: source.map_or(&self.ones[..batch], |source| &self.lengths[source.0]),
        }
    }

    /// Copies an input of a call.
    fn take(&mut self, tensor: TensorId, input: usize, feed: Feed<'_>) -> Result<(), CallError> {
        let wrong = |what| Err(CallError::Feed { input, what });
        let TensorShape { source, steps: most, batch, width } = self.shapes[tensor.0];
        let (given, lengths) = match feed {
            Feed::Ids { ids, lengths } if width == 0 => {
                let output = self.ids[tensor.0].iter_mut().zip(ids);
                output.for_each(|(output, id)| *output = *id);
                (ids.len(), lengths)
            }
            Feed::Numbers { numbers, lengths } if width > 0 => {
                let output = self.numbers[tensor.0].iter_mut().zip(numbers);
                output.for_each(|(output, number)| *output = *number);
                (numbers.len(), lengths)
            }
            Feed::Ids { .. } => return wrong("vectors, not ids"),
            Feed::Numbers { .. } => return wrong("ids, not vectors"),
        };
        let steps = given / (batch * width.max(1));
        if steps * batch * width.max(1) != given {
            return wrong("whole steps of all rows");
        }
        if steps > most || (source.is_none() && steps != 1) {
            return wrong("no more steps than the network has, and of single vectors one");
        }
        if !lengths.is_empty() && lengths.len() != batch {
            return wrong("a length for each row");
        }
        if lengths.iter().any(|length| *length > steps || (source.is_none() && *length != 1)) {
            return wrong("no length above the steps, and 1 of single vectors");
        }
        self.steps[tensor.0] = steps;
        for (row, output) in self.lengths[tensor.0].iter_mut().enumerate() {
            *output = lengths.get(row).copied().unwrap_or(steps);
        }
        Ok(())
    }
}

impl NetworkEngine {
    /// Packs the weights, plans, and allocates all memory; calls allocate none. `team` runs the
    /// plans that are timed.
    ///
    /// # Errors
    /// The constraints cannot be satisfied.
    pub fn new(
        network: &Network,
        setup: &Setup,
        team: &mut Team,
    ) -> Result<Self, NetworkEngineError> {
        let mut packs = Packs::new();
        let settings = ProductSettings {
            precision: setup.precision,
            tanh: setup.tanh,
            isa: setup.isa,
            workers: team.workers(),
        };
        let mut part = |node: &Node| -> Result<Part, NetworkEngineError> {
            Ok(match node {
                Node::Recurrent { input, layers } => {
                    let shape = network.shape(*input);
                    Part::Recurrent(Recurrent::new(layers, shape, setup, &mut packs, team)?)
                }
                Node::Dense { dense, .. } => Part::Sums(Sums::dense(dense, settings)?),
                Node::Highway { highway, .. } => Part::Sums(Sums::highway(highway, settings)?),
                _ => Part::Plain,
            })
        };
        let parts = network.nodes().map(|(_, node)| part(node)).collect::<Result<_, _>>()?;
        let memory = Memory::new(network);
        let scratch = Scratch::new(network);
        let mut engine = Self { network: network.clone(), isa: setup.isa, parts, memory, scratch };
        engine.take_memory(team).map_err(NetworkEngineError::Call)?;
        Ok(engine)
    }

    /// Runs the longest possible rows, then rows of which some end early, because programs allocate
    /// memory on first use.
    fn take_memory(&mut self, team: &mut Team) -> Result<(), CallError> {
        for shorter in [0, 1] {
            for (tensor, shape) in self.network.inputs() {
                self.memory.steps[tensor.0] = shape.steps;
                let rows = &mut self.memory.lengths[tensor.0];
                rows.fill(shape.steps);
                if let (Some(last), Some(_)) = (rows.last_mut(), shape.source) {
                    *last -= shorter;
                }
            }
            self.nodes(team, &mut |_| ())?;
        }
        Ok(())
    }

    /// Runs a call with one feed per input, in the order of their nodes.
    ///
    /// # Errors
    /// A feed does not fit.
    pub fn run(&mut self, team: &mut Team, feeds: &[Feed<'_>]) -> Result<(), CallError> {
        self.run_each(team, feeds, &mut |_| ())
    }

    /// Runs like [`NetworkEngine::run`], and calls `after` with each tensor once it is computed.
    ///
    /// # Errors
    /// A feed does not fit.
    pub fn run_each(
        &mut self,
        team: &mut Team,
        feeds: &[Feed<'_>],
        after: &mut dyn FnMut(TensorId),
    ) -> Result<(), CallError> {
        let expected = self.network.inputs().count();
        if feeds.len() != expected {
            return Err(CallError::Feeds { expected, found: feeds.len() });
        }
        for (input, ((tensor, _), feed)) in self.network.inputs().zip(feeds).enumerate() {
            self.memory.take(tensor, input, *feed)?;
        }
        self.nodes(team, after)
    }

    fn nodes(&mut self, team: &mut Team, after: &mut dyn FnMut(TensorId)) -> Result<(), CallError> {
        for index in 0..self.parts.len() {
            // Takes the output tensor out, so that the others can be read.
            let mut numbers = mem::take(&mut self.memory.numbers[index]);
            let shape = self.memory.shapes[index];
            let count = self.memory.steps(TensorId(index)) * shape.batch * shape.width;
            let result = self.node(team, index, &mut numbers[..count]);
            self.memory.numbers[index] = numbers;
            result?;
            after(TensorId(index));
        }
        Ok(())
    }

    fn node(&mut self, team: &mut Team, index: usize, output: &mut [f32]) -> Result<(), CallError> {
        let memory = &self.memory;
        let isa = self.isa;
        let scratch = &mut self.scratch;
        let view = |tensor: &TensorId| memory.view(*tensor);
        let node = &self.network.nodes[index].1;
        match (node, &mut self.parts[index]) {
            (Node::Recurrent { input, .. }, Part::Recurrent(recurrent)) => {
                recurrent.run(team, view(input), output)?;
            }
            (Node::Dense { input, .. } | Node::Highway { input, .. }, Part::Sums(sums)) => {
                sums.run(team, view(input), output)?;
            }
            (Node::Embedding { ids, table, width }, _) => {
                embedding(team, view(ids), table, *width, output)?;
            }
            (Node::Last { input }, _) => {
                last(view(input), self.network.last_directions(*input), output);
            }
            (Node::MaxPool { input }, _) => attention::max_pool(view(input), output),
            (Node::Match { query, keys, score }, _) => {
                attention::matched(isa, team, view(query), view(keys), score, scratch, output);
            }
            (Node::Softmax { input, over }, _) => attention::softmax(view(input), *over, output),
            (Node::Mix { weights, values }, _) => {
                attention::mixed(isa, view(weights), view(values), scratch, output);
            }
            (Node::Attention { queries, keys, values, score }, _) => {
                let [queries, keys, values] = [queries, keys, values].map(view);
                attention::attention(isa, queries, keys, values, score, scratch, output);
            }
            (Node::Pointer { weights, ids, over }, _) => {
                attention::pointer(view(weights), view(ids), *over, scratch, output);
            }
            (Node::Trilinear { context, query, weights }, _) => {
                let [context, query] = [context, query].map(view);
                attention::trilinear(isa, team, context, query, weights, scratch, output);
            }
            (Node::Cosine { query, others }, _) => {
                attention::cosine(isa, team, view(query), view(others), output);
            }
            (Node::Join { parts }, _) => {
                let TensorShape { batch, width, .. } = memory.shapes[index];
                let touched = 2 * output.len();
                shared(team, output, width, touched, &|first, output| {
                    let mut column = 0;
                    for part in parts.iter().map(view) {
                        join(part, batch, first, column, width, output);
                        column += part.width;
                    }
                });
            }
            (Node::Times { input, by }, _) => times(view(input), view(by), output),
            (Node::Rows { input, rows }, _) => {
                let view = view(input);
                output
                    .copy_from_slice(&view.numbers[rows.start * view.width..rows.end * view.width]);
            }
            // Inputs are already in place.
            _ => {}
        }
        Ok(())
    }

    /// Returns the tensor of a node after the last call: steps of the call x batch x width.
    pub fn tensor(&self, tensor: TensorId) -> &[f32] {
        self.memory.view(tensor).numbers
    }

    /// The network that the engine runs.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the choices for the layers of a recurrent node and how these share the team; `None`
    /// for other nodes.
    pub fn schedule(&self, tensor: TensorId) -> Option<(&[Choice], StackSchedule)> {
        match &self.parts[tensor.0] {
            Part::Recurrent(recurrent) => Some(recurrent.schedule()),
            _ => None,
        }
    }
}

impl Network {
    /// Directions of the last recurrent layer of a node.
    pub(super) fn last_directions(&self, tensor: TensorId) -> Directions {
        match &self.nodes[tensor.0].1 {
            Node::Recurrent { layers, .. } => {
                layers.last().map_or(Directions::Forward, |layer| layer.directions())
            }
            _ => Directions::Forward,
        }
    }
}

fn embedding(
    team: &mut Team,
    ids: View<'_>,
    table: &Arc<[f32]>,
    width: usize,
    output: &mut [f32],
) -> Result<(), CallError> {
    let words = table.len() / width;
    let is_unknown = |place: &usize| ids.ids[*place] as usize >= words;
    if let Some(place) = ids.places().map(|(_, _, place)| place).find(is_unknown) {
        return Err(CallError::Word { found: ids.ids[place], words });
    }
    let touched = 2 * output.len();
    shared(team, output, width, touched, &|first, output| {
        for (at, output) in output.chunks_mut(width).enumerate() {
            let place = first + at;
            if place / ids.batch < ids.lengths[place % ids.batch] {
                output.copy_from_slice(&table[ids.ids[place] as usize * width..][..width]);
            }
        }
    });
    Ok(())
}

fn last(input: View<'_>, directions: Directions, output: &mut [f32]) {
    let half = input.width / directions.count();
    for (row, (output, length)) in output.chunks_mut(input.width).zip(input.lengths).enumerate() {
        output.fill(0.0);
        for (direction, output) in output.chunks_mut(half).enumerate() {
            let step = if directions.is_back(direction) { Some(0) } else { length.checked_sub(1) };
            if let Some(step) = step.filter(|_| *length > 0) {
                output.copy_from_slice(&input.at(step, row)[direction * half..][..half]);
            }
        }
    }
}

/// Writes a part at column `column` of each row; `to` begins at place `first`.
fn join(
    part: View<'_>,
    batch: usize,
    first: usize,
    column: usize,
    width: usize,
    output: &mut [f32],
) {
    for (at, output) in output.chunks_mut(width).enumerate() {
        let place = first + at;
        let from = part.at(place / batch, place % batch);
        output[column..][..part.width].copy_from_slice(from);
    }
}

fn times(input: View<'_>, by: View<'_>, output: &mut [f32]) {
    for (place, output) in output.chunks_mut(input.width).enumerate() {
        let step = place / input.batch;
        let row = place % input.batch;
        let both = input.at(step, row).iter().zip(by.at(step, row));
        output.iter_mut().zip(both).for_each(|(output, (a, b))| *output = a * b);
    }
}
