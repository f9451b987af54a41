//! Systems under test, as `--system` names them, with their data sets and labels.

pub mod by_value;
mod cheat;
pub mod cost;
mod digits;
mod kind;
mod lines;
mod model;
pub mod net;
pub mod npu;
mod null;
mod numbers;
pub(crate) mod onnx;
mod plugin;
mod policy;
mod python;
pub mod rnn;
mod sample;
pub mod shapes;
mod target;
pub mod task;
mod tokens;
mod trouble;
pub mod tuned;
mod workload;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::record::Record;
use dyno_loadgen::settings::{Origin, Scenario, Settings};
use dyno_loadgen::sut::{SimulatedSystem, SystemUnderTest};
use dyno_net::ledger::Entry;
use dyno_results::records::RetryColumns;
use dyno_results::summary::InputShape;
use dyno_sut::batch;
use dyno_sut::engine::{Engine, EngineInfo, InlineSystem};
use dyno_sut::null::Null;
use dyno_sut::tensors::TensorLibrary;
use dyno_task::judge::Judge;

use crate::failure::{Failure, reject_special};
use crate::options::{RunOptions, is_chosen, is_open};
use crate::watch::Watch;
use crate::workers::RemoteWorkers;
use kind::{Drive, OpenedSystem, Request, WorkerPool};
pub use kind::{Resources, SYSTEMS, SystemKind};
use net::WireTimes;
use npu::NpuSpec;
pub use numbers::Numbers;
pub use onnx::read_model;
use policy::Policies;
pub use sample::SampleInput;
pub use target::Target;

/// Default number of samples of a generated data set.
const SAMPLES_DEFAULT: usize = 1_024;

/// Default batch size.
pub const BATCH_DEFAULT: NonZero<usize> = NonZero::new(32).expect("32 is not 0");

/// A system that is ready to be measured.
///
/// ```
/// use dyno_experiment::options::RunOptions;
/// use dyno_experiment::quiet;
/// use dyno_experiment::system::System;
///
/// let run = RunOptions { system: Some("model:fixed=1ms".into()), ..RunOptions::default() };
/// let system = System::load(&run, &quiet())?;
/// assert!(system.is_simulated());
/// # Ok::<(), dyno_experiment::Failure>(())
/// ```
pub struct System {
    /// Specification of the system.
    pub spec: String,
    /// Data set.
    pub library: Arc<dyn SampleLibrary>,
    /// Class of each sample, if known.
    pub labels: Option<Vec<i64>>,
    /// Accuracy target, in [0, 1].
    pub accuracy_target: Option<f64>,
    /// Method that judges answers without labels.
    pub judge: Option<Judge>,
    /// Remarks on its files.
    pub remarks: Vec<String>,
    /// Remarks on data that differ from those of the reference.
    pub other_data: Vec<String>,
    /// Remark on figures that are not those of a real system.
    caution: Option<&'static str>,
    drive: Drive,
    /// Workers with separate engines, if any.
    pools: Option<rnn::Pools>,
    /// Samples, if they are tensors of a file.
    tensors: Option<Arc<TensorLibrary>>,
    /// What determines the requests to a server; `None` for other systems.
    pub workload: Option<String>,
    /// Hashes of its files of samples, labels and references, by their use.
    pub files: BTreeMap<String, String>,
    /// Whether samples are generated, not read from a file.
    is_synthetic: bool,
    /// Added to the seed of a simulated system.
    repeat: u64,
    workers: Option<usize>,
    /// Default number of workers in Offline.
    offline_workers: usize,
    policies: Policies,
    /// Sizes of the batches that it computed since the last `take`.
    pub batch_sizes: batch::BatchSizes,
    /// Remote workers that measure it instead of this process.
    pub remote_workers: Option<RemoteWorkers>,
}

/// Rejects a kind of time that the system does not have.
fn check_time(spec: &str, drive: &Drive, run: &RunOptions) -> Result<(), Failure> {
    let (problem, hint) = match (run.is_virtual, drive.is_virtual()) {
        (Some(true), false) => (
            format!("`{spec}` computes in real time and cannot run in virtual time"),
            "remove --virtual, or simulate: --system model:exponential=2ms",
        ),
        (Some(false), true) => (
            format!("`{spec}` is simulated and cannot run in real time"),
            "remove --virtual=false and `virtual = false`, or measure a real system, such as null",
        ),
        _ => return Ok(()),
    };
    Err(Failure::usage(problem).hint(hint))
}

