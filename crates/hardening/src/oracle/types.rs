//! What was observed of a run, and what Dyno reported. Times are ns since the start of the run.

/// How queries are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// One sample at a time.
    SingleStream,
    /// Several samples at a time.
    MultiStream,
    /// Random arrivals.
    Server,
    /// All samples at once.
    Offline,
}

/// Settings of a run in LoadGen's words (performance mode).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Scenario.
    pub scenario: Scenario,
    /// Expected rate: queries/s (SingleStream, Server) or samples/s (Offline).
    pub target_qps: f64,
    /// Server: latency bound.
    pub target_latency_ns: u64,
    /// Percentile of the result, or that must meet the bound.
    pub target_percentile: f64,
    /// MultiStream: samples in a query.
    pub samples_per_query: usize,
    /// Minimum queries.
    pub min_query_count: u64,
    /// Maximum queries; 0 is no limit.
    pub max_query_count: u64,
    /// Minimum duration.
    pub min_duration_ns: u64,
    /// Maximum duration; 0 is no limit.
    pub max_duration_ns: u64,
    /// Samples of the performance set.
    pub performance_sample_count: u64,
    /// Server: issuing ends when more queries are outstanding; 0 is no limit.
    pub max_async_queries: u64,
    /// Server: a fixed number of queries is in flight, which LoadGen does not have.
    pub is_closed_loop: bool,
    /// Queries beyond the trace are generated while the run needs them.
    pub continues_trace: bool,
    /// Server: queries that are due at once go out in one call (IQC 373-390).
    pub coalesce_queries: bool,
    /// SingleStream: `sample_concatenate_permutation` (TSI 163-175).
    pub equal_issue: bool,
    /// `performance_issue_unique` (TSI 153-156).
    pub issue_unique: bool,
}

/// A query as the system saw it; times since the start of the run.
#[derive(Clone, Debug)]
pub struct Query {
    /// When it was due (Offline: 0; closed loops: when it was issued).
    pub scheduled_ns: u64,
    /// When it was issued.
    pub issued_ns: u64,
    /// Ids of its samples, and their indices in the library.
    pub samples: Vec<(u64, u64)>,
}

/// A completion as the system sent it.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// Id of the sample.
    pub sample_id: u64,
    /// When it was sent.
    pub at_ns: u64,
    /// Whether the system reported that it could not answer. Such a sample has no latency, is no throughput, is over
    /// the bound in Server, and makes a run of another scenario INVALID.
    pub failed: bool,
}

/// What happened in a run.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The queries, in order.
    pub queries: Vec<Query>,
    /// All completions in order of time: also repeated ones, unknown ids, and those after the end.
    pub completions: Vec<Completion>,
    /// When the run was over; later completions count nowhere.
    pub ended_ns: Option<u64>,
    /// When the client continued after its last issue, if that is known. A client that sleeps continues late.
    pub continued_ns: Option<u64>,
}

/// What Dyno reported.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// Whether the run is VALID.
    pub is_valid: bool,
    /// Whether it was long enough.
    pub min_duration_met: bool,
    /// Whether it had enough queries and samples.
    pub min_queries_met: bool,
    /// Whether the bound is met; true without one.
    pub performance_constraints_met: bool,
    /// Whether early stopping is met; `None` for Offline.
    pub early_stopping_met: Option<bool>,
    /// Queries issued.
    pub query_count: u64,
    /// Samples issued.
    pub sample_count: u64,
    /// Samples answered.
    pub completed_samples: u64,
    /// Samples that were never answered.
    pub lost_samples: u64,
    /// Repeated completions.
    pub duplicate_completions: u64,
    /// Completions of ids that the run never issued.
    pub unknown_completions: u64,
    /// Samples whose first completion was a failure.
    pub failed_samples: u64,
    /// Quantiles and latencies (MultiStream: of whole queries).
    pub percentiles_ns: Vec<(f64, u64)>,
    /// Shortest latency; 0 without any.
    pub min_latency_ns: u64,
    /// Longest latency.
    pub max_latency_ns: u64,
    /// Mean latency.
    pub mean_latency_ns: u64,
    /// SingleStream and MultiStream: early-stopping estimate, or the percentile; others: samples/s.
    pub result: Option<f64>,
    /// Server: scheduled samples/s.
    pub scheduled_rate: Option<f64>,
}

/// A contradiction between the rules and the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Field of the report.
    pub field: &'static str,
    /// What the rules demand.
    pub expected: String,
    /// What was reported.
    pub reported: String,
    /// Source of the rule.
    pub rule: &'static str,
}
