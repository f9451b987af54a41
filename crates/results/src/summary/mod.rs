//! `summary.json`: the machine-readable result of a run, from which all displays of a run are
//! rendered. The doc comments here are the descriptions of the published schema.
//! `docs/reference/summary-json.md` describes the same fields; a test compares both.
//!
//! Enumerations are texts, so that a summary of a later version can still be read.

pub mod accelerator;
pub mod answer_lines;
pub mod answers;
pub mod backlog;
pub mod client;
pub mod distributions;
pub mod energy;
pub mod excluded;
mod failing;
pub mod goodput;
pub mod metrics;
pub mod observer;
mod of_metrics;
mod probe;
mod read;
mod requirement;
mod saturated;
pub mod server_metrics;
pub mod sessions;
pub mod tasks;
mod verdict;
pub mod window;

use std::collections::BTreeMap;

use dyno_loadgen::settings::TestMode;
use serde::{Deserialize, Serialize};

use crate::units;

pub use accelerator::Accelerator;
pub use client::{Client, Worker};
pub use energy::Energy;
pub use failing::Failing;
pub use goodput::Limits;
pub use metrics::Metrics;
pub use observer::Observer;
pub use probe::Probe;
pub use read::{ReadError, read_json};
pub use requirement::{Requirement, RequirementFinding};
pub use saturated::SaturationFinding;
pub use server_metrics::ServerMetrics;
pub use sessions::Sessions;
pub use verdict::{Cause, Reason, ReasonKind, Verdict, settle_tenants};

/// A bound on a time that no answer exceeds, ns: 36 years. A test with this bound has none in its
/// summary.
pub const NO_BOUND: u64 = 1 << 60;

/// Version of the schema. It increases when a key changes its meaning or is removed.
pub const SCHEMA_VERSION: u32 = 1;

/// Name of the schema.
pub const SCHEMA: &str = "dyno.summary";

/// File name.
pub const FILE: &str = "summary.json";

/// Disclaimer that is shown with all results.
pub const DISCLAIMER: &str = "not an official MLPerf result";

/// Returns the display name of a mode.
pub fn mode_name(mode: TestMode) -> &'static str {
    match mode {
        TestMode::SubmissionRun => "both",
        TestMode::AccuracyOnly => "accuracy",
        TestMode::PerformanceOnly => "performance",
        TestMode::FindPeakPerformance => "peak",
    }
}

/// A run of Dyno: one or more tests of one system. Times are ns unless the key
/// names another unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// `dyno.summary`
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA)))]
    pub schema: String,
    /// 1
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA_VERSION)))]
    pub schema_version: u32,
    /// `complete`, `interrupted` (Ctrl-C), or `aborted` (the system stopped answering, or failed
    /// most answers)
    pub state: State,
    /// `VALID` if every test is, else the worst of the tests: `UNDECIDED`, `INVALID`, `ABORTED` or
    /// `INTERRUPTED`
    pub verdict: String,
    /// `false`: nothing that this program writes is an official MLPerf result
    pub official: bool,
    /// the same fact as text
    pub disclaimer: String,
    /// name of the run: `--name`, otherwise the name of the system
    pub name: String,
    /// the value of `--system`
    pub system: String,
    /// `real` or `virtual`
    pub time: String,
    /// `quick` or `rules`
    pub profile: String,
    /// definitions of tokens, time per output token and success: `native`, or `reference` of logs in
    /// LoadGen's format; empty in files of versions that had only one, and which differ from `native`
    #[serde(default)]
    pub definitions: String,
    /// round and benchmark of the settings; null without `--round`
    #[serde(default)]
    pub rules: Option<Rules>,
    /// start in UTC (RFC 3339); empty in virtual time, where the same seed gives the same bytes
    pub started_at: String,
    /// end of the last test, in the same format
    #[serde(default)]
    pub finished_at: String,
    /// wall-clock duration of the whole run, including the time between tests; 0 in virtual time
    #[serde(default)]
    pub duration_ns: u64,
    /// arguments of the command of the run
    #[serde(default)]
    pub command: Vec<String>,
    /// notes on the whole run
    pub remarks: Vec<String>,
    /// the best eligible division; null if the report was rebuilt from logs alone
    #[serde(default)]
    pub division: Option<Division>,
    /// the probe before the first test that determined the rate; null without a probe and in
    /// virtual time
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
    /// one entry per test and tenant, in the order of execution
    pub tests: Vec<Test>,
    /// simulated NPUs, one entry per performance test
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accelerators: Vec<Accelerator>,
    /// view of the client of servers, one entry per test
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<Client>,
    /// delays of the client in real time, one entry per performance test, or per worker
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observers: Vec<Observer>,
    /// metrics of servers, one entry per test and page, and one for all pages if there are
    /// several
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerMetrics>,
    /// energy of servers, one entry per test
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub energy: Vec<Energy>,
    /// machine and build
    pub environment: Environment,
}

