//! Compares a summary with a detail log.

use std::borrow::Cow;
use std::fmt;

use super::detail::{Detail, Value};
use super::summary::Summary;

/// Line of the summary that the detail log contradicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    /// Line of the summary, from 1.
    pub line: usize,
    /// Label of the line.
    pub label: String,
    /// Value of the line.
    pub summary: String,
    /// Key of the detail log.
    pub key: String,
    /// Value of that key.
    pub detail: String,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, label, summary, key, detail } = self;
        write!(f, "line {line}: `{label}` is {summary}, but the detail log has {key} = {detail}")
    }
}

/// Labels of the summary and the keys that must agree. The first key that the detail log has
/// counts.
const PAIRS: &[(&str, &[&str])] = &[
    ("SUT name", &["sut_name"]),
    ("Scenario", &["effective_scenario"]),
    ("Mode", &["effective_test_mode"]),
    ("Completed samples per second", &["result_completed_samples_per_sec"]),
    ("Samples per query", &["dyno_result_samples_per_query", "effective_samples_per_query"]),
    ("Samples per second", &["result_samples_per_second"]),
    ("Completed tokens per second", &["result_completed_tokens_per_second"]),
    ("Tokens per second", &["result_tokens_per_second"]),
    ("Completed tokens per second (inferred)", &["result_inferred_completed_tokens_per_second"]),
    ("Tokens per second (inferred)", &["result_inferred_tokens_per_second"]),
    ("Result is", &["result_validity"]),
    ("Performance constraints satisfied", &["result_perf_constraints_met"]),
    ("Min duration satisfied", &["result_min_duration_met"]),
    ("Min queries satisfied", &["result_min_queries_met"]),
    ("Early stopping satisfied", &["early_stopping_met"]),
    ("QPS w/ loadgen overhead", &["result_qps_with_loadgen_overhead"]),
    ("QPS w/o loadgen overhead", &["result_qps_without_loadgen_overhead"]),
    ("TPS w/ loadgen overhead", &["result_token_throughput_with_loadgen_overhead"]),
    ("Scheduled samples per second", &["result_scheduled_samples_per_sec"]),
    ("Min latency (ns)", &["result_min_query_latency_ns", "result_min_latency_ns"]),
    ("Max latency (ns)", &["result_max_query_latency_ns", "result_max_latency_ns"]),
    ("Mean latency (ns)", &["result_mean_query_latency_ns", "result_mean_latency_ns"]),
    ("Min First Token latency (ns)", &["result_first_token_min_latency_ns"]),
    ("Max First Token latency (ns)", &["result_first_token_max_latency_ns"]),
    ("Mean First Token latency (ns)", &["result_first_token_mean_latency_ns"]),
    ("Min Time per Output Token (ns)", &["result_time_to_output_token_min"]),
    ("Max Time per Output Token (ns)", &["result_time_to_output_token_max"]),
    ("Mean Time per Output Token (ns)", &["result_time_to_output_token_mean"]),
    ("target_latency (ns)", &["effective_target_latency_ns"]),
    ("ttft_latency (ns)", &["requested_server_ttft_latency"]),
    ("tpot_latency (ns)", &["requested_server_tpot_latency"]),
    ("min_duration (ms)", &["effective_min_duration_ms"]),
    ("max_duration (ms)", &["effective_max_duration_ms"]),
];

/// Value of the detail log in the form that a summary is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ComparedValue<'a> {
    /// Null, which Dyno writes for `nan` and `inf` of the reference.
    Null,
    /// `true` or `false`.
    Flag(bool),
    /// A whole number that is not negative.
    Whole(u64),
    /// Any other number.
    Number(f64),
    /// A string.
    Text(&'a str),
    /// A list or a map, which a summary never has.
    Other,
}

impl<'a> From<&'a Value> for ComparedValue<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Flag(*flag),
            Value::Number(number) => {
                number.as_u64().map_or_else(|| Self::Number(number.as_f64()), Self::Whole)
            }
            Value::Text(text) => Self::Text(text),
            Value::List(_) | Value::Map(_) => Self::Other,
        }
    }
}

impl fmt::Display for ComparedValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Flag(flag) => flag.fmt(f),
            Self::Whole(number) => number.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Other => f.write_str("a list or a map"),
        }
    }
}

