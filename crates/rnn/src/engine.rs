//! Engine for models: packs the weights once, plans for each batch size, and runs on its own team.
//!
//! ```
//! use dyno_rnn::engine::{Engine, EngineOptions};
//! use dyno_rnn::model::Model;
//!
//! let model = Model::open("lstm:8x16")?;
//! let mut engine = Engine::new(model, &EngineOptions::default())?;
//! // Two sequences of three and of two steps: steps x rows x inputs, the shorter one padded.
//! let (input, mut output) = ([0.5; 3 * 2 * 8], [0.0; 3 * 2 * 16]);
//! engine.run(&input, &[3, 2], None, &mut output)?;
//! assert_eq!(engine.last(&output, &[3, 2], 1).count(), 16);
//! assert!(output[(2 * 2 + 1) * 16..].iter().all(|h| *h == 0.0), "behind its last step");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dyno_kernels::{Isa, MAX_BYTES, Precision, ProgramError, Team, WaitPolicy};
use thiserror::Error;

use crate::layer::{Cell, Directions, Layer};
use crate::machine::Machine;
use crate::model::Model;
use crate::plan::{Choice, PackedWeights};
use crate::sequence::{Sequence, SequenceError};
use crate::tuner::{Constraints, Effort, Goal, TuneError, rank, tune};

/// Options of an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineOptions {
    /// Precision of the products.
    pub precision: Precision,
    /// Number of workers including the caller, >= 1. Without `cores`, no more than the cores that
    /// this process may use; see [`EngineOptions::thread_limit`].
    pub threads: usize,
    /// Cores of the workers other than the caller, one each. If empty, the last cores that this
    /// process may use.
    pub cores: Vec<usize>,
    /// The instruction set.
    pub isa: Isa,
    /// Typical number of steps per sequence, for which plans are made.
    pub steps: usize,
    /// Time to spend on timing plans per layer and batch size; zero relies on the cost model.
    pub tuning: Duration,
}

impl Default for EngineOptions {
    /// Returns one thread, `f32`, and no timing.
    fn default() -> Self {
        Self {
            precision: Precision::F32,
            threads: 1,
            cores: Vec::new(),
            isa: Isa::best(),
            steps: 100,
            tuning: Duration::ZERO,
        }
    }
}

impl EngineOptions {
    /// Number of workers of an engine with these options, including the caller.
    fn workers(&self) -> usize {
        let usable = if self.cores.is_empty() { Team::usable_cores() } else { None };
        self.threads.min(usable.unwrap_or(self.threads)).max(1)
    }

    /// Returns a sentence if this process may use fewer cores than `threads`.
    pub fn thread_limit(&self) -> Option<String> {
        let (workers, threads) = (self.workers(), self.threads);
        let cores = if workers == 1 { "1 core".to_owned() } else { format!("{workers} cores") };
        (workers < threads).then(|| {
            format!(
                "{threads} threads exceed the {cores} that this process may use; the engine uses \
                 {workers}"
            )
        })
    }

    /// Starts a team with these threads on these cores, within
    /// [`EngineOptions::thread_limit`].
    #[must_use]
    pub fn team(&self) -> Team {
        self.team_of(self.workers())
    }

    fn team_of(&self, threads: usize) -> Team {
        if self.cores.is_empty() {
            return Team::with_workers(threads);
        }
        let bound: Vec<_> = (1..threads).map(|at| self.cores.get(at - 1).copied()).collect();
        Team::new(&bound, WaitPolicy::default())
    }
}