/// Round and benchmark of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rules {
    /// such as `v5.1`
    pub round: String,
    /// official name of the benchmark
    pub benchmark: String,
    /// whether Server had the bounds of Interactive
    pub interactive: bool,
}

/// Division of a round that a run is eligible for, as far as the run shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Division {
    /// `closed`, `open` or `none`
    pub could_be: String,
    /// reasons against a better division
    pub reasons: Vec<String>,
    /// further conditions, which the run does not show
    pub provided: Vec<String>,
    /// calibration samples for a quantizer; null if the task defines none
    pub calibration: Option<Calibration>,
}

/// A calibration set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Calibration {
    /// the samples, and the list that names them
    pub what: String,
    /// number of them
    pub samples: u64,
    /// SHA-256 of the list, if it is one file
    pub sha256: Option<String>,
}

/// State of a test at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Ended as planned, or after over-saturation was detected.
    Complete,
    /// Interrupted with Ctrl-C.
    Interrupted,
    /// The system stopped answering, or failed most answers.
    Aborted,
}

/// One test of one tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Test {
    /// `SingleStream`, `MultiStream`, `Server` or `Offline`
    pub scenario: String,
    /// `accuracy`, `performance` or `peak`
    pub mode: String,
    /// name of the tenant; null if there is only one, without a name
    pub tenant: Option<String>,
    /// folder of its four `mlperf_log_*` files and `records.bin`, within the run directory
    pub folder: String,
    /// `complete`, `interrupted` or `aborted`
    pub state: State,
    /// `VALID`, `UNDECIDED` (neither is proven), `INVALID`, `INTERRUPTED` or `ABORTED`
    pub verdict: String,
    /// reasons why it is not VALID, each with a remedy; empty if it is VALID
    pub reasons: Vec<String>,
    /// the same reasons in the same order, with kind and cause, for programs
    #[serde(default)]
    pub causes: Vec<Reason>,
    /// notes that explain the verdict
    pub notes: Vec<String>,
    /// requirements of the run, one entry each
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<Requirement>,
    /// headline result of a performance test; otherwise null
    pub result: Option<Headline>,
    /// in a search or a repetition: completed runs at its last load, each VALID except the last
    /// one of a failed series
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<u64>,
    /// the result of an accuracy test, else null
    pub accuracy: Option<Accuracy>,
    /// the numbers of a performance test, else null
    pub metrics: Option<Metrics>,
    /// failures that stopped the test early; null if none did
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<Failing>,
    /// over-saturation that stopped the test early; null if it did not
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturated: Option<SaturationFinding>,
    /// its data set
    #[serde(default)]
    pub data: Data,
    /// effective values of the settings
    #[serde(default)]
    pub plan: Plan,
    /// every setting that is not a default
    pub settings: BTreeMap<String, Setting>,
}

/// Headline result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Headline {
    /// such as `p90 latency` or `completed rate`
    pub name: String,
    /// in `unit`; null is not finite
    pub value: Option<f64>,
    /// `ns`, `queries/s` or `samples/s`
    pub unit: String,
    /// confidence interval of the value; null if unknown
    #[serde(default)]
    pub interval: Option<Interval>,
}

/// A confidence interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// lower end
    pub low: f64,
    /// upper end
    pub high: f64,
    /// such as 0.95
    pub confidence: f64,
    /// method of computation
    pub method: String,
}

/// The result of an accuracy test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Accuracy {
    /// `top-1`, or the metric of the task; null if nothing is scored, like the next five
    pub metric: Option<String>,
    /// in the unit
    pub value: Option<f64>,
    /// target, in the unit; null without a target
    pub target: Option<f64>,
    /// unit of value and target
    #[serde(default)]
    pub unit: QualityUnit,
    /// the target is an upper limit, not a lower limit
    #[serde(default)]
    pub lower_is_better: bool,
    /// samples whose answer is their label
    pub correct: Option<u64>,
    /// samples that the value is over: those in the accuracy log, and those that failed, which count as
    /// wrong
    pub scored: Option<u64>,
    /// answers that are not a class
    pub malformed: Option<u64>,
    /// samples answered
    pub answered: u64,
    /// metrics that miss their target, one sentence each; the reasons of the test include them
    #[serde(default)]
    pub short_of: Vec<String>,
    /// answers that the value leaves out, because nothing can be compared with their references
    #[serde(default)]
    pub excluded: u64,
}

