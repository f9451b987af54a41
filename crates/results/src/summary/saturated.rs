//! Over-saturation that ended a test early.

use dyno_loadgen::saturation::Saturation;
use serde::{Deserialize, Serialize};

use super::backlog::GROWTH_ADVICE;
use super::{Cause, Reason, ReasonKind, State, Test};
use crate::units;

/// What the completions of an over-saturated run show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bottleneck {
    /// The capacity of the server.
    Server,
    /// Also the delays of the client or its machine.
    Disturbance,
    /// This limit of the requests in flight, which the client enforces.
    Limit(u64),
}

/// Over-saturation that stopped a test early (`--stop-on-saturation`): its queue grew without
/// bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SaturationFinding {
    /// time of detection, from the start of the run
    pub at_ns: u64,
    /// samples that arrived, per second
    pub arrivals_per_s: f64,
    /// completed samples per second: about the capacity of the system
    pub completions_per_s: f64,
    /// samples outstanding at that time
    pub backlog: u64,
}

impl From<Saturation> for SaturationFinding {
    fn from(found: Saturation) -> Self {
        Self {
            at_ns: found.at,
            arrivals_per_s: found.arrivals_per_s,
            completions_per_s: found.completions_per_s,
            backlog: found.backlog,
        }
    }
}

impl SaturationFinding {
    /// Returns the finding with advice.
    fn reason(&self, bottleneck: Bottleneck) -> String {
        let Self { at_ns, arrivals_per_s, completions_per_s, backlog } = self;
        let completed = units::rate(*completions_per_s);
        let completed = match bottleneck {
            Bottleneck::Server => format!("the server completes about {completed} requests/s"),
            Bottleneck::Disturbance => format!(
                "{completed} requests/s were completed, which includes delays of the client"
            ),
            Bottleneck::Limit(limit) => {
                format!("{}, and {completed} requests/s were completed", in_flight(limit))
            }
        };
        let advice = match bottleneck {
            Bottleneck::Limit(_) => "Raise --max-concurrency, or lower the rate",
            Bottleneck::Server | Bottleneck::Disturbance => "Lower the rate",
        };
        format!(
            "Over-saturated: the queue grew by {} requests/s; {completed}. The run was stopped \
             after {}, with {} outstanding. {advice}; --stop-on-saturation off continues the run.",
            units::rate(arrivals_per_s - completions_per_s),
            units::duration(at_ns.cast_signed()),
            units::counted(*backlog, "request", "requests"),
        )
    }
}

/// Returns a clause about a limit of the requests in flight.
fn in_flight(limit: u64) -> String {
    let requests = units::counted(limit, "request", "requests");
    format!("--max-concurrency permits {requests} in flight, so that others waited in the client")
}

impl Test {
    /// Marks a test as ended by over-saturation, which is the first reason why it is INVALID. Reasons
    /// that follow from the early end are removed.
    pub fn end_saturated(&mut self, found: &SaturationFinding) {
        self.remove_reasons(&[
            ReasonKind::Ended,
            ReasonKind::Missing,
            ReasonKind::Duration,
            ReasonKind::QueryCount,
            ReasonKind::EarlyStopping,
        ]);
        let reason = Reason::new(ReasonKind::Saturated, found.reason(Bottleneck::Server));
        self.add_first_reason(reason.because_of(Cause::System));
        (self.state, self.saturated) = (State::Complete, Some(found.clone()));
        self.settle();
    }

    /// Withdraws that over-saturation shows what the server can, if another reason is the client's.
    pub fn doubt_saturation(&mut self) {
        let is_of_client = |reason: &Reason| reason.cause == Some(Cause::Client);
        let blames_system = |reason: &Reason| {
            reason.kind == ReasonKind::Saturated && reason.cause == Some(Cause::System)
        };
        if self.causes.iter().any(is_of_client) && self.causes.iter().any(blames_system) {
            self.explain_saturation(Bottleneck::Disturbance);
        }
    }

    /// States that the queue waited for the client's own limit of the requests in flight, so that its
    /// growth does not show what the server can.
    pub fn charge_limit(&mut self, limit: u64) {
        if self.saturated.is_some() {
            self.explain_saturation(Bottleneck::Limit(limit));
            return;
        }
        let advice = format!(
            "In this run {}: raise --max-concurrency, or lower the rate.",
            in_flight(limit)
        );
        for reason in self.causes.iter_mut().filter(|of| of.kind == ReasonKind::Saturated) {
            let text = reason.text.replace(GROWTH_ADVICE, &advice);
            let same = self.reasons.iter_mut().find(|same| **same == reason.text);
            same.into_iter().for_each(|same| same.clone_from(&text));
            reason.text = text;
        }
    }

    /// Replaces the reason of an over-saturated run by one that does not blame the system.
    fn explain_saturation(&mut self, bottleneck: Bottleneck) {
        let Some(found) = &self.saturated else { return };
        let text = found.reason(bottleneck);
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
        let found = SaturationFinding {
            at_ns: 9_000_000_000,
            arrivals_per_s: 30.0,
            completions_per_s: 20.0,
            backlog: 90,
        };
        assert_eq!(
            found.reason(Bottleneck::Server),
            "Over-saturated: the queue grew by 10.00 requests/s; the server completes about 20.00 \
             requests/s. The run was stopped after 9.00 s, with 90 requests outstanding. Lower the \
             rate; --stop-on-saturation off continues the run."
        );
        let disturbed = found.reason(Bottleneck::Disturbance);
        assert!(!disturbed.contains("the server completes"), "{disturbed}");
        assert!(
            disturbed.contains("20.00 requests/s were completed, which includes delays"),
            "{disturbed}"
        );
        let limited = found.reason(Bottleneck::Limit(3));
        assert!(!limited.contains("the server completes"), "{limited}");
        assert!(limited.contains("--max-concurrency permits 3 requests in flight"), "{limited}");
        assert!(limited.contains(". Raise --max-concurrency, or lower the rate; "), "{limited}");
    }
}
