//! The plan of a test: the effective settings, resolved once per scenario before the test runs.
//!
//! ```
//! use dyno_loadgen::plan::{Library, Plan};
//! use dyno_loadgen::settings::{Scenario, TestSettings};
//!
//! let library = Library { total: 1_000, performance: 100 };
//! let mut settings = TestSettings { scenario: Scenario::Offline, ..TestSettings::default() };
//! let plan = Plan::resolve(&settings, library).unwrap();
//! assert_eq!((plan.min_query_count, plan.samples_per_query), (1, 100));
//!
//! settings.offline_expected_qps = -1.0;
//! let errors = Plan::resolve(&settings, library).unwrap_err();
//! assert!(errors.to_string().starts_with("`offline_expected_qps` is -1: expected a rate above 0"));
//! ```

use std::sync::Arc;

use crate::clock::{Nanos, SECOND};
use crate::early_stopping::Criterion;
use crate::search::Unit;
use crate::settings::{Arrivals, Repetition, Scenario, TestMode, TraceRules};

mod chains;
mod load;
mod problem;
mod ramp;
mod repeated;
mod resolve;
mod streams;
#[cfg(test)]
mod tests;

pub use chains::Chain;
pub use problem::{ReferenceBehavior, SettingsErrors, SettingsProblem};
pub use resolve::{MAX_TRACE_SAMPLES, apply_test05, raise_query_count_for_percentile};

/// Sample counts that the library reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Library {
    /// Samples in the data set.
    pub total: u64,
    /// Samples that fit in memory at once.
    pub performance: u64,
}

/// Effective settings of one tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Settings of the chosen scenario.
    pub load: Load,
    /// Mode of the test (after TEST05, which forces a performance run).
    pub mode: TestMode,
    /// Rate that the generated trace assumes, in queries/s.
    pub target_qps: f64,
    /// Samples in each query (>= 1). For Offline the size of its single query.
    pub samples_per_query: u64,
    /// Maximum number of outstanding queries; 0 means no limit.
    pub max_async_queries: u64,
    /// How long queries are issued, ns. 0 for Offline.
    pub target_duration: Nanos,
    /// Minimum duration of a valid run, ns.
    pub min_duration: Nanos,
    /// Maximum duration, ns; 0 means no limit.
    pub max_duration: Nanos,
    /// Minimum number of queries. 1 for Offline.
    pub min_query_count: u64,
    /// Maximum number of queries; 0 means no limit.
    pub max_query_count: u64,
    /// Minimum number of complete samples of a valid run.
    pub min_sample_count: u64,
    /// Size of the performance set.
    pub performance_sample_count: u64,
    /// Samples of an accuracy run.
    pub accuracy_sample_count: u64,
    /// How samples are chosen in a performance run.
    pub choice: SampleChoice,
    /// Issue each sample of the set equally often.
    pub concatenate_permutation: bool,
    /// Seeds of trace and audit.
    pub seeds: Seeds,
    /// Selection of the responses that a performance run logs.
    pub accuracy_log: AccuracyLog,
    /// Token metrics; `None` without tokens.
    pub tokens: Option<Tokens>,
    /// The early-stopping criterion.
    pub early_stopping: Criterion,
    /// Releases of the reference whose trace is reproduced.
    pub trace_rules: TraceRules,
    /// Continue generating queries past the expected end instead of running out.
    pub continue_trace: bool,
    /// Maximum time without a completion, ns; 0 means no limit.
    pub response_deadline: Nanos,
    /// Maximum lag caused by the client at the target percentile, ns; 0 means no limit.
    pub max_client_lag: Nanos,
    /// `performance_issue_same_index`, shown in the logs whether used or not.
    pub performance_issue_same_index: u64,
    /// `print_timestamps`, shown in the logs.
    pub print_timestamps: bool,
    /// Runs of a performance test. The decrement is resolved, except if it is a share of a rate
    /// that must first be found.
    pub repetition: Repetition,
    /// Sessions that performance runs play instead of independent queries; see
    /// [`Plan::with_sessions`].
    pub sessions: Option<Arc<[Chain]>>,
    /// Time from when a turn was due to when the next turn of its user is, ns; 0 if turns are due
    /// after the answer before them. See [`Plan::with_turn_interval`].
    pub turn_interval: Nanos,
    /// Turns that each task of a session has at most (>= 1); 1 if every turn is played. See
    /// [`Plan::with_tasks`].
    pub steps: u32,
    /// Length of the ramp before the measured part of a performance run, ns; 0 without one. See
    /// [`Plan::with_ramp`].
    pub ramp: Nanos,
}

