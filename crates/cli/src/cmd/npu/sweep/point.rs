//! A point: networks on an NPU under a scheduler, and its results.

use clap::builder::Resettable;
use clap::{ArgAction, Args, Command, FromArgMatches, ValueEnum};
use dyno_experiment::Failure;
use dyno_npu::deploy::DeploymentPlan;
use dyno_npu::schedule::SchedulerSpec;
use serde_json::{Value, json};

use super::super::arguments::Sharing;
use super::super::simulation::{Simulation, finite};
use super::grid::Grid;
use crate::cmd::flag_errors::cause;

/// All that a point is made of.
#[derive(Clone, Debug, Args)]
pub struct Point {
    #[command(flatten)]
    pub sharing: Sharing,
    /// Scheduler, as in dyno npu run, with options after a colon
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", default_value = "balanced")]
    scheduler: String,
    /// Baseline of the gains
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", default_value = "fair")]
    baseline: String,
    /// Length of the simulation: the time of this many passes of the slowest network alone
    #[arg(long, value_name = "N", default_value_t = 200)]
    passes: u64,
}

/// Id of the positional argument.
const NETWORKS: &str = "networks";

/// Returns the flags of a point alone: each takes a value, also those that are switches in a command, and
/// has none by default.
fn flags() -> Command {
    let command = Command::new("point").no_binary_name(true).disable_help_flag(true);
    Point::augment_args_for_update(command).mut_args(|arg| match arg.get_action() {
        ArgAction::SetTrue => arg.action(ArgAction::Set).num_args(1),
        _ => arg.default_value(Resettable::Reset),
    })
}

/// Returns the settings that may vary.
pub fn keys() -> Vec<String> {
    let command = flags();
    let key = |arg: &clap::Arg| arg.get_long().unwrap_or(NETWORKS).to_owned();
    command.get_arguments().map(key).collect()
}

impl Point {
    /// Returns the point with other settings, parsed as flags.
    ///
    /// # Errors
    /// An invalid setting.
    pub fn with(&self, settings: &[(&str, &str)]) -> Result<Self, String> {
        let (mut point, mut arguments) = (self.clone(), Vec::new());
        for (key, value) in settings.iter().filter(|(key, _)| *key != NETWORKS) {
            arguments.push(format!("--{key}={value}"));
        }
        arguments.push("--".to_owned());
        for (_, value) in settings.iter().filter(|(key, _)| *key == NETWORKS) {
            arguments.extend(value.split('+').map(str::to_owned));
        }
        let matches = flags().try_get_matches_from(arguments);
        let updated = matches.and_then(|matches| point.update_from_arg_matches(&matches));
        updated.map(|()| point).map_err(|error| {
            let at: Vec<String> =
                settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("`{}`: {}", at.join(", "), cause(&error))
        })
    }

    /// Simulates the point and its baseline.
    ///
    /// # Errors
    /// The point is not feasible.
    pub fn play(&self) -> Result<PointOutcome, Failure> {
        let named = |name: &str| name.parse::<SchedulerSpec>().map_err(Failure::usage);
        let plan = self.sharing.plan(named(&self.scheduler)?)?;
        let baseline = DeploymentPlan { scheduler: named(&self.baseline)?, ..plan.clone() };
        let simulation = Simulation::new(&plan, self.passes)?;
        let over = Simulation::new(&baseline, self.passes)?;
        Ok(PointOutcome::new(&plan, &simulation, &over))
    }

    /// Returns the settings that do not vary, in one line.
    pub fn fixed(&self, grid: &Grid) -> String {
        let Sharing { networks, hardware, blocks, .. } = &self.sharing;
        let all = [
            (NETWORKS, networks.join(" + ")),
            ("npu", format!("on {}", hardware.npu)),
            ("mapping", format!("mapping {}", hardware.mapping)),
            ("batch", format!("batch {}", blocks.batch)),
            ("scheduler", self.scheduler.clone()),
            ("baseline", format!("gains over {}", self.baseline)),
        ];
        let fixed: Vec<String> =
            all.into_iter().filter(|(key, _)| !grid.varies(key)).map(|(_, text)| text).collect();
        fixed.join(", ").replacen(", on ", " on ", 1)
    }
}

/// A figure of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Metric {
    /// System throughput: the sum of all streams' rates, each relative to its rate alone
    Stp,
    /// STP relative to its upper bound
    OfBound,
    /// Mean slowdown of the streams
    Antt,
    /// Longest wait of a stream for a pass, relative to its time alone
    Slowest,
    /// Share of the time in which the PEs compute
    Pes,
    /// Share of the time in which the memory fetches
    Memory,
    /// Gain in STP over the baseline
    Gain,
    /// Power of the NPU in W, if its energies are known
    Power,
    /// Energy per pass in mJ, the mean over all streams' passes
    Energy,
}

