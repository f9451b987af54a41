//! Values that the official programs, written in Python, accept and the rules do not, and valid
//! trees that they reject.

use std::fs;
use std::os::unix::fs::symlink;

use dyno_rules::Round;
use dyno_submission::check::{CheckReport, Options, Outcome, Program, check};
use dyno_submission::finding::Severity;
use dyno_submission::table::Column;

use super::made;
use crate::made::folder::Folder;
use crate::made::submission::resnet;

const RESULT: &str = "closed/acme/results/box/resnet50";
/// Offline result of a tree that the library made.
const OFFLINE: &str = "closed/acme/results/box/resnet/Offline";
const SYSTEM: &str = "closed/acme/systems/box.json";

fn judged(folder: &Folder, round: &str, program: Program) -> CheckReport {
    check(folder.path(), Round::named(round).unwrap(), &Options::new(program)).unwrap()
}

/// Returns a tree in which one file is replaced.
fn edited(round: &str, file: &str, edit: impl Fn(&str) -> String) -> Folder {
    let folder = made::submission(Round::named(round).unwrap());
    let path = folder.path().join(file);
    let text = fs::read_to_string(&path).unwrap();
    let edited = edit(&text);
    assert_ne!(text, edited);
    fs::write(path, edited).unwrap();
    folder
}

/// Whether the check reports an error at this place.
fn has_error(checked: &CheckReport, check: &str, path: &str) -> bool {
    let errors = checked.findings.iter().filter(|finding| finding.severity == Severity::Error);
    errors.filter(|error| error.check == check).any(|error| error.path.ends_with(path))
}

