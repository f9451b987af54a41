//! Results of other tools: recognized by their contents, and rejected with a reason. The samples
//! are made up here, with the keys of those tools.

mod counts;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::program::{Folder, ProgramResult};

/// Rows of `dyno export --format jsonl`.
#[track_caller]
fn rows(folder: &Folder, arguments: &str) -> (Vec<Value>, String) {
    let ran = folder.dyno(&format!("export {arguments} --format jsonl")).exits(0);
    let rows = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (rows, ran.stderr)
}

/// One column.
fn column(rows: &[Value], key: &str) -> Vec<Option<i64>> {
    rows.iter().map(|row| row[key].as_i64()).collect()
}

/// Times in s, figures in ms, a failure in the middle.
fn vllm() -> Value {
    json!({
        "date": "20261121-120000", "backend": "vllm", "model_id": "tiny", "request_rate": 4.0,
        "max_concurrency": null, "duration": 1.5, "completed": 2, "failed": 1,
        "request_throughput": 1.25, "output_throughput": 9.5, "request_goodput": null,
        "mean_ttft_ms": 15.0, "median_ttft_ms": 15.0, "p99_ttft_ms": 20.0, "p99_e2el_ms": 70.0,
        "input_lens": [3, 3, 3], "output_lens": [3, 0, 2],
        "ttfts": [0.010, 0.0, 0.020],
        "itls": [[0.020, 0.010], [], [0.050]],
        "latencies": [0.041, 0.0, 0.070],
        "start_times": [100.0, 100.25, 100.5],
        "queue_times": [0.0, 0.0, 0.002],
        "errors": ["", "503", ""],
        "generated_texts": ["a", "", "b"]
    })
}

#[test]
fn vllm_requests_count_from_when_the_client_took_them_up() {
    let folder = Folder::new();
    folder.write("saved.json", &vllm().to_string());
    let (found, said) = rows(&folder, "saved.json");
    assert_eq!(column(&found, "scheduled_ns"), [Some(0), Some(250_000_000), Some(498_000_000)]);
    assert_eq!(column(&found, "issued_ns")[2], Some(500_000_000));
    assert_eq!(column(&found, "latency_ns"), [Some(41_000_000), None, Some(72_000_000)]);
    let first_tokens = column(&found, "time_to_first_token_ns");
    assert_eq!(first_tokens, [Some(10_000_000), None, Some(22_000_000)]);
    assert_eq!(column(&found, "output_tokens"), [Some(3), None, Some(2)]);
    assert_eq!(found[1]["failure"], "internal");
    assert!(said.contains("from when the client began the request"), "{said}");

    // An older version keeps neither latencies nor when requests were sent.
    let older = without(vllm(), &["latencies", "start_times", "queue_times", "failed"]);
    folder.write("older.json", &older.to_string());
    let (found, said) = rows(&folder, "older.json");
    let mut latencies = column(&found, "latency_ns");
    latencies.sort();
    assert_eq!(latencies, [None, Some(40_000_000), Some(70_000_000)]);
    assert!(said.contains("from when the request was sent"), "{said}");

    // --append-result: an object a line.
    folder.write("appended.json", &format!("{}\n{}\n", vllm(), vllm()));
    assert_eq!(rows(&folder, "appended.json").0.len(), 6);
}

/// Without these keys.
fn without(mut saved: Value, keys: &[&str]) -> Value {
    for key in keys {
        saved.as_object_mut().unwrap().remove(*key);
    }
    saved
}

/// What `vllm bench serve` leaves out without `--save-detailed`.
const DETAILS: [&str; 7] =
    ["input_lens", "output_lens", "start_times", "ttfts", "itls", "generated_texts", "errors"];

