//! Studies of DeepCPU's techniques on this machine: one layer with more and more of them, and its
//! speed over workers, size, length and batch.
//!
//! In all techniques cells follow their products at once. The techniques add fusion of products,
//! phases without dependencies, partitioning and a persistent team.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use dyno_kernels::Precision;
//! use dyno_rnn::study::{Study, Subject, Technique};
//! use dyno_rnn::{Cell, Choice, Isa, machine::Machine};
//!
//! let isa = Isa::best();
//! let (machine, time) = (Machine::detect(isa), Duration::from_millis(20));
//! let base = Choice::one_worker(Precision::F32);
//! let mut subject = Subject::new(Cell::Lstm, [64, 256, 1, 100], base);
//! let mut study = Study::new(machine, isa, 2, time, Box::new(|| None));
//! for technique in Technique::ALL {
//!     let measurement = study.technique(&mut subject, technique)?;
//!     println!("{}: {:.1} GFLOP/s", technique.name(), measurement.gflops);
//! }
//! # Ok::<(), dyno_rnn::study::StudyError>(())
//! ```

use std::time::Duration;

use dyno_kernels::{Isa, Precision, ProgramError, Team, WaitPolicy};
use thiserror::Error;

use crate::calibrate::now;
use crate::cost::LayerShape;
use crate::layer::{Cell, Directions, Layer, Weights};
use crate::machine::Machine;
use crate::network::{NetworkEngine, NetworkEngineError, NetworkError, NodeTimes, Setup};
use crate::plan::{Choice, PackedWeights, Phasing};
use crate::sequence::{Sequence, SequenceError};
use crate::served::{ServedModel, Sizes};
use crate::tuner::{Constraints, Effort, Goal, RankedChoice, TuneError, rank, tune};

/// How a layer runs; each technique includes the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Technique {
    /// Each gate's product on all workers, one after the other ([`Phasing::InSequence`]). Workers
    /// are not pinned to cores and are called for each step.
    GemmsInSequence,
    /// The gates' products side by side ([`Phasing::InParallel`]).
    GemmsInParallel,
    /// The gates' products fused into one ([`Phasing::Fused`]).
    Fused,
    /// The tuner's choice of phases and partition (DAG, fusion and PCP), called for each chunk of
    /// steps.
    Planned,
    /// `Planned` with weight-centric streamlining: pinned workers that are called once.
    Streamlined,
}

impl Technique {
    /// All techniques, in order.
    pub const ALL: [Self; 5] = [
        Self::GemmsInSequence,
        Self::GemmsInParallel,
        Self::Fused,
        Self::Planned,
        Self::Streamlined,
    ];

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::GemmsInSequence => "GEMMs in sequence",
            Self::GemmsInParallel => "GEMMs in parallel",
            Self::Fused => "fused",
            Self::Planned => "DAG, fusion, PCP",
            Self::Streamlined => "and WCS",
        }
    }

    fn phasing(self) -> Option<Phasing> {
        match self {
            Self::GemmsInSequence => Some(Phasing::InSequence),
            Self::GemmsInParallel => Some(Phasing::InParallel),
            Self::Fused => Some(Phasing::Fused),
            Self::Planned | Self::Streamlined => None,
        }
    }
}

/// A layer to study, with generated weights.
pub struct Subject {
    layer: Layer,
    packed: Vec<PackedWeights>,
    batch: usize,
    steps: usize,
    base: Choice,
    input: Vec<f32>,
    output: Vec<f32>,
}

impl Subject {
    /// Returns a forward layer of `sizes` (inputs, units, batch, steps). Precision and activations
    /// come from `base`.
    ///
    /// # Panics
    /// A size is 0.
    pub fn new(cell: Cell, sizes: [usize; 4], base: Choice) -> Self {
        let [inputs, units, batch, steps] = sizes;
        let outputs = cell.gates() * units;
        let bound = (units as f32).sqrt().recip();
        let numbers = |count: usize, bound: f32| -> Vec<f32> {
            (0..count).map(|at| ((at * 37 % 255) as f32 / 127.0 - 1.0) * bound).collect()
        };
        let weights = Weights {
            input: numbers(outputs * inputs, bound),
            state: numbers(outputs * units, bound),
            input_bias: numbers(outputs, bound),
            state_bias: numbers(outputs, bound),
        };
        let layer = Layer::new(cell, inputs, units, Directions::Forward, vec![weights])
            .expect("sizes of at least 1, and weights of these");
        let input = numbers(steps * batch * inputs, 1.0);
        let output = vec![0.0; steps * batch * units];
        let packed = vec![PackedWeights::new(&layer, 0, base.precision)];
        Self { layer, packed, batch, steps, base, input, output }
    }