impl Metric {
    pub const ALL: [Self; 9] = [
        Self::Stp,
        Self::OfBound,
        Self::Antt,
        Self::Slowest,
        Self::Pes,
        Self::Memory,
        Self::Gain,
        Self::Power,
        Self::Energy,
    ];

    /// Returns the heading of a column.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Stp => "STP",
            Self::OfBound => "of bound",
            Self::Antt => "ANTT",
            Self::Slowest => "slowest",
            Self::Pes => "PEs",
            Self::Memory => "memory",
            Self::Gain => "gain",
            Self::Power => "power",
            Self::Energy => "a pass",
        }
    }

    /// Returns the title of a table or a map.
    pub fn title(self) -> &'static str {
        match self {
            Self::OfBound => "STP, relative to its bound",
            Self::Slowest => "longest wait for a pass, relative to its time alone",
            Self::Pes => "PEs busy",
            Self::Memory => "memory busy",
            Self::Gain => "gain in STP over the baseline",
            Self::Energy => "energy per pass",
            _ => self.heading(),
        }
    }

    /// Returns the key in documents and in tables of all metrics.
    pub fn key(self) -> &'static str {
        match self {
            Self::Stp => "stp",
            Self::OfBound => "of_bound",
            Self::Antt => "antt",
            Self::Slowest => "max_slowdown",
            Self::Pes => "pe_busy",
            Self::Memory => "memory_busy",
            Self::Gain => "gain",
            Self::Power => "power_w",
            Self::Energy => "pass_mj",
        }
    }

    /// Formats a value for people; a dash without one.
    pub fn text(self, value: Option<f64>) -> String {
        let Some(value) = value else { return "-".to_owned() };
        match self {
            Self::Stp => format!("{value:.3}"),
            Self::Antt => format!("{value:.2}"),
            Self::Slowest => format!("{value:.1}x"),
            Self::OfBound | Self::Pes | Self::Memory => format!("{:.1} %", 100.0 * value),
            Self::Gain => format!("{:+.1} %", 100.0 * value),
            Self::Power => format!("{value:.2} W"),
            Self::Energy => format!("{value:.2} mJ"),
        }
    }

    /// Whether a smaller value is better.
    pub fn is_cost(self) -> bool {
        matches!(self, Self::Antt | Self::Slowest | Self::Power | Self::Energy)
    }

    /// Whether the value is a share, 0 to 1.
    pub fn is_part(self) -> bool {
        matches!(self, Self::OfBound | Self::Pes | Self::Memory)
    }
}

/// Results of a point.
#[derive(Clone, Debug)]
pub struct PointOutcome {
    /// In the order of [`Metric::ALL`].
    figures: [Option<f64>; Metric::ALL.len()],
    /// The document for programs.
    pub document: Value,
    /// What was changed to make the point feasible.
    pub remarks: Vec<String>,
}

impl PointOutcome {
    fn new(plan: &DeploymentPlan, simulation: &Simulation, over: &Simulation) -> Self {
        let stp = |simulation: &Simulation| simulation.streams.stp(&simulation.passes);
        let ([bound, _], [pes, memory]) = (simulation.bounds(), simulation.busy());
        let energy = simulation.energy(plan);
        let figure = |metric| match metric {
            Metric::Stp => Some(stp(simulation)),
            Metric::OfBound => Some(stp(simulation) / bound),
            Metric::Antt => Some(simulation.streams.antt(&simulation.passes)),
            Metric::Slowest => Some(simulation.streams.max_slowdown(&simulation.passes)),
            Metric::Pes => Some(pes),
            Metric::Memory => Some(memory),
            Metric::Gain => Some(stp(simulation) / stp(over) - 1.0),
            Metric::Power => energy.map(|[watts, _]| watts),
            Metric::Energy => energy.map(|[_, of_a_pass]| of_a_pass),
        };
        let mut document = simulation.document(plan);
        document["npu"] = plan.npu.name().into();
        document["mapping"] = plan.mapping.to_string().into();
        document["batch"] = plan.options.batch.into();
        document["remarks"] = simulation.deployment.remarks.as_slice().into();
        document["baseline"] = json!({"scheduler": over.name, "stp": stp(over)});
        let figures = Metric::ALL.map(|metric| figure(metric).and_then(finite));
        for metric in [Metric::OfBound, Metric::Gain, Metric::Power, Metric::Energy] {
            document[metric.key()] = figure(metric).into();
        }
        Self { figures, document, remarks: simulation.deployment.remarks.clone() }
    }

    /// Returns a figure, if the point has it.
    pub fn figure(&self, metric: Metric) -> Option<f64> {
        let at = Metric::ALL.iter().position(|other| *other == metric)?;
        self.figures[at]
    }
}
