//! Metrics of a performance test in `summary.json`.

use serde::{Deserialize, Serialize};

use super::answers::{Answers, Tokens};
use super::distributions::MetricDistribution;
use super::excluded::ExcludedRequests;
use super::sessions::Sessions;
use super::window::Window;

/// The numbers of a performance test. `dyno info metrics` has the formulas.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Metrics {
    /// queries issued
    pub query_count: u64,
    /// samples answered
    pub sample_count: u64,
    /// samples that the system could not answer, by reason
    pub failed: FailureCounts,
    /// samples that were never answered
    pub missing: u64,
    /// share of the samples issued that failed or are missing, in [0, 1]
    #[serde(default)]
    pub error_rate: f64,
    /// Server: samples over each judged bound, including failed and missing ones
    pub over_bound: OverBound,
    /// MultiStream at a fixed interval: number of intervals per query
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Intervals>,
    /// why issuing stopped
    pub ended: String,
    /// from the start to the last completion; for sessions, to the end of the run, with think times
    pub lasted_ns: u64,
    /// Server: time over which the completed rate, goodput and tokens/s count all answers of the run;
    /// without the fill and the drain of the load, except by the definitions of the logs
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_over_ns: Option<u64>,
    /// when the last query was issued, since the start
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_issue_ns: Option<u64>,
    /// of samples, from the scheduled time
    pub latency_ns: Distribution,
    /// MultiStream, else null
    pub query_latency_ns: Option<Distribution>,
    /// null unless tokens are measured
    pub first_token_ns: Option<Distribution>,
    /// null unless an answer has two tokens at different times
    pub time_per_output_token_ns: Option<Distribution>,
    /// output tokens of answered samples; null where they are not counted
    #[serde(default)]
    pub token_count: Option<i64>,
    /// text servers: answers by class
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Answers>,
    /// text servers: tokens with the source of each count
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// sessions and figures by turn, where queries are turns of sessions
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Sessions>,
    /// text servers: one entry per metric, in display order
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distributions: Vec<MetricDistribution>,
    /// text servers: the stages of the load, if any
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Window>,
    /// text servers: figures by model, if requests name several
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<Window>,
    /// requests that were sent and are not measured, if any
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded: Option<ExcludedRequests>,
    /// text servers without stages: the steady part; null with fewer than 100 answers, and if
    /// latencies change until the end
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<Window>,
    /// text servers: maximum number of queries in flight
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_concurrency: Option<u64>,
    /// rates per second; null is not finite: a run of one query has no rate
    pub rates: Rates,
    /// samples and tokens within the limits of `--goodput`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput: Option<Goodput>,
    /// rates per second; null unless tokens are measured
    pub token_rates: Option<TokenRates>,
    /// issued - scheduled; null if queries are due when they are issued
    pub lag_ns: Option<Distribution>,
    /// the part of the lag that the client caused
    pub client_lag_ns: Option<Distribution>,
    /// conditions of the verdict; null if a condition does not apply
    pub conditions: Conditions,
    /// results of early stopping, one entry per kind of time; empty in Offline
    #[serde(default)]
    pub early_stopping: Vec<EarlyStopping>,
}

/// Intervals from a query to the next one; 1 is normal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Intervals {
    /// queries that made the next one skip an interval, or had unanswered samples
    pub over: u64,
    /// maximum number of such queries for the length of the run
    pub allowed: u64,
    /// total number of skipped intervals
    pub skipped: u64,
    /// queries that were answered in time, but noticed late by the client
    pub by_client: u64,
    /// median number of intervals
    pub p50: u64,
    /// intervals
    pub p99: u64,
    /// intervals
    pub p99_9: u64,
    /// intervals at the judged percentile
    pub target: u64,
}

/// Samples that the system could not answer, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureCounts {
    /// refused
    pub rejected: u64,
    /// too slow by the system's own clock
    pub timed_out: u64,
    /// connection lost
    pub disconnected: u64,
    /// error reported
    pub internal: u64,
    /// answered without output
    #[serde(default)]
    pub empty: u64,
    /// the answer ended before it was finished
    #[serde(default)]
    pub cut: u64,
    /// the system gave up on the answer
    #[serde(default)]
    pub aborted: u64,
    /// a filter withheld the answer
    #[serde(default)]
    pub filtered: u64,
    /// fewer tokens than demanded
    #[serde(default)]
    pub short: u64,
}