    /// Floating-point operations of a call.
    pub fn flops(&self) -> f64 {
        LayerShape::from_layer(&self.layer, self.batch, self.steps).flops()
    }

    fn goal(&self, threads: usize) -> Goal<'_> {
        let Self { layer, batch, steps, base, .. } = self;
        let batch = *batch;
        let steps = *steps;
        let base = *base;
        let forced = Constraints::default();
        Goal { layer, batch, steps, base, forced, threads }
    }

    /// Predicted nanoseconds of the best plan with exactly `workers` workers on another machine;
    /// `None` without such a plan. [`Study::degree`] measures them on this machine.
    pub fn predicted(&self, workers: usize, machine: &Machine) -> Option<f64> {
        let all = rank(&self.goal(workers), machine);
        let best = all.iter().find(|ranked| ranked.choice.workers() == workers)?;
        Some(best.predicted.ns())
    }
}

/// Measurement of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Median nanoseconds.
    pub ns: f64,
    /// 10^9 operations per second.
    pub gflops: f64,
    /// Counter increments per call, if there is a counter.
    pub counted: Option<f64>,
    /// Choice that was run.
    pub choice: Choice,
}

/// Reads a counter of the whole process; returns `None` without a counter.
pub type Counter<'a> = Box<dyn FnMut() -> Option<u64> + 'a>;

