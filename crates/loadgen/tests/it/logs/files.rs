//! A small test made by hand: the texts it is written as, what other tools make
//! of them, and what happens when they cannot be written.

use std::fs;
use std::path::PathBuf;

use dyno_loadgen::clock::{MILLISECOND, WallTime};
use dyno_loadgen::drive::{Process, ThreadReport};
use dyno_loadgen::early_stopping::Criterion;
use dyno_loadgen::log::read::{
    TraceReader, Value, open_accuracy, read_detail_file, read_summary, record_of, samples_of,
};
use dyno_loadgen::log::{LogError, LogFiles, LogSettings, combined_fingerprint, expected_bytes};
use dyno_loadgen::message::{Message, Severity};
use dyno_loadgen::plan::{
    AccuracyLog, Load, PeakSettings, Plan, SampleChoice, Seeds, Server, Tokens,
};
use dyno_loadgen::record::{Failure, LoggedResponse, Misuse, Record};
use dyno_loadgen::run::{Event, RunLog, Span, TestLog};
use dyno_loadgen::search::Unit;
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{
    Arrivals, EarlyStopping, Origin, Repetition, Scenario, Settings, TestMode, TraceRules,
};
use proptest::prelude::*;
use serde_json::Value as Json;

/// A fresh, empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("files").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn into(outdir: &std::path::Path) -> LogSettings {
    LogSettings { outdir: outdir.to_path_buf(), ..LogSettings::default() }
}

fn plan(load: Load) -> Plan {
    Plan {
        load,
        mode: TestMode::PerformanceOnly,
        target_qps: 1000.0,
        samples_per_query: 1,
        max_async_queries: 1,
        target_duration: 0,
        min_duration: 0,
        max_duration: 0,
        min_query_count: 3,
        max_query_count: 0,
        min_sample_count: 3,
        performance_sample_count: 4,
        accuracy_sample_count: 8,
        choice: SampleChoice::Random,
        concatenate_permutation: false,
        seeds: Seeds { qsl: 1, sample_index: 2, schedule: 3, accuracy_log: 4 },
        accuracy_log: AccuracyLog { probability: 0.5, sampling_target: 0 },
        tokens: None,
        early_stopping: Criterion {
            policy: EarlyStopping::AfterRun,
            confidence: 0.99,
            tolerance: 0.0,
        },
        trace_rules: TraceRules::Current,
        continue_trace: false,
        response_deadline: 0,
        max_client_lag: 0,
        performance_issue_same_index: 0,
        print_timestamps: false,
        repetition: Repetition::Once,
        sessions: None,
        turn_interval: 0,
        steps: 1,
        ramp: 0,
    }
}

fn server(arrivals: Arrivals) -> Load {
    Load::Server(Server {
        percentile: 0.99,
        target_latency: 5 * MILLISECOND,
        arrivals,
        coalesce: false,
        issue_threads: 0,
        peak: PeakSettings { unit: Unit::Rate, decimals: 1, step_size: 1.0 },
    })
}

/// Three queries in SingleStream: 100, 200 and 300 us.
fn record() -> Record {
    Record {
        samples_per_query: 1,
        issued_at: vec![0, 100_000, 400_000],
        indices: vec![2, 0, 3],
        completed_at: vec![100_000, 300_000, 700_000],
        ..Record::default()
    }
}

fn test_log(plan: Plan, record: Record) -> TestLog {
    let scenario = plan.scenario();
    let run = RunLog {
        accuracy: false,
        plan: plan.clone(),
        loaded: vec![2, 0, 3, 1],
        generated_queries: 3,
        generated_samples_per_query: 1,
        generated_duration: 3_000_000,
        ended: EndReason::Naturally,
        threads: ThreadReport::default(),
        record,
        dropped: None,
        load: Span { begin: 10_000, end: 12_000 },
        generate: Span { begin: 20_000, end: 25_000 },
        started_at: 30_000,
        started_wall: WallTime { unix_ns: 1_795_223_776_119_000_000 },
        finished_at: 800_000,
        unload: Span { begin: 900_000, end: 901_500 },
    };
    let start = Message {
        at: 9_000,
        key: "generic_message",
        severity: Severity::Info,
        text: "Starting performance mode".into(),
    };
    let mut requested = Settings::default();
    requested.values.scenario = scenario;
    requested.values.accuracy_log_probability = plan.accuracy_log.probability;
    TestLog {
        sut_name: "sut \"A\"\n".into(),
        sut_name_duration: 321,
        qsl_name: "data\\set".into(),
        qsl_total: 8,
        qsl_performance: 4,
        process: Process::default(),
        origin_wall: WallTime { unix_ns: 1_795_223_776_000_000_250 },
        requested,
        plan,
        events: vec![
            Event::Message(start),
            Event::Run(Box::new(run)),
            Event::Result { runs_back: 0, at: 810_000 },
        ],
        complete: true,
        search: None,
    }
}

