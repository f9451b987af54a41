//! Names of metrics, and the metrics that are compared by default.

use dyno_loadgen::compare::{Interval, Metric, Row, Run, Series};
use dyno_results::units;

use super::compared_run::ComparedTest;
use crate::failure::Failure;

/// Grammar of metric names, for help texts.
pub const GRAMMAR: &str =
    "p50, p99.9 (any percentile), mean, throughput, failures, ttft-p99, ttft-mean, tpot-p50, ..";

/// Percentiles that are shown besides the headline.
const PERCENTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Percentiles of tokens that are shown.
const OF_TOKENS: [f64; 2] = [0.5, 0.99];

/// Returns the name of a metric, such as `ttft-p99`.
pub fn name(metric: Metric) -> String {
    let of = |series: Series| match series {
        Series::Latency => "",
        Series::FirstToken => "ttft-",
        Series::TimePerOutputToken => "tpot-",
    };
    match metric {
        Metric::Percentile(series, p) => format!("{}{}", of(series), units::percentile(p)),
        Metric::Mean(series) => format!("{}mean", of(series)),
        Metric::Throughput => "throughput".into(),
        Metric::Failures => "failures".into(),
    }
}

/// Returns the display name of a metric: `p99 latency`, `mean time to first token`.
pub fn title(metric: Metric) -> String {
    let of = |series: Series| match series {
        Series::Latency => "latency",
        Series::FirstToken => "time to first token",
        Series::TimePerOutputToken => "time per output token",
    };
    match metric {
        Metric::Percentile(series, p) => format!("{} {}", units::percentile(p), of(series)),
        Metric::Mean(series) => format!("mean {}", of(series)),
        Metric::Throughput => "throughput".into(),
        Metric::Failures => "share of failures".into(),
    }
}

/// Formats a change of a metric: in percent, or in percentage points for metrics that are shares.
pub fn change(metric: Metric, change: f64) -> String {
    if metric.is_absolute() { points(change) } else { percent(change) }
}

/// Formats a difference of shares in percentage points.
pub fn points(change: f64) -> String {
    if change.abs() < 0.000_05 { "0 pp".into() } else { format!("{:+.2} pp", 100.0 * change) }
}

/// Formats a change in percent, or as a factor if it is large.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    // Zero has no sign.
    let percent = if percent.abs() < 0.005 { 0.0 } else { percent };
    match percent.abs() {
        _ if share == f64::INFINITY => "any".into(),
        _ if share <= -1.0 => "-100 %".into(),
        // A larger change means that nothing is known.
        100_000.0.. => "any".into(),
        1_000.0.. => format!("x{:.0}", 1.0 + share),
        99.95.. => format!("{percent:+.0} %"),
        9.995.. => format!("{percent:+.1} %"),
        0.0 => "0 %".into(),
        _ => format!("{percent:+.2} %"),
    }
}

/// Formats a share in percent, without a sign.
pub fn share(share: f64) -> String {
    // Not 7.000000000000001 %.
    format!("{} %", (1e4 * 100.0 * share).round() / 1e4)
}

/// Formats the confidence interval of a change.
pub fn interval(row: &Row) -> String {
    let Interval { low, high, .. } = row.change;
    // Without records, not even a difference of shares has limits.
    let has_low = if row.metric.is_absolute() { low.is_finite() } else { low > -1.0 };
    if !has_low && high == f64::INFINITY {
        "unknown".into()
    } else {
        format!("{} to {}", change(row.metric, low), change(row.metric, high))
    }
}

