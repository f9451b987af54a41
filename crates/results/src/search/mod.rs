//! `search.json`: definition and state of a search, and every run that it made. The file is rewritten
//! after each run, so that an interrupted search can be resumed. `docs/reference/search.md` describes
//! the same fields as the doc comments here.

mod headline;
pub mod limits;
mod load;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::collection::is_inside;
use crate::summary::{Cause, ReadError, Rules, Run, Test, read_json};
use dyno_loadgen::search::{self, Block, End, Observation, Probe};
use serde::{Deserialize, Serialize};

use crate::write::{pretty, replace};

pub use headline::{headline, nearest};
pub use load::{Load, SettingOverride};

/// Version of the schema. It increases when a key changes its meaning or is removed.
pub const SCHEMA_VERSION: u32 = 1;

/// Name of the schema.
pub const SCHEMA: &str = "dyno.search";

/// File name.
pub const FILE: &str = "search.json";

/// A search. Times are ns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct State {
    /// `dyno.search`
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA)))]
    pub schema: String,
    /// 1
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA_VERSION)))]
    pub schema_version: u32,
    /// progress or outcome
    pub state: Phase,
    /// `false`: nothing that this program writes is an official MLPerf result
    pub official: bool,
    /// the same fact as text
    pub disclaimer: String,
    /// in UTC; empty in virtual time
    pub started_at: String,
    /// the arguments of the command that began it
    pub command: Vec<String>,
    /// of the program that began it
    pub dyno_version: String,
    /// its definition; a resumed search must have the same
    pub definition: Definition,
    /// round and benchmark; null without `--round`
    #[serde(default)]
    pub rules: Option<Rules>,
    /// notes on the rules, such as departures from the round
    #[serde(default)]
    pub remarks: Vec<String>,
    /// estimate of the peak; null until it is bracketed
    pub peak: Option<Peak>,
    /// the confirming run; null unless a full run passed
    pub confirmed: Option<ConfirmedLoad>,
    /// every run, in order
    pub points: Vec<Point>,
    /// runs that were stopped at the time limit, or that a system which broke failed: they cost time and are not used
    #[serde(default)]
    pub unfinished: Vec<UnfinishedRun>,
    /// runs that the client or the machine disturbed: they cost time, are not used, and were
    /// repeated
    #[serde(default)]
    pub disturbed: Vec<DisturbedRun>,
}

/// Progress or outcome of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Running, or killed.
    Running,
    /// Interrupted with Ctrl-C.
    Interrupted,
    /// The system stopped answering, or its answers cannot be judged.
    Aborted,
    /// A full run at the load was VALID and kept every limit.
    Confirmed,
    /// The peak is known; no confirmation was requested.
    Estimated,
    /// No full run near the peak passed.
    Unconfirmed,
    /// The time limit came first.
    OutOfTime,
    /// The load hardly affects whether the limits are kept, or 200 short runs do not show how.
    Unclear,
    /// No load keeps the limits.
    NothingPasses,
    /// Every load keeps the limits.
    NothingFails,
    /// The client or the machine limits the measurement, not the system.
    ClientLimited,
}

impl From<End> for Phase {
    fn from(end: End) -> Self {
        match end {
            End::Confirmed => Self::Confirmed,
            End::Estimated => Self::Estimated,
            End::Unconfirmed => Self::Unconfirmed,
            End::OutOfTime => Self::OutOfTime,
            End::Unclear => Self::Unclear,
            End::NothingPasses => Self::NothingPasses,
            End::NothingFails => Self::NothingFails,
        }
    }
}

dyno_loadgen::named_enum! {
    /// Purpose of a run.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Purpose {
        /// To find a load that passes and one that does not.
        Bracket = "bracket",
        /// To refine the peak.
        Refine = "refine",
        /// To confirm the load.
        Confirm = "confirm",
    }
}

impl From<search::Purpose> for Purpose {
    fn from(purpose: search::Purpose) -> Self {
        match purpose {
            search::Purpose::Bracket => Self::Bracket,
            search::Purpose::Refine => Self::Refine,
            search::Purpose::Confirm { .. } => Self::Confirm,
        }
    }
}