/// Returns the files that options name: models, data, and those of the system.
pub(crate) fn named_files(run: &RunOptions) -> Vec<PathBuf> {
    let spec = run.system.as_deref().unwrap_or_default();
    let resources = SystemKind::of_spec(spec).map(|(kind, operand)| (kind.resources)(operand));
    let given = run.model.iter().chain(run.data.iter().map(|(_, path)| path));
    let given = given.chain(&run.labels).chain(run.with.iter().map(|(_, path)| path));
    given.cloned().chain(resources.unwrap_or_default().files).collect()
}

impl System {
    /// Loads the system that the options name.
    ///
    /// # Errors
    /// An invalid specification, or a missing file or service.
    pub fn load(run: &RunOptions, watch: &Arc<dyn Watch>) -> Result<Self, Failure> {
        let spec = run.system.as_deref().unwrap_or("digits");
        let (kind, operand) = SystemKind::of_spec(spec)
            .map_err(|unknown| Failure::usage(unknown).hint(target::systems()))?;
        named_files(run).iter().chain(&run.ort_lib).try_for_each(|path| reject_special(path))?;
        let opened = (kind.open)(&Request { spec, operand, run, watch })?;
        Self::from_opened(spec, opened, run)
    }

    /// Returns a system with an engine of the caller, its samples, and their classes, if known.
    ///
    /// # Errors
    /// Options that an engine does not support.
    pub fn from_engine(
        engine: Arc<dyn Engine>,
        library: Arc<dyn SampleLibrary>,
        labels: Option<Vec<i64>>,
        run: &RunOptions,
    ) -> Result<Self, Failure> {
        let spec = run.system.clone().unwrap_or_else(|| engine.name().to_owned());
        let opened = OpenedSystem { labels, ..OpenedSystem::new(Drive::Engine(engine), library) };
        Self::from_opened(&spec, opened, run)
    }

    fn from_opened(spec: &str, opened: OpenedSystem, run: &RunOptions) -> Result<Self, Failure> {
        let spec = net::without_secrets(spec);
        let OpenedSystem { drive, library, labels, offline_workers, mut remarks, .. } = opened;
        if let Drive::Engine(engine) = &drive {
            let info = engine.info();
            remarks.extend(info.remarks);
            let has_others = info.outputs.len() > 1;
            if let ([answer, _, ..], true) = (&info.outputs[..], labels.is_some()) {
                remarks.push(format!(
                    "The model has {} outputs; labels are compared with `{}`.",
                    info.outputs.len(),
                    answer.name
                ));
            }
            let output = info.outputs.into_iter().next();
            if let Some(output) = output.as_ref().filter(|_| labels.is_some()) {
                let has_choice = has_others && onnx::has_choice_of_output(&spec);
                shapes::check_scores(output, run).map_err(|failure| {
                    if has_choice {
                        failure.hint("output=NAME of the system scores another output")
                    } else {
                        failure
                    }
                })?;
            }
            let classes = output.and_then(|output| shapes::classes(&output.element, &output.shape));
            shapes::check_labels(labels.as_deref(), classes, run)?;
        }
        let has_servers = run.tenant_systems.iter().any(Option::is_some);
        if has_servers && !matches!(drive, Drive::Remote(_)) {
            let problem = format!("`{spec}` is not a server, and a tenant has its own system");
            return Err(Failure::usage(problem)
                .hint("tenants may load different servers: see docs/tasks/tenants.md"));
        }
        check_time(&spec, &drive, run)?;
        let policies = Policies::new(drive.is_virtual(), run);
        let is_server = matches!(drive, Drive::Remote(_));
        Ok(Self {
            workload: is_server.then(|| workload::workload(&spec, run)),
            files: workload::files(&spec, run),
            library,
            accuracy_target: run.accuracy_target.or(opened.target),
            labels,
            judge: opened.judge,
            remarks,
            other_data: opened.other_data,
            caution: opened.caution,
            drive,
            pools: opened.pools,
            repeat: 0,
            tensors: opened.tensors,
            workers: run.workers.or(opened.workers),
            offline_workers: match policies.cores() {
                Some(cores) => cores.get().min(offline_workers),
                None => offline_workers,
            },
            is_synthetic: opened.is_synthetic,
            policies,
            batch_sizes: batch::BatchSizes::default(),
            remote_workers: RemoteWorkers::from_options(run)?,
            spec,
        })
    }