fn single_stream() -> TestLog {
    let log = test_log(plan(Load::SingleStream { percentile: 0.9 }), record());
    TestLog { sut_name: "hand".into(), ..log }
}

fn run_of(log: &mut TestLog) -> &mut RunLog {
    let run = log.events.iter_mut().find_map(|event| match event {
        Event::Run(run) => Some(run),
        _ => None,
    });
    run.unwrap()
}

/// Writes a test and returns summary, detail, accuracy and trace.
fn written(name: &str, log: &TestLog) -> [String; 4] {
    let mut files = LogFiles::open(&into(&folder(name)), None, 1).unwrap();
    files.write(log).unwrap();
    files.paths().map(|path| fs::read_to_string(path).unwrap())
}

/// Every line of a detail log as JSON.
fn json_lines(detail: &str) -> Vec<Json> {
    let json = |line: &str| serde_json::from_str(line.strip_prefix(":::MLLOG ").unwrap()).unwrap();
    detail.lines().map(json).collect()
}

fn value<'a>(lines: &'a [Json], key: &str) -> &'a Json {
    let line = lines.iter().rev().find(|line| line["key"] == key);
    &line.unwrap_or_else(|| panic!("no {key}"))["value"]
}

#[test]
fn the_summary_of_three_queries() {
    // Mean 200 us; two intervals in the 400 us until the last issue.
    let expected = "\
================================================
MLPerf Results Summary
================================================
SUT name : hand
Scenario : SingleStream
Mode     : PerformanceOnly
90.0th percentile latency (ns) : 300000
Result is : INVALID
  Min duration satisfied : Yes
  Min queries satisfied : Yes
  Early stopping satisfied: NO
Recommendations:
Early Stopping Result:
 * Only processed 3 queries.
 * Need to process at least 64 queries for early stopping.

================================================
Additional Stats
================================================
QPS w/ loadgen overhead         : 5000.00
QPS w/o loadgen overhead        : 5000.00

Min latency (ns)                : 100000
Max latency (ns)                : 300000
Mean latency (ns)               : 200000
50.00 percentile latency (ns)   : 200000
90.00 percentile latency (ns)   : 300000
95.00 percentile latency (ns)   : 300000
97.00 percentile latency (ns)   : 300000
99.00 percentile latency (ns)   : 300000
99.90 percentile latency (ns)   : 300000

================================================
Test Parameters Used
================================================
samples_per_query : 1
target_qps : 1000
target_latency (ns): 0
max_async_queries : 1
min_duration (ms): 0
max_duration (ms): 0
min_query_count : 3
max_query_count : 0
qsl_rng_seed : 1
sample_index_rng_seed : 2
schedule_rng_seed : 3
accuracy_log_rng_seed : 4
accuracy_log_probability : 0.5
accuracy_log_sampling_target : 0
print_timestamps : 0
performance_issue_unique : 0
performance_issue_same : 0
performance_issue_same_index : 0
performance_sample_count : 4
accuracy_sample_count : 8

No warnings encountered during test.

No errors encountered during test.
";
    assert_eq!(written("three", &single_stream())[0], expected);
}

#[test]
fn equal_issue_is_noted_as_real_submissions_have_it() {
    let mut log = single_stream();
    log.plan.concatenate_permutation = true;
    run_of(&mut log).plan.concatenate_permutation = true;
    let [summary, ..] = written("equal", &log);
    let note = "accuracy_sample_count : 8\n\
        WARNING: sample_concatenate_permutation was set to true. \n\
        Generated samples per query might be different as the one in the setting.\n\
        Check the generated_samples_per_query line in the detailed log for the real\n\
        samples_per_query value\n\n";
    assert!(summary.contains(note), "{summary}");
    assert_eq!(read_summary(&summary).1, []);
}

