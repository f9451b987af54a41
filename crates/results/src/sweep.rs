//! `sweep.json`: what a sweep is made of, how far it is, and what came of each
//! point. Written anew after each point, so that a sweep that was killed goes on
//! where it was. The doc comments here are said for people in `docs/reference/sweep.md`.

mod curve;
mod rows;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::summary::metrics::Distribution;
use crate::summary::{
    self, Cause, Headline, ReadError, Reason, ReasonKind, RequirementFinding, Verdict, read_json,
};
use crate::write::{pretty, replace};
use serde::{Deserialize, Serialize};

pub use curve::{LoadCurve, LoadKind};
pub use rows::{Row, rows};

/// Version of the schema: raised when a key changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// Name of the schema.
pub const SCHEMA: &str = "dyno.sweep";

/// Name of the file.
pub const FILE: &str = "sweep.json";

/// A sweep: many runs with different values of the axes. Times are ns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sweep {
    /// `dyno.sweep`
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA)))]
    pub schema: String,
    /// 1
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA_VERSION)))]
    pub schema_version: u32,
    /// `running` (or killed), `interrupted` (Ctrl-C, or a limit came first), or `complete`
    pub state: State,
    /// of the sweep
    pub name: String,
    /// `false`: nothing that this program writes is an official MLPerf result
    pub official: bool,
    /// the same fact as text
    pub disclaimer: String,
    /// in UTC
    pub started_at: String,
    /// the arguments of the command that began it
    pub command: Vec<String>,
    /// directory in which it was started; relative paths refer to it
    pub working_directory: PathBuf,
    /// of the program that began it
    pub dyno_version: String,
    /// its definition; a resumed sweep must have the same
    pub definition: Definition,
    /// bound of the flag `--p99-below`, which a resumed sweep keeps; null without it
    #[serde(default)]
    pub p99_below_ns: Option<u64>,
    /// whether `--until-saturated` was given, which a resumed sweep keeps
    #[serde(default)]
    pub until_saturated: bool,
    /// one entry per combination and repeat, by number
    pub points: Vec<Point>,
}

/// Progress of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Running, or killed.
    Running,
    /// Ctrl-C, or a limit.
    Interrupted,
    /// Every point has been run.
    Complete,
}

/// Definition of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Definition {
    /// arguments of `dyno run` that all points share
    pub fixed: Vec<String>,
    /// axes, the slowest first
    pub axes: Vec<Axis>,
    /// `product`: every combination; `zip`: the first values, the second values, ...
    pub combine: String,
    /// excluded combinations: those that have one of the values of each key
    pub exclude: Vec<Selection>,
    /// number of runs of each combination
    pub repeat: u32,
    /// `given` or `random`
    pub order: String,
    /// seed of the random order
    pub order_seed: u64,
    /// settings that the environment gives: variables and their values
    pub environment: BTreeMap<String, String>,
    /// files that the points read, with checksums
    pub files: Vec<InputFile>,
}

/// Combinations: those that have one of the values of each key.
pub type Selection = BTreeMap<String, Vec<String>>;

/// An axis of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Axis {
    /// a flag of `dyno run`, such as `batch`, or `settings.NAME`
    pub key: String,
    /// in order, as passed to the flag
    pub values: Vec<String>,
}

/// An input file at the start of the sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InputFile {
    /// path of the file
    pub path: PathBuf,
    /// its size; for a `.toml` file, the size of its content without comments and spacing
    pub bytes: u64,
    /// checksum of the same bytes
    pub crc32: u32,
}

/// One run of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// from 1, in the order of the axes, whatever the order of the runs
    pub number: u64,
    /// number of the repeat, from 1
    pub repeat: u32,
    /// unique except for repeats: given, or built from the values
    pub name: String,
    /// the value of each axis
    pub assignments: BTreeMap<String, String>,
    /// operations of the model per sample; null if unknown
    pub operations: Option<f64>,
    /// `pending`, `done` (valid), `undecided` (too few queries), `invalid` (done, and does not
    /// count), `failed` (could not be done) or `skipped` (a lower load saturated the system)
    pub state: PointState,
    /// its run directory, within the sweep directory
    pub folder: String,
    /// why it failed or does not count; otherwise null
    pub message: Option<String>,
    /// exit code of its process; null while it is pending, or if a signal ended it
    pub exit_code: Option<i32>,
    /// duration including loading; null while it is pending
    pub took_ns: Option<u64>,
    /// one entry per scenario and tenant
    pub results: Vec<PointResult>,
}

dyno_loadgen::named_enum! {
    /// State of a point.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum PointState {
        /// Not yet run, or interrupted.
        Pending = "pending",
        /// Run, and it counts.
        Done = "done",
        /// Run, but what was measured does not decide its verdict.
        Undecided = "undecided",
        /// Run, and it does not count.
        Invalid = "invalid",
        /// It could not be completed.
        Failed = "failed",
        /// Not run, because a lower load saturated the system.
        Skipped = "skipped",
    }
}

