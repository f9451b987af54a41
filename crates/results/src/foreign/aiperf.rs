//! Exports of aiperf: `profile_export.jsonl` with an object per request, and
//! `profile_export_aiperf.json` with the figures. Each value has its own unit.

mod client;

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::requests::{PendingRequest, Request, cut_off_remarks, overdue, records};
use super::{
    Figures, ForeignError, ForeignResult, MILLISECOND, SECOND, Test, Tool, ns, read, text,
};
use crate::summary::{Data, Plan};

pub use client::{ClientTimes, version};

/// Name of the file with an object per request.
pub const RECORDS: &str = "profile_export.jsonl";

/// Name of the file with the figures.
pub const SUMMARY: &str = "profile_export_aiperf.json";

#[derive(Debug, Deserialize)]
struct Record {
    metadata: Metadata,
    #[serde(default)]
    metrics: Map<String, Value>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    /// Time at which the rate limiter released the request.
    credit_issued_ns: Option<i64>,
    request_start_ns: i64,
    request_end_ns: i64,
    /// Phase; requests of `warmup` are not measured.
    benchmark_phase: Option<String>,
    #[serde(default)]
    was_cancelled: bool,
}

impl Metadata {
    fn is_warmup(&self) -> bool {
        self.benchmark_phase.as_deref() == Some("warmup")
    }

    fn is_measured(&self) -> bool {
        !self.is_warmup() && !self.was_cancelled
    }
}

/// Returns whether a value is a line of [`RECORDS`].
pub(crate) fn is_record(value: &Value) -> bool {
    value["metadata"]["request_start_ns"].is_number()
}

/// Returns whether a value is the content of [`SUMMARY`].
pub(crate) fn is_summary(value: &Value) -> bool {
    value["request_latency"]["unit"].is_string() || value.get("aiperf_version").is_some()
}

/// Reads both files, or the one that exists.
pub fn read_folder(folder: &Path) -> Result<ForeignResult, ForeignError> {
    let [records, summary] = [RECORDS, SUMMARY].map(|name| folder.join(name));
    if !records.is_file() {
        return read(&summary);
    }
    let mut result = read(&records)?;
    if summary.is_file() {
        let value = serde_json::from_str(&text(&summary)?)
            .map_err(|error| malformed(&summary, error.to_string()))?;
        let summarized = read_summary(&summary, &value)?;
        refuse_hidden_failures(&records, &result, &value)?;
        result.version = summarized.version;
        for (test, other) in result.tests.iter_mut().zip(summarized.tests) {
            (test.figures, test.system, test.title) = (other.figures, other.system, other.title);
            let new = other.remarks.into_iter().filter(|remark| !test.remarks.contains(remark));
            let new: Vec<String> = new.collect();
            test.remarks.extend(new);
        }
    }
    Ok(result)
}

/// Rejects records with fewer requests or failures than the summary states.
fn refuse_hidden_failures(
    path: &Path,
    result: &ForeignResult,
    summary: &Value,
) -> Result<(), ForeignError> {
    let kept = result.tests.iter().filter_map(|test| test.records.as_ref());
    let rows =
        || kept.clone().flat_map(|records| (0..records.row_count()).map(move |at| (records, at)));
    let mut failed = rows().filter(|(records, at)| !records.is_answered(*at)).count();
    let answered = rows().count() - failed;
    let stated = count(summary, "error_request_count");
    if stated.is_some_and(|stated| stated > failed as f64) {
        failed = unanswered(path)?;
    }
    for (what, found, stated) in [
        ("failed requests", failed, stated),
        ("answered requests", answered, count(summary, "request_count")),
    ] {
        let Some(stated) = stated.filter(|&stated| stated > found as f64) else { continue };
        let reason = format!("{SUMMARY} states {stated} {what}, but the records have {found}");
        return Err(malformed(path, reason));
    }
    Ok(())
}

/// Returns the number of records that aiperf counts as errors. They include the cancelled requests.
fn unanswered(path: &Path) -> Result<usize, ForeignError> {
    let text = text(path)?;
    let records = text.lines().filter_map(|line| serde_json::from_str::<Record>(line).ok());
    let is_error = |record: &Record| record.error.is_some() || record.metadata.was_cancelled;
    Ok(records.filter(|record| !record.metadata.is_warmup() && is_error(record)).count())
}

/// Returns a count of a summary.
fn count(summary: &Value, key: &str) -> Option<f64> {
    summary.get(key)?.get("avg")?.as_f64()
}

fn malformed(path: &Path, reason: String) -> ForeignError {
    ForeignError::Malformed { path: path.into(), tool: Tool::Aiperf, reason }
}

