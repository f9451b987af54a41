//! Verdicts of the rules on a generated tree, valid and with single defects.

use std::collections::BTreeSet;

use dyno_rules::Round;
use dyno_submission::check::{Options, Program, check};
use dyno_submission::finding::Severity;
use dyno_submission::table::Column;
use sha2::{Digest, Sha256};

use crate::made::folder::Folder;
use crate::made::submission::resnet;

const LOG: &str = "[\n{ \"seq_id\" : 0, \"qsl_idx\" : 49999, \"data\" : \"5F000000\" }\n]\n";
const RESULT: &str = "closed/acme/results/box/resnet";
const AUDITS: &str = "closed/acme/compliance/box/resnet";
const DETAIL: &str = "performance/run_1/mlperf_log_detail.txt";

fn round() -> &'static Round {
    Round::named("v5.1").unwrap()
}

fn accuracy_text(log: &str) -> String {
    let hash: String = Sha256::digest(log).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("accuracy=76.100%, good=38050, total=50000\nhash={hash}\n")
}

/// Creates a valid tree whose accuracy logs are short enough to be complete.
fn right() -> Folder {
    let folder = resnet(round());
    for scenario in ["SingleStream", "MultiStream", "Offline"] {
        folder.write(&format!("{RESULT}/{scenario}/accuracy/mlperf_log_accuracy.json"), LOG);
        folder.write(&format!("{RESULT}/{scenario}/accuracy/accuracy.txt"), accuracy_text(LOG));
    }
    folder
}

/// Returns the ids and messages of the errors.
fn errors(folder: &Folder) -> (BTreeSet<&'static str>, String) {
    let checked =
        check(folder.path(), round(), &Options { forensic: true, ..Options::new(Program::Strict) })
            .unwrap();
    let errors: Vec<_> =
        checked.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    let text = errors.iter().map(|finding| format!("{finding}\n")).collect();
    (errors.iter().map(|finding| finding.check).collect(), text)
}

#[test]
fn a_tree_in_which_all_is_right_passes() {
    let folder = right();
    let (ids, text) = errors(&folder);
    assert!(ids.is_empty(), "{text}");
    let checked =
        check(folder.path(), round(), &Options { forensic: true, ..Options::new(Program::Strict) })
            .unwrap();
    assert!(checked.is_valid());
    assert_eq!((checked.valid(), checked.rows.len()), (3, 3));
}

/// Edits one file of a valid tree and asserts which check finds it.
#[track_caller]
fn assert_finds(id: &str, file: &str, edit: impl Fn(&Folder, &str)) {
    let folder = right();
    edit(&folder, file);
    let (ids, text) = errors(&folder);
    assert!(ids.contains(id), "{file}: expected {id}, found\n{text}");
}

#[test]
fn a_text_that_was_changed_after_the_run_is_found() {
    let (run, accuracy) = (format!("{RESULT}/Offline"), format!("{RESULT}/Offline/accuracy"));
    let summary = format!("{run}/performance/run_1/mlperf_log_summary.txt");
    let audits = format!("{AUDITS}/Offline");
    for (file, from, to, id) in [
        (summary.clone(), ": VALID", ": INVALID", "performance.summary"),
        (summary, "Result is", "Result was", "performance.summary_empty"),
        (format!("{run}/{DETAIL}"), "num_errors", "sut_name", "log.repeated_keys"),
        (format!("{accuracy}/mlperf_log_accuracy.json"), "5F", "5E", "accuracy.hash_differs"),
        (format!("{accuracy}/mlperf_log_accuracy.json"), "[", "", "accuracy.log_empty"),
        (
            format!("{accuracy}/mlperf_log_accuracy.json"),
            "\"5F000000\" }",
            "\"5F000000\" },\n{ \"seq_id\" : 1, \"qsl_idx\" : 49999, \"data\" : \"00000000\" }",
            "accuracy.log_empty",
        ),
        (
            format!("{accuracy}/mlperf_log_accuracy.json"),
            "49999",
            "49999, \"qsl_idx\" : 7",
            "accuracy.log_empty",
        ),
        (format!("{accuracy}/accuracy.txt"), "hash=", "hash=x", "accuracy.hash_format"),
        (format!("{accuracy}/accuracy.txt"), "76.100", "0.761", "accuracy.unit"),
        (
            format!("{accuracy}/mlperf_log_detail.txt"),
            "\"is_error\": false",
            "\"is_error\": true",
            "accuracy.errors",
        ),
        (format!("{audits}/TEST04/verify_performance.txt"), "PASS", "FAIL", "audit.text_derived"),
        (
            format!("{audits}/TEST04/verify_performance.txt"),
            "TEST PASS",
            "TEST PASS\nTEST FAIL",
            "audit.text_derived",
        ),
        (
            format!("{audits}/TEST01/verify_accuracy.txt"),
            "TEST",
            "num_perf_log_data_mismatch = 3\nTEST",
            "audit.text_derived",
        ),
    ] {
        assert_finds(id, &file, |folder, file| folder.edit(file, from, to));
    }
}

#[test]
fn a_value_that_was_changed_after_the_run_is_found() {
    let (run, audits) = (format!("{RESULT}/Offline"), format!("{AUDITS}/Offline"));
    // In an audit, a result of 200 samples/s may differ by a tenth.
    let rate = "result_samples_per_second";
    for (file, key, value, id) in [
        (format!("{run}/{DETAIL}"), "effective_min_query_count", "0", "performance.queries"),
        (format!("{run}/{DETAIL}"), "num_errors", "2", "log.error_count"),
        (
            format!("{run}/accuracy/mlperf_log_detail.txt"),
            "effective_scenario",
            "\"Server\"",
            "log.scenario",
        ),
        (format!("{audits}/TEST01/{DETAIL}"), rate, "178", "audit.ratio"),
        (format!("{audits}/TEST04/{DETAIL}"), rate, "222", "audit.ratio"),
    ] {
        assert_finds(id, &file, |folder, file| folder.set(file, key, value));
    }
}