impl FailureCounts {
    /// Returns the number of failed samples of all reasons.
    pub fn total(&self) -> u64 {
        self.by_reason().into_iter().fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// Returns the count of each reason.
    pub fn by_reason(&self) -> [(&'static str, u64); 9] {
        [
            ("rejected", self.rejected),
            ("timed_out", self.timed_out),
            ("disconnected", self.disconnected),
            ("internal", self.internal),
            ("empty", self.empty),
            ("cut", self.cut),
            ("aborted", self.aborted),
            ("filtered", self.filtered),
            ("short", self.short),
        ]
    }
}

/// Samples over a Server bound, including failed and missing ones; null if the bound is not
/// judged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OverBound {
    /// latency above its bound
    pub latency: Option<u64>,
    /// time to first token above its bound, or no first token
    pub first_token: Option<u64>,
    /// time per output token above its bound, or no first token
    pub time_per_output_token: Option<u64>,
}

impl OverBound {
    /// Returns the largest of the counts; `None` where no bound is judged.
    pub fn most(&self) -> Option<u64> {
        self.latency.max(self.first_token).max(self.time_per_output_token)
    }
}

/// What is reported of a list of times. Percentiles are
/// `sorted[floor(count * q)]`, without interpolation. Files have null in place of the times of an
/// empty list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "DistributionFile", into = "DistributionFile")]
pub struct Distribution {
    /// number of them
    pub count: u64,
    /// smallest
    pub min: i64,
    /// truncated towards zero
    pub mean: i64,
    /// `sorted[floor(count * 0.5)]`; the other percentiles have the same form
    pub p50: i64,
    /// 0.9
    pub p90: i64,
    /// 0.95
    pub p95: i64,
    /// 0.97
    pub p97: i64,
    /// 0.99
    pub p99: i64,
    /// 0.999
    pub p99_9: i64,
    /// largest
    pub max: i64,
    /// at the target percentile of the test
    pub target: i64,
}

/// Distribution of a list of times. Percentiles are `sorted[floor(count * q)]`, without
/// interpolation. The times of an empty list are null.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Distribution"))]
struct DistributionFile {
    /// number of them
    count: u64,
    /// smallest
    min: Option<i64>,
    /// truncated towards zero
    mean: Option<i64>,
    /// `sorted[floor(count * 0.5)]`; the other percentiles have the same form
    p50: Option<i64>,
    /// 0.9
    p90: Option<i64>,
    /// 0.95
    p95: Option<i64>,
    /// 0.97
    p97: Option<i64>,
    /// 0.99
    p99: Option<i64>,
    /// 0.999
    #[serde(rename = "p99.9")]
    p99_9: Option<i64>,
    /// largest
    max: Option<i64>,
    /// at the target percentile of the test
    target: Option<i64>,
}

impl From<DistributionFile> for Distribution {
    fn from(file: DistributionFile) -> Self {
        let time = |time: Option<i64>| time.unwrap_or(0);
        Self {
            count: file.count,
            min: time(file.min),
            mean: time(file.mean),
            p50: time(file.p50),
            p90: time(file.p90),
            p95: time(file.p95),
            p97: time(file.p97),
            p99: time(file.p99),
            p99_9: time(file.p99_9),
            max: time(file.max),
            target: time(file.target),
        }
    }
}

impl From<Distribution> for DistributionFile {
    fn from(of: Distribution) -> Self {
        let time = |time: i64| (of.count > 0).then_some(time);
        Self {
            count: of.count,
            min: time(of.min),
            mean: time(of.mean),
            p50: time(of.p50),
            p90: time(of.p90),
            p95: time(of.p95),
            p97: time(of.p97),
            p99: time(of.p99),
            p99_9: time(of.p99_9),
            max: time(of.max),
            target: time(of.target),
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Distribution {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        DistributionFile::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        DistributionFile::json_schema(generator)
    }
}

/// Queries or samples per second. A scenario has only its own keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Rates {
    /// SingleStream: over the time until the last issue
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries_per_s_with_overhead: Option<f64>,
    /// SingleStream: 1 / mean latency
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries_per_s_without_overhead: Option<f64>,
    /// Server: offered load
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_samples_per_s: Option<f64>,
    /// Server: completed samples
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_samples_per_s: Option<f64>,
    /// Server: samples within every bound / the time of the completed rate
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput_samples_per_s: Option<f64>,
    /// Offline: completed samples
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_per_s: Option<f64>,
}

/// Samples and tokens within several limits at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Goodput {
    /// limit of the time to first token; null is no limit
    pub ttft_ms: Option<f64>,
    /// limit of the time per output token; null is no limit
    pub tpot_ms: Option<f64>,
    /// limit of the end-to-end latency; null is no limit
    pub e2el_ms: Option<f64>,
    /// answered within every limit
    pub samples: u64,
    /// share of the issued samples, in [0, 1]; failed and missing samples are outside the limits;
    /// null, like the rates, if no answer has the limited times
    pub share: Option<f64>,
    /// answered samples without these times, such as those that were not streamed; they are
    /// outside the limits
    #[serde(default)]
    pub unmeasured: u64,
    /// these samples / the time of the completed rate, or until the last completion
    pub samples_per_s: Option<f64>,
    /// their output tokens / the same time; null unless tokens are measured
    pub tokens_per_s: Option<f64>,
}

/// Tokens per second. A scenario has only its own keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TokenRates {
    /// over the time until the last issue
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_s_with_overhead: Option<f64>,
    /// over the sum of all latencies
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_s_without_overhead: Option<f64>,
    /// Server: over the time of the completed rate; otherwise until the last query completed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_tokens_per_s: Option<f64>,
    /// Offline, or samples/s times a factor
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_s: Option<f64>,
}

