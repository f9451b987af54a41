//! What the rules say of a tree made here, as it is and with one thing wrong.

use std::collections::BTreeSet;
use std::fs;

use dyno_mlperf::finding::Severity;
use dyno_mlperf::round::Round;
use dyno_mlperf::submission::check::{Options, Program, check};
use sha2::{Digest, Sha256};

use super::folder::Folder;
use super::made;

const LOG: &str = "[\n{ \"seq_id\" : 0, \"qsl_idx\" : 7, \"data\" : \"5F000000\" }\n]\n";
const ESTIMATES: &str = " * Early stopping 90.0th percentile estimate: 512000\n * Early stopping \
                         99.0th percentile estimate: 2048000";
const RESULT: &str = "closed/acme/results/box/resnet50";
const AUDITS: &str = "closed/acme/compliance/box/resnet50";
const DETAIL: &str = "performance/run_1/mlperf_log_detail.txt";

fn round() -> &'static Round {
    Round::named("v5.1").unwrap()
}

fn accuracy_text(log: &str) -> String {
    let hash: String = Sha256::digest(log).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("accuracy=76.100%, good=38050, total=50000\nhash={hash}\n")
}

/// A detail log with all keys that a run of any scenario writes; `test` is the audit.
fn whole(scenario: &str, mode: &str, test: &str) -> String {
    let (seed, target) = if test == "TEST01" { ("720381539243781796", "4096") } else { ("0", "0") };
    let (same, index) = if test == "TEST04" { ("true", "3") } else { ("false", "0") };
    let mode = format!("\"{mode}\"");
    let estimates = format!("\"{}\"", ESTIMATES.replace('\n', " "));
    let mut log = made::log(round(), scenario).replace(
        "percentile_latency_ns\", \"value\": 1000,",
        "percentile_latency_ns\", \"value\": 2000000,",
    );
    for (key, value) in [
        ("effective_test_mode", mode.as_str()),
        ("effective_accuracy_log_probability", "0"),
        ("effective_accuracy_log_rng_seed", seed),
        ("effective_accuracy_log_sampling_target", target),
        ("effective_min_sample_count", "1"),
        ("effective_performance_issue_same", same),
        ("effective_performance_issue_same_index", index),
        ("effective_performance_issue_unique", "false"),
        ("effective_sample_concatenate_permutation", "false"),
        ("effective_target_latency_ns", "0"),
        ("effective_target_latency_percentile", "0.9"),
        ("generated_query_count", "1"),
        ("generated_samples_per_query", "24576"),
        ("loadgen_version", "\"made\""),
        ("power_begin", "\"07-23-2025 02:30:20.039\""),
        ("power_end", "\"07-23-2025 02:40:20.040\""),
        ("test_datetime", "\"2025-07-23T02:18:08Z\""),
        ("early_stopping_result", &estimates),
        ("result_query_count", "24576"),
        ("result_min_duration_met", "true"),
        ("result_min_queries_met", "true"),
        ("result_qps_with_loadgen_overhead", "1999"),
        ("result_mean_query_latency_ns", "500000"),
    ] {
        log += &made::line(key, value);
    }
    for (rank, value) in [
        ("min", "300000"),
        ("50.00_percentile", "400000"),
        ("90.00_percentile", "500000"),
        ("95.00_percentile", "600000"),
        ("97.00_percentile", "700000"),
        ("99.00_percentile", "2000000"),
        ("99.90_percentile", "2100000"),
        ("max", "3719409761"),
    ] {
        let query = if rank.contains('.') { "_per_query" } else { "_query" };
        log += &made::line(&format!("result_{rank}{query}_latency_ns"), value);
        if rank != "99.00_percentile" {
            log += &made::line(&format!("result_{rank}_latency_ns"), value);
        }
    }
    log
}

