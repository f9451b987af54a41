//! Recurrent networks as a system: batches of sequences on teams of pinned threads.
//!
//! A [`Runner`] runs a batch of sequences: [`Stack`] runs the layers of a model, [`ServedNetwork`]
//! provides runners of whole networks, and [`crate::digits::DigitsLstm`] classifies images.
//! [`SequenceEngine`] feeds runners from a [`SequenceLibrary`], for one or several models, and
//! batches sequences of similar lengths. Answers belong to their call: nothing is kept.

mod by_value;
mod library;
mod served;
mod stack;
mod states;

use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dyno_loadgen::record::Failure;
use dyno_loadgen::sut::{QuerySample, ResponseId};

pub use by_value::{GROUP, RecurrentModel};
pub use library::{SequenceLibrary, Sequences, SequencesError};
pub use served::ServedNetwork;
pub use stack::Stack;

use crate::batch::{Classes, LengthClasses, Route};
use crate::engine::{Answers, Engine, EngineInfo, Port};

/// Runs batches of sequences.
pub trait Runner: Send {
    /// Returns the numbers per step.
    fn inputs(&self) -> usize;
    /// Returns a description of the answers.
    fn answers(&self) -> Port;
    /// Prepares for batches of this many rows, before they are timed.
    ///
    /// # Errors
    /// A message if that is not possible.
    fn prepare(&mut self, rows: usize) -> Result<(), String>;
    /// Runs a batch. `input` is steps x rows x inputs. Each row runs for its length, at least one
    /// step. [`Runner::answer`] then returns the answers of this batch.
    ///
    /// # Errors
    /// A message if the batch did not run.
    fn run(&mut self, input: &[f32], lengths: &[usize]) -> Result<(), String>;
    /// Appends the answer to a row of the last batch.
    fn answer(&self, row: usize, bytes: &mut Vec<u8>);
    /// Returns the outputs of a row: the answer, then those that can be selected besides it. A
    /// dynamic dimension counts the steps of the row.
    fn ports(&self) -> Vec<Port> {
        vec![self.answers()]
    }
    /// Keeps the states after each later batch, for outputs that contain them.
    fn keep_states(&mut self) {}
    /// Appends an output to a row of the last batch, by its index in [`Runner::ports`].
    fn output(&self, _port: usize, row: usize, bytes: &mut Vec<u8>) {
        self.answer(row, bytes);
    }
    /// Returns the states from which a sequence starts.
    ///
    /// # Errors
    /// The reason why this network cannot continue a sequence.
    fn initial_states(&self) -> Result<Vec<f32>, String> {
        Err("its answers need whole sequences".to_owned())
    }
    /// Runs a batch like [`Runner::run`], but each row starts from its states, which are replaced by
    /// those after its last step. Rows without states start from zeros, and their states are not
    /// returned.
    ///
    /// # Errors
    /// A message if the batch did not run. The states are then unchanged.
    fn run_on(
        &mut self,
        _input: &[f32],
        _lengths: &[usize],
        _states: &mut [Vec<f32>],
    ) -> Result<(), String> {
        self.initial_states().map(drop)
    }
    /// Returns a copy with its own team of as many workers: the caller, and one on each of `cores`.
    ///
    /// # Errors
    /// A message if the copy cannot be made.
    fn on_cores(&self, cores: Vec<usize>) -> Result<Box<dyn Runner>, String>;
}

/// A runner with the buffers of a batch.
struct RunnerSlot {
    runner: Box<dyn Runner>,
    input: Vec<f32>,
    lengths: Vec<usize>,
}

/// Batching of sequences.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Batching {
    /// Maximum number of sequences per call.
    pub largest: NonZero<usize>,
    /// Classes of lengths that may share a call.
    pub length_classes: LengthClasses,
}

/// Engine of one or several models and their samples. A call is computed by the calling thread and
/// the team of its runner.
pub struct SequenceEngine {
    name: String,
    library: Arc<SequenceLibrary>,
    /// Slot of each model. A station has only the slot of its own model.
    slots: Vec<Option<Arc<Mutex<RunnerSlot>>>>,
    batching: Batching,
    info: EngineInfo,
    failure_reason: Arc<OnceLock<String>>,
}