/// The unit of a figure of quality.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum QualityUnit {
    /// fraction, displayed in percent
    #[default]
    Share,
    /// plain number
    Points,
}

/// Maximum decimals of a figure of quality.
const MOST_DECIMALS: usize = 10;

impl Accuracy {
    /// Returns the figure if it is a share of which higher is better; plots and tables of several runs
    /// compare only these.
    pub fn share(&self) -> Option<f64> {
        let is_comparable = self.unit == QualityUnit::Share && !self.lower_is_better;
        self.value.filter(|_| is_comparable)
    }

    /// Returns the target of [`Self::share`].
    pub(crate) fn target_share(&self) -> Option<f64> {
        self.share().and(self.target)
    }

    /// Returns a figure with its unit, for display. It has more decimals than usual if value and target
    /// would otherwise look equal, or a share would be rounded to 100 %.
    pub fn shown(&self, figure: f64) -> String {
        let (least, factor, unit) = match self.unit {
            QualityUnit::Share => (2, 100.0, " %"),
            QualityUnit::Points => (4, 1.0, ""),
        };
        let text = |figure: f64, decimals: usize| format!("{:.decimals$}{unit}", figure * factor);
        let is_told_apart = |decimals: &usize| {
            let whole = text(1.0, *decimals);
            let is_whole = |figure: f64| figure != 1.0 && text(figure, *decimals) == whole;
            let is_equal = |(value, target): (f64, f64)| {
                value != target && text(value, *decimals) == text(target, *decimals)
            };
            !self.value.zip(self.target).is_some_and(is_equal)
                && !self.value.is_some_and(|value| !unit.is_empty() && is_whole(value))
        };
        let decimals = (least..MOST_DECIMALS).find(is_told_apart).unwrap_or(MOST_DECIMALS);
        text(figure, decimals)
    }

    /// Returns whether the figure reaches its target; `None` if either is missing.
    pub fn is_reached(&self) -> Option<bool> {
        let (value, target) = (self.value?, self.target?);
        Some(if self.lower_is_better { value <= target } else { value >= target })
    }
}

/// The data set of a test.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Data {
    /// of the sample library
    pub name: String,
    /// samples in it
    pub total: u64,
    /// samples of its performance set
    pub performance: u64,
    /// of a server: the options and hashes of files that determine its requests; empty if all are
    /// defaults, null if unknown
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// hashes of the files of samples, labels and references, by their use, such as `data`,
    /// `data ids` for the input `ids`, `labels` or `reference`; empty if there are none, or if they
    /// are unknown
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// shapes of the tensors of one sample, by input; empty if samples are not tensors
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shapes: Vec<InputShape>,
}

/// Tensor of one sample for one input of the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InputShape {
    /// name of the input
    pub input: String,
    /// type of the elements, such as `float32`
    pub element: String,
    /// dimensions, with 1 for the batch if the model has one
    pub shape: Vec<u64>,
}

impl InputShape {
    /// Returns name and shape, such as `input_ids 1x128`.
    pub fn text(&self) -> String {
        let dimensions: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
        let shape = if dimensions.is_empty() { "scalar".into() } else { dimensions.join("x") };
        format!("{} {shape}", self.input)
    }
}

impl Data {
    /// Returns all shapes, such as `input_ids 1x128, attention_mask 1x128`; `None` without shapes.
    pub fn shapes_text(&self) -> Option<String> {
        let all: Vec<String> = self.shapes.iter().map(InputShape::text).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

/// Effective values of the settings of a test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// judged percentile of the latency, in (0, 1)
    pub percentile: f64,
    /// Server: the bound of the latency; null without a bound
    pub latency_bound_ns: Option<u64>,
    /// Server with tokens: the bound of the time to first token
    pub first_token_bound_ns: Option<u64>,
    /// Server with tokens: the bound of the time per output token
    pub time_per_output_token_bound_ns: Option<u64>,
    /// repetition of the run, such as `minimum:5`, if more than one run had to be VALID
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetition: Option<String>,
    /// MultiStream at a fixed interval: that interval
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<u64>,
    /// queries/s: requested (Server) or expected
    pub target_qps: f64,
    /// Server: how queries arrive, such as `poisson`
    pub arrivals: Option<String>,
    /// samples in each query
    pub samples_per_query: u64,
    /// minimum duration of the test
    pub min_duration_ns: u64,
    /// minimum number of queries
    pub min_query_count: u64,
    /// maximum lag of the client at `percentile`; null is no limit
    pub max_client_lag_ns: Option<u64>,
    /// seeds of sample selection and arrivals: `qsl`, `sample_index`, `schedule`
    pub seeds: [u64; 3],
}

/// A setting that is not a default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Setting {
    /// as text
    pub value: String,
    /// empty without a unit
    pub unit: String,
    /// its origin, such as `flag --qps`
    pub origin: String,
}

