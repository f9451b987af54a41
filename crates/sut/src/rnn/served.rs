//! The models that DeepCPU serves, as runners: a sample is the words of one query and of what is asked
//! about, an answer all numbers that the network puts out.

use std::sync::Arc;

use dyno_rnn::Team;
use dyno_rnn::calibrate::calibrate;
use dyno_rnn::engine::EngineOptions;
use dyno_rnn::machine::Machine;
use dyno_rnn::network::{Network, NetworkEngine, NetworkError, Setup, TensorId, oracle};
use dyno_rnn::served::{ServedModel, Sizes};
use dyno_rnn::tuner::Effort;

use super::{Runner, Sequences};
use crate::engine::Port;

/// A model with its weights, which are made from a seed.
#[derive(Debug)]
pub struct Served {
    model: ServedModel,
    sizes: Sizes,
    network: Network,
    outputs: Vec<TensorId>,
    /// Words that each input takes.
    words: Vec<usize>,
}

impl Served {
    /// Of these sizes; the vocabulary is one of 2^24 words at most.
    ///
    /// # Errors
    /// A size is 0.
    pub fn new(model: ServedModel, sizes: Sizes) -> Result<Self, NetworkError> {
        assert!(sizes.vocabulary <= 1 << 24, "an `f32` has no greater whole numbers of all");
        let (network, outputs) = model.network(&sizes)?;
        let words = model.words(&sizes, 0).iter().map(Vec::len).collect();
        Ok(Self { model, sizes, network, outputs, words })
    }

    /// Which model it is.
    #[must_use]
    pub fn model(&self) -> ServedModel {
        self.model
    }

    /// Words of a sample: the steps of its sequence, of one number each.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words.iter().sum()
    }

    /// Numbers of an answer.
    #[must_use]
    pub fn outputs(&self) -> usize {
        let shapes = self.outputs.iter().map(|of| self.network.shape(*of));
        shapes.map(|shape| shape.steps * shape.batch * shape.width).sum()
    }

    /// Samples of words that are drawn from a seed.
    #[must_use]
    pub fn samples(&self, count: usize, seed: u64) -> Sequences {
        let words = (0..count as u64).flat_map(|at| {
            self.model.words(&self.sizes, seed.wrapping_add(at)).into_iter().flatten()
        });
        let numbers = words.map(|word| word as f32).collect();
        Sequences::new(1, numbers, &vec![self.words(); count]).expect("words are finite numbers")
    }

    /// The answer in double precision.
    ///
    /// # Errors
    /// The sequence is no sample of the model, in words.
    pub fn oracle(&self, sequence: &[f32]) -> Result<Vec<f64>, String> {
        let words = self.parts(sequence.iter().copied(), sequence.len())?;
        let found = oracle::run(&self.network, &self.model.feeds(&words));
        Ok(self.outputs.iter().flat_map(|of| found.tensor(*of).to_vec()).collect())
    }

    /// A runner, whose plans are timed as the options say, on a machine that is measured then.
    ///
    /// # Errors
    /// It cannot be planned, in words.
    pub fn runner(self: &Arc<Self>, options: &EngineOptions) -> Result<Box<dyn Runner>, String> {
        let machine = Machine::detect(options.isa);
        let mut setup = Setup::new(options.precision, options.isa, machine);
        if !options.tuning.is_zero() {
            let mut all = Team::with_workers(setup.machine.cores);
            let measured = calibrate(&setup.machine, options.isa, &mut all);
            setup.machine = measured.map_err(|error| error.to_string())?;
            setup.effort = Effort { time: options.tuning, ..Effort::default() };
        }
        Ok(Box::new(One::new(Arc::clone(self), setup, options.clone())?))
    }

    /// The words of each input.
    fn parts(
        &self,
        mut sequence: impl Iterator<Item = f32>,
        length: usize,
    ) -> Result<Vec<Vec<u32>>, String> {
        if length != self.words() {
            let (name, expected) = (self.model.name(), self.words());
            return Err(format!("{name} takes samples of {expected} words, found {length}"));
        }
        let limit = self.sizes.vocabulary;
        let mut word = || {
            let number = sequence.next().unwrap_or(f32::NAN);
            let is_word = number.fract() == 0.0 && (0.0..limit as f32).contains(&number);
            is_word
                .then_some(number as u32)
                .ok_or_else(|| format!("expected words from 0 to {}, found {number}", limit - 1))
        };
        self.words.iter().map(|count| (0..*count).map(|_| word()).collect()).collect()
    }
}

/// Runs one sample after the other: its rows are the batch.
struct One {
    served: Arc<Served>,
    setup: Setup,
    options: EngineOptions,
    engine: NetworkEngine,
    team: Team,
    answers: Vec<f32>,
}

impl One {
    fn new(served: Arc<Served>, setup: Setup, options: EngineOptions) -> Result<Self, String> {
        let mut team = options.team();
        let engine = NetworkEngine::new(&served.network, &setup, &mut team);
        let engine = engine.map_err(|error| error.to_string())?;
        Ok(Self { served, setup, options, engine, team, answers: Vec::new() })
    }
}

impl Runner for One {
    fn inputs(&self) -> usize {
        1
    }

    fn answers(&self) -> Port {
        let shape = vec![Some(self.served.outputs())];
        Port { name: "answer".into(), element: "float32".into(), shape }
    }

    fn prepare(&mut self, _rows: usize) -> Result<(), String> {
        Ok(())
    }

    fn run(&mut self, input: &[f32], lengths: &[usize]) -> Result<(), String> {
        let Self { served, engine, team, answers, .. } = self;
        answers.clear();
        for (row, length) in lengths.iter().enumerate() {
            let sequence = input.iter().copied().skip(row).step_by(lengths.len());
            let words = served.parts(sequence, *length)?;
            let run = engine.run(team, &served.model.feeds(&words));
            run.map_err(|error| error.to_string())?;
            for of in &served.outputs {
                answers.extend_from_slice(engine.tensor(*of));
            }
        }
        Ok(())
    }

    fn answer(&self, row: usize, bytes: &mut Vec<u8>) {
        let width = self.served.outputs();
        let answer = &self.answers[row * width..][..width];
        answer.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    }

    fn beside(&self, cores: Vec<usize>) -> Result<Box<dyn Runner>, String> {
        let options = EngineOptions { cores, ..self.options.clone() };
        Ok(Box::new(Self::new(Arc::clone(&self.served), self.setup.clone(), options)?))
    }
}
