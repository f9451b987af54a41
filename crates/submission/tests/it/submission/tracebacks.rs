//! Trees at which the official single-file checkers end with a traceback, and runs of audits that
//! they cannot read and accept.

use std::fs;
use std::path::Path;

use dyno_rules::{OneFileChecker, Round};
use dyno_submission::check::{CheckReport, Options, Outcome, Program, check};

use super::rounds::tree;
use crate::made::folder::{Folder, copy};

const RESULT: &str = "closed/acme/results/box/resnet50/Offline";
const AUDITS: &str = "closed/acme/compliance/box/resnet50/Offline";
const MEASURED: &str = "closed/acme/measurements/box/resnet50/Offline";
const DETAIL: &str = "performance/run_1/mlperf_log_detail.txt";
const TAGS: [&str; 3] = ["v2.1", "v3.0", "v5.1"];

fn as_of(folder: &Folder, tag: &str) -> CheckReport {
    let checker = OneFileChecker::new(tag.parse().unwrap());
    let options = Options::new(Program::Tag(checker));
    check(folder.path(), Round::named(tag).unwrap(), &options).unwrap()
}

/// Whether the Offline result counts, and whether the program crashes.
fn outcome(folder: &Folder, tag: &str) -> (bool, bool) {
    let checked = as_of(folder, tag);
    let offline = checked.results.get(Path::new(RESULT));
    (matches!(offline, Some(Outcome::Valid { .. })), checked.crashes)
}

const COUNTS: (bool, bool) = (true, false);
const CRASHES: (bool, bool) = (false, true);
const IS_INVALID: (bool, bool) = (false, false);

/// Returns a valid tree with all audits of the round.
fn audited(round: &str) -> Folder {
    let folder = tree(round);
    for scenario in ["SingleStream", "MultiStream", "Offline"] {
        let audits = folder.path().join("closed/acme/compliance/box/resnet50").join(scenario);
        if round != "v5.1" {
            copy(&audits.join("TEST04"), &audits.join("TEST05"));
        }
    }
    assert_eq!(outcome(&folder, round), COUNTS, "{round}: {:#?}", as_of(&folder, round).findings);
    folder
}

#[test]
fn a_text_of_an_audit_that_is_not_utf8_ends_the_program() {
    for tag in TAGS {
        for file in ["TEST01/verify_accuracy.txt", "TEST04/verify_performance.txt"] {
            let folder = audited(tag);
            folder.write(&format!("{AUDITS}/{file}"), b"TEST PASS \xe9\n");
            assert_eq!(outcome(&folder, tag), CRASHES, "{tag} {file}");
        }
        // After an audit that fails, the program reads no further one.
        let folder = audited(tag);
        folder.write(&format!("{AUDITS}/TEST01/verify_performance.txt"), "TEST FAIL\n");
        folder.write(&format!("{AUDITS}/TEST04/verify_performance.txt"), b"TEST PASS \xe9\n");
        assert_eq!(outcome(&folder, tag), IS_INVALID, "{tag}");
    }
}

#[test]
fn a_run_of_an_audit_that_cannot_be_read_is_taken_for_the_one_before() {
    let damage = |folder: &Folder, test: &str| {
        let log = format!("{AUDITS}/{test}/{DETAIL}");
        let mut bytes = folder.read(&log).into_bytes();
        bytes.extend(b"\xff\n");
        folder.write(&log, bytes);
    };
    for tag in TAGS {
        let folder = audited(tag);
        damage(&folder, "TEST04");
        assert_eq!(outcome(&folder, tag), COUNTS, "{tag}: after a valid run");
        folder.set(&format!("{AUDITS}/TEST01/{DETAIL}"), "result_validity", "\"INVALID\"");
        assert_eq!(outcome(&folder, tag), IS_INVALID, "{tag}: after an invalid run");
        let folder = audited(tag);
        damage(&folder, "TEST01");
        assert_eq!(outcome(&folder, tag), CRASHES, "{tag}: the first run");
        let folder = audited(tag);
        folder.write(&format!("{AUDITS}/TEST01/{DETAIL}"), "");
        assert_eq!(outcome(&folder, tag), CRASHES, "{tag}: the first log is empty");
    }
}

