//! Values that the official programs, written in Python, accept and the rules do not, and valid
//! trees that they reject.

use std::fs;

use dyno_rules::Round;
use dyno_submission::check::{CheckReport, Options, Outcome, Program, check};
use dyno_submission::finding::Severity;
use dyno_submission::table::Column;

use super::made;
use crate::made::folder::Folder;

const RESULT: &str = "closed/acme/results/box/resnet50";
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
        // The program in modules is the first one that asks for it.
        let strict = judged(&folder, "v5.1", Program::Strict);
        assert!(!has_error(&strict, "log.error_marks", &file), "{line}");
    }
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
        assert_eq!(wrong, round == "v6.1", "{text}");
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
