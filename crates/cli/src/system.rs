//! What `--system` names: its data set, its labels, and the system itself.

mod model;

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use dyno_loadgen::plan::Library;
use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};
use dyno_loadgen::settings::{Scenario, nearest};
use dyno_loadgen::sut::{QuerySample, SimulatedSystem, SystemUnderTest};
use dyno_sut::batch::{self, Policy};
use dyno_sut::digits::{self, DigitsLibrary, DigitsPerceptron};
use dyno_sut::engine::{Answers, Engine, Inline};
use dyno_sut::model::{Model, ServiceModel};
use dyno_sut::null::Null;

use crate::environment;
use crate::exit::Failure;
use crate::options::RunOptions;

/// Each system with how it is named and what it is.
pub const SYSTEMS: [(&str, &str); 5] = [
    (
        "digits",
        "UCI handwritten digits and a small perceptron, both built in; real data, real labels",
    ),
    ("null", "answers at once; what is measured is the instrument"),
    ("onnx:FILE", "an ONNX model in ONNX Runtime; --data FILE.npy holds the samples"),
    ("tract:FILE", "an ONNX model in tract; needs a build with --features tract"),
    ("model:SERVICE", model::GRAMMAR),
];

/// Samples of a data set that exists in name only.
const SAMPLES_DEFAULT: usize = 1_024;

/// Samples in a batch, where nobody says.
const BATCH_DEFAULT: NonZero<usize> = NonZero::new(32).expect("32 is not 0");

/// The share of the reference's accuracy that the rules ask for.
const SHARE_OF_REFERENCE: f64 = 0.99;

/// Accuracy of the built-in perceptron on its test images, when it was trained.
const DIGITS_REFERENCE_ACCURACY: f64 = 519.0 / 540.0;

/// A system that is ready to be measured.
pub struct System {
    /// As it was named.
    pub spec: String,
    /// Its data set.
    pub library: Box<dyn SampleLibrary>,
    /// Class of each sample, where it is known.
    pub labels: Option<Vec<i64>>,
    /// Accuracy that is asked for, in [0, 1].
    pub accuracy_target: Option<f64>,
    kind: Kind,
    workers: Option<usize>,
    policy: Policy,
}

enum Kind {
    Null,
    Engine(Arc<dyn Engine>),
    Simulated(Model),
}

impl System {
    /// Loads what the options name.
    ///
    /// # Errors
    /// A name that does not read, or something that is missing.
    pub fn load(run: &RunOptions) -> Result<Self, Failure> {
        let spec = run.system.clone().unwrap_or_else(|| "digits".into());
        let (name, argument) = spec.split_once(':').unwrap_or((&spec, ""));
        let unnamed =
            || Box::new(Numbers { count: run.samples.map_or(SAMPLES_DEFAULT, NonZero::get) });
        let (kind, library): (Kind, Box<dyn SampleLibrary>) = match name {
            "digits" => (Kind::Engine(Arc::new(DigitsPerceptron::new())), Box::new(DigitsLibrary)),
            "null" => (Kind::Null, unnamed()),
            "model" => {
                let model = model::parse(argument, run.seed).and_then(|model| {
                    // Built once to be checked; each test builds its own.
                    ServiceModel::new(model.clone()).map(|_| model).map_err(|e| e.to_string())
                });
                let model = model.map_err(|expected| {
                    Failure::usage(format!("system `{spec}`: {expected}"))
                        .hint("for example model:exponential=2ms,servers=4; see dyno info systems")
                })?;
                (Kind::Simulated(model), unnamed())
            }
            "onnx" | "tract" => load_model(name, argument, run)?,
            other => return Err(unknown(other)),
        };
        let is_simulated = matches!(kind, Kind::Simulated(_));
        if run.is_virtual && !is_simulated {
            let problem =
                format!("`{spec}` computes in real time and cannot be played in virtual time");
            return Err(Failure::usage(problem)
                .hint("leave out --virtual, or simulate: --system model:exponential=2ms"));
        }
        let is_digits = name == "digits";
        let batch_default = if is_simulated { NonZero::<usize>::MIN } else { BATCH_DEFAULT };
        let labels = match &run.labels {
            Some(path) => Some(read_labels(path, library.total_sample_count())?),
            None => is_digits.then(digits::labels),
        };
        let reference = is_digits.then_some(SHARE_OF_REFERENCE * DIGITS_REFERENCE_ACCURACY);
        Ok(Self {
            library,
            accuracy_target: run.accuracy_target.or(reference),
            labels,
            kind,
            workers: run.workers,
            policy: Policy {
                max_size: run.batch.unwrap_or(batch_default),
                max_wait: run.batch_wait.unwrap_or(0),
            },
            spec,
        })
    }