#[test]
fn vllm_failures_may_have_no_reason_and_are_counted() {
    let folder = Folder::new();
    let mut saved = vllm();
    saved["errors"] = json!(["", "", ""]);
    folder.write("saved.json", &saved.to_string());
    let (found, said) = rows(&folder, "saved.json");
    assert_eq!(found[1]["failure"], "internal");
    assert!(!said.contains("it reports"), "{said}");
    (saved["failed"], saved["completed"]) = (0.into(), 3.into());
    folder.write("saved.json", &saved.to_string());
    let (_, said) = rows(&folder, "saved.json");
    let expected = "it states 0 failed requests, but 1 request of the file has no answer";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn vllm_latencies_are_kept_without_details_and_of_embeddings() {
    let folder = Folder::new();
    folder.write("saved.json", &without(vllm(), &DETAILS).to_string());
    let (found, said) = rows(&folder, "saved.json");
    assert_eq!(column(&found, "latency_ns"), [Some(41_000_000), None, Some(72_000_000)]);
    assert_eq!(column(&found, "scheduled_ns"), [Some(0); 3]);
    assert!(said.contains("its figures count from when it was sent"), "{said}");
    // An older version keeps no latencies either: figures alone.
    let figures = without(without(vllm(), &DETAILS), &["latencies", "queue_times"]);
    folder.write("figures.json", &figures.to_string());
    folder.dyno("export figures.json").exits(3);
    let mut other = figures.clone();
    other["p99_ttft_ms"] = 30.0.into();
    folder.write("other.json", &other.to_string());
    folder.write("copy.json", &figures.to_string());
    let ran = folder.dyno("compare figures.json copy.json").exits(2);
    assert!(ran.stderr.contains("figures.json and copy.json are the same run"), "{}", ran.stderr);
    let told = folder.dyno("compare figures.json other.json --json").exits(0).json();
    let remarks = told["remarks"].to_string();
    assert!(remarks.contains("latency counts from when the request was sent"), "{remarks}");

    let embedding = without(vllm(), &["output_lens", "start_times", "ttfts", "itls", "failed"]);
    folder.write("embedding.json", &embedding.to_string());
    let (found, _) = rows(&folder, "embedding.json");
    assert_eq!(column(&found, "latency_ns"), [Some(41_000_000), None, Some(72_000_000)]);
}

#[test]
fn a_result_with_one_test_is_compared_with_the_test_of_its_load() {
    let folder = Folder::new();
    folder.write("one.json", &vllm_run(1.0).to_string());
    let mut other = vllm_run(3.0);
    other["request_rate"] = 8.0.into();
    folder.write("two.json", &format!("{other}\n{}\n", vllm_run(1.5)));
    let compared = folder.dyno("compare one.json two.json --json").exits(1).json();
    let tests = compared["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 1, "{compared}");
    let mut rows = tests[0]["metrics"].as_array().unwrap().iter();
    let p50 = rows.find(|row| row["metric"] == "p50").unwrap();
    assert!((p50["change"].as_f64().unwrap() - 0.5).abs() < 0.01, "{p50}");
}

#[test]
fn vllm_arrivals_are_those_that_it_says() {
    let folder = Folder::new();
    folder.write("poisson.json", &vllm().to_string());
    let mut saved = vllm();
    saved["burstiness"] = 1.0.into();
    saved["latencies"][2] = 0.071.into();
    folder.write("same.json", &saved.to_string());
    folder.dyno("compare poisson.json same.json").exits(0);
    saved["burstiness"] = 0.25.into();
    folder.write("bursts.json", &saved.to_string());
    let ran = folder.dyno("compare poisson.json bursts.json").exits(2);
    assert!(ran.stderr.contains("arrivals: poisson against gamma:0.25"), "{}", ran.stderr);
    saved["request_rate"] = "inf".into();
    for (key, value) in
        [("strategy", json!("linear")), ("start_rps", json!(1)), ("end_rps", json!(9))]
    {
        saved[&format!("ramp_up_{key}")] = value;
    }
    folder.write("ramp.json", &saved.to_string());
    let (_, said) = rows(&folder, "ramp.json");
    assert!(said.contains("its rate is not constant: 1 to 9 requests/s, linear"), "{said}");
}

#[test]
fn vllm_files_without_requests_say_how_to_keep_them() {
    let folder = Folder::new();
    let summary = without(without(vllm(), &DETAILS), &["latencies", "queue_times"]);
    folder.write("saved.json", &summary.to_string());
    let ran = folder.dyno("export saved.json").exits(3);
    assert!(ran.stderr.contains("has no raw records"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--save-detailed"), "{}", ran.stderr);
    let mut damaged = vllm();
    damaged["latencies"] = json!([0.1]);
    folder.write("damaged.json", &damaged.to_string());
    let ran = folder.dyno("export damaged.json").exits(3);
    let expected =
        "damaged.json: not as vLLM writes it: `ttfts` has 3 entries, but `latencies` has 1";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
}

/// A benchmark on a schedule: one request was sent late, one failed.
fn guidellm() -> Value {
    let request = |due: f64, sent: f64, took: f64| {
        json!({
            "request_id": "x", "request_start_time": sent, "request_latency": took,
            "time_to_first_token_ms": 5.0, "output_tokens": 4,
            "info": {"timings": {"targeted_start": due, "request_start": sent}}
        })
    };
    let spread = json!({
        "mean": 0.15, "min": 0.1, "max": 0.2, "count": 2,
        "percentiles": {"p50": 0.1, "p90": 0.2, "p95": 0.2, "p99": 0.2, "p999": 0.2}
    });
    json!({
        "metadata": {"version": 2, "guidellm_version": "0.8.1"},
        "config": {"backend": {"model": "tiny"}},
        "benchmarks": [{
            "config": {"strategy": {"type_": "constant", "rate": 2.0}},
            "metrics": {
                "request_totals": {"successful": 2, "errored": 1, "incomplete": 1, "total": 4},
                "requests_per_second": {"successful": {"mean": 2.0}},
                "request_latency": {"successful": spread}
            },
            "requests": {
                "successful": [request(1.0, 1.0, 0.1), request(1.5, 1.75, 0.2)],
                "errored": [request(2.0, 2.0, 0.0)],
                "incomplete": [request(2.5, 2.5, 0.0)]
            }
        }]
    })
}

#[test]
fn guidellm_requests_count_from_their_schedule() {
    let folder = Folder::new();
    std::fs::create_dir(folder.0.join("result")).unwrap();
    folder.write("result/benchmarks.json", &guidellm().to_string());
    let (found, said) = rows(&folder, "result");
    assert_eq!(column(&found, "latency_ns"), [Some(100_000_000), Some(450_000_000), None]);
    assert_eq!(column(&found, "issued_ns")[1], Some(750_000_000));
    assert_eq!(found[0]["test"], "constant 2 requests/s");
    assert!(said.contains("1 request was cut off"), "{said}");

    // Nothing is due at a set time in a closed loop.
    let mut closed = guidellm();
    closed["benchmarks"][0]["config"]["strategy"] = json!({"type_": "concurrent", "streams": 4});
    folder.write("closed.json", &closed.to_string());
    let (found, _) = rows(&folder, "closed.json");
    assert_eq!(column(&found, "latency_ns")[1], Some(200_000_000));

    let mut damaged = guidellm();
    damaged["benchmarks"][0]["requests"]["successful"][1]["request_latency"] = Value::Null;
    folder.write("damaged.json", &damaged.to_string());
    let ran = folder.dyno("export damaged.json").exits(3);
    let expected = "benchmarks[0]: requests.successful[1]: `request_latency` is missing";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    for odd in [-0.1, 1e300] {
        damaged["benchmarks"][0]["requests"]["successful"][1]["request_latency"] = odd.into();
        folder.write("damaged.json", &damaged.to_string());
        let ran = folder.dyno("export damaged.json").exits(3);
        assert!(ran.stderr.contains("`request_latency`: ") && ran.stderr.contains("is no time"));
    }
}

#[test]
fn guidellm_remarks_are_those_of_what_is_there() {
    let folder = Folder::new();
    let mut sampled = guidellm();
    let totals = &mut sampled["benchmarks"][0]["metrics"]["request_totals"];
    (totals["successful"], totals["errored"]) = (200.into(), 100.into());
    folder.write("sampled.json", &sampled.to_string());
    let (_, said) = rows(&folder, "sampled.json");
    assert!(said.contains("only 3 of its 300 requests are in the file"), "{said}");
    assert!(said.contains("from when the request was due"), "{said}");
    for status in ["successful", "errored"] {
        let requests = &mut sampled["benchmarks"][0]["requests"][status];
        for request in requests.as_array_mut().unwrap() {
            request["info"] = json!({});
        }
    }
    folder.write("undue.json", &sampled.to_string());
    let (_, said) = rows(&folder, "undue.json");
    assert!(said.contains("latency counts from when the request was sent"), "{said}");
}

fn aiperf_record(start: i64, took_ms: f64, phase: &str) -> Value {
    json!({
        "metadata": {
            "session_num": 0, "credit_issued_ns": start - 1_000, "request_start_ns": start,
            "request_end_ns": start + 9_999, "worker_id": "w", "benchmark_phase": phase,
            "was_cancelled": false
        },
        "metrics": {
            "request_latency": {"value": took_ms, "unit": "ms"},
            "time_to_first_token": {"value": 2_000.0, "unit": "us"},
            "output_sequence_length": {"value": 8, "unit": "tokens"}
        },
        "error": null
    })
}

#[test]
fn aiperf_requests_count_from_their_credit_and_warmup_is_left_out() {
    let folder = Folder::new();
    let begin = 1_795_234_461_000_000_000;
    let mut failed = aiperf_record(begin + 2_000_000, 0.0, "profiling");
    failed["error"] = json!({"code": 500, "message": "no"});
    let lines = [
        aiperf_record(begin - 9_000_000, 1.0, "warmup"),
        aiperf_record(begin, 12.5, "profiling"),
        failed,
    ];
    folder.write("profile_export.jsonl", &lines.map(|line| format!("{line}\n")).concat());
    let (found, said) = rows(&folder, "profile_export.jsonl");
    assert_eq!(column(&found, "scheduled_ns"), [Some(0), Some(2_000_000)]);
    assert_eq!(column(&found, "latency_ns"), [Some(12_501_000), None]);
    assert_eq!(column(&found, "time_to_first_token_ns"), [Some(2_001_000), None]);
    assert!(said.contains("rate limiter"), "{said}");

    // A folder has both files; a summary alone has no records.
    let summary = json!({
        "schema_version": "1.1", "aiperf_version": "0.13.0",
        "request_latency": {"unit": "ms", "avg": 12.5, "p50": 12.5, "p99": 12.5},
        "request_throughput": {"unit": "requests/sec", "avg": 80.0}
    });
    folder.write("profile_export_aiperf.json", &summary.to_string());
    assert_eq!(rows(&folder, ".").0.len(), 2);
    let mut cancelled = summary.clone();
    cancelled["was_cancelled"] = true.into();
    folder.write("cancelled/profile_export_aiperf.json", &cancelled.to_string());
    folder.write("cancelled/profile_export.jsonl", &folder.read("profile_export.jsonl"));
    let (_, said) = rows(&folder, "cancelled");
    assert!(said.contains("it was cancelled before its end"), "{said}");
    let ran = folder.dyno("export profile_export_aiperf.json").exits(3);
    assert!(ran.stderr.contains("profile_export.jsonl"), "{}", ran.stderr);
    let mut odd = summary;
    odd["request_latency"]["unit"] = "fortnights".into();
    folder.write("odd.json", &odd.to_string());
    let ran = folder.dyno("export odd.json").exits(3);
    assert!(ran.stderr.contains("`request_latency.unit` is \"fortnights\""), "{}", ran.stderr);

    folder.write("cut.jsonl", &format!("{}\n{{\"metadata\":", aiperf_record(0, 1.0, "profiling")));
    let ran = folder.dyno("export cut.jsonl").exits(3);
    assert!(ran.stderr.contains("cut.jsonl: not as aiperf writes it: line 2: "), "{}", ran.stderr);
}

/// Logs of the reference itself.
fn reference(name: &str) -> String {
    format!("{}/../loadgen/testdata/reference/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn loadgen_traces_are_raw_records() {
    let folder = Folder::new();
    let (found, said) = rows(&folder, &reference("Server-PerformanceOnly-trace"));
    assert_eq!(found.len(), 12);
    // As its summary has them: latency counts from the schedule.
    let latencies: Vec<i64> = column(&found, "latency_ns").into_iter().flatten().collect();
    assert_eq!(latencies.iter().min(), Some(&28_855));
    assert_eq!(latencies.iter().max(), Some(&1_582_851));
    assert_eq!(latencies.iter().sum::<i64>() / 12, 265_201);
    assert_eq!(found[0]["sample"], 2);
    assert!(said.contains("its verdict is INVALID"), "{said}");
    let (found, _) = rows(&folder, &reference("MultiStream-PerformanceOnly-trace"));
    assert_eq!(column(&found, "latency_ns").into_iter().flatten().max(), Some(45_225));

    let ran =
        folder.dyno(&format!("export {}", reference("Server-PerformanceOnly-invalid"))).exits(3);
    assert!(ran.stderr.contains("enable_trace"), "{}", ran.stderr);
    // The advice is one that works.
    let logs = reference("Server-PerformanceOnly-invalid");
    let ran = folder.dyno(&format!("export {logs} --format metrics")).exits(2);
    assert!(ran.stderr.contains(&format!("dyno report {logs} shows")), "{}", ran.stderr);
    assert!(!ran.stderr.contains("csv"), "{}", ran.stderr);
    folder.dyno(&format!("report {logs} --out page.html")).exits(0);
    let ran = folder.dyno(&format!("export {}", reference("Server-AccuracyOnly-tokens"))).exits(3);
    assert!(ran.stderr.contains("accuracy run"), "{}", ran.stderr);
}

/// LoadGen counts its errors in the detail log since 5.0.
#[test]
fn a_log_of_an_early_release_is_complete_without_a_count_of_errors() {
    let folder = Folder::new();
    let logs = reference("Server-PerformanceOnly-invalid");
    let read = |name: &str| std::fs::read_to_string(format!("{logs}/{name}")).unwrap();
    let detail = read("mlperf_log_detail.txt");
    let lines = detail.lines().filter(|line| !line.contains("\"num_errors\""));
    let detail = lines.fold(String::new(), |log, line| log + line + "\n");
    folder.write("logs/mlperf_log_summary.txt", &read("mlperf_log_summary.txt"));
    let warnings = |detail: &str| {
        folder.write("logs/mlperf_log_detail.txt", detail);
        folder.dyno("report logs --out page.html").exits(0).stderr
    };
    let late = warnings(&detail);
    assert!(late.contains("warning: mlperf_log_detail.txt is cut off"), "{late}");
    let early = warnings(&detail.replace("\"6.0.17 @", "\"4.1 @"));
    assert!(!early.contains("cut off"), "{early}");
}

#[test]
fn logs_of_dyno_itself_read_as_those_of_loadgen() {
    let folder = Folder::new();
    let run = "run --quiet --system model:exponential=2ms,seed=3 --mode performance --trace-log \
               --scenario server,offline,multistream --qps 200 --duration 1s --records all";
    let settings = "--set min_query_count=50 --set offline_expected_qps=300 --out out";
    folder.dyno(&format!("{run} {settings}"));
    let (ours, _) = rows(&folder, "out");
    for scenario in ["Server", "Offline", "MultiStream"] {
        let (theirs, _) = rows(&folder, &format!("out/{scenario}/performance"));
        let of = |row: &&Value| row["test"] == format!("{scenario}/performance");
        let ours: Vec<&Value> = ours.iter().filter(of).collect();
        assert_eq!(ours.len(), theirs.len(), "{scenario}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            for key in ["latency_ns", "sample", "row"] {
                assert_eq!(ours[key], theirs[key], "{scenario} {key}");
            }
        }
    }
}

#[test]
fn what_nobody_knows_is_told() {
    let folder = Folder::new();
    let deep = "[".repeat(100_000);
    let cases = BTreeMap::from([
        ("empty.json", ""),
        ("text.json", "hello"),
        ("list.json", "[1, 2]"),
        ("object.json", "{\"a\": 1}"),
        ("lines.jsonl", "{\"a\": 1}\n{\"a\": 2}\n"),
        ("deep.json", &deep[..]),
    ]);
    for (name, text) in cases {
        folder.write(name, text);
        let ran = folder.dyno(&format!("export {name}")).exits(3);
        assert!(ran.stderr.contains("neither a Dyno run nor"), "{name}: {}", ran.stderr);
    }
    let whole = vllm().to_string();
    for (name, text, expected) in [
        ("cut.json", &whole[..100], "EOF while parsing"),
        ("word.json", &whole.replace("1.25", "none"), "expected ident at line 1 column"),
    ] {
        folder.write(name, text);
        let ran = folder.dyno(&format!("export {name}")).exits(3);
        assert!(ran.stderr.contains("not valid JSON") && ran.stderr.contains(expected), "{name}");
    }
    folder.write("mark.json", &format!("\u{feff}{whole}"));
    assert_eq!(rows(&folder, "mark.json").0.len(), 3);
    std::fs::write(folder.0.join("binary"), [0xff, 0xfe, 0]).unwrap();
    let ran = folder.dyno("export binary").exits(3);
    assert!(ran.stderr.contains("it is not a string"), "{}", ran.stderr);
    std::fs::create_dir(folder.0.join("folder")).unwrap();
    folder.dyno("export folder").exits(3);
    folder.write("saved.json", &vllm().to_string());
    let ran = folder.dyno("export saved.json --format junit").exits(2);
    assert!(ran.stderr.contains("a result of vLLM, which has no Dyno verdicts"), "{}", ran.stderr);
}

/// Many requests, each of them this much slower.
fn vllm_run(slower: f64) -> Value {
    let count = 2_000_u32;
    // As spread as times are, and without a pattern.
    let spread = |n: u32| f64::from(n.wrapping_mul(2_654_435_761) >> 16) / 65_536.0;
    let times = |scale: f64| (0..count).map(|n| scale * (1.0 + spread(n))).collect::<Vec<f64>>();
    let mut saved = vllm();
    for (key, values) in [
        ("latencies", times(0.1 * slower)),
        ("ttfts", times(0.01)),
        ("start_times", (0..count).map(|n| f64::from(n) * 0.25).collect()),
        ("queue_times", vec![0.0; count as usize]),
    ] {
        saved[key] = json!(values);
    }
    saved["itls"] = json!(vec![[0.02, 0.03]; count as usize]);
    saved["output_lens"] = json!(vec![3; count as usize]);
    saved["errors"] = json!(vec![""; count as usize]);
    (saved["completed"], saved["failed"]) = (count.into(), 0.into());
    saved
}

#[test]
fn results_of_one_tool_are_compared_by_their_raw_records() {
    let folder = Folder::new();
    folder.write("a.json", &vllm_run(1.0).to_string());
    folder.write("b.json", &vllm_run(1.5).to_string());
    let worse = folder.dyno("compare a.json b.json --json").exits(1).json();
    assert_eq!(worse["verdict"], "worse", "{worse}");
    assert_eq!(worse["tests"][0]["has_records"], true);
    let p50 = worse["tests"][0]["metrics"].as_array().unwrap().iter();
    let p50 = p50.filter(|row| row["metric"] == "p50").map(|row| &row["change"]).next().unwrap();
    assert!((p50.as_f64().unwrap() - 0.5).abs() < 0.01, "{p50}");
    let remarks = worse["remarks"].to_string();
    assert!(remarks.contains("vLLM does not record its data and bounds"), "{remarks}");
    folder.write("again.json", &vllm_run(1.001).to_string());
    let again = "compare a.json again.json --threshold 1% --margin 5% --json";
    let same = folder.dyno(again).exits(0).json();
    // How much runs differ is assumed, not measured.
    assert_eq!(same["verdict"], "inconclusive", "{same}");
    assert_eq!(same["between_runs"], 0.05);
    let same = folder.dyno(&format!("{again} --between-runs 0%")).exits(0).json();
    assert_eq!(same["verdict"], "equivalent", "{same}");
}

/// The keys `label` and `run_number`, the lines of `--append-result` and the list of `bench sweep serve`
/// are those of vLLM's `benchmarks/serve.py` and `benchmarks/sweep/serve.py`, written by hand.
#[test]
fn several_results_of_one_rate_are_told_apart() {
    let folder = Folder::new();
    let labelled = |label: &str| -> Value {
        let mut saved = vllm_run(1.0);
        saved["label"] = label.into();
        saved
    };
    let titles = |file: &str| -> Vec<String> {
        let (found, _) = rows(&folder, file);
        let mut titles: Vec<_> = found.iter().map(|row| row["test"].as_str().unwrap()).collect();
        titles.dedup();
        titles.into_iter().map(str::to_owned).collect()
    };
    folder.write("labels.json", &format!("{}\n{}", labelled("vllm"), labelled("tuned")));
    assert_eq!(titles("labels.json"), ["4 requests/s, vllm", "4 requests/s, tuned"]);
    let mut export = folder.command("export labels.json --format csv --test");
    let chosen = export.arg("4 requests/s, tuned").output().unwrap();
    assert_eq!(ProgramResult::from(chosen).exits(0).stdout.lines().count(), 2_001);

    let mut second = vllm_run(1.5);
    second["label"] = "vllm".into();
    second["run_number"] = 1.into();
    folder.write("a.json", &json!([labelled("vllm"), labelled("vllm")]).to_string());
    folder.write("b.json", &format!("{}\n{second}\n", labelled("vllm")));
    for file in ["a.json", "b.json"] {
        assert_eq!(titles(file), ["4 requests/s", "4 requests/s #2"]);
    }
    let compared = folder.dyno("compare a.json b.json --json").exits(1).json();
    assert_eq!(compared["tests"].as_array().unwrap().len(), 2, "{compared}");
    for (test, change) in [(0, 0.0), (1, 0.5)] {
        let metrics = compared["tests"][test]["metrics"].as_array().unwrap();
        let p50 = metrics.iter().find(|row| row["metric"] == "p50").unwrap();
        assert!((p50["change"].as_f64().unwrap() - change).abs() < 0.01, "{p50}");
    }
}

#[test]
fn figures_without_records_are_shown_and_nothing_is_concluded() {
    let folder = Folder::new();
    folder.write("a.json", &vllm().to_string());
    let mut summary = without(without(vllm(), &DETAILS), &["latencies", "queue_times"]);
    summary["p99_ttft_ms"] = 30.0.into();
    folder.write("b.json", &summary.to_string());
    let told = folder.dyno("compare a.json b.json").exits(0).stdout;
    assert!(told.contains("INCONCLUSIVE"), "{told}");
    let row = told.lines().find(|line| line.contains("ttft-p99")).unwrap();
    let expected = ["20.0 ms", "30.0 ms", "+50.0 %", "unknown"];
    assert!(expected.iter().all(|cell| row.contains(cell)), "{row}");
    assert!(told.contains("--save-detailed"), "{told}");
    folder.dyno("compare a.json b.json --strict").exits(1);
    let json = folder.dyno("compare a.json b.json --metric ttft-p99,p99 --json").exits(0).json();
    let metrics = json["tests"][0]["metrics"].as_array().unwrap();
    assert_eq!(metrics.len(), 2, "{json}");
    assert_eq!((&metrics[0]["low"], &metrics[0]["candidate"]), (&Value::Null, &json!(30e6)));
}

#[test]
fn a_run_is_compared_with_the_logs_of_loadgen() {
    let folder = Folder::new();
    let run = "run --quiet --system null --scenario server --mode performance --trace-log --qps 2000 \
               --duration 1s --set min_query_count=100 --out out";
    folder.dyno(run);
    let same = folder.dyno("compare out out/Server/performance --force").exits(2);
    assert!(same.stderr.contains("are the same run"), "{}", same.stderr);
    folder.dyno(&format!("{run}-2 --seed 2"));
    // Which side is faster depends on the load of the machine, and the exit code on it.
    let [own, logs] = ["out-2", "out-2/Server/performance"]
        .map(|side| folder.dyno(&format!("compare out {side} --json --force")).json());
    assert_eq!(logs["tests"][0]["has_records"], true);
    let metrics = |report: &Value| report["tests"][0]["metrics"].as_array().unwrap().clone();
    for (own, log) in metrics(&own).iter().zip(&metrics(&logs)) {
        assert_eq!(own["candidate"], log["candidate"], "{log}");
    }
    assert!(logs["remarks"].to_string().contains("LoadGen"), "says whose it is: {logs}");

    // Missing traces and other data are reported.
    std::fs::write(folder.0.join("out-2/Server/performance/mlperf_log_trace.json"), "").unwrap();
    let told = folder.dyno("compare out out-2/Server/performance --force").stdout;
    assert!(told.contains("enable_trace") && told.contains("INCONCLUSIVE"), "{told}");
    let other = reference("Server-PerformanceOnly-trace");
    let ran = folder.dyno(&format!("compare out {other} --force")).exits(2);
    assert!(ran.stderr.contains("data set: "), "{}", ran.stderr);
    let other = reference("SingleStream-PerformanceOnly-tokens");
    let ran = folder.dyno(&format!("compare out {other}")).exits(2);
    assert!(ran.stderr.contains("no scenario in common"), "{}", ran.stderr);
}

#[test]
fn several_benchmarks_of_one_file_are_compared_by_their_names() {
    let folder = Folder::new();
    let mut several = guidellm();
    let mut second = several["benchmarks"][0].clone();
    second["config"]["strategy"]["rate"] = 4.0.into();
    several["benchmarks"].as_array_mut().unwrap().push(second);
    folder.write("a.json", &several.to_string());
    let requests = &mut several["benchmarks"][1]["requests"]["successful"];
    requests[0]["request_latency"] = 0.11.into();
    folder.write("b.json", &several.to_string());
    let json = folder.dyno("compare a.json b.json --json").exits(0).json();
    assert_eq!(json["tests"].as_array().unwrap().len(), 2, "{json}");
    folder.write("one.json", &guidellm().to_string());
    // A single test is compared with the test of its load.
    let json = folder.dyno("compare a.json one.json --json").exits(0).json();
    assert_eq!(json["tests"].as_array().unwrap().len(), 1, "{json}");
}
