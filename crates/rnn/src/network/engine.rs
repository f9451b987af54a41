//! A network ready to run.

use std::fmt;
use std::mem;
use std::sync::Arc;

use dyno_kernels::{Isa, Precision, ProgramError, RunError, Tanh, Team};

use super::attention::{self, Scratch};
use super::dense::{How, Sums};
use super::recurrent::{Packs, Recurrent, Stacked};
use super::shared::shared;
use super::view::View;
use super::{Network, Node, Shape, Tensor};
use crate::layer::{Directions, Layer};
use crate::machine::Machine;
use crate::plan::Choice;
use crate::sequence::SequenceError;
use crate::tuner::{Effort, Forced, Goal, TuneError};

/// What is decided about an engine; the rest is chosen.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How numbers of products with weights are held.
    pub precision: Precision,
    /// How near to tanh.
    pub tanh: Tanh,
    /// Instructions.
    pub isa: Isa,
    /// What plans are ranked for.
    pub machine: Machine,
    /// How long to try plans of each recurrent layer.
    pub effort: Effort,
    /// What is forced of them.
    pub forced: Forced,
    /// How layers on top of one another share the team; if nothing is said, as predicted.
    pub stacked: Option<Stacked>,
}

impl Setup {
    /// Predictions decide, activations are as exact as the precision is.
    #[must_use]
    pub fn new(precision: Precision, isa: Isa, machine: Machine) -> Self {
        let tanh = match precision {
            Precision::F32 => Tanh::Fitted98,
            Precision::Bf16 => Tanh::Fitted76,
            Precision::Int8 => Tanh::Fitted56,
        };
        let effort = Effort { choices: 1, ..Effort::default() };
        let (forced, stacked) = (Forced::default(), None);
        Self { precision, tanh, isa, machine, effort, forced, stacked }
    }

    /// What is tuned for of one layer.
    pub(super) fn goal<'a>(&self, layer: &'a Layer, shape: Shape, threads: usize) -> Goal<'a> {
        let Self { precision, tanh, forced, .. } = *self;
        let base = Choice { precision, tanh, chunk: 1, sides: 1, rows: 1, units: 1 };
        Goal { layer, batch: shape.batch, steps: shape.steps, base, forced, threads }
    }
}

/// An input of a call.
#[derive(Clone, Copy, Debug)]
pub enum Feed<'a> {
    /// For [`Node::Ids`].
    Ids {
        /// Steps x batch; as many steps as the call has.
        ids: &'a [u32],
        /// Steps of each row; empty where they have all.
        lengths: &'a [usize],
    },
    /// For [`Node::Numbers`].
    Numbers {
        /// Steps x batch x width.
        numbers: &'a [f32],
        /// Steps of each row; empty where they have all.
        lengths: &'a [usize],
    },
}

/// Why there is no engine.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub enum EngineError {
    /// A plan asks for what a program must not do.
    Plan(ProgramError),
    /// Nothing was chosen for a recurrent layer.
    Tune(TuneError),
    /// It does not run.
    Call(CallError),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(error) => error.fmt(f),
            Self::Tune(error) => error.fmt(f),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EngineError {}

impl From<ProgramError> for EngineError {
    fn from(error: ProgramError) -> Self {
        Self::Plan(error)
    }
}

impl From<TuneError> for EngineError {
    fn from(error: TuneError) -> Self {
        Self::Tune(error)
    }
}