impl SequenceEngine {
    /// Returns an engine with one runner for each model of the library.
    ///
    /// # Errors
    /// A message if a runner does not fit its samples, or cannot prepare for the largest batch.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use dyno_loadgen::sut::{QuerySample, ResponseId};
    /// use dyno_rnn::engine::EngineOptions;
    /// use dyno_sut::batch::LengthClasses;
    /// use dyno_sut::digits::{DigitsLstm, ROWS};
    /// use dyno_sut::engine::{Answers, Engine};
    /// use dyno_sut::rnn::{Batching, SequenceEngine};
    ///
    /// let options = EngineOptions { steps: ROWS, ..EngineOptions::default() };
    /// let length_classes = LengthClasses::default();
    /// let batching = Batching { largest: 1.try_into().expect("not 0"), length_classes };
    /// let (library, runner) = (Arc::new(DigitsLstm::library()), DigitsLstm::runner(&options)?);
    /// let engine = SequenceEngine::new("lstm", library, vec![runner], batching)?;
    /// let mut answers = Answers::new();
    /// engine.answer(&[QuerySample { id: ResponseId(1), index: 0 }], &mut answers);
    /// assert_eq!(answers.answered().count(), 1);
    /// # Ok::<(), String>(())
    /// ```
    pub fn new(
        name: impl Into<String>,
        library: Arc<SequenceLibrary>,
        runners: Vec<Box<dyn Runner>>,
        batching: Batching,
    ) -> Result<Self, String> {
        let (models, samples) = (runners.len(), library.sets().len());
        if models != samples {
            return Err(format!(
                "expected samples for {models} models, found samples for {samples}"
            ));
        }
        let mut info = EngineInfo {
            runtime: Some(format!("dyno-rnn {}", env!("CARGO_PKG_VERSION"))),
            largest_batch: batching.largest.get(),
            ..EngineInfo::default()
        };
        let mut slots = Vec::new();
        for (mut runner, set) in runners.into_iter().zip(library.sets()) {
            let (takes, inputs) = (runner.inputs(), set.inputs());
            if takes != inputs {
                return Err(format!(
                    "the model expects {takes} numbers per step, but its samples have {inputs}"
                ));
            }
            prepare(&mut *runner, batching.largest)?;
            let shape = vec![None, Some(inputs)];
            let name = "sequence".into();
            info.inputs.push(Port { name, element: "float32".into(), shape });
            info.outputs.push(runner.answers());
            slots.push(Some(slot(runner)));
        }
        let failure_reason = Arc::default();
        Ok(Self { name: name.into(), library, slots, batching, info, failure_reason })
    }

    /// Returns an engine for one model only, with its own runner or, without one, the runner of
    /// this engine.
    ///
    /// # Errors
    /// A message if the runner cannot prepare for the largest batch.
    pub fn station(&self, model: usize, own: Option<Box<dyn Runner>>) -> Result<Self, String> {
        let mut slots: Vec<_> = self.slots.iter().map(|_| None).collect();
        slots[model] = match own {
            None => self.slots[model].clone(),
            Some(mut runner) => {
                prepare(&mut *runner, self.batching.largest)?;
                Some(slot(runner))
            }
        };
        let (info, failure_reason) = (self.info.clone(), Arc::clone(&self.failure_reason));
        let (name, library) = (self.name.clone(), Arc::clone(&self.library));
        Ok(Self { name, library, slots, batching: self.batching, info, failure_reason })
    }

    /// Returns the classes of samples for a batcher, by their lengths.
    pub fn classes(&self) -> Classes {
        let (library, classes) = (Arc::clone(&self.library), self.batching.length_classes);
        Arc::new(move |index| library.length(index).map_or(0, |(_, steps)| classes.class(steps)))
    }

    /// Returns the route of samples to their models.
    pub fn route(&self) -> Route {
        let library = Arc::clone(&self.library);
        Arc::new(move |index| library.length(index).map_or(0, |(model, _)| model))
    }