/// Definition of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Definition {
    /// the value of `--system`
    pub system: String,
    /// of all runs
    pub scenario: String,
    /// the kind of load
    pub load: Load,
    /// all must be kept, in the grammar of `--limit`
    pub limits: Vec<String>,
    /// the first load
    pub from: f64,
    /// a load that is expected to be too high, or null
    pub to: Option<f64>,
    /// relative
    pub tolerance: f64,
    /// length of the first runs
    pub short_ns: u64,
    /// length of a run that counts
    pub full_ns: u64,
    /// minimum number of queries of a run that counts
    pub full_queries: u64,
    /// maximum time of all runs together
    pub max_time_ns: u64,
    /// number of failed full runs after which the search ends; 0 does not confirm
    pub confirmations: u32,
    /// every setting that is not a default, except the load and its seeds
    pub settings: BTreeMap<String, String>,
}

/// Estimate of the peak.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Peak {
    /// the most likely value
    pub load: f64,
    /// lower end of the interval
    pub low: f64,
    /// upper end of the interval
    pub high: f64,
    /// confidence of the interval
    pub confidence: f64,
    /// the limit that most likely binds
    pub binds: String,
    /// probability that each limit is the binding one, in the order of the limits
    pub binding_probability: Vec<f64>,
}

/// The confirming run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfirmedLoad {
    /// its load
    pub load: f64,
    /// its run directory, within the search directory
    pub folder: String,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// from 1
    pub number: u64,
    /// its purpose
    pub purpose: Purpose,
    /// of a confirmation: its run directory, else null
    pub folder: Option<String>,
    /// queries/s, queries in flight, or samples per query
    pub load: f64,
    /// time in which queries were issued
    pub duration_ns: u64,
    /// total duration
    pub took_ns: u64,
    /// queries piled up: it was stopped early, or more and more were outstanding until its end
    pub overloaded: bool,
    /// whether it kept every limit, by its own counts; a confirmation must also be VALID
    pub passed: bool,
    /// answered samples/s; null without a rate
    pub throughput: Option<f64>,
    /// the part of the throughput within every latency bound
    pub goodput: f64,
    /// share of the samples that failed; they are over every limit on the system
    #[serde(default)]
    pub failed_share: f64,
    /// median latency
    pub p50_ns: i64,
    /// 0.9
    pub p90_ns: i64,
    /// 0.99
    pub p99_ns: i64,
    /// one entry a limit
    pub limits: Vec<Counts>,
}

/// A run that was stopped at the time limit, or that a system which broke failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnfinishedRun {
    /// its purpose
    pub purpose: Purpose,
    /// queries/s, queries in flight, or samples per query
    pub load: f64,
    /// duration
    pub took_ns: u64,
}

/// A run that the client or the machine disturbed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DisturbedRun {
    /// its purpose
    pub purpose: Purpose,
    /// queries/s, queries in flight, or samples per query
    pub load: f64,
    /// duration
    pub took_ns: u64,
    /// `client`
    pub cause: Cause,
    /// what happened
    pub reason: String,
}

/// Counts for one limit in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// as in the definition
    pub limit: String,
    /// counted queries; a short run excludes its beginning
    pub queries: u64,
    /// counted queries over the bound
    pub over: u64,
    /// all of them, for each of the equal stretches of the run: `queries/over` and a space
    pub stretches: String,
}

impl State {
    /// Reads the state of a search directory.
    ///
    /// # Errors
    /// If the file is missing, damaged or of another version, or if its runs do not confirm what it states.
    pub fn read(directory: &Path) -> Result<Self, ReadError> {
        let path = directory.join(FILE);
        let state: Self = read_json(&path, SCHEMA, SCHEMA_VERSION)?;
        match state.contradiction(directory) {
            Some(reason) => Err(ReadError::Malformed { path, reason }),
            None => Ok(state),
        }
    }

