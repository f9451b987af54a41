//! Checks the summary of a run against its detail log.

use std::path::Path;

use serde_json::Value;

use dyno_loadgen::log::read::{ComparedValue, disagreements_with, read_summary};

use crate::check::catalogue::{RUN_SUMMARY, RUN_SUMMARY_EMPTY};
use crate::check::issues::{Issues, Location};
use crate::facts::detail::DetailLog;
use crate::facts::text;
use crate::finding::counted;
use crate::tree::Node;

use super::logs::Purpose;

/// Maximum number of listed disagreements of a summary.
const MOST_LISTED: usize = 4;

/// Checks that every field in both logs is equal.
pub(super) fn check(file: Node<'_>, log: &DetailLog, purpose: Purpose, issues: &mut Issues) {
    let path = file.path();
    let at = Location::path(&path);
    let text = match text::read(Some(file)) {
        Ok(text) => text,
        Err(why) => return issues.add(&RUN_SUMMARY_EMPTY, at, format!("cannot be read: {why:?}")),
    };
    let (summary, _) = read_summary(&text.text);
    // The summary of an accuracy run contains only the numbers of warnings and errors.
    if purpose == Purpose::Performance && summary.value("Result is").is_none() {
        return issues.add(&RUN_SUMMARY_EMPTY, at, "is not the summary of a run");
    }
    let known = |key: &str| log.find(key).map(|entry| said(&entry.value));
    let found = disagreements_with(&summary, known);
    for one in found.iter().take(MOST_LISTED) {
        let message = format!(
            "`{}` is {}, but {} in the detail log is {}",
            one.label, one.summary, one.key, one.detail
        );
        issues.add_expected(&RUN_SUMMARY, at.line(Some(one.line)), message, one.detail.clone());
    }
    if found.len() > MOST_LISTED {
        let more = counted((found.len() - MOST_LISTED) as u64, "more field", "more fields");
        let message = format!("differs from the detail log in {more}");
        issues.add(&RUN_SUMMARY, at, message);
    }
    if purpose == Purpose::Performance {
        check_result(at, &summary.fields, log, issues);
        let texts =
            summary.early_stopping.iter().map(|(head, text)| (head.as_str(), text.as_str()));
        check_estimates(&path, texts, log, "the summary", issues);
        let own = ["early_stopping_result", "early_stopping_ttft_result"];
        let texts = own.into_iter().filter_map(|key| Some((key, log.text(key)?)));
        check_estimates(&path, texts, log, "early_stopping_result", issues);
    }
    let counts = summary.errors.zip(log.whole("num_errors"));
    if let Some((in_summary, in_log)) = counts.filter(|(summary, log)| summary != log) {
        let errors = counted(in_summary, "error", "errors");
        let message = format!("counts {errors}, but the detail log {in_log}");
        issues.add(&RUN_SUMMARY, at, message);
    }
}

/// Lines whose result is a percentile, and the keys of the detail log with its value. The first key
/// that the log has counts. The rank is written as `90.0th`, unlike in the keys.
const RESULTS: [(&str, &[[&str; 2]]); 2] = [
    (
        "th percentile latency (ns)",
        &[["result_", "_percentile_per_query_latency_ns"], ["result_", "_percentile_latency_ns"]],
    ),
    (
        "th first token percentile latency (ns)",
        &[["result_first_token_", "_percentile_latency_ns"]],
    ),
];
/// Early versions round the rank of a result to a whole number.
const RANK_TOLERANCE: f64 = 0.51;

/// Checks that the results of SingleStream and MultiStream are the target percentiles of the detail
/// log.
fn check_result(
    at: Location<'_>,
    fields: &[(usize, &str, &str)],
    log: &DetailLog,
    issues: &mut Issues,
) {
    let Some(target) = log.number("effective_target_latency_percentile") else { return };
    let target = 100.0 * target;
    for (line, label, value) in fields {
        let found = RESULTS.iter().find_map(|(end, keys)| {
            let rank: f64 = label.strip_suffix(*end)?.parse().ok()?;
            Some((rank, *keys))
        });
        let Some((rank, keys)) = found else { continue };
        let at = at.line(Some(*line));
        if (rank - target).abs() > RANK_TOLERANCE {
            let message = format!("`{label}` is the result, but the target percentile is another");
            issues.add_expected(&RUN_SUMMARY, at, message, format!("{target:.1}th percentile"));
        }
        let mut keys = keys.iter().map(|[start, end]| format!("{start}{target:.2}{end}"));
        let logged = keys.find_map(|key| Some((log.number(&key)?, key)));
        let Some((logged, key)) = logged else { continue };
        if value.parse().is_ok_and(|value: f64| (value - logged).abs() < 0.5) {
            continue;
        }
        let message = format!("`{label}` is {value}, but {key} in the detail log is {logged}");
        issues.add_expected(&RUN_SUMMARY, at, message, logged.to_string());
    }
}

