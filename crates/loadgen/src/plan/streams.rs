//! MultiStream at a fixed interval, as in rounds v0.5 and v0.7.

use super::problem::ReferenceBehavior;
use super::resolve::Resolution;
use super::{PeakSettings, StreamPacing};
use crate::search::Unit;
use crate::settings::{EarlyStopping, Scenario};

/// Lowest rate, queries/s. At intervals above 1000 s not one query would be due in a run of the
/// length that the rules require.
const INTERVAL_QPS_MIN: f64 = 0.001;
/// Highest rate, queries/s. No client can keep intervals below 1 us, and their ticks would coincide
/// in whole ns.
const INTERVAL_QPS_MAX: f64 = 1e6;

impl Resolution<'_> {
    /// Returns whether queries are due at ticks.
    pub(super) fn has_interval(&self) -> bool {
        let s = self.settings;
        s.scenario == Scenario::MultiStream && s.multi_stream_target_qps != 0.0
    }

    /// Returns the ticks per second.
    pub(super) fn interval_qps(&mut self) -> f64 {
        let given = self.settings.multi_stream_target_qps;
        if (INTERVAL_QPS_MIN..=INTERVAL_QPS_MAX).contains(&given) {
            return given;
        }
        self.problem(
            &["multi_stream_target_qps"],
            format!("a rate of {INTERVAL_QPS_MIN} to {INTERVAL_QPS_MAX} queries/s"),
            "20 is an interval of 50 ms; 0 issues a query when the last one is complete",
            ReferenceBehavior::Replaced { by: "1 query/s".into() },
        );
        1.0
    }

    /// Returns when a MultiStream query is issued.
    pub(super) fn stream_pacing(&mut self) -> StreamPacing {
        if !self.has_interval() {
            return StreamPacing::OnCompletion;
        }
        let s = self.settings;
        if s.early_stopping == EarlyStopping::Extend {
            self.problem(
                &["multi_stream_target_qps", "early_stopping"],
                "no early stopping at a fixed interval, whose rule is a share of skipped intervals",
                "set early_stopping to never or after-run",
                ReferenceBehavior::Replaced { by: "a run that is not extended".into() },
            );
        }
        if s.server_num_issue_query_threads > 0 {
            self.problem(
                &["multi_stream_target_qps", "server_num_issue_query_threads"],
                "no issue threads at a fixed interval: each query waits for the one before it",
                "set the threads to 0",
                ReferenceBehavior::Replaced { by: "the calling thread".into() },
            );
        }
        // The search doubles the load, as in the reference.
        let peak = PeakSettings { unit: Unit::Whole, decimals: 0, step_size: 1.0 };
        StreamPacing::FixedInterval { peak }
    }
}