    /// Returns how the confirmed load contradicts the run that confirmed it, such as in an edited file.
    fn contradiction(&self, directory: &Path) -> Option<String> {
        let ConfirmedLoad { load, folder } = self.confirmed.as_ref()?;
        let shown = self.definition.load.show(*load);
        let is_passed = |point: &Point| {
            point.passed && point.folder.as_ref() == Some(folder) && point.load == *load
        };
        if !self.points.iter().any(is_passed) {
            let no_run = "but no full run with this load and folder passed";
            return Some(format!("`confirmed` is {shown} in {folder}, {no_run}"));
        }
        // The folder of a run may be gone.
        let run = Run::read(&directory.join(folder)).ok().filter(|_| is_inside(folder.as_ref()))?;
        let is_planned = |test: &Test| self.definition.load.is_planned(*load, &test.plan);
        if run.is_valid() && run.tests.iter().any(is_planned) {
            return None;
        }
        let summary = format!("{folder}/{}", crate::summary::FILE);
        Some(format!("`confirmed` is {shown}, but {summary} is no VALID run with this load"))
    }

    /// Writes the state in one step: a reader finds the old file or the new one.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        replace(&directory.join(FILE), pretty(self))
    }
}

impl Definition {
    /// Returns the first difference from another definition, in words; `None` if they are equal.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let json = |of: &Self| serde_json::to_value(of).expect("keys are texts");
        let (mine, others) = (json(self), json(other));
        let differs = |key: &&String| mine[*key] != others[*key];
        let key = mine.as_object().expect("a struct").keys().find(differs)?;
        if key != "settings" {
            return Some(format!("`{key}` was {} and is {}", mine[key], others[key]));
        }
        let keys = self.settings.keys().chain(other.settings.keys());
        let of = |side: &Self, key: &str| side.settings.get(key).cloned();
        let key = keys.into_iter().find(|key| of(self, key) != of(other, key))?;
        let or_default = |value: Option<String>| value.unwrap_or_else(|| "the default".into());
        let (was, is) = (or_default(of(self, key)), or_default(of(other, key)));
        Some(format!("the setting `{key}` was {was}, but is {is}"))
    }
}

impl Point {
    /// Returns `kept`, `missed`, or `piles up` for an overloaded run.
    pub fn verdict(&self) -> &'static str {
        if self.passed {
            "kept"
        } else if self.overloaded {
            "piles up"
        } else {
            "missed"
        }
    }

    /// Returns the observation that the search made of this run.
    ///
    /// # Errors
    /// If the load, a time or the stretches are invalid.
    pub fn observation(&self) -> Result<Observation, String> {
        let purpose = match self.purpose {
            Purpose::Bracket => search::Purpose::Bracket,
            Purpose::Refine => search::Purpose::Refine,
            Purpose::Confirm => search::Purpose::Confirm { attempt: 0 },
        };
        if !(self.load.is_finite() && self.load > 0.0) {
            return Err(format!("point {}: {} is not a load", self.number, self.load));
        }
        // Other code uses signed times.
        if self.took_ns.max(self.duration_ns) > i64::MAX.cast_unsigned() {
            let longer = self.took_ns.max(self.duration_ns);
            return Err(format!("point {}: {longer} ns is not the duration of a run", self.number));
        }
        let blocks = self.limits.iter().map(|counts| read_stretches(&counts.stretches));
        let blocks: Option<Vec<_>> = blocks.collect();
        Ok(Observation {
            probe: Probe {
                number: self.number.saturating_sub(1),
                load: self.load,
                duration: self.duration_ns,
                purpose,
            },
            took: self.took_ns,
            overloaded: self.overloaded,
            passed: self.passed,
            blocks: blocks
                .ok_or_else(|| format!("point {}: its stretches cannot be parsed", self.number))?,
        })
    }
}

/// Returns blocks as text, such as `225/0 230/3`: queries and those over the bound.
pub fn write_stretches(blocks: &[Block]) -> String {
    let texts: Vec<String> = blocks.iter().map(|b| format!("{}/{}", b.queries, b.over)).collect();
    texts.join(" ")
}

fn read_stretches(text: &str) -> Option<Vec<Block>> {
    let read = |text: &str| {
        let (queries, over) = text.split_once('/')?;
        let block = Block { queries: queries.parse().ok()?, over: over.parse().ok()? };
        (block.over <= block.queries).then_some(block)
    };
    text.split(' ').map(read).collect()
}
