//! The table of systems. Each row is defined in the file that opens the system.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use dyno_loadgen::plan::Plan;
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::settings::Scenario;
use dyno_loadgen::sut::{SimulatedSystem, SystemUnderTest as _};
use dyno_plugin::PluginSystem;
use dyno_sut::batch;
use dyno_sut::engine::Engine;
use dyno_sut::tensors::TensorLibrary;
use dyno_task::judge::Judge;

use super::npu::NpuSpec;
use super::policy::Policies;
use super::target::unknown_system;
use super::{cheat, digits, model, net, npu, null, onnx, plugin, python, rnn, task, tuned};
use crate::environment;
use crate::failure::Failure;
use crate::options::RunOptions;
use crate::watch::Watch;

/// Every kind of system, in the order of help texts.
pub const SYSTEMS: [&SystemKind; 17] = [
    &digits::KIND,
    &rnn::DIGITS_LSTM,
    &null::KIND,
    &onnx::ONNX,
    &onnx::TRACT,
    &tuned::KIND,
    &rnn::KIND,
    &task::KIND,
    &python::KIND,
    &plugin::KIND,
    &net::OIP,
    &net::OIP_GRPC,
    &net::OPENAI,
    &net::RAW,
    &model::KIND,
    &npu::KIND,
    &cheat::KIND,
];

/// A kind of system: how it is named, what it accepts, and how it is opened.
pub struct SystemKind {
    /// Its name in a specification, such as `onnx`.
    pub name: &'static str,
    /// What follows the name and a colon, such as `FILE`; empty if it is optional.
    pub operand: &'static str,
    /// What it is, for help texts.
    pub help: &'static str,
    /// Options of a run that it accepts besides those of every system.
    pub accepts: &'static [&'static str],
    /// Lists what an operand names outside of this process.
    pub resources: fn(&str) -> Resources,
    /// Checks an operand without a slow load; `None` if opening is fast.
    pub check: Option<CheckOperand>,
    /// Opens the system of a specification.
    pub(super) open: fn(&Request<'_>) -> Result<OpenedSystem, Failure>,
}

/// Checks the operand of a specification, for a run with these options.
pub type CheckOperand = fn(&str, &RunOptions) -> Result<(), Failure>;

impl SystemKind {
    /// Returns the kind of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        SYSTEMS.into_iter().find(|kind| kind.name == name)
    }

    /// Returns the kind that a specification names, and the operand.
    ///
    /// # Errors
    /// An unknown name, with what was probably meant.
    pub fn of_spec(spec: &str) -> Result<(&'static Self, &str), String> {
        let (name, operand) = spec.split_once(':').unwrap_or((spec, ""));
        Self::named(name).map(|kind| (kind, operand)).ok_or_else(|| unknown_system(spec))
    }

    /// Returns its name with its operand, such as `onnx:FILE`.
    pub fn grammar(&self) -> String {
        if self.operand.is_empty() {
            self.name.to_owned()
        } else {
            format!("{}:{}", self.name, self.operand)
        }
    }
}

/// Resources outside of this process that a specification names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// URLs of servers.
    pub urls: Vec<String>,
    /// Files that are read.
    pub files: Vec<PathBuf>,
    /// Environment variables that are sent.
    pub variables: Vec<String>,
    /// Code that is run.
    pub libraries: Vec<PathBuf>,
}

impl Resources {
    /// Returns no resources, for operands without files and servers.
    pub(super) fn nothing(_operand: &str) -> Self {
        Self::default()
    }

    /// Returns files alone.
    pub(super) fn files(files: Vec<PathBuf>) -> Self {
        Self { files, ..Self::default() }
    }
}

/// A request to open a system.
pub(super) struct Request<'a> {
    /// The whole specification, such as `model:fixed=1ms`.
    pub spec: &'a str,
    /// What follows the name and a colon.
    pub operand: &'a str,
    pub run: &'a RunOptions,
    pub watch: &'a Arc<dyn Watch>,
}

/// How a system is driven. Tests do not depend on other properties of its kind.
pub(super) enum Drive {
    /// Answers at once, in real time.
    Null,
    /// Computes in this process, in real time.
    Engine(Arc<dyn Engine>),
    /// A server, in real time.
    Remote(Box<net::Remote>),
    /// An engine in C that queues and batches by itself, in real time.
    Plugin(Arc<PluginSystem>),
    /// Simulated, in virtual time.
    Virtual(Box<dyn Simulation>),
}

/// A system in virtual time.
pub(super) trait Simulation: Send + Sync {
    /// The name that its logs have.
    fn name(&self) -> &'static str;