    /// Returns a remark for readers of its figures.
    pub fn remark(&self) -> Option<&'static str> {
        const SYNTHETIC: &str = "The samples are random: the figures describe speed, not quality.";
        self.caution.or(self.has_random_samples().then_some(SYNTHETIC))
    }

    /// Returns the simulated NPU, if it is one.
    pub fn npu(&self) -> Option<&NpuSpec> {
        match &self.drive {
            Drive::Virtual(simulation) => simulation.npu(),
            Drive::Null | Drive::Engine(_) | Drive::Remote(_) | Drive::Plugin(_) => None,
        }
    }

    /// Returns the server, if it is one.
    pub fn remote(&self) -> Option<&net::Remote> {
        match &self.drive {
            Drive::Remote(remote) => Some(remote),
            Drive::Null | Drive::Engine(_) | Drive::Plugin(_) | Drive::Virtual(_) => None,
        }
    }

    /// Returns the accounts of the answers to the samples of a tenant's record of the last run; empty
    /// if answers are not text.
    pub fn ledger(&self, tenant: u8, record: &Record) -> Vec<Option<Entry>> {
        let reported = self.remote_workers.as_ref().and_then(RemoteWorkers::reported);
        match (reported, self.remote()) {
            (Some(reported), _) => {
                net::measured_entries(record, reported.ledger(tenant, record.played()))
            }
            (None, Some(remote)) => remote.ledger(tenant, record),
            (None, None) => Vec::new(),
        }
    }

    /// Returns when the requests of a tenant's record of the last run were on the wire. Empty without a
    /// server.
    pub fn wire_times(&self, tenant: u8, record: &Record) -> WireTimes {
        let reported = self.remote_workers.as_ref().and_then(RemoteWorkers::reported);
        let played = record.played();
        match (reported, self.remote()) {
            (Some(reported), Some(_)) => WireTimes {
                sent: net::measured_stamps(record, reported.sent(tenant, played)),
                retries: net::measured_retries(record, reported.retry_times(tenant, played)),
            },
            (None, Some(remote)) => remote.wire_times(tenant, record),
            (_, None) => WireTimes::default(),
        }
    }

    /// Returns the retries of each sample of a tenant's record of the last run; `None` without a server.
    pub fn retries(&self, tenant: u8, record: &Record) -> Option<RetryColumns> {
        let remote = self.remote()?;
        let played = record.played();
        Some(match self.remote_workers.as_ref().and_then(RemoteWorkers::reported) {
            Some(reported) => RetryColumns {
                counts: net::measured(record, reported.retries(tenant, played)),
                waits_ns: net::measured(record, reported.retry_waits(tenant, played)),
            },
            None => RetryColumns {
                counts: remote.retries(tenant, record),
                waits_ns: remote.retry_waits(tenant, record),
            },
        })
    }

    /// Returns its name without arguments.
    pub(crate) fn short_name(&self) -> &str {
        let spec = self.spec.strip_prefix("task:").unwrap_or(&self.spec);
        spec.split(':').next().unwrap_or(spec)
    }

    /// Returns whether it is measured in virtual time.
    pub fn is_simulated(&self) -> bool {
        self.drive.is_virtual()
    }

    /// Returns its name in logs.
    pub(crate) fn engine_name(&self) -> &str {
        self.drive.name()
    }

    /// Returns the description of its engine.
    pub fn about(&self) -> EngineInfo {
        match &self.drive {
            Drive::Engine(engine) => {
                EngineInfo { warm_up: self.policies.warm_up(), ..engine.info() }
            }
            Drive::Plugin(plugin) => plugin.info().clone(),
            Drive::Null | Drive::Remote(_) | Drive::Virtual(_) => EngineInfo::default(),
        }
    }

    /// Sets settings that follow from the system, unless they are set.
    pub fn complete(&self, run: &RunOptions, settings: &mut Settings) {
        if let Some(remote) = self.remote() {
            return remote.complete(settings);
        }
        let why = if run.needs_tokens() {
            "token latencies are wanted"
        } else if matches!(self.drive, Drive::Plugin(_))
            && !is_chosen(settings, "server_target_latency_ns")
        {
            "the plug-in reports first tokens"
        } else {
            return;
        };
        let key = "use_token_latencies";
        if self.reports_tokens() && is_open(settings, key) {
            settings.set(key, "true", Origin::Code(why)).expect("a setting that exists");
        }
    }

    /// Returns whether it reports first tokens and token counts.
    pub fn reports_tokens(&self) -> bool {
        self.drive.reports_tokens()
    }

    /// Returns whether labels, references or the method of a task judge its answers.
    pub fn is_scored(&self) -> bool {
        let has_references = || self.remote().is_some_and(|remote| remote.references().is_some());
        self.labels.is_some() || self.judge.is_some() || has_references()
    }

    /// Returns whether it computes in this process.
    pub(crate) fn is_engine(&self) -> bool {
        matches!(self.drive, Drive::Engine(_))
    }

    /// Returns whether its samples are generated, not read from a file.
    pub(crate) fn is_synthetic(&self) -> bool {
        self.is_synthetic
    }

    /// Returns whether its samples are random numbers or texts. Generated samples of `raw:` are their
    /// positions.
    pub fn has_random_samples(&self) -> bool {
        self.is_synthetic && self.short_name() != "raw"
    }

    /// Returns the shapes of a call with one sample, by input, if samples are tensors.
    pub fn shapes(&self) -> Vec<InputShape> {
        let ports = self.about().inputs;
        self.tensors.iter().flat_map(|library| shapes::effective(library, &ports)).collect()
    }

    /// Returns the name and size of the data set.
    pub fn library_size(&self) -> Library {
        Library {
            total: self.library.total_sample_count() as u64,
            performance: self.library.performance_sample_count() as u64,
        }
    }

    /// Returns the number of computing threads in this scenario; 0 is the issuing thread.
    fn workers(&self, scenario: Scenario) -> usize {
        let by_drive = self.drive.workers(scenario, &self.policies, self.offline_workers);
        let Some(by_drive) = by_drive else { return 0 };
        let by_pools = self.pools.as_ref().map(|pools| {
            // A system that batches by length needs a worker that waits for its batches.
            let queues = pools.is_bound() || scenario != Scenario::SingleStream;
            usize::from(queues).max(self.policies.least_workers())
        });
        self.workers.or(by_pools).unwrap_or(by_drive)
    }

    /// Returns whether samples of several queries may be computed together.
    pub fn is_batched(&self, scenario: Scenario) -> bool {
        !matches!(self.drive, Drive::Null) && self.workers(scenario) > 0
    }

    /// Returns the system for one test in real time, warmed up unless `goes_on` returns false.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    ///
    /// # Panics
    /// The system is simulated.
    pub fn real_time(
        &self,
        scenario: Scenario,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Arc<dyn SystemUnderTest>, Failure> {
        let engine = match &self.drive {
            Drive::Null => return Ok(Arc::new(Null)),
            Drive::Remote(remote) => return Ok(remote.client()),
            Drive::Plugin(plugin) => return Ok(plugin.clone()),
            Drive::Engine(engine) => engine.clone(),
            Drive::Virtual(_) => panic!("a simulated system has no real time"),
        };
        let workers = NonZero::new(self.workers(scenario));
        let policy = self.policies.batching(scenario, engine.info().largest_batch);
        if let (Some(pools), Some(_)) = (&self.pools, workers) {
            for engine in pools.engines() {
                self.policies.warm(&**engine, policy.max_size, goes_on);
            }
            return pools.start(policy, &self.batch_sizes);
        }
        // Workers that are started while this thread is bound inherit the binding.
        let _bound = self.policies.bound()?;
        let batch = workers.map_or(NonZero::<usize>::MIN, |_| policy.max_size);
        self.policies.warm(&engine, batch, goes_on);
        let Some(workers) = workers else {
            return Ok(Arc::new(match self.policies.said(scenario) {
                Some(most) => InlineSystem::new(engine).with_batch_limit(most),
                None => InlineSystem::new(engine),
            }));
        };
        let pool = batch::BatchingPool::start(engine, policy, workers);
        let pool = pool.map_err(|error| {
            Failure::set_up(format!("cannot start {workers} workers: {error}"))
                .hint("lower --workers")
        })?;
        Ok(Arc::new(pool.with_batch_sizes(self.batch_sizes.clone())))
    }

    /// Selects the random numbers of further tests of a simulated system by the number of a repeat;
    /// 0 selects those of the given seed.
    pub fn repeat(&mut self, number: u64) {
        self.repeat = number;
    }

    /// Returns a new system for one test in virtual time, so that every test begins with equal
    /// random numbers.
    ///
    /// A model receives whole queries. Unless workers are requested, it receives the samples of
    /// larger queries one by one, or in batches of `--batch`, so that its servers share them.
    ///
    /// # Panics
    /// The system is not simulated.
    pub fn simulated(&self, plan: &Plan) -> Box<dyn SimulatedSystem> {
        let Drive::Virtual(simulation) = &self.drive else { panic!("only a model is simulated") };
        let scenario = plan.scenario();
        let batching = NonZero::new(self.workers(scenario)).map(|workers| WorkerPool {
            policy: self.policies.batching(scenario, 0),
            workers,
            sizes: self.batch_sizes.clone(),
        });
        simulation.system(plan, self.repeat, batching)
    }
}