/// Reads the name of a metric.
///
/// ```
/// use dyno_experiment::compare::metric;
///
/// let tail = metric::parse("p99.9")?;
/// assert_eq!(metric::name(tail), "p99.9");
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// A sentence fragment that begins with "expected".
pub fn parse(text: &str) -> Result<Metric, String> {
    let expected = || format!("expected a metric ({GRAMMAR}), found `{text}`");
    let lower = text.trim().to_ascii_lowercase();
    // `--require` separates with a dot.
    let (series, rest) = match lower.split_once(['-', '.']) {
        Some(("ttft", rest)) => (Series::FirstToken, rest),
        Some(("tpot", rest)) => (Series::TimePerOutputToken, rest),
        Some(("latency" | "e2el" | "e2e", rest)) => (Series::Latency, rest),
        _ => (Series::Latency, &lower[..]),
    };
    match (series, rest) {
        (_, "mean") => return Ok(Metric::Mean(series)),
        (Series::Latency, "throughput") => return Ok(Metric::Throughput),
        (Series::Latency, "failures") => return Ok(Metric::Failures),
        _ => {}
    }
    let percent: f64 = rest.strip_prefix('p').and_then(|p| p.parse().ok()).ok_or_else(expected)?;
    // 99.9 / 100 is not 0.999.
    match (percent * 1e7).round() / 1e9 {
        p if p > 0.0 && p < 1.0 => Ok(Metric::Percentile(series, p)),
        _ => Err(expected()),
    }
}

/// Reads the name of a metric that a user requests, as [`parse`] does. A percentile below p1 is rejected:
/// `p0.99` means p99.
///
/// # Errors
/// A sentence fragment that begins with "expected".
pub fn parse_requested(text: &str) -> Result<Metric, String> {
    match parse(text)? {
        Metric::Percentile(_, p) if let Some(meant) = units::percent_of_fraction(100.0 * p) => {
            let low = units::percentile(p);
            Err(format!("expected a percentile of at least p1, found `{low}`; write p{meant}"))
        }
        metric => Ok(metric),
    }
}

/// Returns whether every run of a side measures a metric.
fn is_measured(metric: Metric, tests: &[ComparedTest]) -> bool {
    let has = |test: &ComparedTest, times: fn(&Run) -> &Vec<u64>| {
        test.observations.iter().any(|run| !times(run).is_empty())
            || test.figures.contains_key(&name(metric))
    };
    tests.iter().all(|test| match metric {
        Metric::Percentile(Series::FirstToken, _) | Metric::Mean(Series::FirstToken) => {
            has(test, |run| &run.first_token)
        }
        Metric::Percentile(Series::TimePerOutputToken, _)
        | Metric::Mean(Series::TimePerOutputToken) => has(test, |run| &run.time_per_output_token),
        _ => true,
    })
}

/// Rejects requested metrics of tokens that a run does not measure, and metrics that are given twice.
///
/// # Errors
/// The first such metric.
pub(crate) fn refuse_unmeasured(
    asked: &[Metric],
    baseline: &[ComparedTest],
    candidate: &[ComparedTest],
) -> Result<(), Failure> {
    let names: Vec<String> = asked.iter().map(|metric| name(*metric)).collect();
    if let Some(twice) = (1..names.len()).find(|&at| names[..at].contains(&names[at])) {
        let problem = format!("--metric {} is given twice", names[twice]);
        return Err(Failure::usage(problem).hint("give each metric once, the main one first"));
    }
    for &metric in asked {
        for (side, tests) in [("baseline", baseline), ("candidate", candidate)] {
            if is_measured(metric, tests) {
                continue;
            }
            let problem = format!(
                "--metric {}: the {side} does not measure the {}",
                name(metric),
                title(metric)
            );
            return Err(Failure::usage(problem)
                .hint("compare another metric, or runs whose answers stream tokens"));
        }
    }
    Ok(())
}

/// Returns those of `metrics` that every run measures, and a note on the others.
pub fn measured(
    metrics: &[Metric],
    baseline: &[ComparedTest],
    candidate: &[ComparedTest],
) -> (Vec<Metric>, Option<String>) {
    let has = |&metric: &Metric| is_measured(metric, baseline) && is_measured(metric, candidate);
    let (kept, others): (Vec<Metric>, Vec<Metric>) = metrics.iter().copied().partition(has);
    let names: Vec<String> = others.into_iter().map(name).collect();
    let note = format!("not compared, because not every run measures them: {}", names.join(", "));
    (kept, (!names.is_empty()).then_some(note))
}

