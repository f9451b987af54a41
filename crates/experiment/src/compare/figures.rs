//! Figures of whole runs: those of runs whose records are a selection, and comparisons of tools that
//! keep no records, where every change is inconclusive.

use dyno_loadgen::compare::{Comparison, Doubt, Finding, Interval, Metric, Row, Series, Verdict};
use dyno_loadgen::metrics::Definitions;
use dyno_results::foreign;
use dyno_results::records::{self, Records};
use dyno_results::summary;

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

/// Returns the figures of all queries of a run whose records are a selection of them; none if the
/// records have every query.
pub fn of_all_queries(
    run: &summary::Run,
    test: &summary::Test,
    records: &Records,
) -> Vec<(Metric, f64)> {
    if records.stride <= 1 {
        return Vec::new();
    }
    let is_native = run.definitions == Definitions::Native.name();
    let has_row_per_sample = records.row == records::Row::Sample || records.samples_per_query == 1;
    let is_of_rows = |metric: Metric| match metric {
        // Rates of summaries have other definitions.
        Metric::Throughput => false,
        Metric::Failures => has_row_per_sample,
        Metric::Percentile(Series::TimePerOutputToken, _)
        | Metric::Mean(Series::TimePerOutputToken) => is_native,
        Metric::Percentile(..) | Metric::Mean(_) => true,
    };
    let figures = foreign::of_summary(test).into_iter();
    let mut found: Vec<(Metric, f64)> =
        figures.filter_map(|(name, value)| Some((metric::parse(&name).ok()?, value))).collect();
    if let Some(metrics) = &test.metrics {
        let series = [
            (Series::Latency, Some(metrics.timed())),
            (Series::FirstToken, metrics.first_token_ns.as_ref()),
            (Series::TimePerOutputToken, metrics.time_per_output_token_ns.as_ref()),
        ];
        let target = |(series, times): (Series, Option<&summary::metrics::Distribution>)| {
            let times = times.filter(|times| times.count > 0)?;
            Some((Metric::Percentile(series, test.plan.percentile), times.target as f64))
        };
        found.extend(series.into_iter().filter_map(target));
    }
    found.retain(|(metric, _)| is_of_rows(*metric));
    found
}

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