/// Error of an engine.
#[derive(Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The batch has no rows or no steps.
    #[error("expected a batch of at least one row and one step")]
    Empty,
    /// An array has the wrong size.
    #[error("expected {expected} numbers of {what}, found {found}")]
    Numbers {
        /// Name of the array.
        what: &'static str,
        /// Expected numbers.
        expected: usize,
        /// Numbers found.
        found: usize,
    },
    /// The batch does not have the rows of the constant states or lengths in the file.
    #[error(
        "expected {expected} rows, for which the file has initial states or lengths, found {found}"
    )]
    Rows {
        /// Rows of the file.
        expected: usize,
        /// Rows of the batch.
        found: usize,
    },
    /// A row has fewer steps than the file prescribes for a layer.
    #[error("`{node}` has {expected} in sequence_lens, but row {row} has {found} steps")]
    Steps {
        /// Name of the layer.
        node: String,
        /// Index of the row.
        row: usize,
        /// Steps in the file.
        expected: usize,
        /// Steps of the row.
        found: usize,
    },
    /// A layer cannot be computed with bytes.
    #[error("int8: layer {layer} has {what}; use f32 or bf16")]
    Bytes {
        /// Index of the layer, from 0.
        layer: usize,
        /// Description of the obstacle.
        what: String,
    },
    /// Bytes represent finite numbers only.
    #[error("int8: row {row} has {found} in step {step}; use f32, or finite numbers")]
    NotFinite {
        /// Index of the row.
        row: usize,
        /// Index of the step.
        step: usize,
        /// The number.
        found: f32,
    },
    /// The size of the batch overflows.
    #[error("expected a batch that fits into memory")]
    TooLarge,
    /// No plan could be made.
    #[error("{0}")]
    Plan(#[from] TuneError),
    /// A plan did not run.
    #[error("{0}")]
    Run(#[from] SequenceError),
}

impl From<ProgramError> for EngineError {
    fn from(error: ProgramError) -> Self {
        Self::Plan(error.into())
    }
}

/// Maximum rows of a batch. Larger ones cannot fit in memory, since a row has at least one number.
const MOST_ROWS: usize = 1 << 24;

/// A model on a team of its own.
///
/// Batches may have any number of rows. Plans are made for powers of two; padding rows have no
/// steps and cost nothing.
pub struct Engine {
    /// Layers without weights.
    model: Arc<Model>,
    options: EngineOptions,
    machine: Machine,
    team: Team,
    /// Packed weights of each layer, by direction.
    packed: Arc<[Vec<PackedWeights>]>,
    /// Choices of each layer, by batch size.
    choices: BTreeMap<usize, Vec<Choice>>,
    /// Sequences of each layer, by batch size.
    plans: BTreeMap<usize, Vec<Sequence>>,
    lengths: Vec<usize>,
    /// Initial states of a layer, if they are constants of the file.
    layer_states: Vec<f32>,
    /// Input of a layer.
    layer_input: Vec<f32>,
    /// Output of a layer.
    layer_output: Vec<f32>,
}

impl Engine {
    /// Packs the weights, starts the team and plans for one row. The engine does not keep `model`.
    ///
    /// # Errors
    /// No plan for one row can be made, or a layer cannot be computed in the precision.
    pub fn new(model: impl Into<Arc<Model>>, options: &EngineOptions) -> Result<Self, EngineError> {
        let model = model.into();
        if options.precision == Precision::Int8 {
            check_bytes(model.layers())?;
        }
        let pack = |layer: &Layer| -> Vec<PackedWeights> {
            let directions = 0..layer.directions().count();
            directions.map(|at| PackedWeights::new(layer, at, options.precision)).collect()
        };
        let packed = model.layers().iter().map(pack).collect();
        // Only the packed weights remain, unless the caller keeps the model.
        let sizes = model.without_weights();
        drop(model);
        let options = EngineOptions { threads: options.workers(), ..options.clone() };
        let mut engine = Self::assemble(Arc::new(sizes), packed, options);
        engine.prepare(1)?;
        Ok(engine)
    }

    fn assemble(
        model: Arc<Model>,
        packed: Arc<[Vec<PackedWeights>]>,
        options: EngineOptions,
    ) -> Self {
        Self {
            machine: Machine::detect(options.isa),
            // Plans are for as many workers, whatever cores the calling thread may use.
            team: options.team_of(options.threads),
            options,
            model,
            packed,
            choices: BTreeMap::new(),
            plans: BTreeMap::new(),
            lengths: Vec::new(),
            layer_states: Vec::new(),
            layer_input: Vec::new(),
            layer_output: Vec::new(),
        }
    }

    /// Returns an engine for the same model on another team with as many workers, placed on `cores`
    /// besides the caller. Weights and choices are shared.
    #[must_use]
    pub fn beside(&self, cores: Vec<usize>) -> Self {
        let options = EngineOptions { cores, ..self.options.clone() };
        let other = Self::assemble(Arc::clone(&self.model), Arc::clone(&self.packed), options);
        Self { choices: self.choices.clone(), ..other }
    }

    /// Returns the sizes and options of the model's layers; they have no weights, because the
    /// engine keeps only packed ones.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the options.
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Makes plans for batches of `rows` rows, so that later calls do not have to.
    ///
    /// # Errors
    /// No plan can be made.
    pub fn prepare(&mut self, rows: usize) -> Result<(), EngineError> {
        self.size_for(rows).map(drop)
    }

    /// Returns the planned batch size for `rows` rows, after making its plans if needed.
    fn size_for(&mut self, rows: usize) -> Result<usize, EngineError> {
        if rows > MOST_ROWS {
            return Err(EngineError::TooLarge);
        }
        let size = rows.max(1).next_power_of_two();
        if self.plans.contains_key(&size) {
            return Ok(size);
        }
        let choices = match self.choices.get(&size) {
            Some(choices) => choices.clone(),
            None => self.choose(size)?,
        };
        let mut sequences = Vec::new();
        for ((layer, packed), choice) in self.model.layers().iter().zip(&*self.packed).zip(&choices)
        {
            sequences.push(Sequence::from_packed(layer, packed, size, choice, self.options.isa)?);
        }
        self.choices.insert(size, choices);
        self.plans.insert(size, sequences);
        Ok(size)
    }

    fn choose(&mut self, batch: usize) -> Result<Vec<Choice>, EngineError> {
        let EngineOptions { precision, threads, isa, steps, tuning, .. } = self.options;
        let base = Choice::one_worker(precision);
        let mut chosen = Vec::new();
        for (layer, packed) in self.model.layers().iter().zip(&*self.packed) {
            let goal = Goal { layer, batch, steps, base, forced: Constraints::default(), threads };
            let ranking = if tuning.is_zero() {
                rank(&goal, &self.machine)
            } else {
                let effort = Effort { time: tuning, ..Effort::default() };
                tune(&goal, packed, &self.machine, isa, &mut self.team, effort)?
            };
            let first = ranking.first().ok_or(TuneError::Forced(goal.forced))?;
            chosen.push(first.choice);
        }
        Ok(chosen)
    }

    /// Returns how many numbers the states of `rows` rows have: per layer, the hidden states
    /// (directions x rows x width), then for an LSTM the cell states (directions x rows x units).
    ///
    /// # Errors
    /// The count overflows.
    pub fn state_numbers(&self, rows: usize) -> Result<usize, EngineError> {
        let numbers = |layer: &Layer| state_widths(layer).iter().sum::<usize>();
        let row: usize = self.model.layers().iter().map(numbers).sum();
        row.checked_mul(rows).ok_or(EngineError::TooLarge)
    }

    /// Returns the states from which `rows` rows start if [`Engine::run`] gets none: the constants
    /// of the file, or zeros; in the layout of [`Engine::state_numbers`].
    ///
    /// # Errors
    /// The count overflows, or the file has states for another number of rows.
    pub fn initial_states(&self, rows: usize) -> Result<Vec<f32>, EngineError> {
        self.check_rows(rows)?;
        let mut states = Vec::with_capacity(self.state_numbers(rows)?);
        for (layer, start) in self.model.layers().iter().zip(self.model.starts()) {
            start.push_states(layer, rows, &mut states);
        }
        Ok(states)
    }

    fn check_rows(&self, rows: usize) -> Result<(), EngineError> {
        match self.model.rows() {
            Some(expected) if expected != rows => Err(EngineError::Rows { expected, found: rows }),
            _ => Ok(()),
        }
    }

    /// Checks that no row has fewer steps than the file prescribes for a layer.
    fn check_steps(&self, lengths: &[usize]) -> Result<(), EngineError> {
        for start in self.model.starts().iter().filter(|start| start.has_lengths()) {
            for (row, found) in lengths.iter().enumerate() {
                if let Some(expected) = start.length(row).filter(|expected| expected > found) {
                    let node = start.node().to_owned();
                    return Err(EngineError::Steps { node, row, expected, found: *found });
                }
            }
        }
        Ok(())
    }

    /// Runs a batch.
    ///
    /// `input` is steps x rows x inputs, `output` steps x rows x outputs. There is one row per
    /// entry of `lengths`, which runs for that many steps; its outputs after them are zeros. With
    /// `states`, in the layout of [`Engine::state_numbers`], rows start from these states, which
    /// are replaced by those after their last steps. Without `states`, rows start from
    /// [`Engine::initial_states`]. A layer whose lengths are constants of the file stops after
    /// these, as the file prescribes.
    ///
    /// # Errors
    /// An array has the wrong size, a length exceeds the steps, or the batch is empty. The batch
    /// does not fit constant states or lengths of the file.
    pub fn run(
        &mut self,
        input: &[f32],
        lengths: &[usize],
        states: Option<&mut [f32]>,
        output: &mut [f32],
    ) -> Result<(), EngineError> {
        let rows = lengths.len();
        let inputs = self.model.inputs();
        let outputs = self.model.outputs();
        let each = rows.checked_mul(inputs).ok_or(EngineError::TooLarge)?;
        let steps = input.len().checked_div(each).unwrap_or(0);
        if steps == 0 {
            return Err(EngineError::Empty);
        }
        expect("input", steps * each, input.len())?;
        let numbers = (steps * rows).checked_mul(outputs).ok_or(EngineError::TooLarge)?;
        expect("output", numbers, output.len())?;
        if lengths.iter().any(|length| *length > steps) {
            return Err(SequenceError::Lengths.into());
        }
        if let Some(states) = &states {
            expect("states", self.state_numbers(rows)?, states.len())?;
        }
        self.check_rows(rows)?;
        self.check_steps(lengths)?;
        if self.options.precision == Precision::Int8 {
            check_finite(input, inputs, lengths)?;
        }
        let size = self.size_for(rows)?;
        pad(input, (rows, size), inputs, &mut self.layer_input);
        let mut states = states;
        let mut before = 0;
        let given = lengths;
        let Self { plans, team, layer_input, layer_output, layer_states, lengths, model, .. } =
            self;
        let layers = model.layers().iter().zip(model.starts());
        for (sequence, (layer, start)) in plans.entry(size).or_default().iter_mut().zip(layers) {
            lengths.clear();
            lengths.extend(
                given.iter().enumerate().map(|(row, own)| start.length(row).unwrap_or(*own)),
            );
            lengths.resize(size, 0);
            layer_output.clear();
            layer_output.resize(steps * size * sequence.outputs(), 0.0);
            let widths = state_widths(layer);
            let own = match states.as_deref_mut() {
                Some(states) => {
                    let own = &mut states[before..][..rows * (widths[0] + widths[1])];
                    before += own.len();
                    Some(own)
                }
                None if start.has_states() => {
                    layer_states.clear();
                    start.push_states(layer, rows, layer_states);
                    Some(&mut layer_states[..])
                }
                None => None,
            };
            match own {
                None => sequence.run_lengths(team, layer_input, layer_output, lengths)?,
                Some(own) => {
                    let (hidden, cells) = own.split_at_mut(rows * widths[0]);
                    sequence.put_rows([&*hidden, &*cells], rows);
                    sequence.run_lengths_on(team, layer_input, layer_output, lengths)?;
                    sequence.take_rows([hidden, cells], rows);
                }
            }
            std::mem::swap(layer_input, layer_output);
        }
        for (step, numbers) in output.chunks_exact_mut(rows * outputs).enumerate() {
            numbers.copy_from_slice(&layer_input[step * size * outputs..][..rows * outputs]);
        }
        Ok(())
    }

    /// Returns the hidden state in `output` of a row after the last step of each direction: the
    /// summary of its whole sequence. Empty for a row without steps.
    pub fn last<'a>(
        &self,
        output: &'a [f32],
        lengths: &[usize],
        row: usize,
    ) -> impl Iterator<Item = f32> + 'a {
        let outputs = self.model.outputs();
        let rows = lengths.len();
        let layer = self.model.layers().last();
        let directions = layer.map_or(Directions::Forward, Layer::directions);
        let half = outputs / directions.count();
        let constant = self.model.starts().last().and_then(|start| start.length(row));
        let length = lengths.get(row).map_or(0, |length| constant.unwrap_or(*length));
        let part = move |direction: usize| {
            let step = if directions.is_back(direction) { 0 } else { length.saturating_sub(1) };
            let from = (step * rows + row) * outputs + direction * half;
            output.get(from..from + half).unwrap_or_default().iter().copied()
        };
        (0..if length > 0 { directions.count() } else { 0 }).flat_map(part)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = self.model.name();
        let options = &self.options;
        f.debug_struct("Engine").field("model", &model).field("options", options).finish()
    }
}