#[test]
fn all_four_files_are_json_where_they_claim_to_be() {
    let mut log = test_log(plan(Load::SingleStream { percentile: 0.9 }), record());
    let record = &mut run_of(&mut log).record;
    for (sequence, data) in [(2, &b"\x00\xff"[..]), (0, b"")] {
        record.responses.push(&LoggedResponse { sequence, data, first_token: None, tokens: 0 });
    }
    let [_, detail, accuracy, trace] = written("json", &log);
    let lines = json_lines(&detail);
    assert_eq!(value(&lines, "sut_name"), "sut \"A\"\n");
    assert_eq!(value(&lines, "qsl_name"), "data\\set");
    assert_eq!(value(&lines, "loaded_qsl_set"), &serde_json::json!([2, 0, 3, 1]));
    assert_eq!(value(&lines, "dyno_fingerprint"), combined_fingerprint().as_str());
    assert!(value(&lines, "loadgen_file_sha1")["/src/lib.rs"].is_string());
    assert!(value(&lines, "loadgen_version").as_str().unwrap().starts_with("6.0.17 (dyno "));
    assert_eq!(value(&lines, "power_end"), "11-21-2026 01:16:16.119");
    assert_eq!(lines.last().unwrap()["key"], "num_errors");
    assert!(
        lines.iter().all(|l| l["metadata"]["file"] == "detail.rs" || l["key"] == "generic_message")
    );
    assert_eq!(
        accuracy,
        "[\n{ \"seq_id\" : 2, \"qsl_idx\" : 3, \"data\" : \"00FF\" },\n\
         { \"seq_id\" : 0, \"qsl_idx\" : 2, \"data\" : \"\" }\n]\n"
    );
    serde_json::from_str::<Json>(&accuracy).unwrap();

    let trace: Json = serde_json::from_str(&trace).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let named = |name: &str| events.iter().filter(|e| e["name"] == name).count();
    assert_eq!((named("Sample"), named("IssueQuery"), named("Latency")), (6, 3, 0));
    assert_eq!((named("LoadSamples"), named("UnloadSampes"), named("GenerateQueries")), (1, 1, 1));
    assert_eq!(trace["otherData"]["ts"].to_string(), "1795223776000000.2");
}

#[test]
fn what_is_written_reads_back() {
    let mut log = test_log(plan(server(Arrivals::Poisson)), record());
    let run = run_of(&mut log);
    run.record.scheduled_at = vec![0, 90_000, 400_000];
    run.record.client_lag = vec![0, 10_000, 0];
    run.record.first_sample = 70;
    run.record.first_query = 70;
    run.record.completed_at[1] = 0;
    let sent = LoggedResponse { sequence: 1, data: b"abc", first_token: None, tokens: 0 };
    run.record.responses.push(&sent);
    let record = run.record.clone();
    let outdir = folder("back");
    let mut files = LogFiles::open(&into(&outdir), None, 0).unwrap();
    files.write(&log).unwrap();
    let [_, detail, accuracy, trace] = files.paths();

    let (detail, problems) = read_detail_file(detail).unwrap();
    assert_eq!(problems, []);
    assert_eq!(detail.text("sut_name"), Some("sut \"A\"\n"));
    assert_eq!(detail.text("result_validity"), Some("INVALID"));
    assert_eq!(detail.whole("dyno_missing_samples"), Some(1));
    assert_eq!(detail.whole("dyno_client_lag_max_ns"), Some(10_000));
    assert!(detail.text("result_invalid_reason").unwrap().contains("1 sample never came back"));
    assert_eq!(detail.value("loaded_qsl_set"), Some(&Value::List(vec![2, 0, 3, 1])));

    let entries: Vec<_> = open_accuracy(accuracy).unwrap().map(Result::unwrap).collect();
    assert_eq!((entries[0].seq_id, entries[0].qsl_idx), (71, 0));
    assert_eq!(entries[0].data, b"abc");

    let trace = fs::read(trace).unwrap();
    let (samples, problems) = samples_of(TraceReader::new(&trace[..]));
    assert_eq!(problems, []);
    let back = record_of(&samples, 1, 30_000, true).unwrap();
    assert_eq!(back.scheduled_at, record.scheduled_at);
    assert_eq!(back.issued_at, record.issued_at);
    assert_eq!(back.completed_at, record.completed_at);
    assert_eq!((back.first_sample, back.indices), (70, record.indices));
}

