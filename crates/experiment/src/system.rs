//! What `--system` names: its data set, its labels, and the system itself.

pub mod by_value;
mod cheat;
pub mod cost;
mod model;
pub mod net;
pub mod npu;
mod numbers;
mod onnx;
mod policy;
pub mod rnn;
mod sample;
pub mod shapes;
pub mod task;
mod tokens;
mod trouble;
pub mod tuned;

use std::num::NonZero;
use std::sync::Arc;

use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::settings::{Scenario, nearest};
use dyno_loadgen::sut::{SimulatedSystem, SystemUnderTest};
use dyno_net::ledger::Entry;
use dyno_results::summary::InputShape;
use dyno_sut::batch;
use dyno_sut::cheat::Form;
use dyno_sut::digits::{self, DigitsLibrary, DigitsPerceptron};
use dyno_sut::engine::{About, Engine, Inline};
use dyno_sut::model::{Model, ServiceModel};
use dyno_sut::null::Null;
use dyno_sut::onnx::runtime::CAN_LOAD;
use dyno_sut::tensors::{Spans, TensorLibrary};
use dyno_task::judge::Judge;

use crate::environment;
use crate::failure::Failure;
use crate::options::RunOptions;
use crate::watch::Watch;
use crate::workers::RemoteWorkers;
use cheat::CheatSpec;
use npu::NpuSpec;
pub use numbers::Numbers;
use policy::Policies;
pub use sample::SampleInput;

/// Each system with how it is named and what it is.
pub const SYSTEMS: [(&str, &str); 15] = [
    (
        "digits",
        "UCI handwritten digits and a small perceptron, both built in; real data, real labels",
    ),
    (
        "digits-lstm",
        "the same digits, read row by row by a small LSTM that is built in, in Dyno's engine of \
         recurrent networks; digits-lstm:precision=bf16 or int8 in fewer bits",
    ),
    ("null", "answers at once; what is measured is the instrument"),
    (
        "onnx:FILE",
        if CAN_LOAD {
            "an ONNX model in ONNX Runtime (pip install onnxruntime); --data FILE.npy holds the \
             samples, --labels FILE.npy their classes. Without --data the samples are random: \
             figures of speed, never of quality"
        } else {
            "not available in this build: it is a static program, which cannot load ONNX Runtime; \
             use tract:FILE, or the build for glibc (pip install dyno-bench)"
        },
    ),
    (
        "tract:FILE",
        if cfg!(feature = "tract") {
            "an ONNX model in tract, which is built in; --data and --labels as for onnx:FILE"
        } else {
            "an ONNX model in tract; needs a build with --features tract"
        },
    ),
    ("tuned:model=FILE,formats=FILE", tuned::GRAMMAR),
    ("rnn:MODEL", rnn::GRAMMAR),
    ("task:NAME", task::GRAMMAR),
    ("oip:URL/MODEL", net::OIP),
    ("oip-grpc:HOST:PORT/MODEL", net::OIP_GRPC),
    ("openai:URL", net::OPENAI),
    ("raw:URL", net::RAW),
    ("model:SERVICE", model::GRAMMAR),
    ("npu:networks=NAMES", npu::GRAMMAR),
    ("cheat:TRICK", cheat::GRAMMAR),
];

/// Samples of a data set that exists in name only.
const SAMPLES_DEFAULT: usize = 1_024;

/// Samples in a batch, where nobody says.
pub const BATCH_DEFAULT: NonZero<usize> = NonZero::new(32).expect("32 is not 0");

/// The share of the reference's accuracy that the rules ask for.
const SHARE_OF_REFERENCE: f64 = 0.99;

/// Accuracy of the built-in perceptron on its test images, when it was trained.
const DIGITS_REFERENCE_ACCURACY: f64 = 519.0 / 540.0;

/// That of the built-in LSTM.
const LSTM_REFERENCE_ACCURACY: f64 = digits::LSTM_CORRECT as f64 / digits::TEST_COUNT as f64;

