//! The numbers of a run: latencies, percentiles, rates, counts.
//!
//! The arithmetic is the reference's, bit for bit, with one exception: means
//! are signed. A sample that failed or never came back is never throughput and
//! never a latency:
//!
//! | | answered | failed | missing |
//! |---|---|---|---|
//! | latency, first token, time per output token | yes | no | no |
//! | query latency (MultiStream) | if the whole query was answered | no | no |
//! | `sample_count`, completed rates, tokens | yes | no | no |
//! | scheduled rate, `query_count` | yes | yes | yes |
//! | `max_latency` | yes | yes, until it failed | no |
//! | over-latency counts (Server) | if over the bound | always | always |
//! | early-stopping estimates (SingleStream, MultiStream) | yes | no | no |
//!
//! The last row flatters such a run, but it is INVALID in any case.

use crate::clock::{Nanos, SECOND};
use crate::early_stopping::{Estimate, Params};
use crate::plan::{Load, Plan, Tokens};
use crate::record::{Failure, Record};

/// The percentiles that every distribution has.
pub const PERCENTILES: [f64; 6] = [0.50, 0.90, 0.95, 0.97, 0.99, 0.999];

/// What is reported of a list of times, all in ns.
///
/// Signed, because a time per output token is negative where a system reports
/// no tokens. All zeros when `count` is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Smallest.
    pub min: i64,
    /// Largest.
    pub max: i64,
    /// Sum / count, truncated towards zero.
    pub mean: i64,
    /// At [`PERCENTILES`]: `sorted[floor(count * q)]`, no interpolation.
    pub percentiles: [i64; 6],
    /// At the plan's target percentile.
    pub target: i64,
}

/// When the last query issued was due, issued and done, ns since the start.
///
/// These are what durations and rates are computed from, as in the reference;
/// the last query need not be the last one to complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FinalQuery {
    /// Due.
    pub scheduled: Nanos,
    /// Issued.
    pub issued: Nanos,
    /// All its samples answered or failed; the last completion of the run if
    /// one of its samples is missing.
    pub done: Nanos,
}

/// Queries or samples per second, nan or inf where a run has one query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rates {
    /// Queries/s.
    SingleStream {
        /// Over the time until the last issue.
        with_overhead: f64,
        /// 1 / mean latency.
        without_overhead: f64,
    },
    /// Reports no rate.
    MultiStream,
    /// Samples/s.
    Server {
        /// As offered.
        scheduled: f64,
        /// As answered.
        completed: f64,
    },
    /// Samples/s.
    Offline {
        /// As answered.
        samples: f64,
    },
}

/// Tokens per second, nan or inf where a run has one query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TokenRates {
    /// Measured, all scenarios but Offline.
    Measured {
        /// Over the time until the last issue.
        with_overhead: f64,
        /// Over the sum of all latencies.
        without_overhead: f64,
        /// The same with latencies in ns, which is what the reference's detail
        /// log shows under `result_token_throughput`.
        without_overhead_per_ns: f64,
        /// Over the time until the last query was done.
        completed: f64,
    },
    /// Measured in Offline.
    MeasuredOffline {
        /// Over the longest latency.
        tokens: f64,
    },
    /// Samples/s times a factor; only Server and Offline have it.
    Inferred {
        /// Tokens/s.
        tokens: f64,
    },
}

/// Samples that the system said it could not answer, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FailureCounts {
    /// Refused.
    pub rejected: u64,
    /// Too slow by the system's own clock.
    pub timed_out: u64,
    /// Connection lost.
    pub disconnected: u64,
    /// Error reported.
    pub internal: u64,
}

impl FailureCounts {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.rejected + self.timed_out + self.disconnected + self.internal
    }
}

/// Samples over a Server bound, failed and missing ones included. Zero in the
/// other scenarios, and for tokens where none are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OverBound {
    /// Latency > `server_target_latency_ns`.
    pub latency: u64,
    /// Time to first token > `server_ttft_latency`, or no first token.
    pub first_token: u64,
    /// Time per output token > `server_tpot_latency`, or no first token.
    pub time_per_output_token: u64,
}

/// Early-stopping estimates of one kind of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimates {
    /// At the plan's target percentile.
    pub target: Estimate,
    /// At the 99th percentile; SingleStream only.
    pub tail: Option<Estimate>,
}

/// What SingleStream and MultiStream estimate. MultiStream estimates the query
/// latency only.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScenarioEstimates {
    /// Of the latency (MultiStream: of the query latency).
    pub latency: Estimates,
    /// Of the time to first token.
    pub first_token: Option<Estimates>,
    /// Of the time per output token.
    pub time_per_output_token: Option<Estimates>,
}

/// The numbers of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Metrics {
    /// Queries issued.
    pub query_count: u64,
    /// Samples answered: the reference's n.
    pub sample_count: u64,
    /// Samples that failed.
    pub failed: FailureCounts,
    /// Samples issued that were never completed.
    pub missing: u64,
    /// Server: samples over a bound.
    pub over: OverBound,
    /// Of samples, from the scheduled time.
    pub latency: Distribution,
    /// MultiStream: from the scheduled time to the last sample's completion.
    pub query_latency: Option<Distribution>,
    /// From the scheduled time, if any first token was reported.
    pub first_token: Option<Distribution>,
    /// (latency - time to first token) / (tokens - 1), if any first token was
    /// reported. As in the reference a count below 2 is taken as 0 tokens, which
    /// makes the time negative.
    pub time_per_output_token: Option<Distribution>,
    /// Output tokens of answered samples.
    pub token_count: i64,
    /// The longest time a sample took to be answered or to fail, ns.
    pub max_latency: Nanos,
    /// The last query issued.
    pub final_query: FinalQuery,
    /// Queries or samples per second.
    pub rates: Rates,
    /// Tokens per second, if the plan asks for tokens.
    pub token_rates: Option<TokenRates>,
    /// Issued - scheduled, where queries are due at set times.
    pub lag: Option<Distribution>,
    /// The part of the lag that was the client's own doing.
    pub client_lag: Option<Distribution>,
    /// What early stopping estimates in SingleStream and MultiStream.
    pub estimates: Option<ScenarioEstimates>,
}

impl Metrics {
    /// Computes all of them in O(samples).
    #[must_use]
    pub fn of(record: &Record, plan: &Plan) -> Self {
        todo_metrics(record, plan)
    }
}