#[test]
fn a_line_that_says_not_whether_it_is_an_error_fails_in_modules() {
    for (part, line) in [
        ("performance/run_1", r#":::MLLOG {"key": "more", "value": 1}"#),
        ("performance/run_1", r#":::MLLOG {"key": "more", "value": 1, "metadata": "none"}"#),
        ("accuracy", r#":::MLLOG {"key": "more", "value": 1, "metadata": {"file": "made"}}"#),
    ] {
        let file = format!("{RESULT}/Offline/{part}/mlperf_log_detail.txt");
        let folder = edited("v5.1", &file, |text| format!("{text}{line}\n"));
        let modular = judged(&folder, "v5.1", Program::Modular);
        assert!(!modular.crashes && modular.valid() == 2, "{line}: {:#?}", modular.findings);
        assert!(has_error(&modular, "log.error_marks", &file), "{line}");
        assert!(judged(&folder, "v5.1", Program::Mono).is_valid(), "{line}");
        // The log counts no errors, so that the program of v5.1 reads no flags.
        let strict = judged(&folder, "v5.1", Program::Strict);
        assert!(!has_error(&strict, "log.error_marks", &file), "{line}");
    }
}

#[test]
fn an_accuracy_that_is_too_large_is_infinite_to_python_and_none_by_the_rules() {
    let file = format!("{RESULT}/Offline/accuracy/accuracy.txt");
    let folder = edited("v5.1", &file, |text| text.replace("76.100", &"9".repeat(400)));
    assert!(judged(&folder, "v5.1", Program::Mono).is_valid());
    assert!(has_error(&judged(&folder, "v5.1", Program::Strict), "accuracy.readable", &file));
}

#[test]
fn a_number_that_is_too_large_is_infinite_to_python_and_none_by_the_rules() {
    let file = format!("{RESULT}/Offline/performance/run_1/mlperf_log_detail.txt");
    let folder = edited("v5.1", &file, |text| text.replace("6607.5", "1e999"));
    for program in [Program::Mono, Program::Modular] {
        let checked = judged(&folder, "v5.1", program);
        let rate = checked.results.iter().find(|(path, _)| path.ends_with("Offline")).unwrap().1;
        assert!(
            matches!(rate, Outcome::Valid { metric } if *metric == f64::INFINITY),
            "{program:?}: {checked:#?}"
        );
    }
    assert!(has_error(&judged(&folder, "v5.1", Program::Strict), "performance.readable", &file));
    let folder = edited("v5.1", SYSTEM, |text| text.replacen('{', "{\n  \"weight_kg\": 1e999,", 1));
    assert!(judged(&folder, "v5.1", Program::Modular).is_valid());
    assert!(has_error(&judged(&folder, "v5.1", Program::Strict), "system.json", SYSTEM));
}

#[test]
fn a_text_that_looks_like_the_mark_of_a_number_is_none() {
    let file = format!("{RESULT}/Offline/performance/run_1/mlperf_log_detail.txt");
    for text in [r#""\u00006607.5""#, r#""\u0000Infinity""#] {
        let folder = edited("v5.1", &file, |log| log.replace("6607.5", text));
        for program in [Program::Mono, Program::Modular] {
            let offline = format!("{RESULT}/Offline");
            let checked = judged(&folder, "v5.1", program);
            let outcome = &checked.results[std::path::Path::new(&offline)];
            assert!(!matches!(outcome, Outcome::Valid { .. }), "{program:?} {text}: {outcome:?}");
        }
    }
}

#[test]
fn a_number_that_json_has_not_is_read_by_python_alone() {
    let file = format!("{RESULT}/Offline/performance/run_1/mlperf_log_detail.txt");
    let more = made::line("more", "-Infinity");
    let folder = edited("v5.1", &file, |text| format!("{text}{more}"));
    for program in [Program::Mono, Program::Modular] {
        let checked = judged(&folder, "v5.1", program);
        assert!(checked.is_valid(), "{program:?}: {:#?}", checked.findings);
    }
    assert!(has_error(&judged(&folder, "v5.1", Program::Strict), "performance.readable", &file));
    // The rate itself: it passes every comparison.
    let folder = edited("v5.1", &file, |text| text.replace("6607.5", "NaN"));
    let modular = judged(&folder, "v5.1", Program::Modular);
    let rate = modular.results.iter().find(|(path, _)| path.ends_with("Offline")).unwrap().1;
    assert!(matches!(rate, Outcome::Valid { metric } if metric.is_nan()), "{modular:#?}");
    let row = modular.rows.iter().find(|row| row.get(Column::Scenario) == "Offline").unwrap();
    assert_eq!(row.get(Column::Result), "nan");
    // A file that Python rejects, too, ends the modular checker.
    let folder = edited("v5.1", &file, |text| format!("{text}:::MLLOG {{\"key\": Nan}}\n"));
    assert!(judged(&folder, "v5.1", Program::Modular).crashes);
    // Descriptions are parsed in the same way.
    let folder = edited("v5.1", SYSTEM, |text| text.replacen('{', "{\n  \"weight_kg\": NaN,", 1));
    assert!(judged(&folder, "v5.1", Program::Modular).is_valid());
    assert!(has_error(&judged(&folder, "v5.1", Program::Strict), "system.json", SYSTEM));
}

#[test]
fn power_supplies_that_do_not_read_end_the_program_in_modules() {
    for (round, text, crashes) in [
        ("v6.1", "- {Min PSUs Needed: 1, PSUs: [", true),
        // Without a power measurement, nothing is computed from it.
        ("v6.1", "- a node\n", false),
        ("v6.0", "- {Min PSUs Needed: 1, PSUs: [", false),
    ] {
        let folder = made::submission(Round::named(round).unwrap());
        folder.write("closed/acme/systems/box_power.yaml", text);
        let modular = judged(&folder, round, Program::Modular);
        let said = modular.findings.iter().filter(|finding| finding.check == "program.crash");
        let of_file = said.filter(|crash| crash.path.ends_with("box_power.yaml"));
        assert_eq!(of_file.count() == 1, crashes, "{round} {text}");
        let strict = judged(&folder, round, Program::Strict);
        let wrong = has_error(&strict, "system.nameplate", "box_power.yaml");
        assert_eq!(wrong, crashes, "{round} {text}");
    }
}

/// checks/performance_check.py b66003e1, `min_duration_check`.
#[test]
fn one_pass_over_the_data_set_may_be_short() {
    let round = Round::named("v6.1").unwrap();
    for (model, is_too_short) in [("resnet50", true), ("e2e-rag-qna", false)] {
        let folder = made::submission(round);
        let results = folder.path().join("closed/acme/results/box");
        fs::rename(results.join("resnet50"), results.join(model)).unwrap();
        let run = format!("closed/acme/results/box/{model}/Offline/performance/run_1");
        let log = format!("{run}/mlperf_log_detail.txt");
        folder.set(&log, "effective_min_duration_ms", "0");
        for program in [Program::Modular, Program::Strict] {
            let found = has_error(&judged(&folder, "v6.1", program), "performance.duration", &log);
            assert_eq!(found, is_too_short, "{model} {program:?}");
        }
    }
}

/// results.py b66003e1:129 writes `None` from v6.1 on.
#[test]
fn a_result_without_power_has_no_design_power_in_the_table() {
    for (round, written) in [("v6.0", ""), ("v6.1", "None")] {
        let folder = resnet(Round::named(round).unwrap());
        let supplies = "- {Min PSUs needed: 1, PSUs: [{PowerCapacityWatts: 800}]}\n";
        folder.write("closed/acme/systems/box_power.yaml", supplies);
        let modular = judged(&folder, round, Program::Modular);
        assert_eq!(modular.rows.len(), 3, "{round}: {:#?}", modular.findings);
        for row in &modular.rows {
            assert_eq!(row.get(Column::DesignPower), written, "{round}");
        }
    }
}

/// The program loads the files of a result before it checks any (loader.py b66003e1:205).
#[test]
fn a_text_that_cannot_be_loaded_ends_the_program_in_modules() {
    let round = Round::named("v6.0").unwrap();
    for (file, crashes) in [
        ("accuracy/accuracy.txt", true),
        ("measurements.json", true),
        ("TEST01/verify_accuracy.txt", true),
        ("TEST01/performance/run_1/mlperf_log_detail.txt", true),
        ("TEST01/verify_performance.txt", false),
    ] {
        let folder = resnet(round);
        fs::remove_file(folder.path().join(OFFLINE).join(file)).unwrap();
        folder.write(&format!("{OFFLINE}/{file}/made"), "");
        let modular = judged(&folder, "v6.0", Program::Modular);
        assert_eq!((modular.crashes, modular.valid()), (crashes, 2), "{file}");
    }
    for (file, crashes) in
        [("TEST01/verify_accuracy.txt", true), ("TEST01/verify_performance.txt", false)]
    {
        let folder = resnet(round);
        folder.write(&format!("{OFFLINE}/{file}"), b"TEST PASS \xe9\n");
        let modular = judged(&folder, "v6.0", Program::Modular);
        assert_eq!((modular.crashes, modular.valid()), (crashes, 2), "{file}");
    }
}

#[test]
fn an_empty_log_and_a_link_to_nothing_fail_in_modules() {
    let folder = resnet(Round::named("v6.0").unwrap());
    folder.write(&format!("{OFFLINE}/performance/run_1/mlperf_log_detail.txt"), "");
    let modular = judged(&folder, "v6.0", Program::Modular);
    assert_eq!((modular.crashes, modular.valid()), (false, 2), "{:#?}", modular.findings);
    let folder = resnet(Round::named("v6.0").unwrap());
    let log = folder.path().join(OFFLINE).join("accuracy/mlperf_log_accuracy.json");
    fs::remove_file(&log).unwrap();
    symlink("nowhere", &log).unwrap();
    let modular = judged(&folder, "v6.0", Program::Modular);
    assert_eq!((modular.crashes, modular.valid()), (false, 2), "{:#?}", modular.findings);
}

/// The table of units has two spellings of a scenario (constants.py b66003e1:1999), and a scenario
/// that the open division makes up is inferred from none (performance_check.py b66003e1:515).
#[test]
fn a_scenario_of_another_name_does_not_count_in_modules() {
    let folder = resnet(Round::named("v6.0").unwrap());
    let renamed = |name: &str| folder.path().join(OFFLINE).with_file_name(name);
    fs::rename(renamed("Offline"), renamed("OFFLINE")).unwrap();
    assert!(judged(&folder, "v6.0", Program::Modular).crashes);
    fs::rename(renamed("OFFLINE"), renamed("offline")).unwrap();
    assert!(judged(&folder, "v6.0", Program::Modular).is_valid());
    fs::rename(renamed("offline"), renamed("streaming")).unwrap();
    fs::rename(folder.path().join("closed"), folder.path().join("open")).unwrap();
    folder.set_field(&SYSTEM.replace("closed", "open"), "division", "open");
    let modular = judged(&folder, "v6.0", Program::Modular);
    assert_eq!((modular.crashes, modular.valid()), (false, 2), "{:#?}", modular.findings);
}

/// results.py b66003e1:111 appends notes on software to those on hardware, which have to be texts then.
#[test]
fn a_note_that_is_no_text_is_written_unless_another_one_follows() {
    let folder = resnet(Round::named("v6.0").unwrap());
    let mut system: serde_json::Value = serde_json::from_str(&folder.read(SYSTEM)).unwrap();
    system["hw_notes"] = 3.5.into();
    for (software, crashes) in [("", false), ("made", true)] {
        system["sw_notes"] = software.into();
        folder.write(SYSTEM, system.to_string());
        let modular = judged(&folder, "v6.0", Program::Modular);
        assert_eq!(modular.crashes, crashes, "{:#?}", modular.findings);
        assert!(crashes || modular.rows.iter().all(|row| row.get(Column::Notes) == "3.5"));
        assert_eq!(modular.rows.len(), 3);
    }
}

#[test]
fn a_network_that_is_called_false_is_one_to_the_program_in_modules() {
    let folder =
        edited("v5.1", SYSTEM, |text| text.replacen('{', "{\n  \"is_network\": \"false\",", 1));
    let modular = judged(&folder, "v5.1", Program::Modular);
    assert!(modular.valid() == 0 && has_error(&modular, "system.fields", SYSTEM));
    assert!(judged(&folder, "v5.1", Program::Mono).is_valid());
    let strict = judged(&folder, "v5.1", Program::Strict);
    assert!(!strict.findings.iter().any(|finding| {
        finding.severity == Severity::Error && finding.check.starts_with("system.")
    }));
}

#[test]
fn an_integer_of_any_length_is_as_written_in_the_table() {
    for (written, shown) in [
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("12", "12"),
        ("1.5", "1.5"),
        ("1e3", "1000.0"),
    ] {
        let folder = edited("v5.1", SYSTEM, |text| {
            text.replace("\"number_of_nodes\": \"1\"", &format!("\"number_of_nodes\" : {written}"))
        });
        let checked = judged(&folder, "v5.1", Program::Mono);
        let row = checked.rows.iter().find(|row| row.get(Column::Scenario) == "Offline");
        assert_eq!(row.unwrap().get(Column::Nodes), shown);
    }
}

#[test]
fn a_private_number_stands_in_our_table() {
    let round = "v6.0";
    let folder = made::submission(Round::named(round).unwrap());
    folder.write("closed/acme/results/box/privateid.json", r#"{"box": "abc123"}"#);
    let of = |program| {
        let checked = judged(&folder, round, program);
        checked.rows.iter().map(|row| row.get(Column::PrivateId).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(of(Program::Modular), [""; 3], "the official program is not asked for it");
    assert!(of(Program::Strict).iter().all(|id| id == "abc123"));
}
