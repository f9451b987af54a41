//! When which query is issued: the scenarios as one state machine without
//! threads, clocks or sockets.

use crate::clock::Nanos;

/// Why a run stopped issuing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every query of the trace was issued (Server, Offline and accuracy runs
    /// end so).
    TraceIssued,
    /// The minimum of queries and of time was reached (SingleStream,
    /// MultiStream, fixed concurrency, Offline performance).
    Naturally,
    /// The generated queries ran out before the minimum duration was reached.
    RanOut,
    /// `max_query_count` queries were issued.
    MaxQueryCount {
        /// Queries issued.
        issued: u64,
    },
    /// `max_duration` was over.
    MaxDuration {
        /// Time of the last issue.
        at: Nanos,
    },
    /// More than `max_async_queries` were outstanding.
    TooManyOutstanding {
        /// Queries issued.
        issued: u64,
        /// Queries outstanding.
        outstanding: u64,
    },
    /// Nothing completed for `response_deadline`.
    Deadline {
        /// Samples that were never completed.
        missing: u64,
    },
    /// Somebody asked for it.
    Aborted,
}
