//! Results of a sweep by combination: the medians of the repeats, and which combinations no other
//! one beats.

use std::collections::BTreeMap;

use super::{Point, PointResult, PointState, Sweep, is_bad};
use crate::summary::Verdict;

/// Results of one scenario of one combination over its repeats.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// Name of the points.
    pub name: String,
    /// Value of each axis.
    pub assignments: BTreeMap<String, String>,
    /// Scenario; empty if no point has results.
    pub scenario: String,
    /// Tenant, if it has a name.
    pub tenant: Option<String>,
    /// Worst verdict of the repeats.
    pub verdict: String,
    /// Whether the client or its machine limited a repeat, so that it does not describe the system.
    pub is_limited_by_client: bool,
    /// Whether the figures of all repeats describe the system, whether or not they meet bounds and
    /// requirements.
    pub is_undisturbed: bool,
    /// Operations of the model per sample.
    pub operations: Option<f64>,
    /// Median of the throughput, samples/s.
    pub throughput: Option<f64>,
    /// Lowest and highest throughput of the repeats, samples/s.
    pub throughput_range: Option<(f64, f64)>,
    /// Median of the medians, ns.
    pub p50_ns: Option<f64>,
    /// Median of the 99th percentiles, ns.
    pub p99_ns: Option<f64>,
    /// Median of the output tokens per second.
    pub output_tokens_per_s: Option<f64>,
    /// Median of the median times to first token, ns.
    pub first_token_p50_ns: Option<f64>,
    /// Median of the 99th percentiles of the time to first token, ns.
    pub first_token_p99_ns: Option<f64>,
    /// Median of the median times per output token, ns.
    pub time_per_output_token_p50_ns: Option<f64>,
    /// Median of the 99th percentiles of the time per output token, ns.
    pub time_per_output_token_p99_ns: Option<f64>,
    /// Median of the accuracy, in [0, 1].
    pub accuracy: Option<f64>,
    /// Whether no other valid row of its scenario is better in one of throughput, p99 and accuracy,
    /// and as good in the others.
    pub is_best: bool,
}

impl Row {
    /// Returns whether the verdict is VALID.
    pub fn is_valid(&self) -> bool {
        self.verdict == Verdict::Valid.name()
    }

    /// Returns whether the figures are a point of a load curve: whether the verdict is VALID, or only
    /// bounds and requirements are missed or undecided.
    pub fn is_of_curve(&self) -> bool {
        self.is_valid() || self.is_undisturbed
    }
}

/// Returns the rows of a sweep, in the order of its points. Points without results have a row
/// without figures.
pub fn rows(sweep: &Sweep) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for first in sweep.points.iter().filter(|point| point.repeat == 1) {
        let is_repeat = |point: &&Point| point.assignments == first.assignments;
        let repeats: Vec<&Point> = sweep.points.iter().filter(is_repeat).collect();
        let mut parts: Vec<(String, Option<String>)> = Vec::new();
        for result in repeats.iter().flat_map(|point| &point.results) {
            let part = (result.scenario.clone(), result.tenant.clone());
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        if parts.is_empty() {
            parts.push((String::new(), None));
        }
        rows.extend(parts.into_iter().map(|part| row(&repeats, part)));
    }
    let best: Vec<bool> = rows.iter().map(|row| is_best(row, &rows)).collect();
    for (row, is_best) in rows.iter_mut().zip(best) {
        row.is_best = is_best;
    }
    rows
}

fn row(repeats: &[&Point], (scenario, tenant): (String, Option<String>)) -> Row {
    let is_part = |r: &&PointResult| r.scenario == scenario && r.tenant == tenant;
    let of = |point: &&Point| point.results.iter().find(|r| is_part(r)).cloned();
    let results: Vec<PointResult> = repeats.iter().filter_map(of).collect();
    let over = |value: &dyn Fn(&PointResult) -> Option<f64>| {
        let mut values: Vec<f64> = results.iter().filter_map(value).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let time = |value: fn(&PointResult) -> Option<i64>| {
        median(&over(&|result| value(result).map(|ns| ns as f64)))
    };
    let throughput = over(&|r| r.throughput);
    let state = |wanted| repeats.iter().any(|point| point.state == wanted);
    let verdicts = || results.iter().map(|r| r.verdict.as_str());
    let is_undecided = verdicts().any(|verdict| verdict == Verdict::Undecided.name());
    let verdict = match verdicts().find(|verdict| is_bad(verdict)) {
        _ if state(PointState::Failed) => "FAILED",
        Some(bad) => bad,
        None if state(PointState::Skipped) => "SKIPPED",
        None if results.is_empty() || state(PointState::Pending) => "PENDING",
        None if is_undecided => Verdict::Undecided.name(),
        None => Verdict::Valid.name(),
    };
    Row {
        name: repeats[0].name.clone(),
        assignments: repeats[0].assignments.clone(),
        is_limited_by_client: results.iter().any(|result| result.is_limited_by_client),
        is_undisturbed: !results.is_empty()
            && !state(PointState::Failed)
            && results.iter().all(|result| result.is_undisturbed),
        verdict: verdict.to_string(),
        operations: repeats[0].operations,
        throughput_range: throughput.first().copied().zip(throughput.last().copied()),
        throughput: median(&throughput),
        p50_ns: time(|r| r.p50_ns),
        p99_ns: time(|r| r.p99_ns),
        output_tokens_per_s: median(&over(&|r| r.output_tokens_per_s)),
        first_token_p50_ns: time(|r| r.first_token_p50_ns),
        first_token_p99_ns: time(|r| r.first_token_p99_ns),
        time_per_output_token_p50_ns: time(|r| r.time_per_output_token_p50_ns),
        time_per_output_token_p99_ns: time(|r| r.time_per_output_token_p99_ns),
        accuracy: median(&over(&|r| r.accuracy)),
        is_best: false,
        scenario,
        tenant,
    }
}

fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

fn is_best(row: &Row, rows: &[Row]) -> bool {
    let figures = |row: &Row| Some([row.throughput?, -row.p99_ns?, row.accuracy.unwrap_or(0.0)]);
    let Some(own) = figures(row).filter(|_| row.is_valid()) else { return false };
    rows.iter()
        .filter(|other| other.is_valid())
        .filter(|other| other.scenario == row.scenario && other.tenant == row.tenant)
        .filter_map(figures)
        .all(|other| {
            let is_as_good = other.iter().zip(&own).all(|(theirs, ours)| theirs >= ours);
            !is_as_good || other == own
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(throughput: f64, p99_ns: f64, accuracy: Option<f64>, verdict: &str) -> Row {
        Row {
            scenario: "Server".into(),
            verdict: verdict.into(),
            throughput: Some(throughput),
            p99_ns: Some(p99_ns),
            accuracy,
            ..Row::default()
        }
    }

    #[test]
    fn the_best_are_beaten_by_no_valid_one() {
        let rows = [
            row(100.0, 10.0, None, "VALID"),
            row(200.0, 20.0, None, "VALID"),
            row(150.0, 20.0, None, "VALID"),
            row(300.0, 5.0, None, "INVALID"),
            row(200.0, 20.0, None, "VALID"),
            row(150.0, 30.0, Some(0.9), "VALID"),
        ];
        let best: Vec<bool> = rows.iter().map(|row| is_best(row, &rows)).collect();
        assert_eq!(best, [true, true, false, false, true, true]);
    }

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
    }
}
