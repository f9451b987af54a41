//! Logs of LoadGen: settings and figures from the detail log, and raw records from the trace, if
//! the run wrote one.

use std::io::{BufReader, ErrorKind};
use std::path::Path;

use dyno_loadgen::log::read::{
    Detail, TraceReader, open_file, read_detail_file, read_summary, record_of, samples_of,
};

use super::{Figures, ForeignError, ForeignResult, Test, Tool, text};
use crate::contents_rebuilt::data_of;
use crate::records::{Keep, Records};
use crate::summary::Plan;

/// Name of a file that every folder of logs has.
pub const SUMMARY: &str = "mlperf_log_summary.txt";
const DETAIL: &str = "mlperf_log_detail.txt";
const TRACE: &str = "mlperf_log_trace.json";

/// Reads a folder of logs.
pub fn read(folder: &Path) -> Result<ForeignResult, ForeignError> {
    let path = folder.join(DETAIL);
    let malformed = |reason: &str| ForeignError::Malformed {
        path: path.clone(),
        tool: Tool::LoadGen,
        reason: reason.into(),
    };
    let (detail, _) = read_detail_file(&path).map_err(|error| ForeignError::Unreadable {
        path: path.clone(),
        reason: match error.kind() {
            ErrorKind::NotFound => "it is missing, and it has the figures".into(),
            _ => error.to_string(),
        },
    })?;
    let scenario = detail.text("effective_scenario");
    let scenario = scenario.ok_or_else(|| malformed("`effective_scenario` is missing"))?;
    if detail.text("effective_test_mode") == Some("AccuracyOnly") {
        return Err(malformed(
            "it is the log of an accuracy run, which has no latencies to compare",
        ));
    }
    let figures = figures(&detail);
    if figures.is_empty() {
        return Err(malformed("it has no `result_` keys: the run did not finish"));
    }
    let text = text(&folder.join(SUMMARY))?;
    let (summary, _) = read_summary(&text);
    let invalid = match summary.value("Result is") {
        Some("VALID") => None,
        Some(verdict) => Some(format!("its verdict is {verdict}")),
        None => Some("its summary has no verdict: the run was interrupted".into()),
    };
    let mut remarks: Vec<String> = invalid.iter().cloned().collect();
    let records = match records(folder, &detail, scenario) {
        Ok(records) => records,
        Err(problem) => {
            remarks.push(problem);
            None
        }
    };
    let test = Test {
        title: format!("{scenario} {}", detail.text("effective_test_mode").unwrap_or_default()),
        scenario: scenario.into(),
        system: detail.text("sut_name").unwrap_or_default().into(),
        data: data_of(&detail),
        plan: plan(&detail, scenario),
        figures,
        records,
        has_times: true,
        invalid,
        remarks,
    };
    let version = detail.text("loadgen_version").unwrap_or_default();
    let version = version.split(" @ ").next().unwrap_or_default().into();
    Ok(ForeignResult { tool: Tool::LoadGen, version, tests: vec![test] })
}

/// Key that only MultiStream at a fixed interval has.
const INTERVALS: &str = "result_50.00_percentile_num_intervals_between_queries";

fn plan(detail: &Detail, scenario: &str) -> Plan {
    let is_server = scenario == "Server";
    let whole = |key: &str| detail.whole(key).unwrap_or(0);
    Plan {
        percentile: detail.number("effective_target_latency_percentile").unwrap_or(0.99),
        latency_bound_ns: detail.whole("effective_target_latency_ns").filter(|_| is_server),
        target_qps: detail.number("effective_target_qps").unwrap_or(0.0),
        arrivals: is_server.then(|| "poisson".into()),
        samples_per_query: whole("effective_samples_per_query").max(1),
        min_duration_ns: whole("effective_min_duration_ms").saturating_mul(1_000_000),
        min_query_count: whole("effective_min_query_count"),
        seeds: ["qsl", "sample_index", "schedule"]
            .map(|of| whole(&format!("effective_{of}_rng_seed"))),
        ..Plan::default()
    }
}

fn figures(detail: &Detail) -> Figures {
    let mut figures = Figures::new();
    let mut take = |ours: String, key: &str| {
        figures.extend(detail.number(key).map(|value| (ours, value)));
    };
    // The figures of MultiStream are those of queries.
    let of_queries = detail.value("result_mean_query_latency_ns").is_some();
    let query = if of_queries { "query_" } else { "" };
    let per_query = if of_queries { "per_query_" } else { "" };
    take("mean".into(), &format!("result_mean_{query}latency_ns"));
    take("ttft-mean".into(), "result_first_token_mean_latency_ns");
    take("tpot-mean".into(), "result_time_to_output_token_mean");
    for (ours, theirs) in
        [("p50", "50.00"), ("p90", "90.00"), ("p95", "95.00"), ("p99", "99.00"), ("p99.9", "99.90")]
    {
        take(ours.into(), &format!("result_{theirs}_percentile_{per_query}latency_ns"));
        let key = format!("result_first_token_{theirs}_percentile_latency_ns");
        take(format!("ttft-{ours}"), &key);
        let key = format!("result_time_per_output_token_{theirs}_percentile_ns");
        take(format!("tpot-{ours}"), &key);
    }
    for key in [
        "result_completed_samples_per_sec",
        "result_samples_per_second",
        "result_qps_with_loadgen_overhead",
    ] {
        take("throughput".into(), key);
    }
    figures
}

/// Reads the queries of the trace; `None` without a trace.
///
/// # Errors
/// What is wrong with the trace.
fn records(folder: &Path, detail: &Detail, scenario: &str) -> Result<Option<Records>, String> {
    let Ok(file) = open_file(&folder.join(TRACE)) else { return Ok(None) };
    let (samples, problems) = samples_of(TraceReader::new(BufReader::new(file)));
    let Some(first) = samples.iter().map(|sample| sample.scheduled_at).min() else {
        return match problems.first().filter(|problem| problem.line > 1) {
            Some(problem) => Err(format!("{TRACE}: {problem}")),
            // The trace is empty unless it was enabled.
            None => Ok(None),
        };
    };
    // The single query of Offline has all samples.
    let samples_per_query = match scenario {
        "Offline" => samples.len(),
        _ => detail.whole("effective_samples_per_query").unwrap_or(1).max(1) as usize,
    };
    let has_ticks = detail.value(INTERVALS).is_some();
    let is_scheduled = scenario == "Server" || has_ticks;
    let (what, found, stated) = match scenario {
        "Offline" => ("samples", samples.len(), detail.whole("effective_samples_per_query")),
        _ => ("queries", samples.len() / samples_per_query, detail.whole("result_query_count")),
    };
    if let Some(stated) = stated.filter(|&stated| stated > found as u64) {
        return Err(format!("{TRACE} is cut off: it has {found} of {stated} {what}"));
    }
    match record_of(&samples, samples_per_query, first, is_scheduled) {
        Some(record) => Ok(Records::from_record(&record, Keep::All)),
        None => Err(format!("{TRACE} does not hold whole queries of one run")),
    }
}
