//! A comparison for programs: `dyno.compare`, version 1, as `docs/compare.md`
//! describes it.

use dyno_loadgen::compare::{Comparison, Finding, Metric, Omitted, Pairing, Row};
use serde_json::{Value, json};

use super::{Report, TestReport, metric, verdict_name};

/// Raised when a key changes its meaning or goes away.
const SCHEMA_VERSION: u32 = 1;

/// All of it.
pub fn of(report: &Report) -> Value {
    json!({
        "schema": "dyno.compare",
        "schema_version": SCHEMA_VERSION,
        "verdict": verdict_name(report.verdict()),
        "baseline": report.baseline,
        "candidate": report.candidate,
        "systems": report.systems,
        "confidence": 1.0 - report.question.risk,
        "threshold": report.question.threshold,
        "remarks": report.remarks,
        "tests": report.tests.iter().map(of_test).collect::<Vec<_>>(),
    })
}

fn of_test(test: &TestReport) -> Value {
    let Comparison { rows, omitted, verdict } = &test.comparison;
    json!({
        "scenario": test.scenario,
        "tenant": test.tenant,
        "verdict": verdict_name(*verdict),
        "headline": metric::name(test.headline),
        "paired": test.pairing == Pairing::InOrder,
        "runs": test.runs,
        "has_records": test.has_records,
        "metrics": rows.iter().map(of_row).collect::<Vec<_>>(),
        "omitted": omitted.iter().map(of_omitted).collect::<Vec<_>>(),
        "notes": test.notes,
    })
}

fn of_row(row: &Row) -> Value {
    let drift = row.drift.map(|drift| {
        json!({
            "per_run": finite(drift.per_run),
            "chance": finite(drift.chance),
            "explains": finite(drift.explains),
            "seen": drift.is_seen(),
        })
    });
    json!({
        "metric": metric::name(row.metric),
        "unit": unit(row.metric),
        "baseline": finite(row.baseline),
        "candidate": finite(row.candidate),
        "change": finite(row.change.value),
        "low": finite(row.change.low),
        "high": finite(row.change.high),
        "confidence": row.confidence,
        "detectable": finite(row.detectable),
        "drift": drift,
        "finding": finding(row.finding),
    })
}

fn of_omitted(omitted: &Omitted) -> Value {
    json!({
        "metric": metric::name(omitted.metric),
        "values": omitted.reason.values,
        "needed": omitted.reason.needed,
    })
}

fn unit(metric: Metric) -> &'static str {
    match metric {
        Metric::Percentile(..) | Metric::Mean(_) => "ns",
        Metric::Throughput => "1/s",
        Metric::Failures => "share",
    }
}

fn finding(finding: Finding) -> &'static str {
    match finding {
        Finding::Better => "better",
        Finding::Worse => "worse",
        Finding::NoDifference => "no_difference",
        Finding::WithinThreshold => "within_threshold",
        Finding::AroundThreshold => "around_threshold",
        Finding::TooFew => "too_few",
        Finding::Drift => "drift",
    }
}

/// JSON has no infinity.
fn finite(value: f64) -> Value {
    if value.is_finite() { value.into() } else { Value::Null }
}