    /// Computes samples of one model in one call. Samples are sorted by descending length.
    fn call(&self, model: usize, samples: &[(usize, QuerySample)], answers: &mut Answers) {
        let fail = |answers: &mut Answers, failure| {
            samples.iter().for_each(|(_, sample)| answers.fail(sample.id, failure));
        };
        let Some(slot) = &self.slots[model] else { return fail(answers, Failure::Rejected) };
        let mut slot: MutexGuard<'_, RunnerSlot> =
            slot.lock().unwrap_or_else(PoisonError::into_inner);
        let RunnerSlot { runner, input, lengths } = &mut *slot;
        let (rows, inputs) = (samples.len(), runner.inputs());
        let steps = samples.first().map_or(0, |(steps, _)| *steps);
        lengths.clear();
        lengths.extend(samples.iter().map(|(steps, _)| *steps));
        // Data after the last step of a row may be left from earlier calls. The runner does not
        // read it.
        input.resize(steps * rows * inputs, 0.0);
        for (row, (_, sample)) in samples.iter().enumerate() {
            let sequence = self.library.sample(sample.index).map_or(&[][..], |(_, own)| own);
            for (step, from) in sequence.chunks_exact(inputs).enumerate() {
                input[(step * rows + row) * inputs..][..inputs].copy_from_slice(from);
            }
        }
        if let Err(why) = runner.run(input, lengths) {
            let _ = self.failure_reason.set(why);
            return fail(answers, Failure::Internal);
        }
        for (row, (_, sample)) in samples.iter().enumerate() {
            let written: Result<(), std::convert::Infallible> =
                answers.push_with(sample.id, |bytes| {
                    runner.answer(row, bytes);
                    Ok(0)
                });
            let Ok(()) = written;
        }
    }
}

fn slot(runner: Box<dyn Runner>) -> Arc<Mutex<RunnerSlot>> {
    Arc::new(Mutex::new(RunnerSlot { runner, input: Vec::new(), lengths: Vec::new() }))
}

/// Prepares a runner for all batch sizes that may occur.
fn prepare(runner: &mut dyn Runner, largest: NonZero<usize>) -> Result<(), String> {
    let sizes = std::iter::successors(Some(1_usize), |size| size.checked_mul(2));
    for rows in sizes.take_while(|size| *size < largest.get()).chain([largest.get()]) {
        runner.prepare(rows)?;
    }
    Ok(())
}

impl Engine for SequenceEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
        let mut of_models = smallvec::SmallVec::<[(usize, (usize, QuerySample)); 32]>::new();
        for sample in samples {
            match self.library.length(sample.index) {
                Some((model, steps)) => of_models.push((model, (steps, *sample))),
                None => answers.fail(sample.id, Failure::Rejected),
            }
        }
        // Longest sequences first; sequences of equal length in order of arrival.
        of_models.sort_by_key(|(model, (steps, _))| (*model, std::cmp::Reverse(*steps)));
        let Batching { largest, length_classes } = self.batching;
        let shares = |one: &(usize, (usize, QuerySample)), next: &(usize, (usize, QuerySample))| {
            one.0 == next.0 && length_classes.class(one.1.0) == length_classes.class(next.1.0)
        };
        let mut batch = smallvec::SmallVec::<[(usize, QuerySample); 32]>::new();
        for alike in of_models.chunk_by(shares) {
            for part in alike.chunks(largest.get()) {
                batch.clear();
                batch.extend(part.iter().map(|(_, sample)| *sample));
                self.call(part[0].0, &batch, answers);
            }
        }
    }

    fn failure_reason(&self) -> Option<&str> {
        self.failure_reason.get().map(String::as_str)
    }

    fn info(&self) -> EngineInfo {
        self.info.clone()
    }

    /// Uses the first sample of each model that this engine runs.
    fn warm_up(&self, calls: usize, samples: NonZero<usize>) {
        let counts = self.library.sets().iter().map(Sequences::count);
        let firsts = counts.scan(0, |next, count| Some(std::mem::replace(next, *next + count)));
        let mut answers = Answers::new();
        for (_, first) in self.slots.iter().zip(firsts).filter(|(slot, _)| slot.is_some()) {
            let sample = QuerySample { id: ResponseId(1), index: first as u64 };
            for _ in 0..calls {
                answers.clear();
                self.answer(&vec![sample; samples.get()], &mut answers);
            }
        }
    }
}
