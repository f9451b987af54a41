//! The scenarios of the rules, and how a round has each played and judged.

use dyno_loadgen::settings::Scenario as Played;

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
    pub fn played_as(self) -> Played {
        match self {
            Self::SingleStream => Played::SingleStream,
            Self::MultiStream => Played::MultiStream,
            Self::Server | Self::Interactive => Played::Server,
            Self::Offline => Played::Offline,
        }
    }
}

/// When the load generator issues the next query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// When the last is complete.
    AfterTheLast,
    /// Every interval, skipping those in which the last is not complete: the
    /// interval is the benchmark's latency bound.
    FixedInterval,
    /// At random, whatever is outstanding.
    Poisson,
    /// All samples in one query.
    AtOnce,
}

impl Arrivals {
    /// Every value with its name in the rules' data.
    pub(super) const NAMES: [(&'static str, Self); 4] = [
        ("after the last", Self::AfterTheLast),
        ("fixed interval", Self::FixedInterval),
        ("Poisson", Self::Poisson),
        ("at once", Self::AtOnce),
    ];

    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.into_iter().find(|(_, arrivals)| *arrivals == self);
        named.map_or("", |(name, _)| name)
    }
}

/// How a candidate of a search is confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmation {
    /// Runs that must all pass.
    pub runs: u64,
    /// How much less is tried after one that fails, in words.
    pub lower_by: String,
}

/// How a round has a scenario played and judged.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioRules {
    /// When queries are issued.
    pub arrivals: Arrivals,
    /// Share of the queries that the result or the bound is about, of a benchmark
    /// that has none of its own. None in Offline.
    pub percentile: Option<f64>,
    /// Samples in a query; none where the run decides.
    pub samples_per_query: Option<u64>,
    /// A run lasts at least this long, ms.
    pub min_duration_ms: u64,
    /// Runs that are submitted; the result is the least of them.
    pub runs: u64,
    /// How a candidate is confirmed, in the rounds that ask for it.
    pub confirmation: Option<Confirmation>,
    /// Whether early stopping decides how many queries are enough.
    pub stops_early: bool,
    /// Queries that a run has at least even so.
    pub min_queries: Option<u64>,
}
