//! Counts of other tools that contradict the requests in their files.

use serde_json::{Value, json};

use super::{aiperf_record, column, guidellm, rows, vllm, without};
use crate::program::Folder;

#[test]
fn vllm_failures_that_the_arrays_leave_out_are_not_hidden() {
    let folder = Folder::new();
    folder.write("all.json", &vllm().to_string());
    let mut fewer = vllm();
    (fewer["failed"], fewer["completed"]) = (2.into(), 1.into());
    let mut missing = vllm();
    (missing["failed"], missing["completed"]) = (7.into(), 2.into());
    let mut unsent = without(vllm(), &["failed"]);
    unsent["num_prompts"] = 8.into();
    for (saved, expected) in [
        (fewer, "it states 2 failed requests, but 1 request of its arrays has no answer"),
        (missing, "it states 9 requests, but its arrays have 3, so 6 have no result"),
        (unsent, "it states 8 requests, but its arrays have 3, so 5 have no result"),
    ] {
        folder.write("saved.json", &saved.to_string());
        let ran = folder.dyno("compare all.json saved.json").exits(2);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    let mut whole = vllm();
    whole["num_prompts"] = 3.into();
    folder.write("saved.json", &whole.to_string());
    assert_eq!(rows(&folder, "saved.json").0.len(), 3);
}

#[test]
fn guidellm_and_aiperf_do_not_hide_failures() {
    let folder = Folder::new();
    let mut report = guidellm();
    report["benchmarks"][0]["metrics"]["request_totals"]["errored"] = 40.into();
    folder.write("report.json", &report.to_string());
    let ran = folder.dyno("compare report.json report.json").exits(2);
    let expected = "40 of its 42 requests failed, but 1 of the 3 requests in the file";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    // Requests that were cut off may have waited for long.
    let mut report = guidellm();
    report["benchmarks"][0]["requests"]["incomplete"] = json!([]);
    folder.write("report.json", &report.to_string());
    let ran = folder.dyno("compare report.json report.json").exits(2);
    let expected = "1 request was cut off at its end, but the file has 0 of them";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    // A request that failed before it was sent.
    let mut report = guidellm();
    report["benchmarks"][0]["requests"]["errored"][0]["request_start_time"] = Value::Null;
    folder.write("unsent.json", &report.to_string());
    let (found, _) = rows(&folder, "unsent.json");
    assert_eq!(column(&found, "latency_ns"), [Some(100_000_000), Some(450_000_000), None]);

    let records =
        [0, 5_000_000].map(|at| aiperf_record(1_795_234_461_000_000_000 + at, 2.0, "profiling"));
    folder.write("a/profile_export.jsonl", &records.map(|line| format!("{line}\n")).concat());
    let summary = |good: u64, bad: u64| {
        let count = |avg: u64| json!({"unit": "requests", "avg": avg});
        json!({"aiperf_version": "0.13.0", "request_count": count(good),
            "error_request_count": count(bad)})
    };
    let summarize = |good, bad| {
        folder.write("a/profile_export_aiperf.json", &summary(good, bad).to_string());
    };
    summarize(2, 0);
    assert_eq!(rows(&folder, "a").0.len(), 2);
    for (good, bad, expected) in [
        (2, 3, "profile_export_aiperf.json states 3 failed requests, but the records have 0"),
        (5, 0, "profile_export_aiperf.json states 5 answered requests, but the records have 2"),
    ] {
        summarize(good, bad);
        let ran = folder.dyno("compare a a").exits(2);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

/// The logs of LoadGen state whether they count, and how many queries they have.
#[test]
fn logs_that_are_invalid_or_cut_off_are_not_compared_as_valid_ones() {
    let folder = Folder::new();
    for side in ["a", "b"] {
        let seed = if side == "a" { 1 } else { 2 };
        let run = "run --quiet --system model:fixed=1ms --scenario server --mode performance \
                   --profile llm --qps 500 --num-prompts 600 --trace-log";
        folder.dyno(&format!("{run} --seed {seed} --out {side}")).exits(0);
    }
    let compare = "compare a/Server/performance b/Server/performance";
    folder.dyno(compare).exits(0);
    let summary = "b/Server/performance/mlperf_log_summary.txt";
    let invalid = folder.read(summary).replace("Result is : VALID", "Result is : INVALID");
    folder.write(summary, &invalid);
    let ran = folder.dyno(compare).exits(1);
    assert!(ran.stdout.contains("candidate: its verdict is INVALID"), "{}", ran.stdout);
    folder.dyno(&format!("{compare} --force")).exits(0);

    let trace = "b/Server/performance/mlperf_log_trace.json";
    let text = folder.read(trace);
    let lines: Vec<&str> = text.lines().collect();
    folder.write(trace, &lines[..lines.len() / 2].join("\n"));
    let ran = folder.dyno(&format!("{compare} --force"));
    let shown = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("mlperf_log_trace.json is cut off: it has"), "{shown}");
    assert!(shown.contains("INCONCLUSIVE"), "{shown}");
}

/// Such a request would be faster than any other one.
#[test]
fn a_request_of_aiperf_that_ends_before_its_start_is_rejected() {
    let folder = Folder::new();
    let mut record = aiperf_record(1_795_234_461_000_000_000, 2.0, "profiling");
    record["metrics"] = json!({});
    record["metadata"]["request_end_ns"] = 1_795_234_460_999_999_999_i64.into();
    folder.write("profile_export.jsonl", &format!("{record}\n"));
    let ran = folder.dyno("compare profile_export.jsonl profile_export.jsonl").exits(2);
    let expected = "record 1: `metadata.request_end_ns` is before `metadata.request_start_ns`";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    // The end of a request without an answer does not count.
    record["error"] = json!({"code": 500, "message": "no"});
    folder.write("profile_export.jsonl", &format!("{record}\n"));
    assert_eq!(column(&rows(&folder, "profile_export.jsonl").0, "latency_ns"), [None::<i64>]);
}

/// guidellm cuts off the requests that are in flight at its end, and aiperf those that it cancels. Of a server
/// that stopped answering, they would otherwise be left out.
#[test]
fn requests_that_were_cut_off_after_a_long_wait_have_failed() {
    let folder = Folder::new();
    let failed = |rows: &[Value]| rows.iter().filter(|row| row["failure"] == "internal").count();
    let mut hung = guidellm();
    hung["benchmarks"][0]["requests"]["incomplete"] = json!([
        {"request_start_time": 1.0, "request_end_time": 4.0},
        {"request_start_time": 3.7, "request_end_time": 4.0},
        {"request_start_time": null, "request_end_time": 4.0},
        // Its tokens still came.
        {"request_start_time": 1.0, "request_end_time": 4.0, "time_to_first_token_ms": 5.0,
            "info": {"timings": {"last_token_iteration": 3.9}}},
    ]);
    folder.write("hung.json", &hung.to_string());
    let (found, said) = rows(&folder, "hung.json");
    // One of them failed by itself, and one waited for 3 s. The longest answer took 0.2 s.
    assert_eq!((found.len(), failed(&found)), (4, 2), "{said}");
    assert!(said.contains("3 requests were cut off at its end and left out"), "{said}");
    let late = "1 request was cut off at its end after a wait of more than 2 times as long";
    assert!(said.contains(late), "{said}");

    let begin = 1_795_234_461_000_000_000;
    let cancelled = |start: i64, took: i64| {
        let mut record = aiperf_record(start, 0.0, "profiling");
        record["metadata"]["was_cancelled"] = true.into();
        record["metadata"]["request_end_ns"] = (start + took).into();
        record["metrics"] = json!({});
        record["error"] = json!({"code": 499, "type": "RequestCancellationError"});
        record
    };
    let lines = [
        aiperf_record(begin, 12.5, "profiling"),
        cancelled(begin + 1, 25_100_000),
        cancelled(begin + 2, 24_900_000),
    ];
    folder.write("hung/profile_export.jsonl", &lines.map(|line| format!("{line}\n")).concat());
    let summarize = |bad: u64| {
        let count = |avg: u64| json!({"unit": "requests", "avg": avg});
        let summary = json!({"aiperf_version": "0.13.0", "request_count": count(1),
            "error_request_count": count(bad)});
        folder.write("hung/profile_export_aiperf.json", &summary.to_string());
    };
    // aiperf counts cancelled requests as errors.
    summarize(2);
    let (found, said) = rows(&folder, "hung");
    assert_eq!((found.len(), failed(&found)), (2, 1), "{said}");
    assert!(said.contains("1 request was cancelled and left out"), "{said}");
    assert!(said.contains("1 request was cancelled after a wait of more than 2 times"), "{said}");
    summarize(3);
    let ran = folder.dyno("compare hung hung").exits(2);
    let expected = "states 3 failed requests, but the records have 2";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
}