#[test]
fn a_run_of_one_query_has_null_where_the_reference_has_nan() {
    let one = Record {
        samples_per_query: 1,
        scheduled_at: vec![0],
        issued_at: vec![0],
        indices: vec![2],
        completed_at: vec![100_000],
        ..Record::default()
    };
    let [summary, detail, ..] = written("one", &test_log(plan(server(Arrivals::Poisson)), one));
    let lines = json_lines(&detail);
    assert_eq!(value(&lines, "result_scheduled_samples_per_sec"), &Json::Null);
    assert!(summary.contains("Scheduled samples per second : nan\n"), "{summary}");
}

#[test]
fn misuse_and_messages_are_counted_in_both_logs() {
    let mut log = test_log(plan(Load::SingleStream { percentile: 0.9 }), record());
    let run = run_of(&mut log);
    run.ended = EndReason::MaxQueryCount { issued: 3 };
    run.record.misuse = Misuse { duplicate: 2, unknown: 50, ..Misuse::default() };
    let audit = Message {
        at: 1_000,
        key: "warning_generic_message",
        severity: Severity::Warning,
        text: "audit.config was found".into(),
    };
    log.events.insert(0, Event::Message(audit));
    let [summary, detail, ..] = written("misuse", &log);
    let lines = json_lines(&detail);
    let errors: Vec<&str> = lines
        .iter()
        .filter(|line| line["metadata"]["is_error"] == true)
        .map(|line| line["value"].as_str().unwrap())
        .collect();
    assert_eq!(
        errors,
        [
            "Attempted to complete a sample twice.",
            "Attempted to complete a sample twice.",
            "Received completion for a sample that was never issued. (50 times)",
            "IssueQueryThread 0 Ending early: Max query count reached. query_count 3",
        ]
    );
    assert_eq!(value(&lines, "num_errors"), 53);
    assert!(summary.ends_with(
        "\n1 warning encountered. See detailed log.\n\n53 ERRORS encountered. See detailed log.\n"
    ));
    let position = |key: &str| lines.iter().position(|line| line["key"] == key).unwrap();
    let notice = position("warning_generic_message");
    assert_eq!(notice + 1, position("requested_scenario"), "audits are told before the settings");
}

#[test]
fn each_issuing_thread_has_an_error_for_the_limit_that_ended_it() {
    let mut log = single_stream();
    let run = run_of(&mut log);
    run.threads.mismatch = Some("Mismatch".into());
    run.threads.ends = vec![EndReason::TraceIssued, EndReason::MaxDuration { at: 7 }];
    let lines = json_lines(&written("threads", &log)[1]);
    let at = lines.iter().position(|line| line["value"] == "Mismatch").unwrap();
    assert_eq!(lines[at - 1]["key"], "generated_query_duration");
    let text = "IssueQueryThread 1 Ending early: Max test duration reached. duration_ns 7";
    assert_eq!(value(&lines, "error_runtime"), text);
}