/// A system that is ready to be measured.
pub struct System {
    /// As it was named.
    pub spec: String,
    /// Its data set.
    pub library: Arc<dyn SampleLibrary>,
    /// Class of each sample, where it is known.
    pub labels: Option<Vec<i64>>,
    /// Accuracy that is asked for, in [0, 1].
    pub accuracy_target: Option<f64>,
    /// How answers are judged where there are no labels.
    pub judge: Option<Judge>,
    /// What is to be told of its files.
    pub remarks: Vec<String>,
    /// Those of them that say that data are others than the reference's.
    pub other_data: Vec<String>,
    kind: Kind,
    /// Workers with engines of their own, if it has them.
    pools: Option<rnn::Pools>,
    /// What its samples are, if they are tensors of a file.
    tensors: Option<Arc<TensorLibrary>>,
    /// Samples are random numbers.
    is_synthetic: bool,
    /// Added to the seed of a simulated system.
    repeat: u64,
    /// Of the times of a system that cheats.
    seed: u64,
    workers: Option<usize>,
    /// Where nobody says.
    offline_workers: usize,
    policies: Policies,
    /// Of the batches that it computed since somebody asked.
    pub batch_sizes: batch::Sizes,
    /// Workers that measure it in place of this process.
    pub remote_workers: Option<RemoteWorkers>,
}

enum Kind {
    Null,
    Remote(Box<net::Remote>),
    Engine(Arc<dyn Engine>),
    Simulated(Model),
    Npu(Box<NpuSpec>),
    Cheat(CheatSpec),
}

impl System {
    /// Loads what the options name.
    ///
    /// # Errors
    /// A name that does not read, or something that is missing.
    pub fn load(run: &RunOptions, watch: &Arc<dyn Watch>) -> Result<Self, Failure> {
        let spec = run.system.clone().unwrap_or_else(|| "digits".into());
        let (name, argument) = spec.split_once(':').unwrap_or((&spec, ""));
        let parts = parts((&spec, name, argument), run, watch)?;
        Self::from_parts(&spec, parts, run)
    }

    /// A system of the caller's own: an engine with its samples, and their classes if they have
    /// some.
    ///
    /// # Errors
    /// Options that an engine cannot have.
    pub fn from_engine(
        engine: Arc<dyn Engine>,
        library: Arc<dyn SampleLibrary>,
        labels: Option<Vec<i64>>,
        run: &RunOptions,
    ) -> Result<Self, Failure> {
        let spec = run.system.clone().unwrap_or_else(|| engine.name().to_owned());
        let parts = Parts { labels, ..Parts::new(Kind::Engine(engine), library) };
        Self::from_parts(&spec, parts, run)
    }

    fn from_parts(spec: &str, parts: Parts, run: &RunOptions) -> Result<Self, Failure> {
        let name = spec.split(':').next().unwrap_or(spec);
        if let Kind::Engine(engine) = &parts.kind {
            let output = engine.about().outputs.into_iter().next();
            let classes = output.and_then(|output| shapes::classes(&output.shape));
            shapes::check_labels(parts.labels.as_deref(), classes, run)?;
        }
        let Parts { kind, library, labels, tensors, target, .. } = parts;
        let (offline_workers, is_synthetic) = (parts.offline_workers, parts.is_synthetic);
        let has_servers = run.tenant_systems.iter().any(Option::is_some);
        if has_servers && !matches!(kind, Kind::Remote(_)) {
            let problem = format!("`{spec}` is no server, and a tenant has a system of its own");
            return Err(Failure::usage(problem)
                .hint("tenants may load different servers: see docs/tasks/tenants.md"));
        }
        let is_simulated = matches!(kind, Kind::Simulated(_) | Kind::Npu(_) | Kind::Cheat(_));
        if run.is_virtual && !is_simulated {
            let problem =
                format!("`{spec}` computes in real time and cannot be played in virtual time");
            return Err(Failure::usage(problem)
                .hint("leave out --virtual, or simulate: --system model:exponential=2ms"));
        }
        let is_digits = matches!(name, "digits" | "cheat") && labels.is_some();
        let policies = Policies::new(&kind, run);
        let reference = is_digits.then_some(SHARE_OF_REFERENCE * DIGITS_REFERENCE_ACCURACY);
        Ok(Self {
            library,
            accuracy_target: run.accuracy_target.or(target).or(reference),
            labels,
            judge: parts.judge,
            remarks: parts.remarks,
            other_data: parts.other_data,
            kind,
            pools: parts.pools,
            repeat: 0,
            seed: run.seed.unwrap_or(0),
            tensors,
            workers: run.workers,
            offline_workers: match policies.cores() {
                Some(cores) => cores.get().min(offline_workers),
                None => offline_workers,
            },
            is_synthetic,
            policies,
            batch_sizes: batch::Sizes::default(),
            remote_workers: RemoteWorkers::of(run)?,
            spec: spec.to_owned(),
        })
    }

