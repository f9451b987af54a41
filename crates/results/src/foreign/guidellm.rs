//! `benchmarks.json` of guidellm: one entry per benchmark, with figures and requests by status.
//! Times are seconds, or ms where the key ends in `_ms`.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::requests::{PendingRequest, Request, cut_off_remarks, overdue, records};
use super::{Figures, ForeignError, ForeignResult, MILLISECOND, SECOND, Test, Tool, ns};
use crate::summary::{Data, Plan};
use crate::units::counted;

/// File name.
pub const FILE: &str = "benchmarks.json";

#[derive(Debug, Deserialize)]
struct Benchmark {
    #[serde(default)]
    config: Value,
    metrics: Value,
    #[serde(default)]
    requests: Requests,
}

/// Requests by status. Incomplete ones were cut off at the end of the benchmark.
#[derive(Debug, Default, Deserialize)]
struct Requests {
    #[serde(default)]
    successful: Vec<LoggedRequest>,
    #[serde(default)]
    errored: Vec<LoggedRequest>,
    #[serde(default)]
    incomplete: Vec<LoggedRequest>,
}

#[derive(Debug, Deserialize)]
struct LoggedRequest {
    request_start_time: Option<f64>,
    request_end_time: Option<f64>,
    request_latency: Option<f64>,
    time_to_first_token_ms: Option<f64>,
    output_tokens: Option<i64>,
    #[serde(default)]
    info: Value,
}

/// Returns whether a value is the content of [`FILE`].
pub fn is(value: &Value) -> bool {
    value["benchmarks"].is_array() && value.get("metadata").is_some()
}

/// Reads all benchmarks.
pub fn read(path: &Path, value: &Value) -> Result<ForeignResult, ForeignError> {
    let malformed = |at: usize, reason: String| ForeignError::Malformed {
        path: path.into(),
        tool: Tool::Guidellm,
        reason: format!("benchmarks[{at}]: {reason}"),
    };
    let mut tests = Vec::new();
    for (at, benchmark) in value["benchmarks"].as_array().into_iter().flatten().enumerate() {
        let read = Benchmark::deserialize(benchmark);
        let read = read.map_err(|error| malformed(at, error.to_string()))?;
        tests.push(test(&read, value).map_err(|reason| malformed(at, reason))?);
    }
    if tests.is_empty() {
        return Err(malformed(0, "it is missing".into()));
    }
    let version = value["metadata"]["guidellm_version"].as_str().unwrap_or_default().into();
    Ok(ForeignResult { tool: Tool::Guidellm, version, tests })
}

fn test(benchmark: &Benchmark, report: &Value) -> Result<Test, String> {
    let strategy = &benchmark.config["strategy"];
    let kind = strategy["type_"].as_str().unwrap_or("benchmark");
    let number = |key: &str| strategy[key].as_f64();
    let rate = number("rate");
    let streams = number("streams").or(number("max_concurrency"));
    let title = match (rate, streams) {
        (Some(rate), _) => format!("{kind} {rate} requests/s"),
        (None, Some(streams)) => format!("{kind} {streams}"),
        (None, None) => kind.into(),
    };
    // Only these strategies schedule requests.
    let is_scheduled = matches!(kind, "constant" | "poisson" | "trace" | "replay" | "async");
    let scenario = match kind {
        "synchronous" => "SingleStream",
        "throughput" => "Offline",
        _ => "Server",
    };
    let is_due = |row: &LoggedRequest| is_scheduled && scheduled_time(row).is_some();
    let mut logged = benchmark.requests.successful.iter().chain(&benchmark.requests.errored);
    let origin = if logged.any(is_due) {
        "latency counts from when the request was due, but its figures count from when the \
         request was sent"
    } else {
        "latency counts from when the request was sent"
    };
    let mut remarks = vec![origin.to_string()];
    let (requests, about_requests) = measured_requests(benchmark, is_scheduled)?;
    remarks.extend(about_requests);
    let arrivals = match streams {
        _ if is_scheduled => kind.into(),
        Some(streams) => format!("concurrency:{streams}"),
        None => "concurrency".into(),
    };
    Ok(Test {
        title,
        scenario: scenario.into(),
        system: model(report).into(),
        data: Data::default(),
        plan: Plan {
            target_qps: rate.unwrap_or(0.0),
            arrivals: (scenario == "Server").then_some(arrivals),
            samples_per_query: 1,
            percentile: 0.99,
            ..Plan::default()
        },
        figures: figures(&benchmark.metrics),
        records: records(requests),
        has_times: true,
        invalid: None,
        remarks,
    })
}

