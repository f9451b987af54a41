//! Goals of a running test, and its bounds.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::early_stopping::{self, Params};
use dyno_loadgen::plan::{Load, Plan, Tokens};
use dyno_loadgen::settings::{Arrivals, EarlyStopping, Scenario, TestMode};
use dyno_results::summary::NO_BOUND;

use crate::test::{PlannedTest, last_recorded};

/// Goals of a test.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Goals {
    /// Unit of counts: `queries` or `samples`.
    pub unit: &'static str,
    /// When the test ends.
    pub until: EndCondition,
    /// Samples in each query.
    pub samples_per_query: u64,
    /// Limit on each tenant's queries; empty where none is judged. [`Goals::bound`] leaves out a limit that
    /// stands for no bound.
    pub bounds: Vec<Bound>,
    /// Percentile at which latency and client lag are judged, in (0, 1).
    pub percentile: f64,
    /// Limit on the client lag at that percentile, ns; `None` does not judge it.
    pub max_client_lag: Option<Nanos>,
    /// Offered load, queries/s; `None` if the system sets the pace.
    pub target_qps: Option<f64>,
    /// Whether the test runs in virtual time.
    pub is_virtual: bool,
}

/// When a test ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EndCondition {
    /// The end is unknown.
    #[default]
    Unknown,
    /// After this many samples.
    Samples(u64),
    /// After at least this duration and this many queries.
    Least {
        /// Minimum duration, ns.
        duration: Nanos,
        /// Minimum number of issued queries.
        queries: u64,
    },
}

/// Bound on a query's latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Upper limit, ns.
    pub limit: Nanos,
    /// Whether the bound applies to the first token instead of the whole answer.
    pub of_first_token: bool,
}

impl Goals {
    /// Returns the goals of a test.
    pub fn from_test(test: &PlannedTest, is_virtual: bool) -> Self {
        let plans = || test.tenants.iter().map(|tenant| &tenant.plan);
        let first = &test.tenants[0].plan;
        let is_accuracy = test.mode == TestMode::AccuracyOnly;
        let is_server = test.scenario == Scenario::Server;
        let counts_samples = is_accuracy || test.scenario == Scenario::Offline;
        let until = match (is_accuracy, test.scenario) {
            (true, _) => {
                EndCondition::Samples(plans().map(|plan| plan.accuracy_sample_count).sum())
            }
            (_, Scenario::Offline) => {
                EndCondition::Samples(plans().map(|plan| plan.samples_per_query).sum())
            }
            _ => EndCondition::Least {
                duration: plans().map(least_duration).max().unwrap_or(0),
                queries: plans().map(least_queries).sum(),
            },
        };
        let is_judged = is_server && !is_accuracy;
        Self {
            unit: if counts_samples { "samples" } else { "queries" },
            until,
            samples_per_query: if counts_samples { 1 } else { first.samples_per_query },
            bounds: if is_judged { plans().map(bound).collect() } else { Vec::new() },
            percentile: first.percentile(),
            max_client_lag: Some(first.max_client_lag).filter(|&lag| is_judged && lag > 0),
            target_qps: is_judged.then(|| plans().map(|plan| plan.target_qps).sum()),
            is_virtual,
        }
    }

    /// Returns the bound on a tenant's queries; `None` if none is judged.
    pub fn bound(&self, tenant: usize) -> Option<Bound> {
        self.bounds.get(tenant).copied().filter(|bound| bound.limit < NO_BOUND)
    }
}

/// Returns the minimum duration of a test, ns. A Server test with a rate also lasts as long as its
/// minimum number of queries at that rate.
fn least_duration(plan: &Plan) -> Nanos {
    match plan.load {
        Load::Server(_) if last_recorded(plan) > 0 => plan.min_duration.max(last_recorded(plan)),
        // The answers set the pace.
        Load::Server(ref server) if matches!(server.arrivals, Arrivals::Concurrency(_)) => {
            plan.min_duration.saturating_add(plan.ramp)
        }
        Load::Server(_) => {
            let by_queries = plan.min_query_count as f64 / plan.target_qps * 1e9;
            let by_queries = if by_queries.is_finite() { by_queries as Nanos } else { 0 };
            plan.min_duration.max(by_queries).saturating_add(plan.ramp)
        }
        _ => plan.min_duration,
    }
}

fn least_queries(plan: &Plan) -> u64 {
    let is_extended = plan.early_stopping.policy == EarlyStopping::Extend;
    match plan.load {
        Load::SingleStream { .. } | Load::MultiStream { .. } if is_extended => {
            let params = Params::new(&plan.early_stopping, plan.percentile());
            plan.min_query_count.max(early_stopping::minimum_queries(1, &params))
        }
        _ => plan.min_query_count,
    }
}

fn bound(plan: &Plan) -> Bound {
    match plan.tokens {
        Some(Tokens::Measured { ttft, .. }) => Bound { limit: ttft, of_first_token: true },
        _ => Bound { limit: plan.target_latency(), of_first_token: false },
    }
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::clock::SECOND;

    use super::*;

    #[test]
    fn the_limit_of_no_bound_is_not_judged() {
        let of_first_token = true;
        let goals = |limit| {
            let bounds = vec![Bound { limit, of_first_token }];
            Goals { bounds, ..Goals::default() }
        };
        assert_eq!(goals(NO_BOUND).bound(0), None);
        assert_eq!(goals(SECOND).bound(0), Some(Bound { limit: SECOND, of_first_token }));
        assert_eq!(goals(SECOND).bound(1), None);
    }
}
