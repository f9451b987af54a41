//! The rules of MLPerf Inference as data: for each [`Round`] the benchmarks with their data sets,
//! quality targets, scenarios, latency bounds, seeds and audits.
//!
//! `rounds/<round>.toml` holds the constants of the official checker of that round,
//! `rounds/checkers.toml` where the code of the checker in one file differs between its tags.
//! `rounds/benchmarks.toml`, `rounds/every_round.toml` and `rounds/endpoints.toml` hold what
//! applies to several rounds. To add a round, add a file and a line in `FILES`.
//!
//! [`Round::named`] is the entry point; [`Round::settings`] lists the load generator settings
//! that a round fixes for a benchmark.
//!
//! ```
//! use dyno_rules::Round;
//!
//! let round = Round::named("v5.1").unwrap();
//! assert!(round.benchmarks.iter().any(|benchmark| benchmark.name == "resnet"));
//! assert!(Round::named("v9.9").is_err());
//! ```
#![forbid(unsafe_code)]

pub mod accuracy;
mod bandwidth;
mod benchmark;
mod checker;
mod description;
mod endpoints;
mod every;
mod file;
mod scenario;
mod settings;
mod suite;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use dyno_loadgen::settings::{TraceRules, similar};
use thiserror::Error;

pub use bandwidth::{Bandwidth, BandwidthNeed, ElementBytes, Elements};
pub use benchmark::{
    Benchmark, Dataset, Inference, LoadGenRows, QualityTarget, Reference, TokenBounds,
};
pub use checker::{Behavior, CheckerDifference, Leniency, OneFileChecker};
pub use endpoints::{EndpointFact, Endpoints};
pub use file::parse_embedded;
pub use scenario::{ArrivalPattern, Confirmation, RuleScenario, ScenarioRules};
pub use settings::{FixedSetting, Leeway};
pub use suite::{
    Availability, Division, Interconnect, NetworkRules, Requirements, Suite, SuiteScenarios,
};

/// TOML text of each round, oldest first.
const FILES: [(&str, &str); 14] = [
    ("v0.5", include_str!("../rounds/v0.5.toml")),
    ("v0.7", include_str!("../rounds/v0.7.toml")),
    ("v1.0", include_str!("../rounds/v1.0.toml")),
    ("v1.1", include_str!("../rounds/v1.1.toml")),
    ("v2.0", include_str!("../rounds/v2.0.toml")),
    ("v2.1", include_str!("../rounds/v2.1.toml")),
    ("v3.0", include_str!("../rounds/v3.0.toml")),
    ("v3.1", include_str!("../rounds/v3.1.toml")),
    ("v4.0", include_str!("../rounds/v4.0.toml")),
    ("v4.1", include_str!("../rounds/v4.1.toml")),
    ("v5.0", include_str!("../rounds/v5.0.toml")),
    ("v5.1", include_str!("../rounds/v5.1.toml")),
    ("v6.0", include_str!("../rounds/v6.0.toml")),
    ("v6.1", include_str!("../rounds/v6.1.toml")),
];

/// Number of a round; later rounds are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Number before the dot.
    pub major: u8,
    /// Number after the dot.
    pub minor: u8,
}

impl Version {
    /// Returns the version `vMAJOR.MINOR`.
    pub const fn new(major: u8, minor: u8) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}", self.major, self.minor)
    }
}

/// Parses `v5.1` or `5.1`.
impl FromStr for Version {
    type Err = UnknownRound;

    fn from_str(text: &str) -> Result<Self, UnknownRound> {
        let unknown = || UnknownRound { given: text.to_owned() };
        let digits = text.strip_prefix('v').unwrap_or(text);
        let (major, minor) = digits.split_once('.').ok_or_else(unknown)?;
        let number = |part: &str| part.parse().map_err(|_| unknown());
        let version = Self { major: number(major)?, minor: number(minor)? };
        // Rejects `+5` and `05`, which `u8::from_str` accepts but no round uses.
        let is_its_name = version.to_string()[1..] == *digits;
        if is_its_name { Ok(version) } else { Err(unknown()) }
    }
}

/// Error: Dyno has no data for this round.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "there is no round `{given}`; there are {}",
    FILES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
)]
pub struct UnknownRound {
    /// Name as the user wrote it.
    pub given: String,
}

/// Seeds of the three random traces of LoadGen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeds {
    /// Seed of the choice of samples to load.
    pub qsl: u64,
    /// Seed of the choice of samples to issue.
    pub sample_index: u64,
    /// Seed of the arrival times.
    pub schedule: u64,
}

/// Number of queries that gives 99 % confidence that a tail latency is met within a margin.
/// Rounds before early stopping used this table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidence {
    /// Percentile as a share from 0 to 1.
    pub percentile: f64,
    /// Margin: maximum error of the share.
    pub margin: f64,
    /// Number of queries by the formula.
    pub queries: u64,
    /// Number of queries rounded up to a multiple of 2^13.
    pub rounded: u64,
}

/// Returns the rows of the confidence table, sorted by percentile.
pub fn confidence() -> &'static [Confidence] {
    &every::rules().confidence
}

/// Fields that a system description must have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemFields {
    /// Fields that must exist.
    pub required: Vec<String>,
    /// Fields whose value must not be empty.
    pub meaningful: Vec<String>,
    /// Fields that must exist in the network division.
    pub network: Vec<String>,
    /// Fields that must exist if power is measured.
    pub power: Vec<String>,
}

