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
pub use saturated::Saturated;
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
/// says otherwise.
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
    /// the same in words
    pub disclaimer: String,
    /// of the run: what `--name` said, or the system's name
    pub name: String,
    /// as `--system` names it
    pub system: String,
    /// `real` or `virtual`
    pub time: String,
    /// `quick` or `rules`
    pub profile: String,
    /// definitions of tokens, time per output token and success: `native`, or `reference` of logs in
    /// LoadGen's format; empty in files of versions that had only one, and which differ from `native`
    #[serde(default)]
    pub definitions: String,
    /// the round and benchmark that the settings are of; null without `--round`
    #[serde(default)]
    pub rules: Option<Rules>,
    /// as RFC 3339 has it, in UTC; empty in virtual time, where the same seed gives the same bytes
    pub started_at: String,
    /// when the last test was over, likewise
    #[serde(default)]
    pub finished_at: String,
    /// of the whole run by the wall clock, with what lies between the tests; 0 in virtual time
    #[serde(default)]
    pub duration_ns: u64,
    /// the arguments of the command that made the run
    #[serde(default)]
    pub command: Vec<String>,
    /// what a reader must know of the run as a whole
    pub remarks: Vec<String>,
    /// what division it could be submitted to; null of a report that is made of logs alone
    #[serde(default)]
    pub division: Option<Division>,
    /// what was sent to the system to find a rate that was not given, before the first test;
    /// null where nothing was, and in virtual time
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
    /// one entry a test and tenant, in the order in which they were run
    pub tests: Vec<Test>,
    /// of simulated NPUs: what they did, one entry a performance test
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accelerators: Vec<Accelerator>,
    /// of servers: what their client saw, one entry a test
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<Client>,
    /// in real time: what kept the client from its work, one entry a performance test, or worker of it
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observers: Vec<Observer>,
    /// of servers: what they exposed of themselves, one entry a test and page, and one for all pages of
    /// several
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerMetrics>,
    /// of servers: energy, one entry a test
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub energy: Vec<Energy>,
    /// machine and build
    pub environment: Environment,
}

/// What of the rules a run is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rules {
    /// such as `v5.1`
    pub round: String,
    /// official name of the benchmark
    pub benchmark: String,
    /// whether Server was played with the bounds of Interactive
    pub interactive: bool,
}

/// What division of a round a run could be submitted to, as far as the run tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Division {
    /// `closed`, `open` or `none`
    pub could_be: String,
    /// why it is no better one
    pub reasons: Vec<String>,
    /// what has to hold besides, and is not known from the run
    pub provided: Vec<String>,
    /// the samples that a quantiser may look at; null where the task names none
    pub calibration: Option<Calibration>,
}

/// A calibration set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Calibration {
    /// which samples, and the list that names them
    pub what: String,
    /// how many
    pub samples: u64,
    /// of the list, where it is one file
    pub sha256: Option<String>,
}

/// How a test came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As planned, or because over-saturation was found.
    Complete,
    /// Ctrl-C.
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
    /// where its four `mlperf_log_*` files and `records.bin` are, within the run directory
    pub folder: String,
    /// `complete`, `interrupted` or `aborted`
    pub state: State,
    /// `VALID`, `UNDECIDED` (too few queries to be certain), `INVALID`, `INTERRUPTED` or `ABORTED`
    pub verdict: String,
    /// why it is not VALID, each with what to do; empty if it is
    pub reasons: Vec<String>,
    /// the same reasons for programs, in the same order, with their kind and cause
    #[serde(default)]
    pub causes: Vec<Reason>,
    /// what a reader must know to read the verdict right
    pub notes: Vec<String>,
    /// what the run was required to keep, one entry a requirement
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<Requirement>,
    /// the number that is the result of a performance test; else null
    pub result: Option<Headline>,
    /// of a search or a repetition: the runs at its last load that were played to their end, each
    /// VALID, but for the last one of those that failed
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<u64>,
    /// the result of an accuracy test, else null
    pub accuracy: Option<Accuracy>,
    /// the numbers of a performance test, else null
    pub metrics: Option<Metrics>,
    /// failures that ended the test before its time; null where none did
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<Failing>,
    /// over-saturation that ended the test before its time; null where it did not
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturated: Option<Saturated>,
    /// what it was run on
    #[serde(default)]
    pub data: Data,
    /// what the settings mean
    #[serde(default)]
    pub plan: Plan,
    /// every setting that somebody set
    pub settings: BTreeMap<String, Setting>,
}

