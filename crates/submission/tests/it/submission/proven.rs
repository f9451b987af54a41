//! Findings that published rounds proved right: results that the official programs accepted and
//! that break a written rule. Each rejects without `--forensic`.

use std::collections::BTreeSet;

use dyno_rules::Round;
use dyno_submission::check::{CheckReport, Options, Program, Provenance, check};
use dyno_submission::finding::Severity;

use super::made;
use crate::made::folder::Folder;
use crate::made::submission::resnet;

const RESULT: &str = "closed/acme/results/box/resnet/Offline";
const AUDITS: &str = "closed/acme/compliance/box/resnet/Offline";
const SYSTEM: &str = "closed/acme/systems/box.json";
const DETAIL: &str = "performance/run_1/mlperf_log_detail.txt";

/// Checks a valid tree after an edit, by the rules without `--forensic`.
fn judged(edit: impl Fn(&Folder)) -> CheckReport {
    let round = Round::named("v5.1").unwrap();
    let folder = resnet(round);
    edit(&folder);
    check(folder.path(), round, &Options::new(Program::Strict)).unwrap()
}

fn errors(report: &CheckReport) -> BTreeSet<&'static str> {
    let errors = report.findings.iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(|finding| finding.check).collect()
}

/// Asserts that an edit is an error of a check that cites a source.
#[track_caller]
fn assert_rejects(id: &str, edit: impl Fn(&Folder)) {
    let found = errors(&judged(edit));
    assert!(found.contains(id), "expected {id}, found {found:?}");
    let source = Provenance::of_check(id).and_then(Provenance::source);
    assert!(source.is_some(), "{id} cites no source");
}

/// 200 samples/s of 150,528 bytes are 30 MB/s. The appendix accepts an I/O device in place of the
/// network, and a card may have several ports, so a slow network proves nothing.
#[test]
fn the_network_of_a_datacenter_system_moves_what_the_result_needs() {
    let networked = |rate: &'static str| {
        move |folder: &Folder| {
            folder.set_field(SYSTEM, "system_type", "datacenter,edge");
            folder.set_field(SYSTEM, "host_networking", rate);
        }
    };
    let severities = |rate| {
        let found = judged(networked(rate)).findings;
        let found = found.into_iter().filter(|finding| finding.check == "system.bandwidth");
        found.map(|finding| finding.severity).collect::<Vec<_>>()
    };
    let slow = severities("100 Mbit/s Ethernet");
    assert!(!slow.is_empty() && slow.iter().all(|found| *found == Severity::Warning), "{slow:?}");
    assert!(severities("1 Gbit/s Ethernet").is_empty());
}

#[test]
fn the_log_in_the_accuracy_folder_is_of_an_accuracy_run() {
    assert_rejects("log.mode", |folder| {
        let log = folder.read(&format!("{RESULT}/{DETAIL}"));
        folder.write(&format!("{RESULT}/accuracy/mlperf_log_detail.txt"), log);
    });
}

#[test]
fn an_accuracy_run_covers_the_data_set() {
    assert_rejects("accuracy.samples", |folder| {
        let log = format!("{RESULT}/accuracy/mlperf_log_detail.txt");
        folder.set(&log, "effective_accuracy_sample_count", "962");
    });
}

#[test]
fn an_audit_is_as_fast_as_the_result_whatever_its_text_says() {
    // 37 % below the result.
    assert_rejects("audit.ratio", |folder| {
        let rate = 0.63 * rate(&folder.read(&format!("{RESULT}/{DETAIL}")));
        let log = format!("{AUDITS}/TEST01/{DETAIL}");
        folder.set(&log, "result_samples_per_second", &rate.to_string());
    });
}

/// Returns the result of an Offline run.
fn rate(log: &str) -> f64 {
    let (_, rest) = log.split_once("\"result_samples_per_second\", \"value\": ").unwrap();
    rest.split(',').next().unwrap().parse().unwrap()
}

/// The log of the result is in the folder of the audit, so none of the audit's settings is in it.
#[test]
fn an_audit_is_run_with_its_settings() {
    for audit in ["TEST01", "TEST04"] {
        assert_rejects("audit.settings", |folder| {
            let log = folder.read(&format!("{RESULT}/{DETAIL}"));
            folder.write(&format!("{AUDITS}/{audit}/{DETAIL}"), log);
        });
    }
}

#[test]
fn seeds_are_those_of_the_round_in_both_runs() {
    for key in ["effective_qsl_rng_seed", "effective_sample_index_rng_seed"] {
        assert_rejects("performance.seeds", |folder| {
            folder.set(&format!("{RESULT}/{DETAIL}"), key, "1");
        });
        assert_rejects("log.seeds", |folder| {
            folder.set(&format!("{RESULT}/accuracy/mlperf_log_detail.txt"), key, "1");
        });
    }
}

/// A log that does not state what it is a log of proves no accuracy.
#[test]
fn the_log_of_an_accuracy_run_is_one_in_every_round() {
    let log = format!("{RESULT}/accuracy/mlperf_log_detail.txt");
    for text in ["nothing\n", ":::MLLOG {\"key\": \"other\", \"value\": 1}\n", ""] {
        assert_rejects("accuracy.readable", |folder| folder.write(&log, text));
    }
    let without = |key: &'static str| {
        let log = &log;
        move |folder: &Folder| {
            let text = folder.read(log);
            let others = text.lines().filter(|line| !line.contains(&format!("\"{key}\"")));
            folder.write(log, others.fold(String::new(), |log, line| log + line + "\n"));
        }
    };
    for (key, id) in [
        ("effective_test_mode", "log.mode"),
        ("effective_scenario", "log.scenario"),
        ("effective_qsl_rng_seed", "log.seeds"),
        ("effective_sample_index_rng_seed", "log.seeds"),
        ("effective_schedule_rng_seed", "log.seeds"),
    ] {
        assert_rejects(id, without(key));
    }
    // v4.1 states no size of the data set.
    let round = Round::named("v4.1").unwrap();
    let folder = made::submission(round);
    let has_samples = |folder: &Folder| {
        let checked = check(folder.path(), round, &Options::new(Program::Strict)).unwrap();
        !errors(&checked).contains("accuracy.samples")
    };
    assert!(has_samples(&folder));
    let log = "closed/acme/results/box/resnet50/Offline/accuracy/mlperf_log_detail.txt";
    folder.edit(log, "qsl_reported_total_count", "other");
    assert!(!has_samples(&folder));
}
