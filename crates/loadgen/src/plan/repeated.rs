//! Resolves the repetition of performance runs, and checks that the load can be repeated.

use super::problem::ReferenceBehavior;
use super::resolve::Resolution;
use super::{Load, StreamPacing};
use crate::settings::{Arrivals, Repetition, TestMode};

impl Resolution<'_> {
    /// Returns the repetition with its decrement resolved, unless the decrement is a share of a
    /// rate that a search must first find.
    pub(super) fn repetition(&mut self, load: &Load) -> Repetition {
        let s = self.settings;
        let (given, problems_before) = (s.repetition, self.problems.len());
        let checked = match given {
            Repetition::Once => return Repetition::Once,
            Repetition::Minimum(0) | Repetition::Confirm { runs: 0, .. } => {
                self.refuse(&["repetition"], "at least 1 run", "the rules require 5")
            }
            Repetition::Minimum(runs) => Repetition::Minimum(runs),
            Repetition::Confirm { runs, decrement } => self.confirm(load, runs, decrement),
        };
        // Accuracy runs are not repeated, so that their repetition cannot be wrong.
        if s.mode == TestMode::AccuracyOnly {
            self.problems.truncate(problems_before);
        }
        checked
    }

    fn confirm(&mut self, load: &Load, runs: u32, decrement: Option<f64>) -> Repetition {
        let s = self.settings;
        let (field, usual, is_whole) = match load {
            Load::Server(server)
                if matches!(server.arrivals, Arrivals::Concurrency(_) | Arrivals::Replay(_)) =>
            {
                return self.refuse(
                    &["repetition", "server_arrivals"],
                    "arrivals that have a rate, which a failure can lower",
                    "choose other arrivals, or minimum:RUNS",
                );
            }
            Load::Server(_) => {
                let is_known = s.mode != TestMode::FindPeakPerformance;
                let usual = s.server_target_qps * Repetition::DECREMENT_SHARE;
                ("server_target_qps", is_known.then_some(usual), false)
            }
            Load::MultiStream { pacing: StreamPacing::FixedInterval { .. }, .. } => {
                ("multi_stream_samples_per_query", Some(1.0), true)
            }
            Load::SingleStream { .. } | Load::MultiStream { .. } | Load::Offline => {
                return self.refuse(
                    &["repetition", "scenario"],
                    "Server, or MultiStream with multi_stream_target_qps: a load that a failure \
                     can lower",
                    "choose minimum:RUNS",
                );
            }
        };
        let decrement = match decrement {
            None => usual,
            Some(given)
                if given.is_finite() && given > 0.0 && (given.fract() == 0.0 || !is_whole) =>
            {
                Some(given)
            }
            Some(_) => {
                let expected = if is_whole {
                    "a decrement of at least 1 whole stream"
                } else {
                    "a decrement above 0 queries/s"
                };
                let change = "leave it out for 1 % of the rate, or one stream";
                return self.refuse(&["repetition", field], expected, change);
            }
        };
        Repetition::Confirm { runs, decrement }
    }

    fn refuse(
        &mut self,
        fields: &[&'static str],
        expected: &'static str,
        change: &'static str,
    ) -> Repetition {
        let by = ReferenceBehavior::Replaced { by: "one run".into() };
        self.problem(fields, expected, change, by);
        Repetition::Once
    }
}