/// Settings that belong to one scenario.
#[derive(Debug, Clone, PartialEq)]
pub enum Load {
    /// One sample at a time.
    SingleStream {
        /// The percentile that is the result, in (0, 1).
        percentile: f64,
    },
    /// N contiguous samples at a time.
    MultiStream {
        /// The percentile that is the result, in (0, 1). At a fixed interval, the share of queries
        /// that must not skip an interval.
        percentile: f64,
        /// When a query is issued.
        pacing: StreamPacing,
    },
    /// An arrival process with a latency bound.
    Server(Server),
    /// All samples at once.
    Offline,
}

/// When a MultiStream query is issued.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StreamPacing {
    /// When all samples of the last query are complete.
    OnCompletion,
    /// Rounds v0.5 and v0.7: at the first tick at which the last query is complete. Ticks are 1 /
    /// [`Plan::target_qps`] apart, and the first tick is that long after the start. The result is
    /// the number of streams.
    FixedInterval {
        /// The search for the highest number of streams.
        peak: PeakSettings,
    },
}

/// Settings of Server.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Share of queries that must meet the bound, in (0, 1).
    pub percentile: f64,
    /// Latency bound, ns (used if the plan has no token bounds).
    pub target_latency: Nanos,
    /// When queries arrive.
    pub arrivals: Arrivals,
    /// Issue all due queries in one call.
    pub coalesce: bool,
    /// Number of registered issuing threads; 0 means the calling thread.
    pub issue_threads: u64,
    /// The search for the peak.
    pub peak: PeakSettings,
}

/// How `FindPeakPerformance` searches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PeakSettings {
    /// Unit of the load: a rate in queries/s, or a whole number of streams.
    pub unit: Unit,
    /// Decimals of the found rate.
    pub decimals: u8,
    /// Each bracketing step multiplies the rate by 1 + `step_size` (> 0).
    pub step_size: f64,
}

/// How a performance run chooses samples. Accuracy runs issue every sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleChoice {
    /// With replacement (or equal-issue, if the plan concatenates permutations).
    Random,
    /// Each sample once.
    Unique,
    /// The sample at this position of the loaded set, every time.
    Same(u64),
}

/// Seeds of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "named as the settings are")]
pub struct Seeds {
    pub qsl: u64,
    pub sample_index: u64,
    pub schedule: u64,
    pub accuracy_log: u64,
}

/// Selection of the responses that a performance run logs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AccuracyLog {
    /// Share of the responses, in [0, 1].
    pub probability: f64,
    /// Expected number of responses; if > 0 it overrides the share.
    pub sampling_target: u64,
}

/// Token metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tokens {
    /// First-token stamps and token counts come from the system.
    Measured {
        /// Bound of the time to first token.
        ttft: Nanos,
        /// Bound of the time per output token.
        tpot: Nanos,
    },
    /// Tokens/s are samples/s times a factor.
    Inferred {
        /// Tokens per sample.
        scaling_factor: u64,
    },
}

impl Load {
    /// Returns the target percentile of latency; 0.99 for Offline, as shown in the logs.
    pub fn percentile(&self) -> f64 {
        match self {
            Self::SingleStream { percentile } | Self::MultiStream { percentile, .. } => *percentile,
            Self::Server(server) => server.percentile,
            Self::Offline => 0.99,
        }
    }
}