#[test]
fn an_interrupted_test_says_so() {
    let mut log = single_stream();
    log.complete = false;
    log.events.pop();
    let [summary, detail, ..] = written("interrupted", &log);
    assert_eq!(
        summary,
        "\nNo warnings encountered during test.\n\n1 ERROR encountered. See detailed log.\n"
    );
    let last = json_lines(&detail).pop().unwrap();
    assert_eq!(last["metadata"]["is_error"], true);
    assert!(last["value"].as_str().unwrap().contains("not a result"), "{last}");
    // One that had issued queries has a result, and counts its errors there.
    let mut log = single_stream();
    log.complete = false;
    let [summary, detail, ..] = written("interrupted", &log);
    assert!(summary.ends_with("\n1 ERROR encountered. See detailed log.\n"), "{summary}");
    assert_eq!(value(&json_lines(&detail), "num_errors"), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_name_survives_and_forges_nothing(name: String) {
        let mut log = single_stream();
        log.sut_name = name.clone() + "\nResult is : VALID";
        let outdir = folder("names");
        let mut files = LogFiles::open(&into(&outdir), None, 0).unwrap();
        files.write(&log).unwrap();
        let (detail, problems) = read_detail_file(files.paths()[1]).unwrap();
        prop_assert_eq!(problems, []);
        prop_assert_eq!(detail.text("sut_name"), Some(log.sut_name.as_str()));
        let text = fs::read_to_string(files.paths()[0]).unwrap();
        let (summary, problems) = read_summary(&text);
        prop_assert_eq!(problems, []);
        prop_assert_eq!(summary.value("Result is"), Some("INVALID"));
    }
}

#[test]
fn tokens_and_failures_of_a_server_run() {
    let mut log = test_log(plan(server(Arrivals::Poisson)), record());
    let tokens = Some(Tokens::Measured { ttft: MILLISECOND, tpot: MILLISECOND });
    log.requested.values.use_token_latencies = true;
    log.plan.tokens = tokens;
    let run = run_of(&mut log);
    run.plan.tokens = tokens;
    run.record.scheduled_at = vec![0, 100_000, 400_000];
    run.record.first_token_at = vec![50_000, 200_000, 0];
    run.record.tokens = vec![3, 2, 0];
    run.record.failed = vec![(2, Failure::TimedOut)];
    let first =
        LoggedResponse { sequence: 0, data: b"\x01", first_token: Some(b"\x02"), tokens: 3 };
    run.record.responses.push(&first);
    let [summary, detail, accuracy, trace] = written("tokens", &log);
    let lines = json_lines(&detail);
    // (100 - 50) us over 2 further tokens, (200 - 100) us over 1.
    assert_eq!(value(&lines, "result_time_to_output_token_min"), 25_000);
    assert_eq!(value(&lines, "result_time_to_output_token_max"), 100_000);
    assert_eq!(value(&lines, "result_first_token_max_latency_ns"), 100_000);
    assert_eq!(value(&lines, "dyno_failed_samples"), 1);
    assert!(summary.contains("\nttft_latency (ns): 1000000\ntpot_latency (ns): 1000000\n"));
    assert!(accuracy.contains("\"data\" : \"01\", \"token_data\" : \"02\", \"token_count\" : 3 }"));
    let trace: Json = serde_json::from_str(&trace).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let counters: Vec<&Json> = events.iter().filter(|e| e["name"] == "Token_Latency").collect();
    assert_eq!(counters.len(), 2);
    assert_eq!(counters[1]["args"]["issue_to_done"], 100_000);
}

#[test]
fn own_settings_and_origins_are_told_when_somebody_set_them() {
    let mut log = test_log(plan(server(Arrivals::Burst(8))), record());
    let flag = Origin::Flag("--server-arrivals".into());
    log.requested.set("server_arrivals", "burst:8", flag).unwrap();
    let lines = json_lines(&written("origins", &log)[1]);
    assert_eq!(value(&lines, "dyno_server_arrivals"), "burst:8");
    assert_eq!(value(&lines, "dyno_origin_server_arrivals"), "flag --server-arrivals");
    let lines = json_lines(&written("defaults", &single_stream())[1]);
    let own: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["key"].as_str().filter(|key| key.starts_with("dyno_")))
        .collect();
    assert_eq!(own, ["dyno_fingerprint", "dyno_failed_samples", "dyno_missing_samples"]);
}

#[test]
fn names_of_files() {
    let opened = WallTime { unix_ns: 1_795_223_776_000_000_000 };
    let named = |settings: &LogSettings, tenant| -> Vec<String> {
        settings.paths(tenant, opened).iter().map(|p| p.display().to_string()).collect()
    };
    assert_eq!(
        named(&into("out".as_ref()), None),
        [
            "out/mlperf_log_summary.txt",
            "out/mlperf_log_detail.txt",
            "out/mlperf_log_accuracy.json",
            "out/mlperf_log_trace.json"
        ]
    );
    let settings = LogSettings {
        prefix: "p_".into(),
        suffix: "_s".into(),
        prefix_with_datetime: true,
        ..into("out".as_ref())
    };
    assert_eq!(
        named(&settings, Some("chat/7B"))[0],
        "out/p_2026-11-21T01:16:16Z_chat-7B_summary_s.txt"
    );
}