/// Checks that the estimates of early stopping, which are the results of SingleStream and
/// MultiStream, are the same in the summary, in the texts and in the keys of the detail log.
fn check_estimates<'a>(
    path: &Path,
    texts: impl Iterator<Item = (&'a str, &'a str)>,
    log: &DetailLog,
    whose: &str,
    issues: &mut Issues,
) {
    // If tokens are measured, the estimate refers to the first token.
    let texts = texts.filter(|(head, _)| !head.contains("TPOT") && !head.contains("tpot"));
    let estimates: Vec<(f64, f64)> = texts.flat_map(|(_, text)| estimates_in(text)).collect();
    let target = log.number("effective_target_latency_percentile").unwrap_or(0.9);
    let known =
        [(100.0 * target, "early_stopping_latency_ss"), (99.0, "early_stopping_latency_ms")];
    for (percentile, key) in known {
        let Some(logged) = log.number(key).filter(|logged| *logged > 0.0) else { continue };
        let same = estimates.iter().find(|(other, _)| (other - percentile).abs() < 1e-6);
        let message = match same {
            Some((_, estimate)) if (estimate - logged).abs() < 0.5 => continue,
            Some((_, estimate)) => format!("{key} is {logged}, but {whose} has {estimate}"),
            None => format!("{key} is {logged}, but {whose} has no estimate"),
        };
        issues.add(&RUN_SUMMARY, Location::path(path), message);
    }
}

/// Returns percentiles and their estimates in a text such as `Early stopping 90.0th percentile
/// estimate: 513395`.
fn estimates_in(text: &str) -> impl Iterator<Item = (f64, f64)> {
    let parts = text.split("Early stopping ").skip(1);
    parts.filter_map(|part| {
        let (percentile, rest) = part.split_once("th percentile estimate: ")?;
        let value = rest.split(|c: char| !(c.is_ascii_digit() || c == '.')).next()?;
        Some((percentile.parse().ok()?, value.parse().ok()?))
    })
}

/// Converts a value for comparison with a summary.
fn said(value: &Value) -> ComparedValue<'_> {
    match value {
        Value::Null => ComparedValue::Null,
        Value::Bool(flag) => ComparedValue::Flag(*flag),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(whole), _) => ComparedValue::Whole(whole),
            (None, number) => ComparedValue::Number(number.unwrap_or(f64::NAN)),
        },
        Value::String(text) => ComparedValue::Text(text),
        Value::Array(_) | Value::Object(_) => ComparedValue::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Program;
    use crate::check::strict::tests::log;

    #[test]
    fn the_estimate_of_a_benchmark_is_that_of_its_own_percentile() {
        let log = log(&[
            ("effective_target_latency_percentile", "0.999"),
            ("early_stopping_latency_ss", "7"),
            ("early_stopping_latency_ms", "5"),
        ]);
        let found = |text: &str| {
            let mut issues = Issues::new(Program::Strict);
            check_estimates(Path::new("log"), [("", text)].into_iter(), &log, "it", &mut issues);
            issues.into_findings().len()
        };
        let of = "th percentile estimate: ";
        assert_eq!(found(&format!("Early stopping 99.9{of}7 * Early stopping 99.0{of}5")), 0);
        assert_eq!(found(&format!("Early stopping 90.0{of}7 * Early stopping 99.0{of}5")), 1);
    }

    #[test]
    fn the_result_is_the_target_percentile_of_the_log() {
        let log = log(&[
            ("effective_target_latency_percentile", "0.9"),
            ("result_90.00_percentile_latency_ns", "1040055"),
            ("result_50.00_percentile_latency_ns", "7"),
        ]);
        let found = |label: &str, value: &str| {
            let mut issues = Issues::new(Program::Strict);
            let at = Location::path(Path::new("summary"));
            check_result(at, &[(7, label, value)], &log, &mut issues);
            issues.into_findings().len()
        };
        assert_eq!(found("90.0th percentile latency (ns)", "1040055"), 0);
        assert_eq!(found("90th percentile latency (ns)", "1040055"), 0);
        assert_eq!(found("90.0th percentile latency (ns)", "1"), 1);
        assert_eq!(found("90.0th percentile latency (ns)", "fast"), 1);
        // Another percentile is not the result.
        assert_eq!(found("50.0th percentile latency (ns)", "7"), 2);
        assert_eq!(found("Samples per query", "1"), 0);
    }
}