#[test]
fn an_accuracy_that_is_not_a_number_ends_the_program() {
    for tag in TAGS {
        let folder = audited(tag);
        folder.write(&format!("{AUDITS}/TEST01/verify_accuracy.txt"), "TEST FAIL\n");
        let text = |name: &str| format!("{AUDITS}/TEST01/accuracy/{name}_accuracy.txt");
        folder.write(&text("baseline"), "accuracy=76.1%\n");
        folder.write(&text("compliance"), "accuracy=76.1%\n");
        assert_eq!(outcome(&folder, tag), COUNTS, "{tag}");
        folder.write(&text("compliance"), "accuracy=1.2.3%\naccuracy=76.1%\n");
        assert_eq!(outcome(&folder, tag), CRASHES, "{tag}");
        let folder = audited(tag);
        folder.write(&format!("{RESULT}/accuracy/accuracy.txt"), "accuracy=1.2.3%\nhash=00\n");
        assert_eq!(outcome(&folder, tag), CRASHES, "{tag}");
    }
}

#[test]
fn a_file_in_place_of_a_folder_ends_the_program() {
    for tag in TAGS {
        for path in [
            format!("{RESULT}/performance/run_1"),
            MEASURED.to_owned(),
            format!("{AUDITS}/TEST01/accuracy"),
            format!("{AUDITS}/TEST01/performance/run_1"),
        ] {
            let folder = audited(tag);
            fs::remove_dir_all(folder.path().join(&path)).unwrap();
            folder.write(&path, "a file");
            assert!(as_of(&folder, tag).crashes, "{tag} {path}");
        }
    }
    for name in ["measurements", "systems"] {
        let folder = audited("v5.1");
        fs::remove_dir_all(folder.path().join("closed/acme").join(name)).unwrap();
        assert!(as_of(&folder, "v5.1").crashes, "{name}");
    }
}

#[test]
fn a_folder_in_place_of_a_file_that_is_opened_ends_the_program() {
    let replace = |folder: &Folder, file: &str| {
        fs::remove_file(folder.path().join(file)).unwrap();
        folder.write(&format!("{file}/made"), "made");
    };
    for tag in TAGS {
        for file in ["TEST01/verify_accuracy.txt", "TEST04/verify_performance.txt"] {
            let folder = audited(tag);
            replace(&folder, &format!("{AUDITS}/{file}"));
            assert!(as_of(&folder, tag).crashes, "{tag} {file}");
        }
    }
    // From v4.1 on, the program lists the files of an accuracy run before it opens one.
    for (tag, crashes) in [("v1.0", true), ("v3.0", true), ("v4.0", true), ("v4.1", false)] {
        let folder = tree(tag);
        replace(&folder, &format!("{RESULT}/accuracy/mlperf_log_detail.txt"));
        assert_eq!(outcome(&folder, tag), (false, crashes), "{tag}");
    }
}

/// `k not in j` of all tags raises an exception for these.
#[test]
fn fields_are_not_looked_up_in_a_number_or_nothing() {
    for tag in TAGS {
        for json in ["null", "5", "true", "NaN"] {
            let folder = audited(tag);
            folder.write(&format!("{MEASURED}/box.json"), json);
            assert!(as_of(&folder, tag).crashes, "{tag} {json}");
        }
    }
}

#[test]
fn the_checker_of_v4_1_needs_the_json_file_of_a_measurement_to_end() {
    for (tag, crashes) in [("v4.0", false), ("v4.1", true), ("v5.1", false)] {
        let folder = tree(tag);
        fs::remove_file(folder.path().join(MEASURED).join("box.json")).unwrap();
        assert_eq!(outcome(&folder, tag), (false, crashes), "{tag}");
    }
    // The file of the code's folder is read as UTF-8.
    let folder = audited("v5.1");
    fs::remove_dir_all(folder.path().join("closed/acme/code/resnet50")).unwrap();
    folder.write("closed/acme/code/resnet50", b"\xe9");
    assert!(as_of(&folder, "v5.1").crashes);
}
