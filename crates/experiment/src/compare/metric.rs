//! Names of what is compared, and which of it by default.

use dyno_loadgen::compare::{Interval, Metric, Row, Series};
use dyno_results::units;

use super::source::PlayedTest;

/// For help texts.
pub const GRAMMAR: &str =
    "p50, p99.9 (any percentile), mean, throughput, failures, ttft-p99, ttft-mean, tpot-p50, ..";

/// Percentiles that are shown besides the headline.
const PERCENTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Percentiles of tokens that are shown.
const OF_TOKENS: [f64; 2] = [0.5, 0.99];

/// Its name.
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

/// As people say it: `p99 latency`, `mean time to first token`.
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

/// A change of it: a share in percent, of shares the difference in percentage points.
pub fn change(metric: Metric, change: f64) -> String {
    match metric.is_absolute() {
        false => percent(change),
        true if change.abs() < 0.000_05 => "0 pp".into(),
        true => format!("{:+.2} pp", 100.0 * change),
    }
}

/// A share in percent; a factor where it is large.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    // No change has no sign.
    let percent = if percent.abs() < 0.005 { 0.0 } else { percent };
    match percent.abs() {
        _ if share == f64::INFINITY => "any".into(),
        _ if share <= -1.0 => "any".into(),
        // More than that is no knowledge.
        100_000.0.. => "any".into(),
        1_000.0.. => format!("x{:.0}", 1.0 + share),
        99.95.. => format!("{percent:+.0} %"),
        9.995.. => format!("{percent:+.1} %"),
        0.0 => "0 %".into(),
        _ => format!("{percent:+.2} %"),
    }
}

/// A share in percent, without a sign.
pub fn share(share: f64) -> String {
    // Not 7.000000000000001 %.
    format!("{} %", (1e4 * 100.0 * share).round() / 1e4)
}

/// Where its change lies, with confidence.
pub fn interval(row: &Row) -> String {
    let Interval { low, high, .. } = row.change;
    // Shares differ by something that can be said in any case.
    match !row.metric.is_absolute() && low <= -1.0 && high == f64::INFINITY {
        true => "unknown".into(),
        false => format!("{} to {}", change(row.metric, low), change(row.metric, high)),
    }
}

/// Reads a name.
///
/// # Errors
/// A sentence fragment that begins with "expected".
pub fn parse(text: &str) -> Result<Metric, String> {
    let expected = || format!("expected a metric ({GRAMMAR}), found `{text}`");
    let (series, rest) = match text.split_once('-') {
        Some(("ttft", rest)) => (Series::FirstToken, rest),
        Some(("tpot", rest)) => (Series::TimePerOutputToken, rest),
        Some(_) => return Err(expected()),
        None => (Series::Latency, text),
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

/// The headline of a scenario, and what is shown with it.
pub fn of_scenario(baseline: &[PlayedTest], candidate: &[PlayedTest]) -> Vec<Metric> {
    let a = &baseline[0];
    let runs = || baseline.iter().chain(candidate);
    let has = |of: fn(&PlayedTest) -> bool| runs().all(of);
    let mut metrics = Vec::new();
    if a.conditions.scenario == "Offline" {
        // All samples are due at once: their latencies are where they stand in line.
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
    let fails = |test: &PlayedTest| test.observations.iter().any(|run| run.failed.contains(&true));
    if runs().any(fails) {
        metrics.push(Metric::Failures);
    }
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
    use super::*;

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
    }
}