/// A tree in which the logs are those of runs, as far as the rules look.
fn right() -> Folder {
    let folder = made::submission(round());
    for scenario in ["SingleStream", "MultiStream", "Offline"] {
        let summary = format!(
            "MLPerf Results Summary\nSUT name : made\nScenario : {scenario}\nMode     : \
             PerformanceOnly\nResult is : VALID\n  Early stopping satisfied: Yes\n\
             Early Stopping Result:\n{ESTIMATES}\n\n"
        );
        let audits = ["TEST01", "TEST04"].map(|test| format!("{AUDITS}/{scenario}/{test}"));
        for run in [format!("{RESULT}/{scenario}")].iter().chain(&audits) {
            folder.write(&format!("{run}/performance/run_1/mlperf_log_summary.txt"), &summary);
        }
        let result = format!("{RESULT}/{scenario}");
        folder.write(&format!("{result}/{DETAIL}"), whole(scenario, "PerformanceOnly", ""));
        let accuracy = whole(scenario, "AccuracyOnly", "");
        folder.write(&format!("{result}/accuracy/mlperf_log_detail.txt"), accuracy);
        for test in ["TEST01", "TEST04"] {
            let file = format!("{AUDITS}/{scenario}/{test}/{DETAIL}");
            folder.write(&file, whole(scenario, "PerformanceOnly", test));
        }
        folder.write(&format!("{RESULT}/{scenario}/accuracy/mlperf_log_accuracy.json"), LOG);
        folder.write(&format!("{RESULT}/{scenario}/accuracy/accuracy.txt"), accuracy_text(LOG));
    }
    folder
}

/// Ids of the errors, with the messages.
fn errors(folder: &Folder) -> (BTreeSet<&'static str>, String) {
    let checked = check(folder.path(), round(), &Options::new(Program::Strict)).unwrap();
    let errors: Vec<_> =
        checked.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    let text = errors.iter().map(|finding| format!("{finding}\n")).collect();
    (errors.iter().map(|finding| finding.check).collect(), text)
}

fn edit(folder: &Folder, file: &str, from: &str, to: &str) {
    let old = fs::read_to_string(folder.path().join(file)).unwrap();
    assert!(old.contains(from), "{file}: {old}");
    folder.write(file, old.replace(from, to));
}

#[test]
fn a_tree_in_which_all_is_right_passes() {
    let folder = right();
    let (ids, text) = errors(&folder);
    assert!(ids.is_empty(), "{text}");
    let checked = check(folder.path(), round(), &Options::new(Program::Strict)).unwrap();
    assert!(checked.is_valid());
    assert_eq!((checked.valid(), checked.rows.len()), (3, 3));
}

#[test]
fn what_was_changed_after_the_run_is_found() {
    let (offline, accuracy) = (format!("{RESULT}/Offline"), format!("{RESULT}/Offline/accuracy"));
    let (first, fourth) = (format!("{AUDITS}/Offline/TEST01"), format!("{AUDITS}/Offline/TEST04"));
    let summary = "performance/run_1/mlperf_log_summary.txt";
    let rate = "\"value\": 6607.5";
    for (file, from, to, id) in [
        (format!("{offline}/{summary}"), ": VALID", ": INVALID", "performance.summary"),
        (format!("{offline}/{summary}"), "Result is", "Result was", "performance.summary_empty"),
        (format!("{offline}/{DETAIL}"), "24576", "0", "performance.queries"),
        (format!("{offline}/{DETAIL}"), "num_errors", "sut_name", "log.repeated_keys"),
        (
            format!("{offline}/{DETAIL}"),
            "\"key\": \"num_errors\", \"value\": 0",
            "\"key\": \"num_errors\", \"value\": 2",
            "log.error_count",
        ),
        (format!("{accuracy}/mlperf_log_accuracy.json"), "5F", "5E", "accuracy.hash_differs"),
        (format!("{accuracy}/mlperf_log_accuracy.json"), "[", "", "accuracy.log_empty"),
        (format!("{accuracy}/accuracy.txt"), "hash=", "hash=x", "accuracy.hash_format"),
        (format!("{accuracy}/accuracy.txt"), "76.100", "0.761", "accuracy.unit"),
        (format!("{accuracy}/mlperf_log_detail.txt"), "\"Offline\"", "\"Server\"", "log.scenario"),
        (
            format!("{accuracy}/mlperf_log_detail.txt"),
            "\"is_error\": false",
            "\"is_error\": true",
            "accuracy.errors",
        ),
        (format!("{first}/{DETAIL}"), rate, "\"value\": 5900", "audit.ratio"),
        (format!("{fourth}/{DETAIL}"), rate, "\"value\": 7300", "audit.ratio"),
        (format!("{fourth}/verify_performance.txt"), "PASS", "FAIL", "audit.text_derived"),
        (
            format!("{first}/verify_accuracy.txt"),
            "TEST",
            "num_perf_log_data_mismatch = 3\nTEST",
            "audit.text_derived",
        ),
    ] {
        let folder = right();
        edit(&folder, &file, from, to);
        let (ids, text) = errors(&folder);
        assert!(ids.contains(id), "{file} {to}: expected {id}, found\n{text}");
    }
}

