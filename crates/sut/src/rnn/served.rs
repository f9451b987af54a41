//! Runners of the models that DeepCPU serves. A sample is the words of one query and of the texts
//! that it refers to. An answer is all numbers that the network outputs.

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

/// A model with weights from a seed.
#[derive(Debug)]
pub struct ServedNetwork {
    model: ServedModel,
    sizes: Sizes,
    network: Network,
    outputs: Vec<TensorId>,
    /// Number of words of each input.
    words: Vec<usize>,
}

impl ServedNetwork {
    /// Returns a model of these sizes.
    ///
    /// # Errors
    /// [`NetworkError`] if a size is 0.
    ///
    /// # Panics
    /// If the vocabulary has more than 2^24 words, because samples are `f32`.
    ///
    /// ```
    /// use dyno_rnn::served::{ServedModel, Sizes};
    /// use dyno_sut::rnn::ServedNetwork;
    ///
    /// let sizes =
    ///     Sizes { vocabulary: 60, embedding: 5, units: 7, query: 4, steps: 6, documents: 3 };
    /// let network = ServedNetwork::new(ServedModel::ALL[0], sizes)?;
    /// let samples = network.samples(2, 1);
    /// let answer = network.oracle(samples.sequence(0).expect("two samples"));
    /// assert_eq!(answer.map(|numbers| numbers.len()), Ok(network.outputs()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(model: ServedModel, sizes: Sizes) -> Result<Self, NetworkError> {
        assert!(sizes.vocabulary <= 1 << 24, "an `f32` has no greater whole numbers of all");
        let (network, outputs) = model.network(&sizes)?;
        let words = model.words(&sizes, 0).iter().map(Vec::len).collect();
        Ok(Self { model, sizes, network, outputs, words })
    }

    /// Returns the model.
    pub fn model(&self) -> ServedModel {
        self.model
    }

    /// Returns the number of words of a sample. Each word is a step of one number.
    pub fn words(&self) -> usize {
        self.words.iter().sum()
    }

    /// Returns the count of numbers in an answer.
    pub fn outputs(&self) -> usize {
        let shapes = self.outputs.iter().map(|output| self.network.shape(*output));
        shapes.map(|shape| shape.steps * shape.batch * shape.width).sum()
    }

    /// Returns samples with random words from a seed.
    pub fn samples(&self, count: usize, seed: u64) -> Sequences {
        let words = (0..count as u64).flat_map(|at| {
            self.model.words(&self.sizes, seed.wrapping_add(at)).into_iter().flatten()
        });
        let numbers = words.map(|word| word as f32).collect();
        Sequences::new(1, numbers, &vec![self.words(); count]).expect("words are finite numbers")
    }

    /// Returns the answer in double precision.
    ///
    /// # Errors
    /// A message if the sequence is not a sample of the model.
    pub fn oracle(&self, sequence: &[f32]) -> Result<Vec<f64>, String> {
        let words = self.parts(sequence.iter().copied(), sequence.len())?;
        let found = oracle::run(&self.network, &self.model.feeds(&words));
        Ok(self.outputs.iter().flat_map(|output| found.tensor(*output).to_vec()).collect())
    }

    /// Returns a runner. If the options include tuning, the machine is measured and plans are
    /// timed.
    ///
    /// # Errors
    /// A message if the network cannot be planned.
    pub fn runner(self: &Arc<Self>, options: &EngineOptions) -> Result<Box<dyn Runner>, String> {
        let machine = Machine::detect(options.isa);
        let mut setup = Setup::new(options.precision, options.isa, machine);
        if !options.tuning.is_zero() {
            let mut all = Team::with_workers(setup.machine.cores);
            let measured = calibrate(&setup.machine, options.isa, &mut all);
            setup.machine = measured.map_err(|error| error.to_string())?;
            setup.effort = Effort { time: options.tuning, ..Effort::default() };
        }
        Ok(Box::new(ServedRunner::new(Arc::clone(self), setup, options.clone())?))
    }

    /// Returns the words of each input.
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

/// Runs the samples of a batch one after the other.
struct ServedRunner {
    served: Arc<ServedNetwork>,
    setup: Setup,
    options: EngineOptions,
    engine: NetworkEngine,
    team: Team,
    answers: Vec<f32>,
}

impl ServedRunner {
    fn new(
        served: Arc<ServedNetwork>,
        setup: Setup,
        options: EngineOptions,
    ) -> Result<Self, String> {
        let mut team = options.team();
        let engine = NetworkEngine::new(&served.network, &setup, &mut team);
        let engine = engine.map_err(|error| error.to_string())?;
        Ok(Self { served, setup, options, engine, team, answers: Vec::new() })
    }
}

impl Runner for ServedRunner {
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
            for output in &served.outputs {
                answers.extend_from_slice(engine.tensor(*output));
            }
        }
        Ok(())
    }

    fn answer(&self, row: usize, bytes: &mut Vec<u8>) {
        let width = self.served.outputs();
        let answer = &self.answers[row * width..][..width];
        answer.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    }

    fn on_cores(&self, cores: Vec<usize>) -> Result<Box<dyn Runner>, String> {
        let options = EngineOptions { cores, ..self.options.clone() };
        Ok(Box::new(Self::new(Arc::clone(&self.served), self.setup.clone(), options)?))
    }
}
