//! What limited the figures of a test, in one sentence.

use dyno_results::summary::{Cause, ReasonKind, State, Test};

/// Returns the sentence; `None` if the test did not run to its end.
pub fn sentence(test: &Test) -> Option<String> {
    if test.state != State::Complete || test.metrics.is_none() {
        return None;
    }
    let has = |kind: ReasonKind| test.causes.iter().any(|reason| reason.kind == kind);
    let of_client = || test.causes.iter().filter(|reason| reason.cause == Some(Cause::Client));
    if of_client().any(|reason| reason.kind == ReasonKind::Failures) {
        return Some("Limited by the client: it had no memory for some answers.".into());
    }
    if of_client().next().is_some() {
        return Some("Limited by the client: its delays are part of these figures.".into());
    }
    if has(ReasonKind::Failures) || has(ReasonKind::Missing) {
        return Some("Limited by the system: it did not answer every request.".into());
    }
    let in_flight = test.plan.arrivals.as_deref().and_then(|a| a.strip_prefix("concurrency:"));
    let text = match (test.scenario.as_str(), in_flight) {
        ("SingleStream" | "MultiStream", _) if test.plan.interval_ns.is_none() => {
            "Limited by the system: the next query is issued when the last one is answered."
        }
        ("Offline", _) => "Limited by the system: all samples were due at the start.",
        ("Server", Some(in_flight)) => {
            let requests = if in_flight == "1" { "request" } else { "requests" };
            return Some(format!(
                "Limited by the {in_flight} {requests} in flight: a new one is sent when another is \
                 answered. dyno run --sweep shows whether more would raise the rate."
            ));
        }
        ("Server", None) if has(ReasonKind::Saturated) => {
            "Limited by the system: it answers fewer requests per second than arrive."
        }
        ("Server", None) if test.mode == "peak" => {
            "Limited by the bound on latency: the search raised the rate until it was reached."
        }
        ("Server", None) if has(ReasonKind::Bound) => {
            "Limited by the system: at this rate too many latencies are over their bound."
        }
        ("Server", None) => {
            "Limited by the offered load, which is not the capacity of the system. dyno search finds \
             the capacity."
        }
        _ => return None,
    };
    Some(text.into())
}
