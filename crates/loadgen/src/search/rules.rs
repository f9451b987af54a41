//! Rules of a search, and the unit of its load.

use super::Limit;
use crate::clock::Nanos;

/// Rules of a search: its limits, range and time.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Limits that must all be kept (at least one).
    pub limits: Vec<Limit>,
    /// Load of the first run (> 0).
    pub from: f64,
    /// Highest load that is tried.
    pub to: Option<f64>,
    /// Unit of the load.
    pub unit: Unit,
    /// Relative tolerance: the peak is found when it is known to within this share.
    pub tolerance: f64,
    /// Length of the first runs, ns.
    pub short: Nanos,
    /// Minimum length of a full run, ns.
    pub full: Nanos,
    /// Minimum number of queries of a full run.
    pub full_queries: u64,
    /// Number of queries that a full run at a rate needs to be valid near the peak; 0 if any number is
    /// enough. The run is longer than its settings make it if they have fewer.
    pub certain_queries: u64,
    /// Full runs per confirmation (>= 1).
    pub full_runs: u32,
    /// Maximum number of queries of a short run.
    pub most_queries: u64,
    /// Time limit of all runs together, ns: no run is started that would end later.
    pub max_time: Nanos,
    /// Number of failed confirmations after which the search ends; 0 means no confirmation. One that passes does
    /// not count, and is repeated if it makes the peak uncertain.
    pub confirmations: u32,
}

/// Unit of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Queries per second.
    Rate,
    /// A whole number: queries in flight, or samples in a query.
    Whole,
}