#[test]
fn an_audit_must_be_run_with_its_settings() {
    let folder = right();
    let file = format!("{AUDITS}/Offline/TEST04/{DETAIL}");
    let key = "\"effective_performance_issue_same\", \"value\": ";
    edit(&folder, &file, &format!("{key}true"), &format!("{key}false"));
    assert_eq!(errors(&folder).0, ["audit.settings"].into());
}

#[test]
fn an_inferred_result_is_a_copy_of_its_source() {
    let folder = right();
    for file in
        [DETAIL, "performance/run_1/mlperf_log_summary.txt", "accuracy/mlperf_log_detail.txt"]
    {
        let source = folder.path().join(RESULT).join("SingleStream").join(file);
        folder.write(&format!("{RESULT}/MultiStream/{file}"), fs::read(source).unwrap());
    }
    for test in ["TEST01", "TEST04"] {
        for file in [DETAIL, "performance/run_1/mlperf_log_summary.txt"] {
            let source = folder.path().join(AUDITS).join("SingleStream").join(test).join(file);
            folder.write(&format!("{AUDITS}/MultiStream/{test}/{file}"), fs::read(source).unwrap());
        }
    }
    assert!(errors(&folder).0.is_empty(), "{}", errors(&folder).1);
    for file in [DETAIL, "performance/run_1/mlperf_log_summary.txt"] {
        edit(&folder, &format!("{RESULT}/MultiStream/{file}"), "2048000", "2047000");
    }
    let (ids, text) = errors(&folder);
    assert_eq!(ids, ["performance.inferred_copy"].into(), "{text}");
}

#[test]
fn two_results_that_a_table_cannot_tell_apart_are_one_too_many() {
    let folder = right();
    let system = folder.path().join("closed/acme/systems/box.json");
    folder.write("closed/acme/systems/box2.json", fs::read(system).unwrap());
    let log = format!("closed/acme/results/box2/resnet50/Offline/{DETAIL}");
    folder.write(&log, made::log(round(), "Offline"));
    let (ids, text) = errors(&folder);
    assert!(ids.contains("result.twice"), "{text}");
    let other = fs::read_to_string(folder.path().join("closed/acme/systems/box2.json")).unwrap();
    folder.write(
        "closed/acme/systems/box2.json",
        other.replace("\"system_name\": \"something\"", "\"system_name\": \"other\""),
    );
    assert!(!errors(&folder).0.contains("result.twice"));
}

#[test]
fn design_power_that_is_described_can_be_computed() {
    let file = "closed/acme/systems/box_power.yaml";
    let round = Round::named("v6.1").unwrap();
    let folder = made::submission(round);
    let found = |folder: &Folder| {
        let checked = check(folder.path(), round, &Options::new(Program::Strict)).unwrap();
        checked.findings.iter().any(|finding| finding.check == "system.nameplate")
    };
    folder.write(file, "- Min PSUs Needed: 1\n  PSUs: [{PowerCapacityWatts: 800}]\n");
    assert!(!found(&folder));
    folder.write(file, "- Min PSUs Needed: 2\n  PSUs: [{PowerCapacityWatts: 800}]\n");
    assert!(found(&folder));
}
