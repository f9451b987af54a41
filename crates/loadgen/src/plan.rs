//! What the settings mean: resolved once, per scenario, before anything runs.

use crate::clock::{Nanos, SECOND};
use crate::early_stopping::Criterion;
use crate::search::Unit;
use crate::settings::{Arrivals, Repetition, Scenario, TestMode, TraceRules};

mod load;
mod problem;
mod repeated;
mod resolve;
mod streams;
#[cfg(test)]
mod tests;

pub use problem::{ReferenceBehavior, SettingsErrors, SettingsProblem};
pub use resolve::{MAX_TRACE_SAMPLES, apply_test05, raise_query_count_for_percentile};

/// What the sample library reports of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Library {
    /// Samples in the data set.
    pub total: u64,
    /// Samples that fit in memory at once.
    pub performance: u64,
}

/// The effective settings of one tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What only the chosen scenario has.
    pub load: Load,
    /// What the test does (after TEST05, which forces a performance run).
    pub mode: TestMode,
    /// Rate that the generated trace assumes, in queries/s.
    pub target_qps: f64,
    /// Samples in each query (>= 1). For Offline the size of its one query.
    pub samples_per_query: u64,
    /// Queries that may be outstanding; 0 is no limit.
    pub max_async_queries: u64,
    /// How long queries are issued for. 0 for Offline.
    pub target_duration: Nanos,
    /// How long the run must last to be valid.
    pub min_duration: Nanos,
    /// End early after this long; 0 is no limit.
    pub max_duration: Nanos,
    /// Queries to issue at least. 1 for Offline.
    pub min_query_count: u64,
    /// End early after this many; 0 is no limit.
    pub max_query_count: u64,
    /// Samples that must be complete for the run to be valid.
    pub min_sample_count: u64,
    /// P: size of the performance set.
    pub performance_sample_count: u64,
    /// A: samples of an accuracy run.
    pub accuracy_sample_count: u64,
    /// How samples are chosen in a performance run.
    pub choice: SampleChoice,
    /// Issue each sample of the set equally often.
    pub concatenate_permutation: bool,
    /// The seeds of trace and audit.
    pub seeds: Seeds,
    /// Which responses a performance run logs.
    pub accuracy_log: AccuracyLog,
    /// Token metrics, if any.
    pub tokens: Option<Tokens>,
    /// The early-stopping criterion.
    pub early_stopping: Criterion,
    /// Which releases of the reference the trace equals.
    pub trace_rules: TraceRules,
    /// Go on generating past the expected end, instead of running out.
    pub continue_trace: bool,
    /// Give up when this long passes without a completion; 0 waits for ever.
    pub response_deadline: Nanos,
    /// The client's own lag at the target percentile must not exceed this; 0
    /// does not judge.
    pub max_client_lag: Nanos,
    /// `performance_issue_same_index`, shown in the logs whether used or not.
    pub performance_issue_same_index: u64,
    /// Shown in the logs.
    pub print_timestamps: bool,
    /// Runs that a performance test makes. A decrement is said, but where it is a
    /// share of a rate that is to be found.
    pub repetition: Repetition,
}

/// The part of a plan that belongs to one scenario.
#[derive(Debug, Clone, PartialEq)]
pub enum Load {
    /// One sample at a time.
    SingleStream {
        /// The percentile that is the result, in (0, 1).
        percentile: f64,
    },
    /// N contiguous samples at a time.
    MultiStream {
        /// The percentile that is the result, or at a fixed interval the share of
        /// the queries that must skip none, in (0, 1).
        percentile: f64,
        /// When a query goes out.
        pacing: StreamPacing,
    },
    /// An arrival process against a latency bound.
    Server(Server),
    /// Everything at once.
    Offline,
}

/// When a MultiStream query goes out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StreamPacing {
    /// When all samples of the last one are complete.
    OnCompletion,
    /// Rounds v0.5 and v0.7: at the first tick at which the last one is complete.
    /// Ticks are 1 / [`Plan::target_qps`] apart, the first one that long after the
    /// start. Of the result, the number of streams, only N is searched for.
    FixedInterval {
        /// The search for the highest number of streams.
        peak: PeakSettings,
    },
}