/// The number that is the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Headline {
    /// such as `p90 latency` or `completed rate`
    pub name: String,
    /// in `unit`; null is not finite
    pub value: Option<f64>,
    /// `ns`, `queries/s` or `samples/s`
    pub unit: String,
    /// where the value lies with the stated confidence; null where no interval is known
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
    /// how it was found
    pub method: String,
}

/// The result of an accuracy test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Accuracy {
    /// `top-1`, or the figure of the task; null if nothing is scored, as are the next
    /// five
    pub metric: Option<String>,
    /// in the unit
    pub value: Option<f64>,
    /// what is asked for, in the unit; null if nothing is
    pub target: Option<f64>,
    /// of value and target
    #[serde(default)]
    pub unit: QualityUnit,
    /// the target is the most that counts, not the least
    #[serde(default)]
    pub lower_is_better: bool,
    /// samples whose answer is their label
    pub correct: Option<u64>,
    /// samples in the accuracy log
    pub scored: Option<u64>,
    /// answers that are no class
    pub malformed: Option<u64>,
    /// samples answered
    pub answered: u64,
    /// figures that are not good enough, a sentence each, which the reasons of the test
    /// have, too
    #[serde(default)]
    pub short_of: Vec<String>,
}

/// The unit of a figure of quality.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum QualityUnit {
    /// part of one, which people read as percent
    #[default]
    Share,
    /// a number that is no part of a whole
    Points,
}

impl Accuracy {
    /// Returns the figure if it is a share of which higher is better; plots and tables of several runs
    /// compare only these.
    pub fn share(&self) -> Option<f64> {
        let is_comparable = self.unit == QualityUnit::Share && !self.lower_is_better;
        self.value.filter(|_| is_comparable)
    }

    /// Returns the target of [`Self::share`].
    pub fn target_share(&self) -> Option<f64> {
        self.share().and(self.target)
    }

    /// Returns a figure with its unit, for display.
    pub fn shown(&self, figure: f64) -> String {
        match self.unit {
            QualityUnit::Share => format!("{:.2} %", figure * 100.0),
            QualityUnit::Points => format!("{figure:.4}"),
        }
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
    /// shapes of the tensors of one sample, by input; empty where samples are none
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shapes: Vec<InputShape>,
}

/// The tensor that a model's input takes of one sample.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InputShape {
    /// name of the input
    pub input: String,
    /// type of the elements, such as `float32`
    pub element: String,
    /// dimensions, with 1 for the batch where the model has one
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

/// What the settings of a test mean.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// where on the distribution the latency is judged, in (0, 1)
    pub percentile: f64,
    /// Server: the bound of the latency; null where there is none
    pub latency_bound_ns: Option<u64>,
    /// Server with tokens: the bound of the time to first token
    pub first_token_bound_ns: Option<u64>,
    /// Server with tokens: the bound of the time per output token
    pub time_per_output_token_bound_ns: Option<u64>,
    /// how many runs had to be VALID, such as `minimum:5`, where it was not one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetition: Option<String>,
    /// MultiStream at a fixed interval: that interval
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<u64>,
    /// queries/s that are asked for (Server) or expected
    pub target_qps: f64,
    /// Server: how queries arrive, such as `poisson`
    pub arrivals: Option<String>,
    /// samples in each query
    pub samples_per_query: u64,
    /// the test lasts at least this long
    pub min_duration_ns: u64,
    /// and issues at least so many queries
    pub min_query_count: u64,
    /// the client's own lag at `percentile` must not exceed this; null does not judge
    pub max_client_lag_ns: Option<u64>,
    /// of the choice of samples and of the arrivals: `qsl`, `sample_index`, `schedule`
    pub seeds: [u64; 3],
}

/// A setting that somebody set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Setting {
    /// as text
    pub value: String,
    /// empty where there is none
    pub unit: String,
    /// who set it, such as `flag --qps`
    pub origin: String,
}

/// The machine and the build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Environment {
    /// of the program
    pub dyno_version: String,
    /// of the sources; null where whoever built it did not say (`DYNO_GIT_COMMIT`)
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
    /// null where the system does not tell
    pub kernel: Option<String>,
    /// null where the system does not tell
    pub processor: Option<String>,
    /// that the process may use
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
            (None, scored) => format!("{scored} samples"),
        };
        Some(format!("{name} {} ({scored})", self.shown(value)))
    }
}