/// Conditions of the verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conditions {
    /// Server: the bounds are met
    pub performance_met: Option<bool>,
    /// the run was long enough
    pub min_duration_met: bool,
    /// the run had enough queries and samples
    pub min_queries_met: bool,
    /// the percentile is certain enough
    pub early_stopping_met: bool,
    /// the client lag is within its limit
    pub client_lag_met: Option<bool>,
}

/// Result of early stopping for one kind of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EarlyStopping {
    /// `latency`, `first_token` or `time_per_output_token`
    pub of: String,
    /// percentile that must meet the bound, or that is estimated, in (0, 1)
    pub percentile: f64,
    /// confidence of the criterion
    pub confidence: f64,
    /// confidence of the criterion
    pub tolerance: f64,
    /// Server: count of queries over the bound; otherwise null
    pub bound: Option<Bound>,
    /// SingleStream and MultiStream: conservative estimates of percentiles; otherwise empty
    pub estimates: Vec<Estimate>,
}

/// Early stopping against a bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bound {
    /// queries issued
    pub queries: u64,
    /// queries over the bound
    pub over: u64,
    /// maximum number of queries over the bound with which a run of this length passes; null if
    /// it is too short
    pub allowed: Option<u64>,
    /// queries needed with this number over the bound
    pub needed: u64,
    /// further queries needed; 0 if the criterion holds
    pub deficit: u64,
}

/// A percentile that holds with the confidence of the criterion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// in (0, 1)
    pub percentile: f64,
    /// queries that the estimate uses
    pub processed: u64,
    /// minimum number of queries for an estimate
    pub needed: u64,
    /// number of largest latencies set aside; null if too few were processed
    pub rank: Option<u64>,
    /// the estimate; null if too few were processed
    pub latency_ns: Option<i64>,
}

impl Metrics {
    /// Returns the time over which completed samples count, in ns.
    pub fn counted_over(&self) -> u64 {
        self.counted_over_ns.unwrap_or(self.lasted_ns)
    }

    /// Returns the latency that the scenario is judged by: of queries in MultiStream, else of samples.
    pub fn timed(&self) -> &Distribution {
        self.query_latency_ns.as_ref().unwrap_or(&self.latency_ns)
    }

    /// Returns [`Self::timed`] if any query was answered; all figures are 0 otherwise.
    pub fn answered(&self) -> Option<&Distribution> {
        Some(self.timed()).filter(|timed| timed.count > 0)
    }

    /// Returns the missing samples that were in progress when the run was stopped, so that the system did
    /// not lose them.
    pub fn unfinished(&self) -> u64 {
        let is_stopped = [ENDED_ABORTED, ENDED_LOST].contains(&self.ended.as_str());
        if is_stopped { self.missing } else { 0 }
    }
}

/// [`Metrics::ended`] of a run that was stopped.
pub(super) const ENDED_ABORTED: &str = "aborted";
/// [`Metrics::ended`] of a run that was stopped because it lost a worker.
pub(super) const ENDED_LOST: &str = "worker lost";

impl Distribution {
    /// Returns the distribution of times in ns, with percentiles `sorted[floor(count * q)]`; `None`
    /// without times. `target` is a share in [0, 1].
    ///
    /// ```
    /// use dyno_results::summary::metrics::Distribution;
    ///
    /// let times = Distribution::from_times(vec![30, 10, 20], 0.9).expect("there are times");
    /// assert_eq!((times.min, times.p50, times.target), (10, 20, 30));
    /// ```
    pub fn from_times(mut all: Vec<u64>, target: f64) -> Option<Self> {
        all.sort_unstable();
        let (first, last) = (*all.first()?, *all.last()?);
        let at = |q: f64| {
            let position = (all.len() as f64 * q) as usize;
            all[position.min(all.len() - 1)].cast_signed()
        };
        let sum: u128 = all.iter().map(|&time| u128::from(time)).sum();
        Some(Self {
            count: all.len() as u64,
            min: first.cast_signed(),
            mean: i64::try_from(sum / all.len() as u128).unwrap_or(i64::MAX),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p97: at(0.97),
            p99: at(0.99),
            p99_9: at(0.999),
            max: last.cast_signed(),
            target: at(target),
        })
    }
}
