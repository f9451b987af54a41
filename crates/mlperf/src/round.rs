//! A round of MLPerf Inference as data: benchmarks with their data sets, quality
//! targets, scenarios, latency bounds, seeds and audits.
//!
//! The data are `rules/<round>.toml`, and `rules/every_round.toml` for what stays the
//! same over several rounds. A new round is a new file and a line in [`FILES`].

mod file;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::settings::nearest;

/// The text of each round, oldest first.
const FILES: [(&str, &str); 14] = [
    ("v0.5", include_str!("../rules/v0.5.toml")),
    ("v0.7", include_str!("../rules/v0.7.toml")),
    ("v1.0", include_str!("../rules/v1.0.toml")),
    ("v1.1", include_str!("../rules/v1.1.toml")),
    ("v2.0", include_str!("../rules/v2.0.toml")),
    ("v2.1", include_str!("../rules/v2.1.toml")),
    ("v3.0", include_str!("../rules/v3.0.toml")),
    ("v3.1", include_str!("../rules/v3.1.toml")),
    ("v4.0", include_str!("../rules/v4.0.toml")),
    ("v4.1", include_str!("../rules/v4.1.toml")),
    ("v5.0", include_str!("../rules/v5.0.toml")),
    ("v5.1", include_str!("../rules/v5.1.toml")),
    ("v6.0", include_str!("../rules/v6.0.toml")),
    ("v6.1", include_str!("../rules/v6.1.toml")),
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
        Ok(Self { major: number(major)?, minor: number(minor)? })
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

/// A scenario of the rules. LoadGen plays Interactive as Server with other bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scenario {
    /// One sample at a time.
    SingleStream,
    /// Several samples at a time.
    MultiStream,
    /// Arrivals at random against a latency bound.
    Server,
    /// Everything at once.
    Offline,
    /// Server with tighter bounds on tokens.
    Interactive,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::SingleStream, Self::MultiStream, Self::Server, Self::Offline, Self::Interactive];

    /// As the rules write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SingleStream => "SingleStream",
            Self::MultiStream => "MultiStream",
            Self::Server => "Server",
            Self::Offline => "Offline",
            Self::Interactive => "Interactive",
        }
    }

    /// The scenario of that name, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.name().eq_ignore_ascii_case(name))
    }

    /// What the load generator plays.
    #[must_use]
    pub fn played_as(self) -> dyno_loadgen::settings::Scenario {
        use dyno_loadgen::settings::Scenario as Played;
        match self {
            Self::SingleStream => Played::SingleStream,
            Self::MultiStream => Played::MultiStream,
            Self::Server | Self::Interactive => Played::Server,
            Self::Offline => Played::Offline,
        }
    }
}

/// What a system is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Suite {
    /// `datacenter`.
    Datacenter,
    /// `edge`.
    Edge,
    /// `datacenter,edge`: one system submitted as both.
    Both,
}

impl Suite {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Datacenter, Self::Edge, Self::Both];

    /// As a system description writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Datacenter => "datacenter",
            Self::Edge => "edge",
            Self::Both => "datacenter,edge",
        }
    }
}

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

/// Which scenarios of a benchmark a suite wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Without each of these a submission is incomplete.
    pub required: Vec<Scenario>,
    /// May be submitted as well.
    pub optional: Vec<Scenario>,
}

/// Bounds of one metric of quality.
#[derive(Debug, Clone, PartialEq)]
pub struct QualityTarget {
    /// Name of the metric, such as `acc` or `ROUGE1`.
    pub metric: String,
    /// The value must be this or more, exactly as the official checker has it.
    pub at_least: Option<f64>,
    /// The value must be this or less.
    pub at_most: Option<f64>,
    /// Only for this scenario.
    pub scenario: Option<Scenario>,
}

/// 99th percentile bounds of Server and Interactive for language models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBounds {
    /// Time to first token, ns.
    pub ttft: Nanos,
    /// Time per output token, ns.
    pub tpot: Nanos,
}

/// What a round asks of one model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Benchmark {
    /// Its official name in the round, such as `resnet` or `bert-99.9`.
    pub name: String,
    /// What must hold of its quality, each.
    pub accuracy: Vec<QualityTarget>,
    /// TEST01 without determinism: how far apart the accuracies of the two runs
    /// may be, in percent, by metric.
    pub audit_accuracy_delta_percent: BTreeMap<String, f64>,
    /// Samples that must be loaded at least in a performance run.
    pub performance_samples: Option<u64>,
    /// Samples in the data set.
    pub dataset_samples: Option<u64>,
    /// Samples of an accuracy run where they are not the data set's.
    pub accuracy_samples: BTreeMap<String, u64>,
    /// Samples that an Offline query must have at least.
    pub offline_samples: Option<u64>,
    /// Queries that a run must have at least.
    pub min_queries: BTreeMap<Scenario, u64>,
    /// Bound of the latency, ns.
    pub latency: BTreeMap<Scenario, Nanos>,
    /// Bounds of token latencies.
    pub token_latency: BTreeMap<Scenario, TokenBounds>,
    /// Audits that a submission must pass.
    pub audits: Vec<String>,
    /// Keys of the detail log that are the result, where they are not the round's.
    pub result_keys: BTreeMap<Scenario, String>,
    /// Units of the result where they are not the scenario's.
    pub units: BTreeMap<Scenario, String>,
    /// Outputs that must be submitted: folder below `accuracy/`, and names.
    pub accuracy_outputs: BTreeMap<String, Vec<String>>,
    /// Which scenarios it has in which suite.
    pub suites: BTreeMap<Suite, Wanted>,
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
    /// Errors in a detail log that do not count, by part of their text.
    pub ignored_errors: Vec<String>,
    /// Other names of models: as given, official.
    pub names: BTreeMap<String, String>,
    /// In the order of the official list.
    pub benchmarks: Vec<Benchmark>,
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