/// Reads the figures from the content of [`SUMMARY`].
pub fn read_summary(path: &Path, value: &Value) -> Result<ForeignResult, ForeignError> {
    let mut figures = Figures::new();
    let of = |key: &str| value.get(key).filter(|metric| metric.is_object());
    for (key, ours) in TIMES {
        let Some(metric) = of(key) else { continue };
        let unit = unit(metric).ok_or_else(|| {
            malformed(
                path,
                format!("`{key}.unit` is {}, which is not a unit of time", metric["unit"]),
            )
        })?;
        for (theirs, name) in STATISTICS {
            let value = metric[theirs].as_f64();
            figures.extend(value.map(|value| (format!("{ours}{name}"), value * unit)));
        }
    }
    let average = |key: &str| of(key).and_then(|metric| metric["avg"].as_f64());
    figures.extend(average("request_throughput").map(|rate| ("throughput".into(), rate)));
    if let Some(good) = count(value, "request_count") {
        let bad = count(value, "error_request_count").unwrap_or(0.0);
        figures.insert("failures".into(), bad / (good + bad).max(1.0));
    }
    let text = |at: &str| value.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let title = Some(text("/run_info/run_label")).filter(|label| !label.is_empty());
    let model = ["/input_config/endpoint/model_names/0", "/input_config/models/0/name"];
    let model = model.map(text).into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    let mut test = empty(title.unwrap_or("profile"));
    (test.figures, test.system) = (figures, model.into());
    if value["was_cancelled"] == true {
        test.remarks.push("it was cancelled before its end".into());
    }
    Ok(ForeignResult {
        tool: Tool::Aiperf,
        version: text("/aiperf_version").into(),
        tests: vec![test],
    })
}

/// Keys of times in aiperf, and our prefixes.
const TIMES: [(&str, &str); 3] =
    [("request_latency", ""), ("time_to_first_token", "ttft-"), ("inter_token_latency", "tpot-")];

/// Statistics in aiperf, and our names.
const STATISTICS: [(&str, &str); 5] =
    [("avg", "mean"), ("p50", "p50"), ("p90", "p90"), ("p95", "p95"), ("p99", "p99")];

fn empty(title: &str) -> Test {
    Test {
        title: title.into(),
        scenario: "Server".into(),
        system: String::new(),
        data: Data::default(),
        plan: Plan { samples_per_query: 1, percentile: 0.99, ..Plan::default() },
        figures: Figures::new(),
        records: None,
        has_times: true,
        invalid: None,
        remarks: vec!["its latency figures count from when the request was sent".into()],
    }
}

/// Returns the unit of a metric in ns; `None` if it is not a unit of time.
fn unit(metric: &Value) -> Option<f64> {
    Some(match metric["unit"].as_str()? {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => MILLISECOND,
        "s" | "sec" => SECOND,
        _ => return None,
    })
}

/// Reads the lines of [`RECORDS`].
pub(crate) fn read_records(path: &Path, values: &[Value]) -> Result<ForeignResult, ForeignError> {
    let mut requests = Vec::new();
    let (mut has_credit, mut cancelled) = (false, Vec::new());
    for (line, value) in (1..).zip(values) {
        let bad = |reason: String| malformed(path, format!("record {line}: {reason}"));
        let record = Record::deserialize(value).map_err(|error| bad(error.to_string()))?;
        if record.metadata.is_warmup() {
            continue;
        }
        if record.metadata.was_cancelled {
            cancelled.push(pending(&record.metadata));
            continue;
        }
        has_credit |= record.metadata.credit_issued_ns.is_some();
        requests.push(request(&record).map_err(bad)?);
    }
    let mut test = empty("profile");
    test.figures = Figures::new();
    if has_credit {
        test.remarks
            .push("raw records count from when the rate limiter released the request".into());
    }
    let count = cancelled.len();
    let overdue = overdue(&requests, &cancelled);
    test.remarks.extend(cut_off_remarks(count, overdue.len(), "cancelled"));
    requests.extend(overdue);
    test.records = records(requests);
    Ok(ForeignResult { tool: Tool::Aiperf, version: String::new(), tests: vec![test] })
}

/// Returns a cancelled request, which ended when it was cancelled.
fn pending(about: &Metadata) -> PendingRequest {
    PendingRequest {
        request: Request {
            scheduled: about.request_start_ns,
            issued: about.request_start_ns,
            completed: None,
            first_token: None,
            tokens: None,
        },
        waited: about.request_end_ns.saturating_sub(about.request_start_ns),
    }
}

fn request(record: &Record) -> Result<Request, String> {
    let about = &record.metadata;
    let time = |key: &str| -> Result<Option<i64>, String> {
        let Some(metric) = record.metrics.get(key) else { return Ok(None) };
        let unit =
            unit(metric).ok_or_else(|| format!("`metrics.{key}.unit` is not a unit of time"))?;
        let value = metric["value"].as_f64();
        let value = value.ok_or_else(|| format!("`metrics.{key}.value` is not a number"))?;
        let time = ns(value, unit).map_err(|bad| format!("`metrics.{key}.value`: {bad}"))?;
        Ok(Some(about.request_start_ns.saturating_add(time)))
    };
    let is_answered = record.error.is_none();
    let completed = time("request_latency")?.unwrap_or(about.request_end_ns);
    if is_answered && completed < about.request_start_ns {
        return Err("`metadata.request_end_ns` is before `metadata.request_start_ns`".into());
    }
    let tokens = record.metrics.get("output_sequence_length");
    let due = about.credit_issued_ns.unwrap_or(about.request_start_ns);
    Ok(Request {
        scheduled: due.min(about.request_start_ns),
        issued: about.request_start_ns,
        completed: is_answered.then_some(completed),
        first_token: time("time_to_first_token")?.filter(|_| is_answered),
        tokens: tokens.and_then(|metric| metric["value"].as_i64()),
    })
}
