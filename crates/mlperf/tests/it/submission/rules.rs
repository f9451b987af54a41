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

/// A tree in which the logs are those of runs, as far as the rules look.
fn right() -> Folder {
    let folder = made::submission(round());
    for scenario in ["SingleStream", "MultiStream", "Offline"] {
        let summary = format!(
            "MLPerf Results Summary\nSUT name : made\nScenario : {scenario}\nMode     : \
             PerformanceOnly\nResult is : VALID\n  Early stopping satisfied: Yes\n"
        );
        let audits = ["TEST01", "TEST04"].map(|test| format!("{AUDITS}/{scenario}/{test}"));
        for run in [format!("{RESULT}/{scenario}")].iter().chain(&audits) {
            folder.write(&format!("{run}/performance/run_1/mlperf_log_summary.txt"), &summary);
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
    let log = made::log(round(), "Offline");
    folder.write(&file, log.clone() + &made::line("effective_performance_issue_same", "true"));
    assert!(errors(&folder).0.is_empty());
    folder.write(&file, log + &made::line("effective_performance_issue_same", "false"));
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
    assert!(errors(&folder).0.is_empty(), "{}", errors(&folder).1);
    edit(&folder, &format!("{RESULT}/MultiStream/{DETAIL}"), "2048000", "2047000");
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