/// Returns the requests of a benchmark, and remarks about those that are not in the file or were cut off.
fn measured_requests(
    benchmark: &Benchmark,
    is_scheduled: bool,
) -> Result<(Vec<Request>, Vec<String>), String> {
    let logged = || benchmark.requests.successful.iter().chain(&benchmark.requests.errored);
    let mut remarks = Vec::new();
    let total = |status: &str| benchmark.metrics["request_totals"][status].as_u64().unwrap_or(0);
    let (kept, all) = (logged().count() as u64, total("successful") + total("errored"));
    let (failed, stated) = (benchmark.requests.errored.len() as u64, total("errored"));
    // The requests of the file may be a selection of the others.
    let is_share =
        |a: u64, b: u64| u128::from(a) * u128::from(all) == u128::from(b) * u128::from(kept);
    if kept > 0 && !is_share(failed, stated) {
        return Err(format!(
            "{stated} of its {all} requests failed, but {failed} of the {kept} requests in the file; \
             save all requests"
        ));
    }
    let is_selection = kept < all;
    let (incomplete, cut_off) = (benchmark.requests.incomplete.len(), total("incomplete"));
    if kept > 0 && !is_selection && cut_off > incomplete as u64 {
        let cut_off = counted(cut_off, "request was", "requests were");
        return Err(format!(
            "{cut_off} cut off at its end, but the file has {incomplete} of them; save all requests"
        ));
    }
    if is_selection && kept > 0 {
        remarks.push(format!("only {kept} of its {all} requests are in the file"));
    }
    let mut requests = requests(&benchmark.requests, is_scheduled)?;
    // A selection does not show how long the longest answer took.
    let overdue = if is_selection {
        Vec::new()
    } else {
        overdue(&requests, &pending(&benchmark.requests.incomplete)?)
    };
    remarks.extend(cut_off_remarks(incomplete, overdue.len(), "cut off at its end"));
    requests.extend(overdue);
    Ok((requests, remarks))
}

fn model(report: &Value) -> &str {
    let places = ["/config/backend/model", "/config/model", "/args/model"];
    places.into_iter().find_map(|at| report.pointer(at)?.as_str()).unwrap_or_default()
}

fn figures(metrics: &Value) -> Figures {
    let mut figures = Figures::new();
    for (key, ours, unit) in [
        ("request_latency", "", SECOND),
        ("time_to_first_token_ms", "ttft-", MILLISECOND),
        ("inter_token_latency_ms", "tpot-", MILLISECOND),
    ] {
        let of = &metrics[key]["successful"];
        let percentiles = &of["percentiles"];
        let values = [
            ("mean", &of["mean"]),
            ("p50", &percentiles["p50"]),
            ("p90", &percentiles["p90"]),
            ("p95", &percentiles["p95"]),
            ("p99", &percentiles["p99"]),
            ("p99.9", &percentiles["p999"]),
        ];
        let known = values.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?)));
        figures.extend(known.map(|(name, value)| (format!("{ours}{name}"), value * unit)));
    }
    let rate = metrics["requests_per_second"]["successful"]["mean"].as_f64();
    figures.extend(rate.map(|rate| ("throughput".into(), rate)));
    let total = |status: &str| metrics["request_totals"][status].as_f64();
    if let (Some(good), Some(bad)) = (total("successful"), total("errored")) {
        figures.insert("failures".into(), bad / (good + bad).max(1.0));
    }
    figures
}

