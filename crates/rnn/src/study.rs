//! What each technique of DeepCPU is worth on this machine: the same layer run with more and more of
//! them, and its speed against workers, size, length and batch.
//!
//! Cells follow their products at once in all of them: what they add is fusion of products, phases that wait
//! for nothing, partitions and a team that stays.

use std::time::Duration;

use dyno_kernels::{Isa, Precision, ProgramError, Team, Waiting};

use crate::calibrate::now;
use crate::cost::Shape;
use crate::layer::{Cell, Directions, Layer, Weights};
use crate::machine::Machine;
use crate::network::{Engine, EngineError, NetworkError, Setup, Times};
use crate::plan::{Choice, Packed, Phasing};
use crate::sequence::{Sequence, SequenceError};
use crate::served::{Model, Sizes};
use crate::tuner::{Effort, Forced, Goal, Ranked, TuneError, rank, tune};

/// How a layer is run, each with what the one before has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Technique {
    /// Each gate's product on all workers, one after the other ([`Phasing::InSequence`]); workers are not
    /// bound to cores, and are called for each step.
    GemmsInSequence,
    /// Gates' products side by side ([`Phasing::InParallel`]).
    GemmsInParallel,
    /// Gates' products are one ([`Phasing::Fused`]).
    Fused,
    /// The tuner's choice of phases and partition (DAG, fusion and PCP), called for each chunk of steps.
    Planned,
    /// The same with weight-centric streamlining: workers bound to cores are called once.
    Streamlined,
}

impl Technique {
    /// All, in this order.
    pub const ALL: [Self; 5] = [
        Self::GemmsInSequence,
        Self::GemmsInParallel,
        Self::Fused,
        Self::Planned,
        Self::Streamlined,
    ];

    /// As tables name it.
    #[must_use]
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

/// A layer that is studied, with made-up weights.
pub struct Subject {
    layer: Layer,
    packed: Vec<Packed>,
    batch: usize,
    steps: usize,
    base: Choice,
    input: Vec<f32>,
    output: Vec<f32>,
}

impl Subject {
    /// A layer that reads forward; of `base` precision and activations count.
    ///
    /// # Panics
    /// If a size is 0.
    #[must_use]
    pub fn new(cell: Cell, [inputs, units, batch, steps]: [usize; 4], base: Choice) -> Self {
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
        let packed = vec![Packed::new(&layer, 0, base.precision)];
        Self { layer, packed, batch, steps, base, input, output }
    }

    /// Multiplications and additions of a call.
    #[must_use]
    pub fn flops(&self) -> f64 {
        Shape::of(&self.layer, self.batch, self.steps).flops()
    }

    fn goal(&self, threads: usize) -> Goal<'_> {
        let Self { layer, batch, steps, base, .. } = self;
        let (batch, steps, base, forced) = (*batch, *steps, *base, Forced::default());
        Goal { layer, batch, steps, base, forced, threads }
    }

    /// What [`Study::degree`] would find on another machine, if its description is right: nanoseconds of the
    /// best plan of exactly so many workers, if there is one.
    #[must_use]
    pub fn predicted(&self, workers: usize, machine: &Machine) -> Option<f64> {
        let all = rank(&self.goal(workers), machine);
        let best = all.iter().find(|ranked| ranked.choice.workers() == workers)?;
        Some(best.predicted.ns())
    }
}

/// What was measured of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Median nanoseconds.
    pub ns: f64,
    /// 10^9 operations a second.
    pub gflops: f64,
    /// Of what the study counts, a call.
    pub counted: Option<f64>,
    /// How it was run.
    pub choice: Choice,
}

/// Reads a counter of the whole process, or nothing if there is none.
pub type Count<'a> = Box<dyn FnMut() -> Option<u64> + 'a>;

/// Why nothing was measured.
#[derive(Debug)]
pub enum StudyError {
    /// No plan could be timed.
    Tune(TuneError),
    /// A plan was refused.
    Program(ProgramError),
    /// A plan did not run.
    Run(SequenceError),
    /// A model has not these sizes.
    Sizes(NetworkError),
    /// A model was not run.
    Served(EngineError),
}

impl std::fmt::Display for StudyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tune(error) => error.fmt(f),
            Self::Program(error) => error.fmt(f),
            Self::Run(error) => error.fmt(f),
            Self::Sizes(error) => error.fmt(f),
            Self::Served(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StudyError {}

impl From<TuneError> for StudyError {
    fn from(error: TuneError) -> Self {
        Self::Tune(error)
    }
}

impl From<ProgramError> for StudyError {
    fn from(error: ProgramError) -> Self {
        Self::Program(error)
    }
}

impl From<SequenceError> for StudyError {
    fn from(error: SequenceError) -> Self {
        Self::Run(error)
    }
}

/// Calls of a model at most.
const MODEL_CALLS: usize = 1001;
/// How many times as long a model is timed as a layer: its layers are small parts of it.
const MODEL_TIME: f64 = 4.0;

/// What layers are studied with.
pub struct Study<'a> {
    machine: Machine,
    isa: Isa,
    workers: usize,
    /// Bound to cores.
    team: Team,
    /// Not bound.
    loose: Team,
    /// Of each measurement.
    time: Duration,
    count: Count<'a>,
}

