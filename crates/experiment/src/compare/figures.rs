//! Figures of whole runs: those of runs whose records are a selection, and comparisons of tools that
//! keep no records, where every change is inconclusive.

use dyno_loadgen::clock::MILLISECOND;
use dyno_loadgen::compare::{Comparison, Doubt, Finding, Interval, Metric, Row, Series, Verdict};
use dyno_loadgen::metrics::Definitions;
use dyno_results::foreign;
use dyno_results::records::{self, Records};
use dyno_results::{summary, units};

use super::compared_run::ComparedTest;
use super::metric;

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

/// Returns how records contradict the metrics of their run; `None` if they agree. Selected records have
/// the number of all queries, but not their percentiles.
pub fn contradiction(metrics: &summary::Metrics, records: &Records) -> Option<String> {
    let lost = metrics.failed.total().saturating_add(metrics.missing);
    let (rows, stated) = match records.row {
        records::Row::Query => ("queries", metrics.query_count),
        records::Row::Sample => ("samples", metrics.sample_count.saturating_add(lost)),
    };
    let of_count = |what: &str, found: u64, stated: u64| {
        (found != stated)
            .then(|| format!("it has {found} {what}, but summary.json states {stated}"))
    };
    if let Some(found) = of_count(rows, records.total, stated) {
        return Some(found);
    }
    if records.stride > 1 {
        return None;
    }
    let answered = (0..records.row_count()).filter(|&row| records.is_answered(row));
    let mut latencies: Vec<i64> = answered.clone().map(|row| records.latency_ns[row]).collect();
    let timed = metrics.timed();
    let has_row_per_time = metrics.query_latency_ns.is_some() || records.samples_per_query == 1;
    if !has_row_per_time && records.row == records::Row::Query {
        return None;
    }
    if let Some(found) = of_count("answers", latencies.len() as u64, timed.count) {
        return Some(found);
    }
    latencies.sort_unstable();
    let at = |share: f64| latencies.get(rank(latencies.len(), share)).copied().unwrap_or(0);
    for (name, found, stated) in [("p50", at(0.5), timed.p50), ("p99", at(0.99), timed.p99)] {
        if !latencies.is_empty() && found != stated {
            let [found, stated] = [found, stated].map(units::duration);
            return Some(format!("its {name} is {found}, but summary.json states {stated}"));
        }
    }
    let done = answered
        .map(|row| records.scheduled_ns[row].saturating_add(records.latency_ns[row]))
        .max()?;
    // Sessions last longer, by their think times. Clocks of several workers differ a little.
    let lasted = metrics.lasted_ns.cast_signed();
    (done / 100 * 99 > lasted.saturating_add(MILLISECOND.cast_signed())).then(|| {
        let [done, lasted] = [done, lasted].map(units::duration);
        format!("it ends after {done}, but summary.json states {lasted}")
    })
}

/// Returns the position of a percentile in a sorted list, without interpolation, as in summaries.
fn rank(count: usize, share: f64) -> usize {
    ((count as f64 * share) as usize).min(count.saturating_sub(1))
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
        has_more_failures: false,
    }
}

/// Returns the mean of a figure over several runs; `None` if a run does not have it.
fn mean(tests: &[ComparedTest], name: &str) -> Option<f64> {
    let values = tests.iter().map(|test| test.figures.get(name).copied());
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}