#[test]
fn a_trace_that_is_off_is_an_empty_file() {
    let settings = LogSettings { enable_trace: false, ..into(&folder("off")) };
    let mut files = LogFiles::open(&settings, None, 0).unwrap();
    files.write(&single_stream()).unwrap();
    assert_eq!(fs::read(files.paths()[3]).unwrap(), b"");
}

#[test]
fn writing_twice_leaves_one_log() {
    let mut files = LogFiles::open(&into(&folder("twice")), None, 0).unwrap();
    let mut log = single_stream();
    log.sut_name = "a much longer name than the second time".into();
    files.write(&log).unwrap();
    files.write(&single_stream()).unwrap();
    let again = files.paths().map(|path| fs::read_to_string(path).unwrap());
    assert_eq!(again, written("once", &single_stream()));
}

#[test]
fn a_folder_that_is_not_there_is_said_before_the_run() {
    let error = LogFiles::open(&into(&folder("gone").join("nowhere")), None, 0).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("nowhere/mlperf_log_summary.txt"), "{text}");
    assert!(text.ends_with("create the folder, or choose another one"), "{text}");
}

#[test]
fn a_disk_that_is_too_full_is_said_before_the_run() {
    let error = LogFiles::open(&into(&folder("full")), None, u64::MAX).unwrap_err();
    assert!(matches!(error, LogError::NoSpace { needed: u64::MAX, .. }), "{error}");
    assert!(error.to_string().contains("free some space"), "{error}");
    assert!(error.to_string().ends_with(", or disable the trace"), "{error}");
    let without = LogSettings { enable_trace: false, ..into(&folder("full")) };
    let error = LogFiles::open(&without, None, u64::MAX).unwrap_err();
    assert!(error.to_string().ends_with("free some space, or choose another folder"), "{error}");
}

#[test]
fn the_estimate_covers_what_is_written() {
    for load in [Load::SingleStream { percentile: 0.9 }, server(Arrivals::Poisson), Load::Offline] {
        let mut plan = plan(load);
        let queries = 2_000u64;
        (plan.min_query_count, plan.min_sample_count) = (queries, queries);
        let times: Vec<u64> = (1..=queries).map(|i| i * 1_000_000_000).collect();
        let record = Record {
            samples_per_query: 1,
            scheduled_at: times.clone(),
            issued_at: times.clone(),
            indices: vec![1_000_000; times.len()],
            completed_at: times.iter().map(|at| at + 999_999_999).collect(),
            ..Record::default()
        };
        let log = test_log(plan.clone(), record);
        let bytes: u64 = written("estimate", &log).iter().map(|text| text.len() as u64).sum();
        let expected = expected_bytes(&plan, 8, true);
        assert!((bytes..3 * bytes).contains(&expected), "{expected} for {bytes}");
    }
    let offline = Plan { samples_per_query: 10, min_query_count: 1, ..plan(Load::Offline) };
    let bytes = |plan: &Plan, trace| expected_bytes(plan, 8, trace);
    assert!(bytes(&offline, false) < bytes(&offline, true));
    // An override that means "all samples".
    let all = Plan { mode: TestMode::AccuracyOnly, accuracy_sample_count: u64::MAX, ..offline };
    assert_eq!(bytes(&all, true), bytes(&Plan { accuracy_sample_count: 8, ..all.clone() }, true));
    assert_eq!(plan(Load::Offline).scenario(), Scenario::Offline);
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_fills_up_does_not_lose_the_run() {
    let outdir = folder("fills");
    std::os::unix::fs::symlink("/dev/full", outdir.join("mlperf_log_accuracy.json")).unwrap();
    let mut files = LogFiles::open(&into(&outdir), None, 0).unwrap();
    let log = single_stream();
    let error = files.write(&log).unwrap_err();
    let LogError::Write { written, failed } = &error else { panic!("{error}") };
    let names: Vec<_> = written.iter().map(|path| path.file_name().unwrap()).collect();
    assert_eq!(names, ["mlperf_log_summary.txt", "mlperf_log_detail.txt", "mlperf_log_trace.json"]);
    assert_eq!(failed[0].kind, std::io::ErrorKind::StorageFull);
    assert!(error.to_string().contains("write them again to another folder"), "{error}");
    LogFiles::open(&into(&folder("elsewhere")), None, 0).unwrap().write(&log).unwrap();
}