    /// Returns whether it reports first tokens and counts of tokens.
    fn reports_tokens(&self) -> bool {
        false
    }

    /// Returns how many queries it serves at once; `None` if it queues and batches by itself.
    fn servers(&self) -> Option<NonZero<usize>> {
        None
    }

    /// Returns a new system for one test. `repeat` selects the random numbers; 0 selects those of
    /// the given seed. `batching` puts workers before it, unless it batches by itself.
    fn system(
        &self,
        plan: &Plan,
        repeat: u64,
        batching: Option<WorkerPool>,
    ) -> Box<dyn SimulatedSystem>;

    /// Returns the simulated NPU, if it is one.
    fn npu(&self) -> Option<&NpuSpec> {
        None
    }
}

/// Workers before a simulated system.
pub(super) struct WorkerPool {
    pub policy: batch::Policy,
    pub workers: NonZero<usize>,
    pub sizes: batch::BatchSizes,
}

/// A system that is open, with its data set.
pub(super) struct OpenedSystem {
    pub drive: Drive,
    pub library: Arc<dyn SampleLibrary>,
    /// Class of each sample, if known.
    pub labels: Option<Vec<i64>>,
    /// The samples, if they are tensors.
    pub tensors: Option<Arc<TensorLibrary>>,
    /// Workers with separate engines, if any.
    pub pools: Option<rnn::Pools>,
    /// Default accuracy target, in [0, 1].
    pub target: Option<f64>,
    /// Judges answers where no labels are given.
    pub judge: Option<Judge>,
    /// Remark on figures that are not those of a real system.
    pub caution: Option<&'static str>,
    /// Notes on its files.
    pub remarks: Vec<String>,
    /// Notes on data that differ from those of the reference.
    pub other_data: Vec<String>,
    /// Default number of computing threads in all scenarios, if it is not that of engines.
    pub workers: Option<usize>,
    /// Default number of computing threads in Offline.
    pub offline_workers: usize,
    /// Whether its samples are generated, not read from a file.
    pub is_synthetic: bool,
}

impl OpenedSystem {
    pub fn new(drive: Drive, library: Arc<dyn SampleLibrary>) -> Self {
        Self {
            drive,
            library,
            labels: None,
            tensors: None,
            pools: None,
            target: None,
            judge: None,
            caution: None,
            remarks: Vec::new(),
            other_data: Vec::new(),
            workers: None,
            offline_workers: environment::cores(),
            is_synthetic: false,
        }
    }
}

impl Drive {
    /// Returns whether it is measured in virtual time.
    pub fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual(_))
    }

    /// Returns the name that its logs have.
    pub fn name(&self) -> &str {
        match self {
            Self::Null => "null",
            Self::Engine(engine) => engine.name(),
            Self::Remote(remote) => remote.name(),
            Self::Plugin(plugin) => plugin.name(),
            Self::Virtual(simulation) => simulation.name(),
        }
    }

    /// Returns whether it reports first tokens and counts of tokens.
    pub fn reports_tokens(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Engine(engine) => engine.is_streaming(),
            Self::Remote(remote) => remote.is_streaming,
            Self::Plugin(plugin) => plugin.is_streaming(),
            Self::Virtual(simulation) => simulation.reports_tokens(),
        }
    }

    /// Returns the default number of computing threads in a scenario; `None` if the system queues
    /// and batches by itself.
    ///
    /// One query at a time gains nothing from a second thread, and a Server query of a small
    /// engine is computed in less time than it takes to wake one.
    pub fn workers(
        &self,
        scenario: Scenario,
        policies: &Policies,
        offline_workers: usize,
    ) -> Option<usize> {
        let least = policies.least_workers();
        match self {
            Self::Remote(_) | Self::Plugin(_) => None,
            Self::Engine(_) if scenario == Scenario::Offline => Some(offline_workers),
            Self::Null | Self::Engine(_) => Some(least),
            Self::Virtual(simulation) => {
                let servers = simulation.servers()?.get();
                let is_split = matches!(scenario, Scenario::MultiStream | Scenario::Offline);
                Some(if is_split { servers } else { least })
            }
        }
    }
}

/// Returns the seed of a repeat of a simulated system; the next number is the seed of its faults.
pub(super) fn repeated(seed: u64, repeat: u64) -> u64 {
    seed.wrapping_add(repeat.wrapping_mul(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::KEYS;

    #[test]
    fn the_help_of_system_lists_every_kind() {
        let key = KEYS.iter().find(|key| key.name == "system").expect("the key of the system");
        for kind in SYSTEMS {
            assert!(key.help.contains(&kind.grammar()), "{}: {}", kind.name, key.help);
        }
    }
}
