//! Compares figures of tools that keep no records: every change is inconclusive.

use dyno_loadgen::compare::{Comparison, Doubt, Finding, Interval, Metric, Row, Verdict};

use super::metric;
use super::source::ComparedTest;

/// Order of the metrics.
const ORDER: [&str; 20] = [
    "p50",
    "p90",
    "p95",
    "p99",
    "p99.9",
    "mean",
    "throughput",
    "ttft-p50",
    "ttft-p90",
    "ttft-p95",
    "ttft-p99",
    "ttft-p99.9",
    "ttft-mean",
    "tpot-p50",
    "tpot-p90",
    "tpot-p95",
    "tpot-p99",
    "tpot-p99.9",
    "tpot-mean",
    "failures",
];

/// Compares the figures that every run has: the requested metrics, or all.
pub fn compare(
    baseline: &[ComparedTest],
    candidate: &[ComparedTest],
    asked: &[Metric],
) -> Comparison {
    let metrics = match asked {
        [] => ORDER.iter().filter_map(|name| metric::parse(name).ok()).collect(),
        asked => asked.to_vec(),
    };
    let row = |&metric: &Metric| {
        let name = metric::name(metric);
        let [baseline, candidate] = [mean(baseline, &name)?, mean(candidate, &name)?];
        let change = match metric {
            Metric::Failures => candidate - baseline,
            // A change relative to 0 is undefined.
            _ if baseline == 0.0 => return None,
            _ => candidate / baseline - 1.0,
        };
        Some(Row {
            metric,
            baseline,
            candidate,
            change: Interval {
                value: change,
                low: f64::NEG_INFINITY,
                high: f64::INFINITY,
                freedom: 0.0,
            },
            confidence: 0.0,
            detectable: f64::INFINITY,
            drift: None,
            finding: Finding::Inconclusive(Doubt::TooFew),
        })
    };
    Comparison {
        rows: metrics.iter().filter_map(row).collect(),
        omitted: Vec::new(),
        verdict: Verdict::Inconclusive,
    }
}

/// Returns the mean of a figure over several runs; `None` if a run does not have it.
fn mean(tests: &[ComparedTest], name: &str) -> Option<f64> {
    let values = tests.iter().map(|test| test.figures.get(name).copied());
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}