/// The part of a plan that only Server has.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// The share of queries that must meet the bound, in (0, 1).
    pub percentile: f64,
    /// The latency bound (used when the plan has no token bounds).
    pub target_latency: Nanos,
    /// When queries arrive.
    pub arrivals: Arrivals,
    /// Hand all queries that are due to the system in one call.
    pub coalesce: bool,
    /// Registered threads that issue; 0 is the calling thread.
    pub issue_threads: u64,
    /// The search for the peak.
    pub peak: PeakSettings,
}

/// How `FindPeakPerformance` searches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PeakSettings {
    /// What a load is: a rate in queries/s, or a whole number of streams.
    pub unit: Unit,
    /// Decimals of the rate found.
    pub decimals: u8,
    /// Each bracketing step multiplies the rate by 1 + this (> 0).
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

/// The seeds of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "named as the settings are")]
pub struct Seeds {
    pub qsl: u64,
    pub sample_index: u64,
    pub schedule: u64,
    pub accuracy_log: u64,
}

/// Which responses a performance run logs.
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
    /// The target percentile of latency; 0.99 for Offline, as the logs show it.
    #[must_use]
    pub fn percentile(&self) -> f64 {
        match self {
            Self::SingleStream { percentile } | Self::MultiStream { percentile, .. } => *percentile,
            Self::Server(server) => server.percentile,
            Self::Offline => 0.99,
        }
    }
}

impl Plan {
    /// The scenario.
    #[must_use]
    pub fn scenario(&self) -> Scenario {
        match self.load {
            Load::SingleStream { .. } => Scenario::SingleStream,
            Load::MultiStream { .. } => Scenario::MultiStream,
            Load::Server(_) => Scenario::Server,
            Load::Offline => Scenario::Offline,
        }
    }

    /// The target percentile of latency; 0.99 for Offline, as the logs show it.
    #[must_use]
    pub fn percentile(&self) -> f64 {
        self.load.percentile()
    }

    /// The Server latency bound, or the interval of MultiStream at a fixed one;
    /// 0 for the other scenarios, as the logs show it.
    #[must_use]
    pub fn target_latency(&self) -> Nanos {
        match &self.load {
            Load::Server(server) => server.target_latency,
            _ => self.interval().unwrap_or(0),
        }
    }

    /// MultiStream at a fixed interval: that interval.
    #[must_use]
    pub fn interval(&self) -> Option<Nanos> {
        self.peak_of_streams().map(|_| self.tick(1))
    }

    /// When a tick of a fixed interval is, ns since the start of the run. As the
    /// reference counted: in seconds, cut off to whole ns.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time >= 0")]
    pub fn tick(&self, number: u64) -> Nanos {
        (number as f64 / self.target_qps * SECOND as f64) as Nanos
    }

    /// The first tick of a fixed interval that is number `first` or later and not
    /// before `now`.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count >= 0")]
    pub fn tick_from(&self, first: u64, now: Nanos) -> u64 {
        // By rounding one too low at most, so that no tick is passed over.
        let near = (now as f64 / SECOND as f64 * self.target_qps) as u64;
        let mut tick = first.max(near.saturating_sub(1));
        while self.tick(tick) < now {
            tick += 1;
        }
        tick
    }

    /// MultiStream at a fixed interval: how the number of streams is searched.
    #[must_use]
    pub fn peak_of_streams(&self) -> Option<&PeakSettings> {
        match &self.load {
            Load::MultiStream { pacing: StreamPacing::FixedInterval { peak }, .. } => Some(peak),
            _ => None,
        }
    }

    /// What a search raises and a failed confirmation lowers: the rate of Server,
    /// the number of streams of MultiStream at a fixed interval.
    #[must_use]
    pub fn peak(&self) -> Option<&PeakSettings> {
        match &self.load {
            Load::Server(server) => Some(&server.peak),
            _ => self.peak_of_streams(),
        }
    }

    /// The load that [`Plan::peak`] is about.
    #[must_use]
    pub fn peak_load(&self) -> f64 {
        match self.peak() {
            Some(PeakSettings { unit: Unit::Whole, .. }) => self.samples_per_query as f64,
            _ => self.target_qps,
        }
    }

    /// The same plan at another load.
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

    /// Whether first-token stamps and token counts are recorded.
    #[must_use]
    pub fn measures_tokens(&self) -> bool {
        matches!(self.tokens, Some(Tokens::Measured { .. }))
    }
}