/// Returns the scheduled time of a request, in seconds.
fn scheduled_time(row: &LoggedRequest) -> Option<f64> {
    row.info["timings"]["targeted_start"].as_f64()
}

/// Returns the time of the last token of a request, in seconds.
fn last_token_time(row: &LoggedRequest) -> Option<f64> {
    // Earlier versions have the second name.
    let names = ["last_token_iteration", "last_iteration"];
    names.iter().find_map(|name| row.info["timings"][*name].as_f64())
}

/// Returns the requests that were sent and cut off. They count from when they were sent, so that no wait of
/// the tool counts, and have waited since their last token.
fn pending(incomplete: &[LoggedRequest]) -> Result<Vec<PendingRequest>, String> {
    let mut pending = Vec::new();
    for (at, row) in incomplete.iter().enumerate() {
        let (Some(start), Some(end)) = (row.request_start_time, row.request_end_time) else {
            continue;
        };
        let ns = |key: &str, time: f64| {
            ns(time, SECOND).map_err(|bad| format!("requests.incomplete[{at}]: `{key}`: {bad}"))
        };
        let issued = ns("request_start_time", start)?;
        let last = last_token_time(row).map(|time| ns("last_token_iteration", time)).transpose()?;
        let since = last.map_or(issued, |last| last.max(issued));
        pending.push(PendingRequest {
            request: Request {
                scheduled: issued,
                issued,
                completed: None,
                first_token: None,
                tokens: row.output_tokens,
            },
            waited: ns("request_end_time", end)?.saturating_sub(since),
        });
    }
    Ok(pending)
}

fn requests(logged: &Requests, is_scheduled: bool) -> Result<Vec<Request>, String> {
    let mut requests = Vec::new();
    let rows = logged.successful.iter().chain(&logged.errored);
    let first = rows.filter_map(|row| row.request_start_time).reduce(f64::min).unwrap_or(0.0);
    let statuses = [("successful", &logged.successful, true), ("errored", &logged.errored, false)];
    for (status, rows, is_answered) in statuses {
        for (at, row) in rows.iter().enumerate() {
            let missing = |key: &str| format!("requests.{status}[{at}]: `{key}` is missing");
            let ns = |key: &str, time: f64, unit: f64| {
                ns(time, unit).map_err(|bad| format!("requests.{status}[{at}]: `{key}`: {bad}"))
            };
            let issued = match row.request_start_time {
                Some(at) => ns("request_start_time", at, SECOND)?,
                None if is_answered => return Err(missing("request_start_time")),
                // The request failed before it was sent, which is a failure, too.
                None => {
                    let due = scheduled_time(row).unwrap_or(first);
                    ns("targeted_start", due, SECOND)?
                }
            };
            let due = scheduled_time(row).filter(|_| is_scheduled);
            let due = due.map(|due| ns("targeted_start", due, SECOND)).transpose()?;
            let after = |key: &str, time: f64, unit: f64| -> Result<i64, String> {
                Ok(issued.saturating_add(ns(key, time, unit)?))
            };
            let completed = match row.request_latency {
                Some(took) => Some(after("request_latency", took, SECOND)?),
                None if is_answered => return Err(missing("request_latency")),
                None => None,
            };
            let first = row.time_to_first_token_ms;
            let first = first.map(|time| after("time_to_first_token_ms", time, MILLISECOND));
            let first = first.transpose()?;
            requests.push(Request {
                scheduled: due.map_or(issued, |due| due.min(issued)),
                issued,
                completed: completed.filter(|_| is_answered),
                first_token: first.filter(|_| is_answered),
                tokens: row.output_tokens,
            });
        }
    }
    Ok(requests)
}