/// Reason why a measurement failed.
#[derive(Debug, Error)]
pub enum StudyError {
    /// No plan could be timed.
    #[error("{0}")]
    Tune(#[from] TuneError),
    /// A plan is invalid.
    #[error("{0}")]
    Program(#[from] ProgramError),
    /// A plan did not run.
    #[error("{0}")]
    Run(#[from] SequenceError),
    /// A model cannot have these sizes.
    #[error("{0}")]
    Sizes(NetworkError),
    /// A model did not run.
    #[error("{0}")]
    Served(NetworkEngineError),
}

/// Maximum calls of a model.
const MODEL_CALLS: usize = 1001;
/// Time to measure a model, as a multiple of that for a layer: a model's layers are small parts of
/// it.
const MODEL_TIME: f64 = 4.0;

/// Setup for studying layers.
pub struct Study<'a> {
    machine: Machine,
    isa: Isa,
    workers: usize,
    /// Pinned to cores.
    team: Team,
    /// Not pinned.
    loose: Team,
    /// Time of each measurement.
    time: Duration,
    count: Counter<'a>,
}

impl<'a> Study<'a> {
    /// Prepares for `workers` workers on a calibrated machine; each measurement takes about `time`.
    /// `count` should include threads that start from now on.
    pub fn new(
        machine: Machine,
        isa: Isa,
        workers: usize,
        time: Duration,
        count: Counter<'a>,
    ) -> Self {
        let workers = workers.max(1);
        let loose = Team::new(&vec![None; workers - 1], WaitPolicy::default());
        Self { machine, isa, workers, team: Team::with_workers(workers), loose, time, count }
    }

    /// Runs a subject with a technique.
    ///
    /// # Errors
    /// A plan is invalid or does not run.
    pub fn technique(
        &mut self,
        subject: &mut Subject,
        technique: Technique,
    ) -> Result<Measurement, StudyError> {
        let Some(phasing) = technique.phasing() else {
            let best = self.best(subject, self.workers)?;
            let steps = if technique == Technique::Planned { best.chunk } else { subject.steps };
            let sequence = self.planned(subject, &best)?;
            return self.time(subject, sequence, best, steps, technique == Technique::Streamlined);
        };
        let choice = Choice { chunk: 1, sides: 1, rows: 1, units: self.workers, ..subject.base };
        let Subject { layer, packed, batch, .. } = &*subject;
        let sequence = Sequence::phased(layer, packed, *batch, &choice, phasing, self.isa)?;
        self.time(subject, sequence, choice, 1, false)
    }

    /// Runs a subject with the best plan of exactly `workers` workers; returns `None` without such
    /// a plan.
    ///
    /// # Errors
    /// A plan is invalid or does not run.
    pub fn degree(
        &mut self,
        subject: &mut Subject,
        workers: usize,
    ) -> Result<Option<Measurement>, StudyError> {
        let ranking = self.ranking(subject, workers)?;
        let mut exact = ranking.iter().filter(|ranked| ranked.choice.workers() == workers);
        let Some(best) = exact.next().map(|ranked| ranked.choice) else { return Ok(None) };
        let sequence = self.planned(subject, &best)?;
        self.time(subject, sequence, best, subject.steps, true).map(Some)
    }

    /// Measures where a model's call on `workers` workers spends its time: the time of each of its
    /// layers ([`ServedModel::layer_of`]) in the order in which they begin, and of the whole call.
    ///
    /// # Errors
    /// A size is 0, or a plan is invalid.
    pub fn served(
        &mut self,
        model: ServedModel,
        sizes: &Sizes,
        precision: Precision,
        workers: usize,
    ) -> Result<NodeTimes, StudyError> {
        let (network, _) = model.network(sizes).map_err(StudyError::Sizes)?;
        let mut setup = Setup::new(precision, self.isa, self.machine.clone());
        setup.effort = Effort { time: self.time, ..Effort::default() };
        let mut team = Team::with_workers(workers);
        let mut engine =
            NetworkEngine::new(&network, &setup, &mut team).map_err(StudyError::Served)?;
        let words = model.words(sizes, 1);
        let mut times = |calls: usize| {
            let times = engine.times(&mut team, &model.feeds(&words), calls);
            times.map_err(|error| StudyError::Served(NetworkEngineError::Call(error)))
        };
        let first = times(1)?.all.max(Duration::from_nanos(1));
        let calls = (MODEL_TIME * self.time.as_secs_f64() / first.as_secs_f64()) as usize;
        let found = times(calls.clamp(3, MODEL_CALLS))?;
        let mut layers: Vec<(String, Duration)> = Vec::new();
        for (node, took) in &found.nodes {
            let name = model.layer_of(node);
            match layers.iter_mut().find(|(layer, _)| *layer == name) {
                Some((_, sum)) => *sum += *took,
                None => layers.push((name.to_owned(), *took)),
            }
        }
        Ok(NodeTimes { nodes: layers, all: found.all })
    }

    fn planned(&self, subject: &Subject, choice: &Choice) -> Result<Sequence, StudyError> {
        Ok(Sequence::from_packed(&subject.layer, &subject.packed, subject.batch, choice, self.isa)?)
    }

    fn best(&mut self, subject: &Subject, workers: usize) -> Result<Choice, StudyError> {
        Ok(self.ranking(subject, workers)?[0].choice)
    }

    fn ranking(
        &mut self,
        subject: &Subject,
        workers: usize,
    ) -> Result<Vec<RankedChoice>, StudyError> {
        let effort = Effort { time: self.time, ..Effort::default() };
        let goal = subject.goal(workers);
        Ok(tune(&goal, &subject.packed, &self.machine, self.isa, &mut self.team, effort)?)
    }

    /// Times calls over the whole input, in pieces of `steps` steps.
    fn time(
        &mut self,
        subject: &mut Subject,
        mut sequence: Sequence,
        choice: Choice,
        steps: usize,
        is_bound: bool,
    ) -> Result<Measurement, StudyError> {
        let rows = steps.clamp(1, subject.steps) * subject.batch;
        let team = if is_bound { &mut self.team } else { &mut self.loose };
        let [input, output] = [rows * subject.layer.inputs(), rows * subject.layer.outputs()];
        let mut call = || -> Result<f64, SequenceError> {
            let start = now();
            sequence.clear();
            for (input, output) in
                subject.input.chunks(input).zip(subject.output.chunks_mut(output))
            {
                sequence.run_on(team, input, output)?;
            }
            Ok(start.elapsed().as_nanos() as f64)
        };
        // The first call fills the caches.
        call()?;
        let before = (self.count)();
        let end = now() + self.time;
        let mut times = Vec::new();
        while times.len() < 3 || now() < end {
            times.push(call()?);
        }
        let counted = before.zip((self.count)()).map(|(before, after)| after - before);
        let counted = counted.map(|all| all as f64 / times.len() as f64);
        times.sort_by(f64::total_cmp);
        let ns = times[times.len() / 2];
        Ok(Measurement { ns, gflops: subject.flops() / ns, counted, choice })
    }
}