/// The machine and the build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Environment {
    /// of the program
    pub dyno_version: String,
    /// commit of the sources; null if the build did not state it (`DYNO_GIT_COMMIT`)
    #[serde(default)]
    pub git_commit: Option<String>,
    /// hash of the load generator's sources; `dyno selftest --source .` compares
    pub loadgen_fingerprint: String,
    /// `release` or `debug`
    pub build: String,
    /// operating system
    pub os: String,
    /// architecture
    pub arch: String,
    /// version of the kernel; null if unknown
    pub kernel: Option<String>,
    /// version of the kernel; null if unknown
    pub processor: Option<String>,
    /// cores that the process may use
    pub cores: u64,
}

impl Rules {
    /// Returns round and benchmark, such as `round v5.1, resnet`.
    pub fn title(&self) -> String {
        let variant = if self.interactive { ", Interactive" } else { "" };
        format!("round {}, {}{variant}", self.round, self.benchmark)
    }
}

impl Run {
    /// Returns whether the run is complete and every test is VALID.
    pub fn is_valid(&self) -> bool {
        self.state == State::Complete && self.tests.iter().all(Test::is_valid)
    }

    /// Returns the title of the rules, such as `round v5.1, resnet`; empty without rules.
    pub fn rules_title(&self) -> String {
        self.rules.as_ref().map(Rules::title).unwrap_or_default()
    }

    /// Returns whether the run was simulated in virtual time.
    pub fn is_virtual(&self) -> bool {
        self.time == "virtual"
    }
}

impl Test {
    /// Returns a complete test without a verdict, results and settings.
    pub fn new(scenario: &str, mode: &str) -> Self {
        Self {
            scenario: scenario.into(),
            mode: mode.into(),
            tenant: None,
            folder: String::new(),
            state: State::Complete,
            verdict: String::new(),
            reasons: Vec::new(),
            causes: Vec::new(),
            notes: Vec::new(),
            requirements: Vec::new(),
            result: None,
            repeated: None,
            accuracy: None,
            metrics: None,
            failing: None,
            saturated: None,
            data: Data::default(),
            plan: Plan::default(),
            settings: BTreeMap::new(),
        }
    }

    /// Returns whether the test is complete and VALID.
    pub fn is_valid(&self) -> bool {
        self.state == State::Complete && self.reasons.is_empty()
    }

    /// Returns the title, such as `Server performance` or `Server performance of tenant a`.
    pub fn title(&self) -> String {
        let of = self.tenant.as_ref().map(|name| format!(" of tenant {name}"));
        format!("{} {}{}", self.scenario, self.mode, of.unwrap_or_default())
    }
}

impl Headline {
    /// Returns the result with its unit, such as `p90 4.21 us` or `998 queries/s`.
    pub fn text(&self) -> String {
        let Some(value) = self.value else { return "-".into() };
        match self.unit.as_str() {
            "ns" => {
                let percentile = self.name.split(' ').next().unwrap_or_default();
                format!("{percentile} {}", units::duration(value as i64))
            }
            // The count of streams is a whole number.
            "streams" if value == 1.0 => "1 stream".into(),
            unit @ "streams" => format!("{value:.0} {unit}"),
            unit => format!("{} {unit}", units::rate(value)),
        }
    }
}

impl Accuracy {
    /// Returns the result in words, such as `top-1 96.11 % (519 of 540)`; `None` without a
    /// scored result.
    pub fn text(&self) -> Option<String> {
        let (value, name) = (self.value?, self.metric.as_ref()?);
        let scored = match (self.correct, self.scored?) {
            (Some(correct), scored) => format!("{correct} of {scored}"),
            (None, scored) if self.excluded > 0 => {
                format!("{scored} of {} samples compared", scored + self.excluded)
            }
            (None, scored) => format!("{scored} samples"),
        };
        Some(format!("{name} {} ({scored})", self.shown(value)))
    }
}
