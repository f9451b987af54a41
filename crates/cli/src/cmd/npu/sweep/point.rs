//! A point: networks on an NPU under a scheduler, and what came of them.

use clap::builder::Resettable;
use clap::{ArgAction, Args, Command, FromArgMatches, ValueEnum};
use dyno_experiment::Failure;
use dyno_npu::deploy::DeploymentPlan;
use dyno_npu::schedule::NamedScheduler;
use serde_json::{Value, json};

use super::super::given::Sharing;
use super::super::played::{Played, finite};
use super::grid::Grid;

/// All that a point is made of.
#[derive(Clone, Debug, Args)]
pub struct Point {
    #[command(flatten)]
    pub sharing: Sharing,
    /// The scheduler, one of those of dyno npu run
    #[arg(long, value_name = "NAME", default_value = "balanced")]
    scheduler: String,
    /// The scheduler that gains are over
    #[arg(long, value_name = "NAME", default_value = "fair")]
    baseline: String,
    /// Go on for as long as so many passes of the slowest network take alone
    #[arg(long, value_name = "N", default_value_t = 200)]
    passes: u64,
}

/// The argument that is no flag.
const NETWORKS: &str = "networks";

/// A point's flags, by themselves: each takes a value, also one that stands alone in a command, and none has a value
/// unless it is given.
fn flags() -> Command {
    let command = Command::new("point").no_binary_name(true).disable_help_flag(true);
    Point::augment_args_for_update(command).mut_args(|arg| match arg.get_action() {
        ArgAction::SetTrue => arg.action(ArgAction::Set).num_args(1),
        _ => arg.default_value(Resettable::Reset),
    })
}

/// What may vary.
pub fn keys() -> Vec<String> {
    let command = flags();
    let key = |arg: &clap::Arg| arg.get_long().unwrap_or(NETWORKS).to_owned();
    command.get_arguments().map(key).collect()
}

impl Point {
    /// The same with other settings, read as flags are.
    ///
    /// # Errors
    /// The setting that does not make sense.
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
            // The rest says how to ask for help.
            let text = error.to_string();
            let problem = text.split("\n\n").next().unwrap_or_default();
            let problem = problem.strip_prefix("error: ").unwrap_or(problem);
            let at: Vec<String> =
                settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let words: Vec<&str> = problem.split_whitespace().collect();
            format!("`{}`: {}", at.join(", "), words.join(" "))
        })
    }

    /// Plays the point, and its baseline.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn play(&self) -> Result<Found, Failure> {
        let named = |name: &str| NamedScheduler::find(name).map_err(Failure::usage);
        let plan = self.sharing.plan(named(&self.scheduler)?)?;
        let baseline = DeploymentPlan { scheduler: named(&self.baseline)?, ..plan.clone() };
        let played = Played::new(&plan, self.passes)?;
        let over = Played::new(&baseline, self.passes)?;
        Ok(Found::new(&plan, &played, &over))
    }

    /// In a line, what does not vary.
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
    /// System throughput: the sum of all streams' rates, each in those it has alone
    Stp,
    /// STP as a part of what no scheduler can beat
    OfBound,
    /// The mean of what streams are slowed down by
    Antt,
    /// The longest that a stream waited for a pass, in its time alone
    Slowest,
    /// How long the PEs compute, as a part of the time
    Pes,
    /// How long the memory fetches, as a part of the time
    Memory,
    /// STP more than the baseline's
    Gain,
    /// What the NPU takes, W, where its energies are known
    Power,
    /// What a pass takes, mJ, the mean of all streams' passes
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

    /// Above a column.
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

    /// Above a table or a map of its own.
    pub fn title(self) -> &'static str {
        match self {
            Self::OfBound => "STP, of its bound",
            Self::Slowest => "longest wait for a pass, in its time alone",
            Self::Pes => "PEs busy",
            Self::Memory => "memory busy",
            Self::Gain => "gain in STP over the baseline",
            Self::Energy => "energy of a pass",
            _ => self.heading(),
        }
    }

    /// In documents and tables of all of them.
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

    /// As people read it; a dash where there is none.
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

    /// Whether little of it is better than much.
    pub fn is_cost(self) -> bool {
        matches!(self, Self::Antt | Self::Slowest | Self::Power | Self::Energy)
    }

    /// Whether it is a part of a whole.
    pub fn is_part(self) -> bool {
        matches!(self, Self::OfBound | Self::Pes | Self::Memory)
    }
}

/// What came of a point.
#[derive(Clone, Debug)]
pub struct Found {
    /// By [`Metric::ALL`].
    figures: [Option<f64>; Metric::ALL.len()],
    /// For programs.
    pub document: Value,
    /// What had to be done for it.
    pub remarks: Vec<String>,
}

impl Found {
    fn new(plan: &DeploymentPlan, played: &Played, over: &Played) -> Self {
        let stp = |played: &Played| played.streams.stp(&played.passes);
        let ([bound, _], [pes, memory]) = (played.bounds(), played.busy());
        let energy = played.energy(plan);
        let figure = |metric| match metric {
            Metric::Stp => Some(stp(played)),
            Metric::OfBound => Some(stp(played) / bound),
            Metric::Antt => Some(played.streams.antt(&played.passes)),
            Metric::Slowest => Some(played.streams.max_slowdown(&played.passes)),
            Metric::Pes => Some(pes),
            Metric::Memory => Some(memory),
            Metric::Gain => Some(stp(played) / stp(over) - 1.0),
            Metric::Power => energy.map(|[watts, _]| watts),
            Metric::Energy => energy.map(|[_, of_a_pass]| of_a_pass),
        };
        let mut document = played.document();
        document["npu"] = plan.npu.name().into();
        document["mapping"] = plan.mapping.to_string().into();
        document["batch"] = plan.options.batch.into();
        document["remarks"] = played.deployment.remarks.as_slice().into();
        document["baseline"] = json!({"scheduler": over.name, "stp": stp(over)});
        let figures = Metric::ALL.map(|metric| figure(metric).and_then(finite));
        for metric in [Metric::OfBound, Metric::Gain, Metric::Power, Metric::Energy] {
            document[metric.key()] = figure(metric).into();
        }
        Self { figures, document, remarks: played.deployment.remarks.clone() }
    }

    /// One of its figures, if there is any.
    pub fn figure(&self, metric: Metric) -> Option<f64> {
        let at = Metric::ALL.iter().position(|other| *other == metric)?;
        self.figures[at]
    }
}
