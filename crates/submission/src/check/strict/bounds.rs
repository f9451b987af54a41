//! Checks the bounds by which early stopping decided: they must not be looser than the rules.

use std::path::Path;

use crate::check::catalogue::{RUN_CONSISTENT, RUN_TARGET_LATENCY};
use crate::check::issues::{Issues, Location};
use crate::check::place::Place;
use crate::facts::detail::DetailLog;
use dyno_rules::RuleScenario;

/// Percentiles have six digits.
const PERCENTILE_TOLERANCE: f64 = 1e-6;

/// Checks the run of a result or of its audit, with this scenario.
pub(super) fn check(
    place: &Place<'_, '_>,
    log: &DetailLog,
    path: &Path,
    played: RuleScenario,
    issues: &mut Issues,
) {
    let is_fixed = place.submitter.division.is_closed_or_network();
    let Some(benchmark) = place.model.benchmark.filter(|_| is_fixed) else { return };
    let key = "effective_target_latency_percentile";
    let pair = log.number(key).zip(place.round.percentile(benchmark, played));
    // A tighter percentile breaks no rule, but is not that of the result. Consistency checks report
    // values of 1 and more.
    let is_other = |(requested, least): &(f64, f64)| {
        *requested < 1.0 && *requested > least + PERCENTILE_TOLERANCE
    };
    let has_percentile = played != RuleScenario::Offline;
    if let Some((requested, least)) = pair.filter(|_| has_percentile).filter(is_other) {
        let at = Location::path(path).line(log.line_of(key));
        let message = format!("{key} is {requested}, which is not the percentile of the round");
        issues.add_expected(&RUN_CONSISTENT, at, message, least.to_string());
    }
    let mut looser = |key: &str, requested: f64, expected: String| {
        let message = format!("{key} is {requested}: early stopping used a looser bound");
        let at = Location::path(path).line(log.line_of(key));
        issues.add_expected(&RUN_TARGET_LATENCY, at, message, expected);
    };
    let is_looser = |(requested, least): &(f64, f64)| requested + PERCENTILE_TOLERANCE < *least;
    if let Some((requested, least)) = pair.filter(is_looser) {
        looser(key, requested, format!("at least {least}"));
    }
    // LoadGen logs Interactive as Server, so the folder determines the bounds.
    let limits = place.scenario.and_then(|scenario| benchmark.token_latency.get(&scenario));
    let Some(limits) =
        limits.filter(|_| played.loadgen_scenario() == RuleScenario::Server.loadgen_scenario())
    else {
        return;
    };
    for (key, most) in [
        ("requested_server_ttft_latency", limits.ttft),
        ("requested_server_tpot_latency", limits.tpot),
    ] {
        #[expect(clippy::cast_precision_loss, reason = "bounds are far below 2^53 ns")]
        if let Some(requested) = log.whole(key).filter(|requested| *requested > most) {
            looser(key, requested as f64, format!("at most {most}"));
        }
    }
}
