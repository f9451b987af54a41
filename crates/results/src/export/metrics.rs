//! The metrics of a run as CSV, one line a metric.

use std::fmt::Write as _;

use super::quoted;
use crate::summary::distributions::{MetricDistribution, Percentile};
use crate::summary::metrics::{Distribution, Metrics};
use crate::summary::{Client, Run, Test};
use crate::units::percentile;

/// Returns the table. Cells without a value are empty; lines end with CR LF, as in RFC 4180.
pub fn csv(run: &Run) -> String {
    let tests = run.tests.iter().filter_map(|test| Some((&test.folder, test.metrics.as_ref()?)));
    let mut tests: Vec<(&String, Vec<MetricDistribution>)> =
        tests.map(|(folder, metrics)| (folder, distributions(metrics))).collect();
    for (folder, found) in run.clients.iter().filter_map(|client| retries(run, client)) {
        if let Some((_, all)) = tests.iter_mut().find(|(of, _)| **of == *folder) {
            all.push(found);
        }
    }
    let mut percents: Vec<f64> = tests
        .iter()
        .flat_map(|(_, all)| all)
        .flat_map(|of| of.percentiles.iter().map(|found| found.percent))
        .collect();
    percents.sort_by(f64::total_cmp);
    percents.dedup();
    let mut text = String::from("test,metric,unit,count,mean,std,min,max");
    percents.iter().for_each(|percent| text += &format!(",{}", percentile(percent / 100.0)));
    text += "\r\n";
    for (folder, all) in &tests {
        for of in all {
            let _ = write!(text, "{},{},{},{}", quoted(folder), of.metric, of.unit, of.count);
            let at = |percent: &f64| {
                let found = of.percentiles.iter().find(|found| found.percent == *percent);
                found.map(|found| found.value)
            };
            let cells = [Some(of.mean), of.std, of.min, of.max].into_iter();
            for value in cells.chain(percents.iter().map(at)) {
                text += ",";
                text += &value.map(|value| value.to_string()).unwrap_or_default();
            }
            text += "\r\n";
        }
    }
    text
}

/// Returns the waits of a test for its retries, with its folder; `None` without a retry, and for several
/// tenants, which the client does not distinguish.
fn retries<'r>(run: &'r Run, client: &Client) -> Option<(&'r String, MetricDistribution)> {
    let is_its = |test: &&Test| test.scenario == client.scenario && test.mode == client.mode;
    let mut tests = run.tests.iter().filter(is_its);
    let (test, None) = (tests.next()?, tests.next()) else { return None };
    let count: u64 = client.retries.values().sum();
    let found = MetricDistribution {
        metric: "retry_wait".into(),
        unit: "ns".into(),
        count,
        mean: client.retry_wait_ns as f64 / count as f64,
        std: None,
        min: None,
        max: None,
        percentiles: Vec::new(),
    };
    (count > 0).then_some((&test.folder, found))
}

/// Returns the distributions of a test; of systems that are no server of texts those of its times.
fn distributions(metrics: &Metrics) -> Vec<MetricDistribution> {
    if !metrics.distributions.is_empty() {
        return metrics.distributions.clone();
    }
    let times = [
        ("ttft", metrics.first_token_ns),
        ("tpot", metrics.time_per_output_token_ns),
        ("e2el", metrics.answered().copied()),
    ];
    let of = |(metric, times): (&str, Option<Distribution>)| {
        let times = times.filter(|times| times.count > 0)?;
        let percentiles = [(50.0, times.p50), (90.0, times.p90), (99.0, times.p99)];
        Some(MetricDistribution {
            metric: metric.into(),
            unit: "ns".into(),
            count: times.count,
            mean: times.mean as f64,
            std: None,
            min: Some(times.min as f64),
            max: Some(times.max as f64),
            percentiles: percentiles
                .map(|(percent, value)| Percentile { percent, value: value as f64 })
                .into(),
        })
    };
    times.into_iter().filter_map(of).collect()
}