/// Returns every line of the summary whose value differs from the detail log, within the precision
/// of both.
#[must_use]
pub fn disagreements(summary: &Summary<'_>, detail: &Detail) -> Vec<Disagreement> {
    disagreements_with(summary, |key| detail.value(key).map(ComparedValue::from))
}

/// Returns every line of the summary whose value differs from `detail`, which returns the value of
/// a key.
#[must_use]
pub fn disagreements_with<'a>(
    summary: &Summary<'_>,
    detail: impl Fn(&str) -> Option<ComparedValue<'a>>,
) -> Vec<Disagreement> {
    let mut found = Vec::new();
    let changes_load = changes_load(&detail);
    let mut latencies = LatencyKind::Queries;
    for (line, label, value) in &summary.fields {
        if *label == "Per-sample latency" {
            latencies = LatencyKind::Samples;
        }
        if changes_load && LOADS.contains(label) {
            continue; // The summary has the found load, the detail log the first one.
        }
        let Some((key, known)) = counterpart(label, latencies, &detail) else { continue };
        if !agrees(value, known) {
            found.push(Disagreement {
                line: *line,
                label: (*label).to_owned(),
                summary: (*value).to_owned(),
                key: key.into_owned(),
                detail: known.to_string(),
            });
        }
    }
    found
}

/// Kind of latencies in the current part of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LatencyKind {
    Queries,
    /// Latencies of samples, after those of queries, at a fixed interval.
    Samples,
}

/// Labels that a search or a confirmation changes.
const LOADS: [&str; 2] = ["target_qps", "samples_per_query"];

/// Returns whether the result may have another load than the requested one.
fn changes_load<'a>(detail: &impl Fn(&str) -> Option<ComparedValue<'a>>) -> bool {
    let is = |key: &str, fits: fn(&str) -> bool| {
        detail(key).is_some_and(|value| matches!(value, ComparedValue::Text(text) if fits(text)))
    };
    is("effective_test_mode", |mode| mode == "FindPeakPerformance")
        || is("dyno_repetition", |rule| rule.starts_with("confirm"))
}

/// Returns the key that corresponds to a label, with its value.
fn counterpart<'a>(
    label: &str,
    latencies: LatencyKind,
    detail: &impl Fn(&str) -> Option<ComparedValue<'a>>,
) -> Option<(Cow<'static, str>, ComparedValue<'a>)> {
    let find = |key: Cow<'static, str>| {
        let is_other = latencies == LatencyKind::Samples && key.contains("query_latency");
        let value = if is_other { None } else { detail(&key) };
        value.map(|value| (key, value))
    };
    if let Some((_, keys)) = PAIRS.iter().find(|(known, _)| *known == label) {
        return keys.iter().find_map(|key| find(Cow::Borrowed(key)));
    }
    let made = |key: String| find(Cow::Owned(key));
    if label.ends_with(" percentile") {
        return made(format!("result_{label}_num_intervals_between_queries").replace(' ', "_"));
    }
    match label.split_once(" percentile ") {
        Some((p, "latency (ns)")) => made(format!("result_{p}_percentile_per_query_latency_ns"))
            .or_else(|| made(format!("result_{p}_percentile_latency_ns"))),
        Some((p, "first token latency (ns)")) => {
            made(format!("result_first_token_{p}_percentile_latency_ns"))
        }
        Some((p, "time to output token (ns)")) => {
            made(format!("result_time_per_output_token_{p}_percentile_ns"))
        }
        _ => made(format!("effective_{label}")),
    }
}

fn agrees(summary: &str, detail: ComparedValue<'_>) -> bool {
    let near = |detail| summary.parse().is_ok_and(|summary: f64| close(summary, detail));
    match detail {
        ComparedValue::Flag(true) => matches!(summary, "Yes" | "1"),
        ComparedValue::Flag(false) => matches!(summary, "NO" | "0"),
        ComparedValue::Text(text) => text.trim() == summary,
        ComparedValue::Whole(number) => match summary.parse::<u64>() {
            Ok(summary) => summary == number,
            Err(_) => near(number as f64),
        },
        ComparedValue::Number(number) => near(number),
        ComparedValue::Null => summary.parse().is_ok_and(|value: f64| !value.is_finite()),
        ComparedValue::Other => false,
    }
}

/// Returns whether two values are equal to two decimals on one side and six digits on the other.
fn close(summary: f64, detail: f64) -> bool {
    summary.total_cmp(&detail).is_eq()
        || (summary - detail).abs() <= 0.005_001 + 5.001e-6 * detail.abs()
}