/// Why a call was not answered.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CallError {
    /// Not as many feeds as there are inputs.
    Feeds {
        /// Inputs.
        expected: usize,
        /// Feeds.
        found: usize,
    },
    /// A feed does not fit its input.
    Feed {
        /// Which, counted from 0.
        input: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A number of no word.
    Word {
        /// The number.
        found: u32,
        /// How many words there are.
        words: usize,
    },
    /// A recurrent layer did not run.
    Sequence(SequenceError),
    /// A layer of sums did not run.
    Run(RunError),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Feeds { expected, found } => {
                write!(f, "expected a feed for each of {expected} inputs, found {found}")
            }
            Self::Feed { input, what } => write!(f, "input {input}: expected {what}"),
            Self::Word { found, words } => {
                write!(f, "expected numbers of {words} words, found {found}")
            }
            Self::Sequence(error) => error.fmt(f),
            Self::Run(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CallError {}

impl From<SequenceError> for CallError {
    fn from(error: SequenceError) -> Self {
        Self::Sequence(error)
    }
}

impl From<RunError> for CallError {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

/// A network with its programs and its memory.
pub struct Engine {
    network: Network,
    isa: Isa,
    parts: Vec<Part>,
    memory: Memory,
    scratch: Scratch,
}

/// What a node runs.
enum Part {
    Recurrent(Recurrent),
    Sums(Sums),
    /// Nothing that was made before.
    Plain,
}

/// Tensors of a call.
struct Memory {
    shapes: Vec<Shape>,
    numbers: Vec<Vec<f32>>,
    ids: Vec<Vec<u32>>,
    /// Of each input: steps of the call, and of each row.
    steps: Vec<usize>,
    lengths: Vec<Vec<usize>>,
    /// Steps of single vectors.
    ones: Vec<usize>,
}

impl Memory {
    fn new(network: &Network) -> Self {
        let shapes = network.shapes.clone();
        let each = |shape: &Shape| shape.steps * shape.batch;
        let inputs = |take: &dyn Fn(&Shape) -> usize| -> Vec<usize> {
            let is_own = |(index, shape): (usize, &Shape)| {
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

    fn steps(&self, of: Tensor) -> usize {
        self.shapes[of.0].source.map_or(1, |source| self.steps[source.0])
    }

    fn view(&self, of: Tensor) -> View<'_> {
        let Shape { source, batch, width, .. } = self.shapes[of.0];
        let steps = self.steps(of);
        let count = if width == 0 { steps * batch } else { 0 };
        View {
            numbers: &self.numbers[of.0][..steps * batch * width],
            ids: &self.ids[of.0][..count],
            steps,
            batch,
            width,
            lengths: source.map_or(&self.ones[..batch], |source| &self.lengths[source.0]),
        }
    }

    /// Takes an input of a call.
    fn take(&mut self, tensor: Tensor, input: usize, feed: Feed<'_>) -> Result<(), CallError> {
        let wrong = |what| Err(CallError::Feed { input, what });
        let Shape { source, steps: most, batch, width } = self.shapes[tensor.0];
        let (given, lengths) = match feed {
            Feed::Ids { ids, lengths } if width == 0 => {
                let to = self.ids[tensor.0].iter_mut().zip(ids);
                to.for_each(|(to, id)| *to = *id);
                (ids.len(), lengths)
            }
            Feed::Numbers { numbers, lengths } if width > 0 => {
                let to = self.numbers[tensor.0].iter_mut().zip(numbers);
                to.for_each(|(to, number)| *to = *number);
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
        for (row, to) in self.lengths[tensor.0].iter_mut().enumerate() {
            *to = lengths.get(row).copied().unwrap_or(steps);
        }
        Ok(())
    }
}

impl Engine {
    /// Packs, plans and takes memory; calls take none. `team` runs what is tried.
    ///
    /// # Errors
    /// What is forced cannot be.
    pub fn new(network: &Network, setup: &Setup, team: &mut Team) -> Result<Self, EngineError> {
        let mut packs = Packs::new();
        let how = How {
            precision: setup.precision,
            tanh: setup.tanh,
            isa: setup.isa,
            workers: team.workers(),
        };
        let mut part = |node: &Node| -> Result<Part, EngineError> {
            Ok(match node {
                Node::Recurrent { input, layers } => {
                    let shape = network.shape(*input);
                    Part::Recurrent(Recurrent::new(layers, shape, setup, &mut packs, team)?)
                }
                Node::Dense { dense, .. } => Part::Sums(Sums::dense(dense, how)?),
                Node::Highway { highway, .. } => Part::Sums(Sums::highway(highway, how)?),
                _ => Part::Plain,
            })
        };
        let parts = network.nodes().map(|(_, node)| part(node)).collect::<Result<_, _>>()?;
        let (memory, scratch) = (Memory::new(network), Scratch::new(network));
        let mut engine = Self { network: network.clone(), isa: setup.isa, parts, memory, scratch };
        engine.take_memory(team).map_err(EngineError::Call)?;
        Ok(engine)
    }

    /// Runs the longest rows that there may be, and then some that end before others: programs take memory
    /// as they need it.
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

    /// Answers a call with a feed for each input, in the order of their nodes.
    ///
    /// # Errors
    /// A feed does not fit.
    pub fn run(&mut self, team: &mut Team, feeds: &[Feed<'_>]) -> Result<(), CallError> {
        self.run_each(team, feeds, &mut |_| ())
    }

    /// As [`Engine::run`]; calls `after` for each tensor when it is made.
    ///
    /// # Errors
    /// A feed does not fit.
    pub fn run_each(
        &mut self,
        team: &mut Team,
        feeds: &[Feed<'_>],
        after: &mut dyn FnMut(Tensor),
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

    fn nodes(&mut self, team: &mut Team, after: &mut dyn FnMut(Tensor)) -> Result<(), CallError> {
        for index in 0..self.parts.len() {
            // The tensor that is made is taken out, so that the others can be read.
            let mut numbers = mem::take(&mut self.memory.numbers[index]);
            let shape = self.memory.shapes[index];
            let count = self.memory.steps(Tensor(index)) * shape.batch * shape.width;
            let made = self.node(team, index, &mut numbers[..count]);
            self.memory.numbers[index] = numbers;
            made?;
            after(Tensor(index));
        }
        Ok(())
    }

    fn node(&mut self, team: &mut Team, index: usize, to: &mut [f32]) -> Result<(), CallError> {
        let (memory, isa, scratch) = (&self.memory, self.isa, &mut self.scratch);
        let view = |of: &Tensor| memory.view(*of);
        let node = &self.network.nodes[index].1;
        match (node, &mut self.parts[index]) {
            (Node::Recurrent { input, .. }, Part::Recurrent(recurrent)) => {
                recurrent.run(team, view(input), to)?;
            }
            (Node::Dense { input, .. } | Node::Highway { input, .. }, Part::Sums(sums)) => {
                sums.run(team, view(input), to)?;
            }
            (Node::Embedding { ids, table, width }, _) => {
                embedding(team, view(ids), table, *width, to)?;
            }
            (Node::Last { input }, _) => {
                last(view(input), self.network.last_directions(*input), to);
            }
            (Node::MaxPool { input }, _) => attention::max_pool(view(input), to),
            (Node::Match { query, keys, score }, _) => {
                attention::matched((isa, team), view(query), view(keys), score, scratch, to);
            }
            (Node::Softmax { input, over }, _) => attention::softmax(view(input), *over, to),
            (Node::Mix { weights, values }, _) => {
                attention::mixed(isa, view(weights), view(values), scratch, to);
            }
            (Node::Attention { queries, keys, values, score }, _) => {
                let [queries, keys, values] = [queries, keys, values].map(view);
                attention::attention(isa, [queries, keys, values], score, scratch, to);
            }
            (Node::Pointer { weights, ids, over }, _) => {
                attention::pointer(view(weights), view(ids), *over, scratch, to);
            }
            (Node::Trilinear { context, query, weights }, _) => {
                let [context, query] = [context, query].map(view);
                attention::trilinear((isa, team), context, query, weights, scratch, to);
            }
            (Node::Cosine { query, others }, _) => {
                attention::cosine((isa, team), view(query), view(others), to);
            }
            (Node::Join { parts }, _) => {
                let Shape { batch, width, .. } = memory.shapes[index];
                let touched = 2 * to.len();
                shared(team, to, width, touched, &|first, to| {
                    let mut column = 0;
                    for part in parts.iter().map(view) {
                        join(part, batch, (first, column), width, to);
                        column += part.width;
                    }
                });
            }
            (Node::Times { input, by }, _) => times(view(input), view(by), to),
            (Node::Rows { input, rows }, _) => {
                let view = view(input);
                to.copy_from_slice(&view.numbers[rows.start * view.width..rows.end * view.width]);
            }
            // Inputs are there already.
            _ => {}
        }
        Ok(())
    }

    /// What a node has made in the last call: steps of the call x batch x width.
    #[must_use]
    pub fn tensor(&self, of: Tensor) -> &[f32] {
        self.memory.view(of).numbers
    }

    /// What it runs.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// How the layers of a recurrent node are run; nothing of other nodes.
    #[must_use]
    pub fn schedule(&self, of: Tensor) -> Option<(&[Choice], Stacked)> {
        match &self.parts[of.0] {
            Part::Recurrent(recurrent) => Some(recurrent.schedule()),
            _ => None,
        }
    }
}

impl Network {
    /// Directions of the last of recurrent layers.
    pub(super) fn last_directions(&self, of: Tensor) -> Directions {
        match &self.nodes[of.0].1 {
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
    to: &mut [f32],
) -> Result<(), CallError> {
    let words = table.len() / width;
    let is_unknown = |place: &usize| ids.ids[*place] as usize >= words;
    if let Some(place) = ids.places().map(|(_, _, place)| place).find(is_unknown) {
        return Err(CallError::Word { found: ids.ids[place], words });
    }
    let touched = 2 * to.len();
    shared(team, to, width, touched, &|first, to| {
        for (at, to) in to.chunks_mut(width).enumerate() {
            let place = first + at;
            if place / ids.batch < ids.lengths[place % ids.batch] {
                to.copy_from_slice(&table[ids.ids[place] as usize * width..][..width]);
            }
        }
    });
    Ok(())
}

fn last(input: View<'_>, directions: Directions, to: &mut [f32]) {
    let half = input.width / directions.count();
    for (row, (to, length)) in to.chunks_mut(input.width).zip(input.lengths).enumerate() {
        to.fill(0.0);
        for (direction, to) in to.chunks_mut(half).enumerate() {
            let step = if directions.is_back(direction) { Some(0) } else { length.checked_sub(1) };
            if let Some(step) = step.filter(|_| *length > 0) {
                to.copy_from_slice(&input.at(step, row)[direction * half..][..half]);
            }
        }
    }
}

/// Puts a part from a column on of each row's step; `to` begins with place `first`.
fn join(
    part: View<'_>,
    batch: usize,
    (first, column): (usize, usize),
    width: usize,
    to: &mut [f32],
) {
    for (at, to) in to.chunks_mut(width).enumerate() {
        let place = first + at;
        let from = part.at(place / batch, place % batch);
        to[column..][..part.width].copy_from_slice(from);
    }
}

fn times(input: View<'_>, by: View<'_>, to: &mut [f32]) {
    for (place, to) in to.chunks_mut(input.width).enumerate() {
        let (step, row) = (place / input.batch, place % input.batch);
        let both = input.at(step, row).iter().zip(by.at(step, row));
        to.iter_mut().zip(both).for_each(|(to, (a, b))| *to = a * b);
    }
}