/// Result of one scenario of a point: its performance test, with the accuracy of its accuracy
/// test. The `summary.json` of the run has further figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PointResult {
    /// as in the summary of the run
    pub scenario: String,
    /// its name, or null
    pub tenant: Option<String>,
    /// `VALID` if its tests are, otherwise the worst of their verdicts
    pub verdict: String,
    /// the client or its machine limited the figures, so they do not describe the system
    #[serde(default)]
    pub is_limited_by_client: bool,
    /// the figures describe the system at this load, whether or not they meet bounds and requirements:
    /// the run was long enough, without failures and without delays of the client
    #[serde(default)]
    pub is_undisturbed: bool,
    /// headline result; null without a performance test
    pub headline: Option<Headline>,
    /// answered samples/s; null without a performance test
    pub throughput: Option<f64>,
    /// median latency; null if no query was answered
    pub p50_ns: Option<i64>,
    /// 0.9 of the latency; null if no query was answered
    pub p90_ns: Option<i64>,
    /// 0.99 of the latency; null if no query was answered
    pub p99_ns: Option<i64>,
    /// output tokens per second of answered samples; null if they are not counted
    #[serde(default)]
    pub output_tokens_per_s: Option<f64>,
    /// median time to first token; null unless tokens are measured
    #[serde(default)]
    pub first_token_p50_ns: Option<i64>,
    /// 0.99 of the time to first token; null unless tokens are measured
    pub first_token_p99_ns: Option<i64>,
    /// median time per output token; null unless tokens are measured
    #[serde(default)]
    pub time_per_output_token_p50_ns: Option<i64>,
    /// 0.99 of the time per output token; null unless tokens are measured
    pub time_per_output_token_p99_ns: Option<i64>,
    /// in [0, 1]; null without an accuracy test or without labels
    pub accuracy: Option<f64>,
}

impl Sweep {
    /// Reads the state of a sweep directory.
    ///
    /// # Errors
    /// If the file is missing, damaged or of another version.
    pub fn read(directory: &Path) -> Result<Self, ReadError> {
        read_json(&directory.join(FILE), SCHEMA, SCHEMA_VERSION)
    }

    /// Writes the state in one step: a reader finds the old file or the new one.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        replace(&directory.join(FILE), pretty(self))
    }
}

/// Returns the results of a run, one entry per scenario and tenant.
pub fn results(run: &summary::Run) -> Vec<PointResult> {
    let mut results: Vec<PointResult> = Vec::new();
    for test in &run.tests {
        let is_same = |r: &PointResult| r.scenario == test.scenario && r.tenant == test.tenant;
        let at = results.iter().position(is_same).unwrap_or_else(|| {
            let (scenario, tenant) = (test.scenario.clone(), test.tenant.clone());
            let verdict = test.verdict.clone();
            results.push(PointResult { scenario, tenant, verdict, ..PointResult::default() });
            results.len() - 1
        });
        let result = &mut results[at];
        // An INVALID test wins over an UNDECIDED one.
        if !test.is_valid() && !is_bad(&result.verdict) {
            result.verdict.clone_from(&test.verdict);
        }
        result.is_limited_by_client |=
            test.causes.iter().any(|reason| reason.cause == Some(Cause::Client));
        if test.metrics.is_some() {
            result.is_undisturbed = is_undisturbed(test);
        }
        if let Some(accuracy) = &test.accuracy {
            result.accuracy = accuracy.share();
        }
        if let Some(metrics) = &test.metrics {
            let timed = metrics.answered();
            result.headline.clone_from(&test.result);
            result.throughput = throughput(test, metrics);
            (result.p50_ns, result.p90_ns) = (timed.map(|d| d.p50), timed.map(|d| d.p90));
            result.p99_ns = timed.map(|d| d.p99);
            let both = |of: Option<Distribution>| {
                of.filter(|d| d.count > 0).map(|d| (d.p50, d.p99)).unzip()
            };
            (result.first_token_p50_ns, result.first_token_p99_ns) = both(metrics.first_token_ns);
            (result.time_per_output_token_p50_ns, result.time_per_output_token_p99_ns) =
                both(metrics.time_per_output_token_ns);
            let counted = metrics.tokens.as_ref().and_then(|tokens| tokens.output_per_s);
            // Inferred tokens are not counted.
            let rates = metrics.token_rates.as_ref().filter(|_| metrics.token_count.is_some());
            let measured = rates.and_then(|r| r.completed_tokens_per_s.or(r.tokens_per_s));
            result.output_tokens_per_s = counted.or(measured).filter(|rate| rate.is_finite());
        }
    }
    results
}

/// Returns whether a performance test misses at most bounds, requirements or the certainty of a
/// percentile, so that its figures describe the system at its load.
fn is_undisturbed(test: &summary::Test) -> bool {
    let is_of_bounds = |reason: &Reason| {
        matches!(
            reason.kind,
            ReasonKind::Bound
                | ReasonKind::Requirement
                | ReasonKind::Saturated
                | ReasonKind::EarlyStopping
        ) && reason.cause != Some(Cause::Client)
    };
    let misses_errors = test
        .requirements
        .iter()
        .any(|of| of.metric == "errors" && of.finding != RequirementFinding::Met);
    // A reason that is only in `reasons` has an unknown kind.
    test.state == summary::State::Complete
        && !misses_errors
        && test.reasons.len() == test.causes.len()
        && test.causes.iter().all(is_of_bounds)
}

/// Returns whether a verdict is neither VALID nor UNDECIDED, so that more queries cannot change it.
pub fn is_bad(verdict: &str) -> bool {
    verdict != Verdict::Valid.name() && verdict != Verdict::Undecided.name()
}

/// Returns the samples per second, also for scenarios that count queries.
fn throughput(test: &summary::Test, metrics: &summary::Metrics) -> Option<f64> {
    let rates = &metrics.rates;
    let of_queries = || {
        let queries = rates.queries_per_s_with_overhead?;
        Some(queries * test.plan.samples_per_query as f64)
    };
    let found = match (test.mode.as_str(), &test.result) {
        ("peak", Some(result)) => result.value,
        _ => rates.completed_samples_per_s.or(rates.samples_per_s).or_else(of_queries),
    };
    found.filter(|rate| rate.is_finite())
}
