//! Whether a performance run counts, why not, and what to do about it.

use crate::clock::Nanos;
use crate::early_stopping::Estimate;
use crate::metrics::{Estimates, Metrics};
use crate::plan::Plan;
use crate::record::Record;
use crate::session::Ended;
use crate::settings::Scenario;

/// Whether a run counts.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It does.
    Valid,
    /// It does not, for these reasons (at least one).
    Invalid(Vec<Violation>),
}

/// A latency that a Server bound limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounded {
    /// From the scheduled time to the answer.
    Latency,
    /// From the scheduled time to the first token.
    FirstToken,
    /// Between tokens after the first.
    TimePerOutputToken,
}

/// One reason why a run does not count. Displays as a sentence with what to do.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Violation {
    /// Server: too large a share of the samples was over a bound.
    Bound {
        /// Which bound.
        bounded: Bounded,
        /// The share that must meet it, in (0, 1).
        percentile: f64,
        /// The bound, ns.
        bound: Nanos,
        /// The percentile of the answered samples, ns.
        measured: i64,
        /// Samples over the bound, failed and missing ones included.
        over: u64,
        /// Samples in all.
        samples: u64,
    },
    /// The run was too short.
    Duration {
        /// Decides what to do.
        scenario: Scenario,
        /// How long it was, ns.
        lasted: Nanos,
        /// How long it must be, ns.
        minimum: Nanos,
    },
    /// Too few queries were issued, or too few samples done.
    Count {
        /// Queries issued.
        queries: u64,
        /// Queries that must be.
        minimum_queries: u64,
        /// Samples answered or failed.
        samples: u64,
        /// Samples that must be.
        minimum_samples: u64,
    },
    /// The percentile is not certain enough.
    EarlyStopping {
        /// Queries that it takes beyond those of the run.
        further: u64,
    },
    /// The client itself was late, so that the latencies are partly its own.
    ClientLag {
        /// Where on the distribution it is judged, in (0, 1).
        percentile: f64,
        /// The client's lag there, ns.
        measured: i64,
        /// `max_client_lag_ns`.
        budget: Nanos,
    },
    /// Samples never came back.
    Missing {
        /// How many.
        samples: u64,
    },
    /// The system failed samples in a scenario where each one counts.
    Failed {
        /// How many.
        samples: u64,
    },
    /// The run was aborted.
    Aborted,
}

/// What early stopping says of one kind of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Finding {
    /// Server.
    Bound {
        /// Queries issued.
        queries: u64,
        /// Queries over the bound.
        over: u64,
        /// Further queries it takes; 0 if the criterion is met.
        deficit: u64,
    },
    /// SingleStream and MultiStream.
    Estimated(Estimates),
}

/// What early stopping says of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EarlyStoppingResult {
    /// Offline has no criterion.
    None,
    /// Of the latency.
    Latency(Finding),
    /// Of tokens. The time to first token is judged only if the time per output
    /// token passes, as in the reference.
    Tokens {
        /// Of the time to first token, if judged.
        first_token: Option<Finding>,
        /// Of the time per output token.
        time_per_output_token: Finding,
    },
}

/// The reference's advice for its three recommendations, each empty where the
/// condition is met.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recommendations {
    /// On the latency bound.
    pub performance: String,
    /// On the minimum duration.
    pub min_duration: String,
    /// On the minimum of queries.
    pub min_queries: String,
}

/// All that is judged of a performance run.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Whether the run counts.
    pub verdict: Verdict,
    /// Server: whether the bounds are met.
    pub performance_met: Option<bool>,
    /// Whether the run was long enough.
    pub min_duration_met: bool,
    /// Whether there were enough queries and samples.
    pub min_queries_met: bool,
    /// Whether the percentile is certain enough.
    pub early_stopping_met: bool,
    /// What early stopping says.
    pub early_stopping: EarlyStoppingResult,
    /// Whether the client kept within its budget, if one is set and the client
    /// had a schedule to keep.
    pub client_lag_met: Option<bool>,
    /// What a reader must know to read the verdict right.
    pub notes: Vec<&'static str>,
}