/// Checks that bytes can represent the weights of layers, and 32-bit sums their products.
fn check_bytes(layers: &[Layer]) -> Result<(), EngineError> {
    for (at, layer) in layers.iter().enumerate() {
        let failed = |what: String| Err(EngineError::Bytes { layer: at, what });
        let longest = layer.inputs().max(layer.units()).max(layer.width());
        if longest > MAX_BYTES {
            return failed(format!("sums of {longest} products, above {MAX_BYTES}"));
        }
        let weights = layer.weights().iter().flat_map(|own| [&own.input, &own.state]);
        let odd = |numbers: &&Vec<f32>| numbers.iter().any(|number| !number.is_finite());
        if weights.chain(&layer.options().projections).any(|numbers| odd(&numbers)) {
            return failed("weights that are infinite or NaN".to_owned());
        }
    }
    Ok(())
}

/// Checks the numbers of all rows up to their lengths.
fn check_finite(input: &[f32], inputs: usize, lengths: &[usize]) -> Result<(), EngineError> {
    for (at, numbers) in input.chunks_exact(inputs).enumerate() {
        let (step, row) = (at / lengths.len(), at % lengths.len());
        if step < lengths[row]
            && let Some(found) = numbers.iter().copied().find(|number| !number.is_finite())
        {
            return Err(EngineError::NotFinite { row, step, found });
        }
    }
    Ok(())
}

fn expect(what: &'static str, expected: usize, found: usize) -> Result<(), EngineError> {
    if expected == found { Ok(()) } else { Err(EngineError::Numbers { what, expected, found }) }
}

/// Widths of a row's hidden states and cell states in a layer, summed over the directions.
fn state_widths(layer: &Layer) -> [usize; 2] {
    let cells = if layer.cell() == Cell::Lstm { layer.units() } else { 0 };
    [layer.width(), cells].map(|width| layer.directions().count() * width)
}

/// Pads a batch of `rows` rows to `size` rows: copies steps x rows x width numbers into steps x size x
/// width. The added rows are zeros.
fn pad(numbers: &[f32], (rows, size): (usize, usize), width: usize, padded: &mut Vec<f32>) {
    padded.clear();
    if rows == size || width == 0 {
        return padded.extend_from_slice(numbers);
    }
    padded.resize(numbers.len() / rows * size, 0.0);
    let steps = padded.chunks_exact_mut(size * width);
    for (step, numbers) in steps.zip(numbers.chunks_exact(rows * width)) {
        step[..rows * width].copy_from_slice(numbers);
    }
}