/// Returns the metrics with the share of failures, if a run has some: a side that fails instead of answering
/// late is not better.
pub fn with_failures(
    mut metrics: Vec<Metric>,
    baseline: &[ComparedTest],
    candidate: &[ComparedTest],
) -> Vec<Metric> {
    let fails =
        |test: &ComparedTest| test.observations.iter().any(|run| run.failed.contains(&true));
    if !metrics.contains(&Metric::Failures) && baseline.iter().chain(candidate).any(fails) {
        metrics.push(Metric::Failures);
    }
    metrics
}

/// Returns the headline of a scenario, and the other metrics to compare.
pub fn of_scenario(baseline: &[ComparedTest], candidate: &[ComparedTest]) -> Vec<Metric> {
    let a = &baseline[0];
    let runs = || baseline.iter().chain(candidate);
    let has = |of: fn(&ComparedTest) -> bool| runs().all(of);
    let mut metrics = Vec::new();
    if a.conditions.scenario == "Offline" {
        // All samples are due at once, so that a latency is only a position in the queue.
        metrics.push(Metric::Throughput);
    } else {
        let has_first_token_bound = a.conditions.plan.first_token_bound_ns.is_some();
        let series = if has_first_token_bound { Series::FirstToken } else { Series::Latency };
        metrics.push(Metric::Percentile(series, a.conditions.plan.percentile));
        metrics.extend(PERCENTILES.map(|p| Metric::Percentile(Series::Latency, p)));
        metrics.push(Metric::Mean(Series::Latency));
        metrics.push(Metric::Throughput);
    }
    if has(|test| test.observations.iter().all(|run| !run.first_token.is_empty())) {
        metrics.extend(OF_TOKENS.map(|p| Metric::Percentile(Series::FirstToken, p)));
    }
    if has(|test| test.observations.iter().all(|run| !run.time_per_output_token.is_empty())) {
        metrics.extend(OF_TOKENS.map(|p| Metric::Percentile(Series::TimePerOutputToken, p)));
    }
    let mut metrics = with_failures(metrics, baseline, candidate);
    let headline = metrics[0];
    let mut at = 0;
    metrics.retain(|metric| {
        at += 1;
        at == 1 || *metric != headline
    });
    metrics
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::compare::{Doubt, Finding};

    use super::*;

    #[test]
    fn limits_that_are_not_known_are_not_shown() {
        let row = |metric, low, high| Row {
            metric,
            baseline: 0.1,
            candidate: 0.2,
            change: Interval { value: 0.1, low, high, freedom: 0.0 },
            confidence: 0.95,
            detectable: f64::INFINITY,
            drift: None,
            finding: Finding::Inconclusive(Doubt::TooFew),
        };
        let without = |metric| interval(&row(metric, f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!(without(Metric::Failures), "unknown");
        assert_eq!(without(Metric::Throughput), "unknown");
        assert_eq!(interval(&row(Metric::Failures, -0.05, 0.25)), "-5.00 pp to +25.00 pp");
        assert_eq!(change(Metric::Throughput, -1.0), "-100 %");
    }

    #[test]
    fn names_read_back_and_others_are_refused() {
        for text in
            ["p50", "p99.9", "p99.99", "mean", "throughput", "failures", "ttft-p99", "tpot-mean"]
        {
            assert_eq!(parse(text).map(name).as_deref(), Ok(text));
        }
        assert_eq!(parse("p99.9"), Ok(Metric::Percentile(Series::Latency, 0.999)));
        for bad in
            ["", "p", "p0", "p100", "p-1", "99", "ttft-throughput", "ttft", "pnan", "p99.999999999"]
        {
            assert!(parse(bad).unwrap_err().starts_with("expected"), "{bad}");
        }
        // As in `--require`.
        for (text, same) in
            [("TTFT.p99", "ttft-p99"), ("P99.9", "p99.9"), ("e2el.mean", "mean"), ("e2e.p5", "p5")]
        {
            assert_eq!(parse(text).map(name).as_deref(), Ok(same));
        }
        assert!(parse_requested("p0.99").unwrap_err().ends_with("found `p0.99`; write p99"));
        assert!(parse_requested("ttft-p0.5").unwrap_err().ends_with("write p50"));
        assert_eq!(parse_requested("p1"), Ok(Metric::Percentile(Series::Latency, 0.01)));
    }
}