#[test]
fn scores_in_the_text_of_an_audit_fit_its_verdict_and_its_log() {
    let file = format!("{AUDITS}/Offline/TEST01/verify_performance.txt");
    // The log also has the samples of the query, which are no score.
    let log = right().read(&format!("{AUDITS}/Offline/TEST01/{DETAIL}"));
    let (_, rest) = log.split_once("\"effective_samples_per_query\", \"value\": ").unwrap();
    let samples = rest.split(',').next().unwrap();
    // The audited run has about 200 samples/s.
    for [reference, audited] in [["200.0", "1.0"], ["5000.0", "5000.0"], [samples, samples]] {
        let scores = format!("Reference score = {reference}\nTest score = {audited}\n");
        assert_finds("audit.text_derived", &file, |folder, file| {
            folder.write(file, format!("Verifying performance.\n{scores}TEST PASS\n"));
        });
    }
}

/// The accuracy run "is otherwise identical" to the run for performance.
#[test]
fn an_accuracy_run_of_another_scenario_is_of_an_inferred_result_only() {
    let folder = right();
    let log = "accuracy/mlperf_log_detail.txt";
    let single = folder.read(&format!("{RESULT}/SingleStream/{log}"));
    folder.write(&format!("{RESULT}/Offline/{log}"), single);
    let (ids, text) = errors(&folder);
    assert!(ids.contains("log.scenario"), "{text}");
}

#[test]
fn an_audit_must_be_run_with_its_settings() {
    let folder = right();
    let file = format!("{AUDITS}/Offline/TEST04/{DETAIL}");
    folder.set(&file, "effective_performance_issue_same", "false");
    // The summary contains the setting as well.
    assert_eq!(errors(&folder).0, ["audit.settings", "performance.summary"].into());
}

/// Replaces a file of MultiStream with that of SingleStream.
fn copy(folder: &Folder, root: &str, file: &str) {
    let source = folder.read(&format!("{root}/SingleStream/{file}"));
    folder.write(&format!("{root}/MultiStream/{file}"), source);
}

#[test]
fn an_inferred_result_is_a_copy_of_its_source() {
    let folder = right();
    for file in
        [DETAIL, "performance/run_1/mlperf_log_summary.txt", "accuracy/mlperf_log_detail.txt"]
    {
        copy(&folder, RESULT, file);
    }
    for test in ["TEST01", "TEST04"] {
        for file in [DETAIL, "performance/run_1/mlperf_log_summary.txt"] {
            copy(&folder, AUDITS, &format!("{test}/{file}"));
        }
        copy(&folder, AUDITS, &format!("{test}/verify_performance.txt"));
    }
    assert!(errors(&folder).0.is_empty(), "{}", errors(&folder).1);
    for file in [DETAIL, "performance/run_1/mlperf_log_summary.txt"] {
        folder.edit(&format!("{RESULT}/MultiStream/{file}"), "50000000", "50000001");
    }
    let (ids, text) = errors(&folder);
    assert_eq!(ids, ["performance.inferred_copy"].into(), "{text}");
}

#[test]
fn two_results_of_the_network_division_that_a_table_cannot_tell_apart_are_one_too_many() {
    let folder = right();
    let other = "network/acme/systems/box2.json";
    for system in ["box", "box2"] {
        let description = folder.read("closed/acme/systems/box.json");
        folder.write(&format!("network/acme/systems/{system}.json"), description);
        let log = format!("network/acme/results/{system}/resnet/Offline/{DETAIL}");
        folder.write(&log, folder.read(&format!("{RESULT}/Offline/{DETAIL}")));
    }
    let (ids, text) = errors(&folder);
    assert!(ids.contains("result.twice"), "{text}");
    folder.set_field(other, "system_name", "another");
    assert!(!errors(&folder).0.contains("result.twice"));
}

#[test]
fn design_power_that_is_described_can_be_computed() {
    let file = "closed/acme/systems/box_power.yaml";
    let round = Round::named("v6.1").unwrap();
    let folder = resnet(round);
    folder.write(&format!("{RESULT}/Offline/performance/power/client.json"), "{}");
    let found = |folder: &Folder| {
        let checked = check(
            folder.path(),
            round,
            &Options { forensic: true, ..Options::new(Program::Strict) },
        )
        .unwrap();
        checked.findings.iter().any(|finding| finding.check == "system.nameplate")
    };
    folder.write(file, "- Min PSUs Needed: 1\n  PSUs: [{PowerCapacityWatts: 800}]\n");
    assert!(!found(&folder));
    folder.write(file, "- Min PSUs Needed: 2\n  PSUs: [{PowerCapacityWatts: 800}]\n");
    assert!(found(&folder));
}

/// The official program adds what there is.
#[test]
fn design_power_of_incomplete_supplies_is_unknown() {
    for (needed, watts) in [(1, "800"), (2, "")] {
        let folder = super::endpoint::submission();
        let supplies =
            format!("- Min PSUs Needed: {needed}\n  PSUs: [{{PowerCapacityWatts: 800}}]\n");
        folder.write("closed/acme/systems/box_power.yaml", supplies);
        let round = Round::named("v6.1").unwrap();
        let checked = check(folder.path(), round, &Options::new(Program::Strict)).unwrap();
        let written: Vec<&str> =
            checked.rows.iter().map(|row| row.get(Column::DesignPower)).collect();
        assert_eq!(written, [watts; 3], "{:#?}", checked.findings);
    }
}