    /// What readers must know of it.
    pub fn remark(&self) -> Option<&'static str> {
        match &self.kind {
            Kind::Simulated(_) | Kind::Npu(_) => {
                Some("The system is simulated: these are figures of a model.")
            }
            Kind::Cheat(_) => Some("The system is simulated, and made for audits to judge."),
            Kind::Null => {
                Some("The null system answers at once: these are figures of the instrument.")
            }
            Kind::Engine(_) | Kind::Remote(_) if self.is_synthetic => {
                Some("The samples are random: these are figures of speed, never of quality.")
            }
            Kind::Engine(_) | Kind::Remote(_) => None,
        }
    }

    /// The simulated NPU, if it is one.
    pub fn npu(&self) -> Option<&NpuSpec> {
        match &self.kind {
            Kind::Npu(npu) => Some(npu),
            _ => None,
        }
    }

    /// The server, if it is one.
    pub fn remote(&self) -> Option<&net::Remote> {
        match &self.kind {
            Kind::Remote(remote) => Some(remote),
            _ => None,
        }
    }

    /// The accounts of a tenant's answers in the last run; empty where answers are not text.
    pub fn ledger(&self, tenant: u8, samples: usize) -> Vec<Option<Entry>> {
        let reported = self.remote_workers.as_ref().and_then(RemoteWorkers::reported);
        match (reported, self.remote()) {
            (Some(reported), _) => reported.ledger(tenant, samples),
            (None, Some(remote)) => remote.ledger(tenant, samples),
            (None, None) => Vec::new(),
        }
    }

    /// Its name without its arguments.
    pub fn short_name(&self) -> &str {
        let spec = self.spec.strip_prefix("task:").unwrap_or(&self.spec);
        spec.split(':').next().unwrap_or(spec)
    }

    /// Whether it is measured in virtual time.
    pub fn is_simulated(&self) -> bool {
        matches!(self.kind, Kind::Simulated(_) | Kind::Npu(_) | Kind::Cheat(_))
    }

    /// The name that its logs have.
    pub fn engine_name(&self) -> &str {
        match &self.kind {
            Kind::Null => "null",
            Kind::Remote(remote) => remote.name(),
            Kind::Engine(engine) => engine.name(),
            Kind::Simulated(_) => "a queue with servers",
            Kind::Npu(_) => "a simulated NPU",
            Kind::Cheat(_) => "one server",
        }
    }

    /// What its engine tells of itself.
    pub fn about(&self) -> About {
        match &self.kind {
            Kind::Engine(engine) => About { warm_up: self.policies.warm_up(), ..engine.about() },
            _ => About::default(),
        }
    }

    /// Whether it tells first tokens and counts of tokens.
    pub fn reports_tokens(&self) -> bool {
        match &self.kind {
            Kind::Simulated(model) => model.tokens.is_some(),
            Kind::Cheat(cheat) => cheat.form() == Form::Text,
            Kind::Engine(engine) => engine.is_streaming(),
            Kind::Remote(remote) => remote.is_streaming,
            Kind::Null | Kind::Npu(_) => false,
        }
    }

    /// Whether anything judges its answers: labels, references, or the method of a task.
    pub fn is_scored(&self) -> bool {
        let has_references = || self.remote().is_some_and(|remote| remote.references().is_some());
        self.labels.is_some() || self.judge.is_some() || has_references()
    }

    /// Whether it computes in this process.
    pub fn is_engine(&self) -> bool {
        matches!(self.kind, Kind::Engine(_))
    }

    /// Whether its samples are random numbers.
    pub fn is_synthetic(&self) -> bool {
        self.is_synthetic
    }

    /// Shapes of a call with one sample, by input, where samples are tensors.
    pub fn shapes(&self) -> Vec<InputShape> {
        let ports = self.about().inputs;
        self.tensors.iter().flat_map(|library| shapes::effective(library, &ports)).collect()
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
        if matches!(self.kind, Kind::Cheat(_) | Kind::Npu(_) | Kind::Remote(_)) {
            // It queues and batches by itself.
            return 0;
        }
        // One that batches by length needs somebody who waits for its batches.
        let queues = |pools: &rnn::Pools| pools.is_bound() || scenario != Scenario::SingleStream;
        if let (None, Some(pools)) = (self.workers, &self.pools) {
            return usize::from(queues(pools)).max(self.policies.least_workers());
        }
        self.workers.unwrap_or(match (&self.kind, scenario) {
            (Kind::Simulated(model), Scenario::MultiStream | Scenario::Offline) => {
                model.servers.get()
            }
            (Kind::Engine(_), Scenario::Offline) => self.offline_workers,
            _ => self.policies.least_workers(),
        })
    }

    /// Whether samples of several queries may be computed together.
    pub fn is_batched(&self, scenario: Scenario) -> bool {
        !matches!(self.kind, Kind::Null) && self.workers(scenario) > 0
    }

    /// The system for one test in real time, warmed up for as long as the run goes on.
    ///
    /// # Errors
    /// If the operating system refuses a thread.
    ///
    /// # Panics
    /// If it is simulated.
    pub fn real_time(
        &self,
        scenario: Scenario,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Arc<dyn SystemUnderTest>, Failure> {
        let engine = match &self.kind {
            Kind::Null => return Ok(Arc::new(Null)),
            Kind::Remote(remote) => return Ok(remote.client()),
            Kind::Engine(engine) => engine.clone(),
            Kind::Simulated(_) | Kind::Npu(_) | Kind::Cheat(_) => {
                panic!("a simulated system has no real time")
            }
        };
        let workers = NonZero::new(self.workers(scenario));
        let policy = self.policies.batching(scenario, engine.about().largest_batch);
        if let (Some(pools), Some(_)) = (&self.pools, workers) {
            for engine in pools.engines() {
                self.policies.warm(&**engine, policy.max_size, goes_on);
            }
            return pools.start(policy, &self.batch_sizes);
        }
        // Workers that are started meanwhile are bound as well.
        let _bound = self.policies.bound()?;
        let batch = workers.map_or(NonZero::<usize>::MIN, |_| policy.max_size);
        self.policies.warm(&engine, batch, goes_on);
        let Some(workers) = workers else {
            return Ok(Arc::new(match self.policies.said(scenario) {
                Some(most) => Inline::new(engine).at_most(most),
                None => Inline::new(engine),
            }));
        };
        let pool = batch::RealTime::start(engine, policy, workers);
        let pool = pool.map_err(|error| {
            Failure::set_up(format!("cannot start {workers} workers: {error}"))
                .hint("lower --workers")
        })?;
        Ok(Arc::new(pool.counting(self.batch_sizes.clone())))
    }

    /// Gives further tests of a simulated system the random numbers of this
    /// repeat; 0 are those that were asked for.
    pub fn repeat(&mut self, number: u64) {
        self.repeat = number;
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
    pub fn simulated(&self, plan: &Plan) -> Box<dyn SimulatedSystem> {
        // The next seed is that of the faults.
        let repeated = |seed: u64| seed.wrapping_add(self.repeat.wrapping_mul(2));
        let (model, scenario) = match &self.kind {
            Kind::Simulated(model) => (model, plan.scenario()),
            Kind::Cheat(cheat) => return Box::new(cheat.system(plan, repeated(self.seed))),
            Kind::Npu(npu) => return Box::new(npu.system()),
            Kind::Null | Kind::Engine(_) | Kind::Remote(_) => panic!("only a model is simulated"),
        };
        let seed = repeated(model.seed);
        let seeded = Model { seed, ..model.clone() };
        let system = ServiceModel::new(seeded).expect("the model was built when it was read");
        match NonZero::new(self.workers(scenario)) {
            Some(workers) => {
                let policy = self.policies.batching(scenario, 0);
                let batched = batch::Simulated::new(system, policy, workers);
                Box::new(batched.counting(self.batch_sizes.clone()))
            }
            None => Box::new(system),
        }
    }
}

/// What a system is made of, before anybody says how it is driven.
struct Parts {
    kind: Kind,
    library: Arc<dyn SampleLibrary>,
    labels: Option<Vec<i64>>,
    tensors: Option<Arc<TensorLibrary>>,
    pools: Option<rnn::Pools>,
    /// Accuracy that its task asks for.
    target: Option<f64>,
    judge: Option<Judge>,
    remarks: Vec<String>,
    other_data: Vec<String>,
    offline_workers: usize,
    is_synthetic: bool,
}

impl Parts {
    fn new(kind: Kind, library: Arc<dyn SampleLibrary>) -> Self {
        Self {
            kind,
            library,
            labels: None,
            tensors: None,
            pools: None,
            target: None,
            judge: None,
            remarks: Vec::new(),
            other_data: Vec::new(),
            offline_workers: environment::cores(),
            is_synthetic: false,
        }
    }
}

fn parts(
    (spec, name, argument): (&str, &str, &str),
    run: &RunOptions,
    watch: &Arc<dyn Watch>,
) -> Result<Parts, Failure> {
    let numbers = || Arc::new(Numbers { count: run.samples_or_of_round(SAMPLES_DEFAULT) });
    match name {
        "onnx" | "tract" => {
            let loaded = onnx::load(name, argument, &Spans::new(), None, run)?;
            Ok(Parts {
                labels: loaded.library.labels().map(<[i64]>::to_vec),
                tensors: Some(loaded.library.clone()),
                offline_workers: loaded.offline_workers,
                is_synthetic: run.data.is_empty(),
                ..Parts::new(Kind::Engine(loaded.engine), loaded.library)
            })
        }
        "tuned" => {
            let loaded = tuned::load(argument, run)?;
            Ok(Parts {
                labels: loaded.library.labels().map(<[i64]>::to_vec),
                tensors: Some(loaded.library.clone()),
                is_synthetic: run.data.is_empty(),
                remarks: loaded.remarks,
                ..Parts::new(Kind::Engine(loaded.engine), loaded.library)
            })
        }
        "task" => {
            let loaded = task::load(argument, run, watch)?;
            Ok(Parts {
                is_synthetic: loaded.is_synthetic,
                labels: loaded.labels,
                judge: loaded.judge,
                remarks: loaded.remarks,
                other_data: loaded.other_data,
                tensors: loaded.tensors,
                target: loaded.target,
                offline_workers: loaded.offline_workers,
                pools: loaded.pools,
                ..Parts::new(Kind::Engine(loaded.engine), loaded.library)
            })
        }
        "rnn" => Ok(recurrent(rnn::load(argument, run)?)),
        "digits-lstm" => Ok(Parts {
            labels: Some(digits::labels()),
            target: Some(SHARE_OF_REFERENCE * LSTM_REFERENCE_ACCURACY),
            ..recurrent(rnn::load_digits(argument, run)?)
        }),
        "digits" => {
            let engine = Kind::Engine(Arc::new(DigitsPerceptron::new()));
            let parts = Parts::new(engine, Arc::new(DigitsLibrary));
            Ok(Parts { labels: Some(digits::labels()), ..parts })
        }
        "null" => Ok(Parts::new(Kind::Null, numbers())),
        "oip" | "oip-grpc" | "openai" | "raw" => Ok(served(net::load(name, argument, run)?)),
        "model" => Ok(Parts::new(Kind::Simulated(read_model(spec, argument, run)?), numbers())),
        "npu" => {
            let npu = NpuSpec::read(spec, argument, &**watch)?;
            let remarks = npu.remarks();
            Ok(Parts { remarks, ..Parts::new(Kind::Npu(Box::new(npu)), numbers()) })
        }
        "cheat" => {
            let cheat = CheatSpec::read(spec, argument)?;
            let labels = (cheat.form() == Form::Class).then(digits::labels);
            let images = Arc::new(cheat.images);
            Ok(Parts { labels, ..Parts::new(Kind::Cheat(cheat), images) })
        }
        other => Err(unknown(other)),
    }
}

fn served(loaded: net::Loaded) -> Parts {
    Parts {
        labels: loaded.labels,
        tensors: loaded.tensors,
        is_synthetic: loaded.is_synthetic,
        remarks: loaded.remarks,
        ..Parts::new(Kind::Remote(Box::new(loaded.remote)), loaded.library)
    }
}

fn recurrent(loaded: rnn::Loaded) -> Parts {
    Parts {
        judge: loaded.judge,
        remarks: loaded.remarks,
        is_synthetic: loaded.is_synthetic,
        pools: Some(loaded.pools),
        ..Parts::new(Kind::Engine(loaded.engine), loaded.library)
    }
}

fn read_model(spec: &str, argument: &str, run: &RunOptions) -> Result<Model, Failure> {
    let model = model::parse(argument, run.seed).and_then(|model| {
        // Built once to be checked; each test builds its own.
        ServiceModel::new(model.clone()).map(|_| model).map_err(|error| error.to_string())
    });
    model.map_err(|expected| {
        Failure::usage(format!("system `{spec}`: {expected}"))
            .hint("for example model:exponential=2ms,servers=4; see dyno info systems")
    })
}

fn unknown(name: &str) -> Failure {
    let names = SYSTEMS.map(|(name, _)| name.split(':').next().unwrap_or(name));
    let near = nearest(name, names.into_iter()).unwrap_or("digits");
    Failure::usage(format!("unknown system `{name}`; the nearest is `{near}`"))
        .hint(format!("the systems are {}; see dyno info systems", names.join(", ")))
}
