//! The rules of MLPerf Inference as data: for each [`Round`] the benchmarks with their data sets,
//! quality targets, scenarios, latency bounds, seeds and audits.
//!
//! The data are `rounds/<round>.toml`, which holds what the official checker counts, and
//! `rounds/benchmarks.toml` and `rounds/every_round.toml`, which hold what stays the same over
//! several rounds. A new round is a new file and a line in `FILES`.
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
mod described;
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

use dyno_loadgen::settings::{TraceRules, nearest};

pub use bandwidth::{Bandwidth, ElementBytes, Elements, Needed};
pub use benchmark::{
    Benchmark, Dataset, Inference, LoadGenRows, QualityTarget, Reference, TokenBounds,
};
pub use endpoints::{EndpointFact, Endpoints};
pub use scenario::{Arrivals, Confirmation, Scenario, ScenarioRules};
pub use settings::{Fixed, Leeway};
pub use suite::{Asks, Availability, Division, Interconnect, NetworkRules, Suite, Wanted};

/// The text of each round, oldest first.
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
    /// Before the dot.
    pub major: u8,
    /// After it.
    pub minor: u8,
}

impl Version {
    /// `vMAJOR.MINOR`.
    #[must_use]
    pub const fn new(major: u8, minor: u8) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}", self.major, self.minor)
    }
}

/// Reads `v5.1`, and `5.1`.
impl FromStr for Version {
    type Err = UnknownRound;

    fn from_str(text: &str) -> Result<Self, UnknownRound> {
        let unknown = || UnknownRound { given: text.to_owned() };
        let digits = text.strip_prefix('v').unwrap_or(text);
        let (major, minor) = digits.split_once('.').ok_or_else(unknown)?;
        let number = |part: &str| part.parse().map_err(|_| unknown());
        let version = Self { major: number(major)?, minor: number(minor)? };
        // Numbers also read `+5` and `05`, which no round is named.
        let is_its_name = version.to_string()[1..] == *digits;
        if is_its_name { Ok(version) } else { Err(unknown()) }
    }
}

/// A round that there is no data for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRound {
    /// As it was written.
    pub given: String,
}

impl fmt::Display for UnknownRound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        write!(f, "there is no round `{}`; there are {}", self.given, known.join(", "))
    }
}

impl std::error::Error for UnknownRound {}

/// The three seeds of the traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeds {
    /// Which samples are loaded.
    pub qsl: u64,
    /// Which samples are issued.
    pub sample_index: u64,
    /// When they are due.
    pub schedule: u64,
}

/// Queries for 99 % confidence that a tail is met within a margin, as rounds
/// before early stopping asked for them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidence {
    /// The percentile.
    pub percentile: f64,
    /// How far off the share may be.
    pub margin: f64,
    /// Queries by the formula.
    pub queries: u64,
    /// Rounded up to a multiple of 2^13.
    pub rounded: u64,
}

/// The rows of that table, by percentile.
#[must_use]
pub fn confidence() -> &'static [Confidence] {
    &every::rules().confidence
}

/// Fields that a system description must have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemFields {
    /// Must be there.
    pub required: Vec<String>,
    /// Must say something.
    pub meaningful: Vec<String>,
    /// Must be there in the network division.
    pub network: Vec<String>,
    /// Must be there where power is measured.
    pub power: Vec<String>,
}

/// A round.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// Its number.
    pub version: Version,
    /// Year and month of its results.
    pub published: String,
    /// Seeds of every run but TEST05's.
    pub seeds: Seeds,
    /// Seeds of TEST05, in the rounds that have it.
    pub test05_seeds: Option<Seeds>,
    /// Other names of models: as given, official.
    pub names: BTreeMap<String, String>,
    /// In the order of the official list.
    pub benchmarks: Vec<Benchmark>,
    /// How each scenario is played and judged.
    pub scenarios: BTreeMap<Scenario, ScenarioRules>,
    /// Samples that an Offline query must have at least, of a benchmark that says
    /// nothing else.
    pub offline_samples: u64,
    /// The divisions there are, with what each asks for.
    pub divisions: BTreeMap<Division, Asks>,
    /// What each availability asks for.
    pub availabilities: BTreeMap<Availability, Asks>,
    /// What the division `network` may be joined by; none before it came.
    pub network: Option<NetworkRules>,
    /// What a datacenter system must have besides its benchmarks' bandwidth.
    pub datacenter: Vec<String>,
    /// Fields of a system description.
    pub system_fields: SystemFields,
    /// Files that describe a measurement.
    pub measurement_files: Vec<String>,
    /// Regular expression of each metric in `accuracy.txt`, matched from the start
    /// of a line; its group is the value.
    pub accuracy_patterns: BTreeMap<String, String>,
    /// Key of the detail log that is the result. Empty before v2.0, whose results
    /// were read from the summary.
    pub result_keys: BTreeMap<Scenario, String>,
    /// Of results that were measured on an endpoint; rounds before v6.1 have none.
    pub endpoints: Option<&'static Endpoints>,
}

impl Round {
    /// The rounds there are, oldest first.
    #[must_use]
    pub fn names() -> [&'static str; FILES.len()] {
        FILES.map(|(name, _)| name)
    }

    /// The round of that name, such as `v5.1` or `5.1`.
    ///
    /// # Errors
    /// There is no such round.
    pub fn named(name: &str) -> Result<&'static Self, UnknownRound> {
        static ROUNDS: [OnceLock<Round>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];
        let version: Version = name.parse()?;
        let known = FILES.iter().position(|(name, _)| *name == version.to_string());
        let at = known.ok_or_else(|| UnknownRound { given: name.to_owned() })?;
        Ok(ROUNDS[at].get_or_init(|| file::read(FILES[at].1)))
    }

    /// Which releases of LoadGen the traces of this round equal.
    #[must_use]
    pub fn trace_rules(&self) -> TraceRules {
        match self.version <= Version::new(5, 1) {
            true => TraceRules::UpTo5_1,
            false => TraceRules::Current,
        }
    }

    /// The share of queries that a scenario's result or bound is about.
    #[must_use]
    pub fn percentile(&self, benchmark: &Benchmark, scenario: Scenario) -> Option<f64> {
        let own = benchmark.percentiles.get(&scenario).copied();
        own.or_else(|| self.scenarios.get(&scenario)?.percentile)
    }

    /// What a datacenter system must take in and give out for a result of this
    /// many samples/s; none before v2.1, and where the rules name no figure.
    #[must_use]
    pub fn bandwidth(
        &self,
        benchmark: &Benchmark,
        samples_per_second: f64,
        bytes: ElementBytes,
    ) -> Option<Bandwidth> {
        let elements = benchmark.elements.filter(|_| self.version >= Version::new(2, 1))?;
        Some(elements.bandwidth(samples_per_second, bytes))
    }

    /// The benchmark of that official or other name.
    #[must_use]
    pub fn benchmark(&self, name: &str) -> Option<&Benchmark> {
        let official = |name: &str| self.benchmarks.iter().find(|benchmark| benchmark.name == name);
        official(name).or_else(|| official(self.names.get(name)?))
    }

    /// A benchmark whose name is close to one that there is none of.
    #[must_use]
    pub fn nearest_benchmark(&self, name: &str) -> Option<&str> {
        let known = self.benchmarks.iter().map(|benchmark| benchmark.name.as_str());
        nearest(name, known.chain(self.names.keys().map(String::as_str)))
    }
}
