//! The oracle: what the rules say of a run.
//! What the simulation observed of one run, what Dyno reported of it, and what the rules say of it.
//! Times are nanoseconds on the simulated clock, from the start of the run.
//! The judge works from LoadGen's documents and the MLPerf rules only; it never reads Dyno's code.
//!
//! CHANGED by "sim" (each marked with NEW):
//! - `Settings::max_async_queries`; `Completion::failed`, `Reported::failed_samples`; `Reported::scheduled_rate`.
//! - Sharper comments on `scheduled_ns`, `completions`, `ended_ns`, `result`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario { SingleStream, MultiStream, Server, Offline }

/// The settings of a run in LoadGen's words (performance mode).
#[derive(Clone, Debug)]
pub struct Settings {
    pub scenario: Scenario,
    /// Rate of a Server run in queries/s; expected rate of an Offline run in samples/s.
    pub target_qps: f64,
    /// Latency bound of a Server run in ns.
    pub target_latency_ns: u64,
    /// SingleStream 0.9, MultiStream and Server 0.99 unless set otherwise.
    pub target_percentile: f64,
    pub samples_per_query: usize,     // MultiStream
    pub min_query_count: u64,
    pub max_query_count: u64,         // 0: no limit
    pub min_duration_ns: u64,
    pub max_duration_ns: u64,         // 0: no limit
    pub performance_sample_count: u64,
    /// NEW. Server: issuing ends when more queries than this are outstanding; 0: no limit.
    pub max_async_queries: u64,
}

/// One query as the simulated system saw it.
#[derive(Clone, Debug)]
pub struct Query {
    /// When the load generator had scheduled it (Server: its arrival time; SingleStream, MultiStream: when it was
    /// issued; Offline: 0). NEW: a paused client may issue later than this.
    /// NEW: a Server run may have arrivals other than Poisson (constant, gamma, bursts); then only the trace differs.
    pub scheduled_ns: u64,
    pub issued_ns: u64,
    /// Ids of its samples (unique in the run) and their indices in the library.
    pub samples: Vec<(u64, u64)>,
}

/// One completion as the simulated system sent it, in order of time.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    pub sample_id: u64,
    pub at_ns: u64,
    /// NEW. The system reported that it could not answer. LoadGen knows no such thing; the rule of this project:
    /// a failed sample is not lost and not completed, has no latency and is no throughput; in Server it counts as
    /// over the bound (constraint and early stopping); in the other scenarios it makes the run INVALID.
    /// A completion after a failure of the same sample is a duplicate, and the reverse.
    pub failed: bool,
}

#[derive(Clone, Debug)]
pub struct Observed {
    pub queries: Vec<Query>,
    /// All completions, including duplicates, unknown ids and those after the end.
    pub completions: Vec<Completion>,
    /// NEW: ids that no query of this run has (never issued, or of an earlier run) are "unknown" completions.
    /// When the run had ended for Dyno (it accepts no completion after this), if it says so.
    /// NEW: completions with `at_ns > ended_ns` count nowhere; those at `ended_ns` were seen by Dyno.
    /// A run with lost samples ends when nothing more can come; it is never VALID.
    pub ended_ns: Option<u64>,
}

/// What Dyno reported.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    pub is_valid: bool,
    pub min_duration_met: bool,
    pub min_queries_met: bool,
    pub performance_constraints_met: bool,
    pub early_stopping_met: Option<bool>,
    pub query_count: u64,
    /// NEW: samples issued (completed + failed + lost).
    pub sample_count: u64,
    pub completed_samples: u64,
    pub lost_samples: u64,
    pub duplicate_completions: u64,
    pub unknown_completions: u64,
    /// NEW. Samples whose first completion was a failure; not among `completed_samples`.
    pub failed_samples: u64,
    /// (quantile such as 0.5, 0.9, 0.999; latency in ns) of the scenario's latency (per sample or per query).
    pub percentiles_ns: Vec<(f64, u64)>,
    /// NEW: this list, min, max and mean are 0 without any latency. Quantiles given: 0.5, 0.9, 0.95, 0.97, 0.99,
    /// 0.999 and `target_percentile`. MultiStream: latency of queries whose samples all completed.
    pub min_latency_ns: u64,
    pub max_latency_ns: u64,
    pub mean_latency_ns: u64,
    /// The scenario's own result: SingleStream/MultiStream: early-stopping estimate of the latency percentile in ns
    /// if there are enough queries for one, otherwise the plain percentile at `target_percentile`; Server: completed
    /// samples/s ("Completed samples per second"); Offline: samples/s. None if not finite.
    pub result: Option<f64>,
    /// NEW. Server: "Scheduled samples per second"; None otherwise or if not finite.
    pub scheduled_rate: Option<f64>,
}

/// A contradiction between the rules and the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding { pub field: &'static str, pub expected: String, pub reported: String, pub rule: &'static str }

/// Everything that the report contradicts; empty when it is right. Must be strict in both directions:
/// neither VALID where the rules say INVALID nor the reverse.
pub fn judge(settings: &Settings, observed: &Observed, reported: &Reported) -> Vec<Finding> { { let _ = (settings, observed, reported); Vec::new() } }
