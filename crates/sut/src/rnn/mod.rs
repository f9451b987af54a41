//! Recurrent networks as a system: batches of sequences on teams of pinned threads.
//!
//! Whatever runs a batch of sequences is a [`Runner`]: [`Stack`] runs the layers of a model, [`Served`] has
//! those of whole networks, [`crate::digits::DigitsLstm`] classifies images. [`Sequential`] feeds one from a
//! [`SequenceLibrary`], several models side by side included, and makes batches of sequences
//! whose lengths are near each other. Answers are those of the call: nothing is kept.

mod by_value;
mod library;
mod served;

use std::fmt;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dyno_loadgen::record::Failure;
use dyno_loadgen::sut::{QuerySample, ResponseId};
use dyno_rnn::engine::Engine as Recurrent;

pub use by_value::ByValue;
pub use library::{SequenceLibrary, Sequences, SequencesError};
pub use served::Served;

use crate::batch::{Classes, Near, Route};
use crate::engine::{About, Answers, Engine, Port};

/// Runs batches of sequences.
pub trait Runner: Send {
    /// Numbers of a step.
    fn inputs(&self) -> usize;
    /// What it answers with, for people.
    fn answers(&self) -> Port;
    /// Makes what it needs for batches of so many rows, before they are timed.
    ///
    /// # Errors
    /// Why it cannot, in words.
    fn prepare(&mut self, rows: usize) -> Result<(), String>;
    /// Runs a batch, `input` steps x rows x inputs, each row for as many steps as its length says
    /// (at least one). What [`Runner::answer`] gives then is of this batch.
    ///
    /// # Errors
    /// Why it did not run, in words.
    fn run(&mut self, input: &[f32], lengths: &[usize]) -> Result<(), String>;
    /// Appends the answer to a row of the last batch.
    fn answer(&self, row: usize, bytes: &mut Vec<u8>);
    /// The same on a team of its own, of as many workers: on `cores` beside the caller.
    ///
    /// # Errors
    /// Why it cannot be made, in words.
    fn beside(&self, cores: Vec<usize>) -> Result<Box<dyn Runner>, String>;
}

/// The layers of a model. The answer is the hidden state of the last layer after the last step of
/// each direction, as little-endian `f32`.
#[derive(Debug)]
pub struct Stack {
    engine: Recurrent,
    output: Vec<f32>,
    lengths: Vec<usize>,
}

impl Stack {
    /// Of this engine.
    #[must_use]
    pub fn new(engine: Recurrent) -> Self {
        Self { engine, output: Vec::new(), lengths: Vec::new() }
    }

    /// The same on other cores; weights are shared.
    pub(crate) fn other(&self, cores: Vec<usize>) -> Self {
        Self::new(self.engine.beside(cores))
    }

    /// The last hidden state of a row of the last batch.
    pub(crate) fn last(&self, row: usize) -> impl Iterator<Item = f32> {
        self.engine.last(&self.output, &self.lengths, row)
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
        let steps = input.len() / (self.inputs() * lengths.len()).max(1);
        self.output.resize(steps * lengths.len() * self.engine.model().outputs(), 0.0);
        self.lengths.clear();
        self.lengths.extend_from_slice(lengths);
        let run = self.engine.run(input, lengths, None, &mut self.output);
        run.map_err(|error| error.to_string())
    }

    fn answer(&self, row: usize, bytes: &mut Vec<u8>) {
        self.last(row).for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    }

    fn beside(&self, cores: Vec<usize>) -> Result<Box<dyn Runner>, String> {
        Ok(Box::new(self.other(cores)))
    }
}

/// A runner with room for a batch.
struct Place {
    runner: Box<dyn Runner>,
    input: Vec<f32>,
    lengths: Vec<usize>,
}

/// How batches are made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Batching {
    /// Sequences in a call at most.
    pub largest: NonZero<usize>,
    /// Whose lengths are near enough to share one.
    pub near: Near,
}

/// Models with their samples, as an engine; one call computes on one thread and the team of its
/// runner.
pub struct Sequential {
    name: String,
    library: Arc<SequenceLibrary>,
    /// Of each model; a station has that of its own alone.
    places: Vec<Option<Arc<Mutex<Place>>>>,
    batching: Batching,
    about: About,
    trouble: Arc<OnceLock<String>>,
}

impl Sequential {
    /// A runner for each model of the library.
    ///
    /// # Errors
    /// A runner takes other sequences than its samples are, or is not ready for batches of the
    /// greatest size.
    pub fn new(
        name: impl Into<String>,
        library: Arc<SequenceLibrary>,
        runners: Vec<Box<dyn Runner>>,
        batching: Batching,
    ) -> Result<Self, String> {
        let (models, samples) = (runners.len(), library.sets().len());
        if models != samples {
            return Err(format!("there are samples for {samples} models, and {models} models"));
        }
        let mut about = About {
            runtime: Some(format!("dyno-rnn {}", env!("CARGO_PKG_VERSION"))),
            largest_batch: batching.largest.get(),
            ..About::default()
        };
        let mut places = Vec::new();
        for (mut runner, set) in runners.into_iter().zip(library.sets()) {
            let (takes, inputs) = (runner.inputs(), set.inputs());
            if takes != inputs {
                return Err(format!(
                    "the model takes {takes} numbers a step, its samples have {inputs}"
                ));
            }
            prepare(&mut *runner, batching.largest)?;
            let shape = vec![None, Some(inputs)];
            let name = "sequence".into();
            about.inputs.push(Port { name, element: "float32".into(), shape });
            about.outputs.push(runner.answers());
            places.push(Some(place(runner)));
        }
        let trouble = Arc::default();
        Ok(Self { name: name.into(), library, places, batching, about, trouble })
    }

