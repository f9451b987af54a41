//! Over-saturation that ended a test early.

use dyno_loadgen::saturation::Saturation;
use serde::{Deserialize, Serialize};

use super::{Cause, Reason, ReasonKind, State, Test};
use crate::units;

/// Over-saturation that stopped a test early (`--stop-on-saturation`): its queue grew without
/// bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Saturated {
    /// time of detection, from the start of the run
    pub at_ns: u64,
    /// samples that arrived, per second
    pub arrivals_per_s: f64,
    /// completed samples per second: about the capacity of the system
    pub completions_per_s: f64,
    /// samples outstanding at that time
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
    /// Returns the finding with advice. Where the client or its machine disturbed the run, the
    /// completions are not what the server can.
    fn reason(&self, is_disturbed: bool) -> String {
        let Self { at_ns, arrivals_per_s, completions_per_s, backlog } = self;
        let completed = units::rate(*completions_per_s);
        let completed = if is_disturbed {
            format!("{completed} requests/s were completed, which includes delays of the client")
        } else {
            format!("the server completes about {completed} requests/s")
        };
        format!(
            "Over-saturated: the queue grew by {} requests/s; {completed}. The run was stopped \
             after {}, with {} outstanding. Lower the rate; --stop-on-saturation off continues \
             the run.",
            units::rate(arrivals_per_s - completions_per_s),
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
        let reason = Reason::new(ReasonKind::Saturated, found.reason(false));
        self.add_first_reason(reason.because_of(Cause::System));
        (self.state, self.saturated) = (State::Complete, Some(found.clone()));
        self.settle();
    }

    /// Withdraws that over-saturation shows what the server can, if another reason is the client's or the
    /// machine's.
    pub fn doubt_saturation(&mut self) {
        let is_outside = |reason: &Reason| reason.cause.is_some_and(Cause::is_outside);
        let Some(found) = self.saturated.as_ref().filter(|_| self.causes.iter().any(is_outside))
        else {
            return;
        };
        let text = found.reason(true);
        self.remove_reasons(&[ReasonKind::Saturated]);
        self.add_first_reason(Reason::new(ReasonKind::Saturated, text));
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_not_blamed_for_delays_of_the_client() {
        let found = Saturated {
            at_ns: 9_000_000_000,
            arrivals_per_s: 30.0,
            completions_per_s: 20.0,
            backlog: 90,
        };
        assert_eq!(
            found.reason(false),
            "Over-saturated: the queue grew by 10.00 requests/s; the server completes about 20.00 \
             requests/s. The run was stopped after 9.00 s, with 90 requests outstanding. Lower the \
             rate; --stop-on-saturation off continues the run."
        );
        let disturbed = found.reason(true);
        assert!(!disturbed.contains("the server completes"), "{disturbed}");
        assert!(
            disturbed.contains("20.00 requests/s were completed, which includes delays"),
            "{disturbed}"
        );
    }
}