/// Rules of one round.
///
/// ```
/// use dyno_rules::{Round, RuleScenario};
///
/// let round = Round::named("v5.1").unwrap();
/// let resnet = round.benchmark("resnet50").unwrap();
/// assert_eq!(resnet.latency[&RuleScenario::Server], 15_000_000);
/// assert_eq!(round.percentile(resnet, RuleScenario::Server), Some(0.99));
///
/// let settings = round.settings(resnet, RuleScenario::Server);
/// assert!(settings.iter().any(|s| s.key == "min_duration_ms" && s.value == "600000"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// Version of the round.
    pub version: Version,
    /// Year and month in which results were published.
    pub published: String,
    /// Seeds of all runs except TEST05.
    pub seeds: Seeds,
    /// Seeds of TEST05, in rounds that include it.
    pub test05_seeds: Option<Seeds>,
    /// Official model names, by alias.
    pub names: BTreeMap<String, String>,
    /// Benchmarks, in the order of the official list.
    pub benchmarks: Vec<Benchmark>,
    /// Rules for issuing queries and judging results, by scenario.
    pub scenarios: BTreeMap<RuleScenario, ScenarioRules>,
    /// Minimum number of samples of an Offline query, unless the benchmark specifies its own.
    pub offline_samples: u64,
    /// Requirements of each division.
    pub divisions: BTreeMap<Division, Requirements>,
    /// Requirements of each availability category.
    pub availabilities: BTreeMap<Availability, Requirements>,
    /// Rules of the network division; `None` in rounds before it existed.
    pub network: Option<NetworkRules>,
    /// Requirements for datacenter systems, in addition to the bandwidth of their benchmarks.
    pub datacenter: Vec<String>,
    /// Required fields of a system description.
    pub system_fields: SystemFields,
    /// Names of the files that describe a measurement.
    pub measurement_files: Vec<String>,
    /// Regular expression of each metric in `accuracy.txt`, matched from the start of a line.
    /// Its first group is the value.
    pub accuracy_patterns: BTreeMap<String, String>,
    /// Key of the result in the detail log. Empty before v2.0, where the checker read results
    /// from the summary.
    pub result_keys: BTreeMap<RuleScenario, String>,
    /// Rules for results measured on an endpoint; `None` before v6.1.
    pub endpoints: Option<&'static Endpoints>,
}

impl Round {
    /// Returns the names of all rounds, oldest first.
    pub fn names() -> [&'static str; FILES.len()] {
        FILES.map(|(name, _)| name)
    }

    /// Returns the round with a name such as `v5.1` or `5.1`.
    ///
    /// # Errors
    /// Fails if there is no such round.
    pub fn named(name: &str) -> Result<&'static Self, UnknownRound> {
        static ROUNDS: [OnceLock<Round>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];
        let version: Version = name.parse()?;
        let known = FILES.iter().position(|(name, _)| *name == version.to_string());
        let index = known.ok_or_else(|| UnknownRound { given: name.to_owned() })?;
        Ok(ROUNDS[index].get_or_init(|| file::read(FILES[index].1)))
    }

    /// Returns the round before a version.
    pub fn before(version: Version) -> Option<&'static Self> {
        let index = FILES.iter().position(|(name, _)| *name == version.to_string())?;
        Self::named(FILES[index.checked_sub(1)?].0).ok()
    }

    /// Returns the LoadGen releases whose traces this round uses.
    pub fn trace_rules(&self) -> TraceRules {
        if self.version <= Version::new(5, 1) { TraceRules::UpTo5_1 } else { TraceRules::Current }
    }

    /// Returns the percentile, as a share, to which the result or the bound of a scenario
    /// applies. A percentile of the benchmark takes precedence.
    pub fn percentile(&self, benchmark: &Benchmark, scenario: RuleScenario) -> Option<f64> {
        let own = benchmark.percentiles.get(&scenario).copied();
        own.or_else(|| self.scenarios.get(&scenario)?.percentile)
    }

    /// Returns the minimum duration of a run, in ms; `None` if the round does not have the scenario.
    /// A minimum of the benchmark takes precedence.
    pub fn min_duration_ms(&self, benchmark: &Benchmark, scenario: RuleScenario) -> Option<u64> {
        let usual = self.scenarios.get(&scenario)?.min_duration_ms;
        Some(benchmark.min_duration_ms.unwrap_or(usual))
    }

    /// Returns the network bandwidth that a datacenter result of this many samples/s requires.
    /// Returns `None` before v2.1 and where the rules specify no figure.
    pub fn bandwidth(
        &self,
        benchmark: &Benchmark,
        samples_per_second: f64,
        bytes: ElementBytes,
    ) -> Option<Bandwidth> {
        let elements = benchmark.elements.filter(|_| self.version >= Version::new(2, 1))?;
        Some(elements.bandwidth(samples_per_second, bytes))
    }

    /// Returns the benchmark with an official name or an alias.
    pub fn benchmark(&self, name: &str) -> Option<&Benchmark> {
        let official = |name: &str| self.benchmarks.iter().find(|benchmark| benchmark.name == name);
        official(name).or_else(|| official(self.names.get(name)?))
    }

    /// Returns the benchmark name or alias that is most similar to an unknown name, if one is similar.
    pub fn similar_benchmark(&self, name: &str) -> Option<&str> {
        let known = self.benchmarks.iter().map(|benchmark| benchmark.name.as_str());
        similar(name, known.chain(self.names.keys().map(String::as_str)))
    }
}