impl<'a> Study<'a> {
    /// For so many workers, with the description that calibration left; each measurement takes about
    /// `time`. `count` is of threads that are made from now on.
    #[must_use]
    pub fn new(
        machine: Machine,
        isa: Isa,
        workers: usize,
        time: Duration,
        count: Count<'a>,
    ) -> Self {
        let workers = workers.max(1);
        let loose = Team::new(&vec![None; workers - 1], Waiting::default());
        Self { machine, isa, workers, team: Team::of(workers), loose, time, count }
    }

    /// Runs a subject with a technique.
    ///
    /// # Errors
    /// A plan is refused or does not run.
    pub fn technique(
        &mut self,
        of: &mut Subject,
        technique: Technique,
    ) -> Result<Measured, StudyError> {
        let Some(phasing) = technique.phasing() else {
            let best = self.best(of, self.workers)?;
            let steps = if technique == Technique::Planned { best.chunk } else { of.steps };
            let sequence = self.planned(of, &best)?;
            return self.time(of, sequence, best, steps, technique == Technique::Streamlined);
        };
        let choice = Choice { chunk: 1, sides: 1, rows: 1, units: self.workers, ..of.base };
        let Subject { layer, packed, batch, .. } = &*of;
        let sequence = Sequence::phased(layer, packed, *batch, &choice, phasing, self.isa)?;
        self.time(of, sequence, choice, 1, false)
    }

    /// Runs a subject with the best plan of exactly so many workers, nothing if there is none.
    ///
    /// # Errors
    /// A plan is refused or does not run.
    pub fn degree(
        &mut self,
        of: &mut Subject,
        workers: usize,
    ) -> Result<Option<Measured>, StudyError> {
        let ranking = self.ranking(of, workers)?;
        let mut exact = ranking.iter().filter(|ranked| ranked.choice.workers() == workers);
        let Some(best) = exact.next().map(|ranked| ranked.choice) else { return Ok(None) };
        let sequence = self.planned(of, &best)?;
        self.time(of, sequence, best, of.steps, true).map(Some)
    }

    /// Where the time of a model's call goes on so many workers: each of its layers
    /// ([`Model::layer_of`]) in the order in which they begin, and the whole call.
    ///
    /// # Errors
    /// A size is 0, or a plan is refused.
    pub fn served(
        &mut self,
        model: Model,
        sizes: &Sizes,
        precision: Precision,
        workers: usize,
    ) -> Result<Times, StudyError> {
        let (network, _) = model.network(sizes).map_err(StudyError::Sizes)?;
        let mut setup = Setup::new(precision, self.isa, self.machine.clone());
        setup.effort = Effort { time: self.time, ..Effort::default() };
        let mut team = Team::of(workers);
        let mut engine = Engine::new(&network, &setup, &mut team).map_err(StudyError::Served)?;
        let words = model.words(sizes, 1);
        let mut times = |calls: usize| {
            let times = engine.times(&mut team, &model.feeds(&words), calls);
            times.map_err(|error| StudyError::Served(EngineError::Call(error)))
        };
        let first = times(1)?.all.max(Duration::from_nanos(1));
        let calls = (MODEL_TIME * self.time.as_secs_f64() / first.as_secs_f64()) as usize;
        let found = times(calls.clamp(3, MODEL_CALLS))?;
        let mut layers: Vec<(String, Duration)> = Vec::new();
        for (node, took) in &found.nodes {
            let name = model.layer_of(node);
            match layers.iter_mut().find(|(of, _)| *of == name) {
                Some((_, sum)) => *sum += *took,
                None => layers.push((name.to_owned(), *took)),
            }
        }
        Ok(Times { nodes: layers, all: found.all })
    }

    fn planned(&self, of: &Subject, choice: &Choice) -> Result<Sequence, StudyError> {
        Ok(Sequence::of_packed(&of.layer, &of.packed, of.batch, choice, self.isa)?)
    }

    fn best(&mut self, of: &Subject, workers: usize) -> Result<Choice, StudyError> {
        Ok(self.ranking(of, workers)?[0].choice)
    }

    fn ranking(&mut self, of: &Subject, workers: usize) -> Result<Vec<Ranked>, StudyError> {
        let effort = Effort { time: self.time, ..Effort::default() };
        let goal = of.goal(workers);
        Ok(tune(&goal, &of.packed, &self.machine, self.isa, &mut self.team, effort)?)
    }

    /// Times calls of the whole input, in pieces of so many steps.
    fn time(
        &mut self,
        of: &mut Subject,
        mut sequence: Sequence,
        choice: Choice,
        steps: usize,
        is_bound: bool,
    ) -> Result<Measured, StudyError> {
        let rows = steps.clamp(1, of.steps) * of.batch;
        let team = if is_bound { &mut self.team } else { &mut self.loose };
        let [input, output] = [rows * of.layer.inputs(), rows * of.layer.outputs()];
        let mut call = || -> Result<f64, SequenceError> {
            let start = now();
            sequence.clear();
            for (input, output) in of.input.chunks(input).zip(of.output.chunks_mut(output)) {
                sequence.run_on(team, input, output)?;
            }
            Ok(start.elapsed().as_nanos() as f64)
        };
        // The first fetches what the next find.
        call()?;
        let (before, end) = ((self.count)(), now() + self.time);
        let mut times = Vec::new();
        while times.len() < 3 || now() < end {
            times.push(call()?);
        }
        let counted = before.zip((self.count)()).map(|(before, after)| after - before);
        let counted = counted.map(|all| all as f64 / times.len() as f64);
        times.sort_by(f64::total_cmp);
        let ns = times[times.len() / 2];
        Ok(Measured { ns, gflops: of.flops() / ns, counted, choice })
    }
}