    /// Its name without its arguments.
    pub fn short_name(&self) -> &str {
        self.spec.split(':').next().unwrap_or(&self.spec)
    }

    /// Whether it is measured in virtual time.
    pub fn is_simulated(&self) -> bool {
        matches!(self.kind, Kind::Simulated(_))
    }

    /// What the data set reports of itself.
    pub fn library_size(&self) -> Library {
        Library {
            total: self.library.total_sample_count() as u64,
            performance: self.library.performance_sample_count() as u64,
        }
    }

    /// Threads that compute in this scenario; 0 is the issuing thread.
    ///
    /// One query at a time gains nothing from a second thread, and a Server
    /// query of a small engine is computed in less than it takes to wake one.
    fn workers(&self, scenario: Scenario) -> usize {
        self.workers.unwrap_or(match scenario {
            Scenario::Offline => environment::cores(),
            _ => 0,
        })
    }

    /// The system for one test in real time.
    ///
    /// # Errors
    /// If the operating system refuses a thread.
    ///
    /// # Panics
    /// If it is simulated.
    pub fn real_time(&self, scenario: Scenario) -> Result<Arc<dyn SystemUnderTest>, Failure> {
        let engine = match &self.kind {
            Kind::Null => return Ok(Arc::new(Null)),
            Kind::Engine(engine) => Shared(engine.clone()),
            Kind::Simulated(_) => panic!("a simulated system has no real time"),
        };
        let Some(workers) = NonZero::new(self.workers(scenario)) else {
            return Ok(Arc::new(Inline::new(engine)));
        };
        let pool = batch::RealTime::start(engine, self.policy, workers);
        let pool = pool.map_err(|error| {
            Failure::set_up(format!("cannot start {workers} workers: {error}"))
                .hint("lower --workers")
        })?;
        Ok(Arc::new(pool))
    }

    /// The system for one test in virtual time, fresh, so that every test
    /// begins with the same random numbers.
    ///
    /// A model takes whole queries. Unless workers are asked for, the samples
    /// of larger queries reach it one by one (or in batches of --batch), so that
    /// its servers share them.
    ///
    /// # Panics
    /// If it is not simulated.
    pub fn simulated(&self, scenario: Scenario) -> Box<dyn SimulatedSystem> {
        let Kind::Simulated(model) = &self.kind else {
            panic!("only a model is simulated");
        };
        let system =
            ServiceModel::new(model.clone()).expect("the model was built when it was read");
        let is_larger = matches!(scenario, Scenario::MultiStream | Scenario::Offline);
        let servers = if is_larger { model.servers.get() } else { 0 };
        match NonZero::new(self.workers.unwrap_or(servers)) {
            Some(workers) => Box::new(batch::Simulated::new(system, self.policy, workers)),
            None => Box::new(system),
        }
    }
}

fn unknown(name: &str) -> Failure {
    let names = SYSTEMS.map(|(name, _)| name.split(':').next().unwrap_or(name));
    let near = nearest(name, names.into_iter()).unwrap_or("digits");
    Failure::usage(format!("unknown system `{name}`; the nearest is `{near}`"))
        .hint(format!("the systems are {}; see dyno info systems", names.join(", ")))
}

fn load_model(
    _engine: &str,
    _file: &str,
    _run: &RunOptions,
) -> Result<(Kind, Box<dyn SampleLibrary>), Failure> {
    Err(Failure::set_up("this build has no ONNX adapter"))
}

fn read_labels(_path: &PathBuf, _count: usize) -> Result<Vec<i64>, Failure> {
    Err(Failure::set_up("this build cannot read labels"))
}

/// One engine behind several systems, one after the other.
struct Shared(Arc<dyn Engine>);

impl Engine for Shared {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
        self.0.answer(samples, answers);
    }
}

/// A data set whose samples are nothing but numbers.
pub struct Numbers {
    /// How many.
    pub count: usize,
}

impl SampleLibrary for Numbers {
    fn name(&self) -> &str {
        "numbers"
    }

    fn total_sample_count(&self) -> usize {
        self.count
    }

    fn performance_sample_count(&self) -> usize {
        self.count
    }

    fn load(&self, _samples: &[SampleIndex]) {}

    fn unload(&self, _samples: &[SampleIndex]) {}
}
