//! Names of what is compared, and which of it by default.

use dyno_loadgen::compare::{Metric, Series};

use super::source::PlayedTest;
use crate::render;

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
        Metric::Percentile(series, p) => format!("{}{}", of(series), render::percentile(p)),
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
        Metric::Percentile(series, p) => format!("{} {}", render::percentile(p), of(series)),
        Metric::Mean(series) => format!("mean {}", of(series)),
        Metric::Throughput => "throughput".into(),
        Metric::Failures => "share of failures".into(),
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
    match percent > 0.0 && percent < 100.0 {
        // 99.9 / 100 is not 0.999.
        true => Ok(Metric::Percentile(series, (percent * 1e7).round() / 1e9)),
        false => Err(expected()),
    }
}

/// The headline of a scenario, and what is shown with it.
pub fn of_scenario(a: &PlayedTest, b: &PlayedTest) -> Vec<Metric> {
    let has = |of: fn(&PlayedTest) -> bool| of(a) && of(b);
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
    if has(|test| !test.columns.first_token.is_empty()) {
        metrics.extend(OF_TOKENS.map(|p| Metric::Percentile(Series::FirstToken, p)));
    }
    if has(|test| !test.columns.time_per_output_token.is_empty()) {
        metrics.extend(OF_TOKENS.map(|p| Metric::Percentile(Series::TimePerOutputToken, p)));
    }
    let fails = |test: &PlayedTest| test.columns.failed.contains(&true);
    if fails(a) || fails(b) {
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
        for bad in ["", "p", "p0", "p100", "p-1", "99", "ttft-throughput", "ttft", "pnan"] {
            assert!(parse(bad).unwrap_err().starts_with("expected"), "{bad}");
        }
    }
}