    /// The same for one model alone, with a runner of its own if one is given.
    ///
    /// # Errors
    /// The runner is not ready for batches of the greatest size.
    pub fn station(&self, model: usize, own: Option<Box<dyn Runner>>) -> Result<Self, String> {
        let mut places: Vec<_> = self.places.iter().map(|_| None).collect();
        places[model] = match own {
            None => self.places[model].clone(),
            Some(mut runner) => {
                prepare(&mut *runner, self.batching.largest)?;
                Some(place(runner))
            }
        };
        let (about, trouble) = (self.about.clone(), Arc::clone(&self.trouble));
        let (name, library) = (self.name.clone(), Arc::clone(&self.library));
        Ok(Self { name, library, places, batching: self.batching, about, trouble })
    }

    /// Classes of samples for a batcher: sequences of near lengths.
    #[must_use]
    pub fn classes(&self) -> Classes {
        let (library, near) = (Arc::clone(&self.library), self.batching.near);
        Arc::new(move |index| library.length(index).map_or(0, |(_, steps)| near.class(steps)))
    }

    /// Which model a sample is for.
    #[must_use]
    pub fn route(&self) -> Route {
        let library = Arc::clone(&self.library);
        Arc::new(move |index| library.length(index).map_or(0, |(model, _)| model))
    }

    /// Samples of one model, by falling length; no more than a call takes.
    fn call(&self, model: usize, samples: &[(usize, QuerySample)], answers: &mut Answers) {
        let fail = |answers: &mut Answers, failure| {
            samples.iter().for_each(|(_, sample)| answers.fail(sample.id, failure));
        };
        let Some(place) = &self.places[model] else { return fail(answers, Failure::Rejected) };
        let mut place: MutexGuard<'_, Place> = place.lock().unwrap_or_else(PoisonError::into_inner);
        let Place { runner, input, lengths } = &mut *place;
        let (rows, inputs) = (samples.len(), runner.inputs());
        let steps = samples.first().map_or(0, |(steps, _)| *steps);
        lengths.clear();
        lengths.extend(samples.iter().map(|(steps, _)| *steps));
        // Behind the last step of a row may be what was there before: it is not looked at.
        input.resize(steps * rows * inputs, 0.0);
        for (row, (_, sample)) in samples.iter().enumerate() {
            let sequence = self.library.sample(sample.index).map_or(&[][..], |(_, own)| own);
            for (step, from) in sequence.chunks_exact(inputs).enumerate() {
                input[(step * rows + row) * inputs..][..inputs].copy_from_slice(from);
            }
        }
        if let Err(why) = runner.run(input, lengths) {
            let _ = self.trouble.set(why);
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

fn place(runner: Box<dyn Runner>) -> Arc<Mutex<Place>> {
    Arc::new(Mutex::new(Place { runner, input: Vec::new(), lengths: Vec::new() }))
}

/// For every size of a batch that there may be.
fn prepare(runner: &mut dyn Runner, largest: NonZero<usize>) -> Result<(), String> {
    let sizes = std::iter::successors(Some(1_usize), |size| size.checked_mul(2));
    for rows in sizes.take_while(|size| *size < largest.get()).chain([largest.get()]) {
        runner.prepare(rows)?;
    }
    Ok(())
}

impl Engine for Sequential {
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
        // The longest first; of equal ones in the order of their arrival.
        of_models.sort_by_key(|(model, (steps, _))| (*model, std::cmp::Reverse(*steps)));
        let Batching { largest, near } = self.batching;
        let shares = |one: &(usize, (usize, QuerySample)), next: &(usize, (usize, QuerySample))| {
            one.0 == next.0 && near.class(one.1.0) == near.class(next.1.0)
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

    fn trouble(&self) -> Option<&str> {
        self.trouble.get().map(String::as_str)
    }

    fn about(&self) -> About {
        self.about.clone()
    }

    /// The first sample of each model that it has.
    fn warm_up(&self, calls: usize, samples: NonZero<usize>) {
        let counts = self.library.sets().iter().map(Sequences::count);
        let firsts = counts.scan(0, |next, count| Some(std::mem::replace(next, *next + count)));
        let mut answers = Answers::new();
        for (_, first) in self.places.iter().zip(firsts).filter(|(place, _)| place.is_some()) {
            let sample = QuerySample { id: ResponseId(1), index: first as u64 };
            for _ in 0..calls {
                answers.clear();
                self.answer(&vec![sample; samples.get()], &mut answers);
            }
        }
    }
}

impl fmt::Debug for Sequential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequential").field("name", &self.name).finish_non_exhaustive()
    }
}
