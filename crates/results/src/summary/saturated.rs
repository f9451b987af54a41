//! Over-saturation that ended a test early.

use dyno_loadgen::saturation::Saturation;
use serde::{Deserialize, Serialize};

use super::{Cause, Reason, ReasonKind, State, Test};
use crate::units;

/// Over-saturation that ended a test before its time (`--stop-on-saturation`): its queue grew without
/// bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Saturated {
    /// when it was found, from the start of the run
    pub at_ns: u64,
    /// samples that arrived, per second
    pub arrivals_per_s: f64,
    /// samples that were completed, per second: about what the system can
    pub completions_per_s: f64,
    /// samples that were issued and not completed at that time
    pub backlog: u64,
}

impl From<Saturation> for Saturated {
    fn from(found: Saturation) -> Self {
        Self {
            at_ns: found.at,
            arrivals_per_s: found.arrivals_per_s,
            completions_per_s: found.completions_per_s,
            backlog: found.backlog,
        }
    }
}

impl Saturated {
    /// Returns the finding with advice.
    pub fn reason(&self) -> String {
        let Self { at_ns, arrivals_per_s, completions_per_s, backlog } = self;
        format!(
            "Over-saturated: the queue grew by {} requests/s; the server completes about {} \
             requests/s. The run was ended after {}, with {} outstanding. Lower the rate; \
             --stop-on-saturation off measures on.",
            units::rate(arrivals_per_s - completions_per_s),
            units::rate(*completions_per_s),
            units::duration(at_ns.cast_signed()),
            units::counted(*backlog, "request", "requests"),
        )
    }
}

impl Test {
    /// Marks a test as ended by over-saturation, which is the first reason why it is INVALID. Reasons
    /// that follow from the early end are removed.
    pub fn end_saturated(&mut self, found: &Saturated) {
        self.remove_reasons(&[
            ReasonKind::Ended,
            ReasonKind::Missing,
            ReasonKind::Duration,
            ReasonKind::QueryCount,
            ReasonKind::EarlyStopping,
        ]);
        let reason = Reason::new(ReasonKind::Saturated, found.reason());
        self.add_first_reason(reason.because_of(Cause::System));
        (self.state, self.saturated) = (State::Complete, Some(found.clone()));
        self.settle();
    }
}