impl Plan {
    /// Returns the scenario.
    pub fn scenario(&self) -> Scenario {
        match self.load {
            Load::SingleStream { .. } => Scenario::SingleStream,
            Load::MultiStream { .. } => Scenario::MultiStream,
            Load::Server(_) => Scenario::Server,
            Load::Offline => Scenario::Offline,
        }
    }

    /// Returns how many queries a closed loop of Server keeps in flight (of sessions: how many it keeps
    /// in progress); `None` for other loads.
    pub fn in_flight(&self) -> Option<usize> {
        match &self.load {
            Load::Server(Server { arrivals: Arrivals::Concurrency(queries), .. }) => {
                Some(*queries as usize)
            }
            _ => None,
        }
    }

    /// Returns the target percentile of latency; 0.99 for Offline, as shown in the logs.
    pub fn percentile(&self) -> f64 {
        self.load.percentile()
    }

    /// Returns the Server latency bound or the fixed MultiStream interval, ns; 0 for other
    /// scenarios, as shown in the logs.
    pub fn target_latency(&self) -> Nanos {
        match &self.load {
            Load::Server(server) => server.target_latency,
            _ => self.interval().unwrap_or(0),
        }
    }

    /// Returns the fixed MultiStream interval, ns; `None` without one.
    pub fn interval(&self) -> Option<Nanos> {
        self.peak_of_streams().map(|_| self.tick(1))
    }

    /// Returns the time of a tick of the fixed interval, ns since the start of the run. Computed in
    /// seconds and truncated to whole ns, as in the reference.
    #[inline]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time >= 0")]
    pub fn tick(&self, number: u64) -> Nanos {
        (number as f64 / self.target_qps * SECOND as f64) as Nanos
    }

    /// Returns the number of the first tick that is number `first` or later and not before `now`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count >= 0")]
    pub fn tick_from(&self, first: u64, now: Nanos) -> u64 {
        // Rounding makes this at most one too low, so that no tick is skipped.
        let near = (now as f64 / SECOND as f64 * self.target_qps) as u64;
        let mut tick = first.max(near.saturating_sub(1));
        while self.tick(tick) < now {
            tick += 1;
        }
        tick
    }

    /// Returns the search settings for the number of streams; `None` unless MultiStream has a fixed
    /// interval.
    pub fn peak_of_streams(&self) -> Option<&PeakSettings> {
        match &self.load {
            Load::MultiStream { pacing: StreamPacing::FixedInterval { peak }, .. } => Some(peak),
            _ => None,
        }
    }

    /// Returns the search settings for the load: the rate of Server, or the number of streams of
    /// MultiStream at a fixed interval; `None` for other loads.
    pub fn peak(&self) -> Option<&PeakSettings> {
        match &self.load {
            Load::Server(server) => Some(&server.peak),
            _ => self.peak_of_streams(),
        }
    }

    /// Returns the load that a search changes.
    pub fn peak_load(&self) -> f64 {
        match self.peak() {
            Some(PeakSettings { unit: Unit::Whole, .. }) => self.samples_per_query as f64,
            _ => self.target_qps,
        }
    }

    /// Returns this plan at another load.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and >= 1")]
    pub fn at_load(&self, load: f64) -> Self {
        let mut plan = self.clone();
        match self.peak() {
            Some(PeakSettings { unit: Unit::Whole, .. }) => {
                plan.samples_per_query = load as u64;
                plan.min_sample_count = plan.min_query_count.saturating_mul(plan.samples_per_query);
            }
            _ => plan.target_qps = load,
        }
        plan
    }

    /// Returns whether first-token stamps and token counts are recorded.
    pub fn measures_tokens(&self) -> bool {
        matches!(self.tokens, Some(Tokens::Measured { .. }))
    }
}
