//! Scenarios of the rules, and how a round issues their queries and judges their results.

use dyno_loadgen::settings::Scenario;

dyno_loadgen::named_enum! {
    /// A scenario of the rules. LoadGen runs Interactive as Server with different bounds.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum RuleScenario {
        /// One sample per query; a query starts when the previous one completes.
        SingleStream = "SingleStream",
        /// Several samples per query.
        MultiStream = "MultiStream",
        /// Random arrivals with a latency bound.
        Server = "Server",
        /// All samples in one query.
        Offline = "Offline",
        /// Server with tighter bounds on token latencies.
        Interactive = "Interactive",
    }
}

impl RuleScenario {
    /// Returns the scenario with this name, ignoring case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.name().eq_ignore_ascii_case(name))
    }

    /// Returns the LoadGen scenario that implements this one.
    pub fn loadgen_scenario(self) -> Scenario {
        match self {
            Self::SingleStream => Scenario::SingleStream,
            Self::MultiStream => Scenario::MultiStream,
            Self::Server | Self::Interactive => Scenario::Server,
            Self::Offline => Scenario::Offline,
        }
    }
}

/// When the load generator issues the next query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrivalPattern {
    /// When the previous query completes.
    AfterTheLast,
    /// Once per interval. Intervals in which the previous query is still running are skipped.
    /// The interval is the benchmark's latency bound.
    FixedInterval,
    /// At random times, regardless of outstanding queries.
    Poisson,
    /// All samples in one query at the start.
    AtOnce,
}

impl ArrivalPattern {
    /// All values with their names in the rules' data.
    pub(super) const NAMES: [(&'static str, Self); 4] = [
        ("after the last", Self::AfterTheLast),
        ("fixed interval", Self::FixedInterval),
        ("Poisson", Self::Poisson),
        ("at once", Self::AtOnce),
    ];

    /// Returns the name in the rules' data.
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.into_iter().find(|(_, arrivals)| *arrivals == self);
        named.map_or("", |(name, _)| name)
    }
}

/// Confirmation of a candidate that a search has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmation {
    /// Number of runs. All must pass.
    pub runs: u64,
    /// Amount, in words, by which the load is lowered after a failed run.
    pub lower_by: String,
}

/// Rules of a round for one scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioRules {
    /// Arrival pattern of queries.
    pub arrivals: ArrivalPattern,
    /// Percentile, as a share, of the result or the bound, unless the benchmark specifies its
    /// own. `None` in Offline.
    pub percentile: Option<f64>,
    /// Samples per query; `None` where the run decides.
    pub samples_per_query: Option<u64>,
    /// Minimum duration of a run, ms, unless the benchmark specifies its own.
    pub min_duration_ms: u64,
    /// Number of submitted runs. The result is the lowest of them.
    pub runs: u64,
    /// Confirmation of a candidate, in rounds that require it.
    pub confirmation: Option<Confirmation>,
    /// Whether early stopping decides how many queries are sufficient.
    pub stops_early: bool,
    /// Minimum number of queries of a run, even with early stopping.
    pub min_queries: Option<u64>,
}
