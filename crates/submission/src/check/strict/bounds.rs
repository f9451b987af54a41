//! What early stopping was decided by: looser bounds than the rules' decide nothing.

use std::path::Path;

use crate::check::catalogue::RUN_TARGET_LATENCY;
use crate::check::issues::{At, Issues};
use crate::check::place::Place;
use crate::facts::detail::DetailLog;
use dyno_rules::Scenario;

/// Percentiles are written with six digits.
const PERCENTILE_TOLERANCE: f64 = 1e-6;

/// Checks the run of a result, or of an audit of it, that was played as this scenario.
pub(super) fn check(
    place: &Place<'_, '_>,
    log: &DetailLog,
    path: &Path,
    played: Scenario,
    issues: &mut Issues,
) {
    let is_fixed = place.submitter.division.is_closed_or_network();
    let Some(benchmark) = place.model.benchmark.filter(|_| is_fixed) else { return };
    let mut looser = |key: &str, asked: f64, expected: String| {
        let message =
            format!("{key} is {asked}, so that early stopping was decided by a looser bound");
        let at = At::path(path).line(log.line_of(key));
        issues.add_expected(&RUN_TARGET_LATENCY, at, message, expected);
    };
    let key = "effective_target_latency_percentile";
    let pair = log.number(key).zip(place.round.percentile(benchmark, played));
    let is_looser = |(asked, least): &(f64, f64)| asked + PERCENTILE_TOLERANCE < *least;
    if let Some((asked, least)) = pair.filter(is_looser) {
        looser(key, asked, format!("at least {least}"));
    }
    // LoadGen plays Interactive as Server: the folder says whose bounds they are.
    let limits = place.scenario.and_then(|scenario| benchmark.token_latency.get(&scenario));
    let Some(limits) =
        limits.filter(|_| played.loadgen_scenario() == Scenario::Server.loadgen_scenario())
    else {
        return;
    };
    for (key, most) in [
        ("requested_server_ttft_latency", limits.ttft),
        ("requested_server_tpot_latency", limits.tpot),
    ] {
        #[expect(clippy::cast_precision_loss, reason = "bounds are far below 2^53 ns")]
        if let Some(asked) = log.whole(key).filter(|asked| *asked > most) {
            looser(key, asked as f64, format!("at most {most}"));
        }
    }
}
