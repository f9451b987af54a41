//! Checkers before v2.1: what they accept, and how their tables look.

use std::path::Path;

use dyno_rules::{OneFileChecker, Round, Version};
use dyno_submission::check::{CheckReport, Options, Outcome, Program, Skip, check};
use dyno_submission::entry::{Guesses, ModelNames, official_name};
use dyno_submission::finding::Severity;
use dyno_submission::power::{Measurement, PowerChecker, PowerUnit, check as check_power};
use dyno_submission::table::{Column, Row, write_csv};

use super::made;
use crate::made::folder::{Folder, copy};
use crate::made::power::PowerFiles;

const RESULT: &str = "closed/acme/results/box/resnet50/Offline";

fn tag(name: &str) -> OneFileChecker {
    OneFileChecker::new(name.parse().unwrap())
}

fn judged(folder: &Folder, round: &str, program: Program) -> CheckReport {
    check(folder.path(), Round::named(round).unwrap(), &Options::new(program)).unwrap()
}

fn counts(checked: &CheckReport) -> bool {
    matches!(checked.results.get(Path::new(RESULT)), Some(Outcome::Valid { .. }))
}

fn severities(checked: &CheckReport, check: &str) -> Vec<Severity> {
    let found = checked.findings.iter().filter(|finding| finding.check == check);
    found.map(|finding| finding.severity).collect()
}

/// Returns a tree of which each round accepts the Offline result, without its audits.
fn tree(round: &str) -> Folder {
    let folder = made::submission(Round::named(round).unwrap());
    for scenario in ["SingleStream", "MultiStream", "Offline"] {
        let described = format!("closed/acme/measurements/box/resnet50/{scenario}");
        folder.write(&format!("{described}/mlperf.conf"), "made");
        let log = format!(
            "closed/acme/results/box/resnet50/{scenario}/performance/run_1/mlperf_log_detail.txt"
        );
        let key = "result_90.00_percentile_latency_ns";
        folder.write(&log, folder.read(&log) + &made::line(key, "512000"));
    }
    folder
}

#[test]
fn audits_decide_since_v2_1_only_and_missing_ones_break_a_rule_before() {
    for (round, rejects) in [("v1.0", false), ("v1.1", false), ("v2.0", false), ("v2.1", true)] {
        let folder = tree(round);
        std::fs::remove_dir_all(folder.path().join("closed/acme/compliance")).unwrap();
        let official = judged(&folder, round, Program::Tag(tag(round)));
        assert_eq!(counts(&official), !rejects, "{round}: {:#?}", official.findings);
        let expected = if rejects { Severity::Error } else { Severity::Warning };
        let found = severities(&official, "audit.folder");
        assert!(!found.is_empty(), "{round}");
        assert!(found.iter().all(|severity| *severity == expected), "{round}: {found:?}");
        let rules = judged(&folder, round, Program::Strict);
        assert!(severities(&rules, "audit.folder").contains(&Severity::Error), "{round}");
    }
}

#[test]
fn an_audit_that_does_not_pass_is_a_warning_up_to_v2_0() {
    for (round, expected) in [("v2.0", Severity::Warning), ("v2.1", Severity::Error)] {
        let folder = tree(round);
        let audit = "closed/acme/compliance/box/resnet50/Offline/TEST01";
        folder.write(&format!("{audit}/verify_performance.txt"), "TEST FAIL\n");
        let rules = judged(&folder, round, Program::Strict);
        assert_eq!(severities(&rules, "audit.performance"), [expected], "{round}");
    }
}

/// Each audit overwrites the verdict of the one before (v2.0:1652), so that the column is of TEST05.
#[test]
fn the_column_of_audits_is_that_of_the_last_one_up_to_v2_0() {
    let audits = "closed/acme/compliance/box/resnet50/Offline";
    for (edited, is_in_table) in [("TEST04-A", "1"), ("TEST01", "1"), ("TEST05", "0")] {
        let folder = tree("v2.0");
        for audit in ["TEST04-A", "TEST04-B", "TEST05"] {
            let all = folder.path().join(audits);
            copy(&all.join("TEST04"), &all.join(audit));
        }
        folder.write(&format!("{audits}/{edited}/verify_performance.txt"), "TEST FAIL\n");
        let official = judged(&folder, "v2.0", Program::Tag(tag("v2.0")));
        let is_offline = |row: &&Row| row.get(Column::Scenario) == "Offline";
        let row = official.rows.iter().find(is_offline).unwrap();
        assert_eq!(row.get(Column::Compliance), is_in_table, "{edited}");
    }
}

#[test]
fn an_inferred_result_has_no_run_to_audit_up_to_v2_0() {
    for (round, is_asked) in [("v2.0", false), ("v2.1", true)] {
        let folder = tree(round);
        let run = "performance/run_1/mlperf_log_detail.txt";
        let source = format!("closed/acme/results/box/resnet50/SingleStream/{run}");
        folder.write(&format!("{RESULT}/{run}"), folder.read(&source));
        let audits = "closed/acme/compliance/box/resnet50/Offline";
        std::fs::remove_dir_all(folder.path().join(audits)).unwrap();
        let rules = judged(&folder, round, Program::Strict);
        assert_eq!(!severities(&rules, "audit.folder").is_empty(), is_asked, "{round}");
    }
}

#[test]
fn a_submission_run_is_both_an_accuracy_and_a_performance_run() {
    for (mode, is_found) in [("SubmissionRun", false), ("FindPeakPerformance", true)] {
        let folder = tree("v2.0");
        let log = format!("{RESULT}/accuracy/mlperf_log_detail.txt");
        folder.set(&log, "effective_test_mode", &format!("\"{mode}\""));
        let rules = judged(&folder, "v2.0", Program::Strict);
        assert_eq!(!severities(&rules, "log.mode").is_empty(), is_found, "{mode}");
    }
}

#[test]
fn tables_before_v2_0_have_other_columns_and_quotes() {
    let table = |round: &str| {
        let folder = tree(round);
        folder.set_field("closed/acme/systems/box.json", "hw_notes", "");
        let program = Program::Tag(tag(round));
        let mut table = Vec::new();
        let options = Options { skip: vec![Skip::Compliance], ..Options::new(program) };
        let round = Round::named(round).unwrap();
        let checked = check(folder.path(), round, &options).unwrap();
        write_csv(&checked.rows, program, &mut table).unwrap();
        let table = String::from_utf8(table).unwrap();
        let lines: Vec<String> = table.lines().map(str::to_owned).collect();
        (lines[0].clone(), lines.iter().find(|l| l.contains("/Offline,")).unwrap().clone())
    };
    let (header, row) = table("v1.0");
    assert!(header.ends_with("compilance,errors,version,infered,power"), "{header}");
    assert!(row.contains(",closed,edge,\"something\","), "{row}");
    assert!(row.contains("\". something\",") && row.ends_with(",v1.0,0,0"), "{row}");
    let (header, row) = table("v1.1");
    assert!(header.ends_with("version,infered,has_power,Units"), "{header}");
    assert!(row.contains(",closed,edge,\"something\","), "{row}");
    let (header, row) = table("v2.0");
    assert!(header.ends_with("version,inferred,has_power,Units"), "{header}");
    assert!(row.contains(",closed,\"edge\",\"something\",") && row.contains(",1,closed/"), "{row}");
    assert!(table("v2.1").1.contains(",\"1\",closed/"));
}

#[test]
fn names_of_models_are_guessed_as_the_round_did() {
    for (round, name, model) in [
        ("v1.1", "yolo-v3-coco", "ssd-small"),
        ("v1.1", "rcnn-nas-coco", "ssd-small"),
        ("v1.1", "mobilenet-v1-0.5-128", "resnet"),
        ("v1.1", "resnet50-pruned", "resnet50-pruned"),
        ("v2.0", "resnet50-pruned", "resnet"),
        ("v2.0", "bert-99-pruned", "bert-99-pruned"),
        ("v2.1", "bert-99-pruned", "bert-99"),
        ("v4.1", "yolo-v3-coco", "yolo-v3-coco"),
    ] {
        let guesses = Guesses::OneFile(tag(round));
        let round = Round::named(round).unwrap();
        assert_eq!(Guesses::of_round(round), guesses);
        assert_eq!(official_name(round, name, &ModelNames::default(), guesses), model, "{name}");
    }
}

/// Returns a power measurement whose log has no number of queries.
fn measured() -> Folder {
    let folder = Folder::new("energy");
    let log = made::line("power_begin", "\"01-01-1970 00:00:00.100\"")
        + &made::line("power_end", "\"01-01-1970 00:10:00.100\"")
        + &made::line("effective_scenario", "\"SingleStream\"")
        + &made::line("result_qps_with_loadgen_overhead", "81")
        + &made::line("generated_query_count", "10")
        + &made::line("generated_samples_per_query", "27");
    folder.write("run_1/mlperf_log_detail.txt", log);
    folder.write("run_1/mlperf_log_summary.txt", "");
    PowerFiles { folder: folder.path(), run: "run_1", round: "v5.1" }.make();
    folder
}

/// Before v2.0 logs have no number of queries, so that the rate stands for it.
#[test]
fn energy_of_a_query_follows_from_the_rate_before_v2_0() {
    let folder = measured();
    let energy = |round: &str, scenario, program| {
        let (folder, round) = (folder.path(), round.parse::<Version>().unwrap());
        let measurement = Measurement { folder, shown: folder, round, scenario, log: None };
        check_power(&measurement, program).energy.map(|energy| (energy.value, energy.unit))
    };
    let early = |round: &str| PowerChecker::Early(tag(round));
    let (single, multi) =
        (dyno_rules::RuleScenario::SingleStream, dyno_rules::RuleScenario::MultiStream);
    let (joules, unit) = energy("v1.1", single, early("v1.1")).unwrap();
    assert!((joules - 0.5).abs() < 0.05 && unit == PowerUnit::Joules, "{joules}");
    let (joules, unit) = energy("v1.0", multi, early("v1.0")).unwrap();
    assert!((joules - 90.0).abs() < 9.0 && unit == PowerUnit::JoulesPerStream, "{joules}");
    let (millijoules, unit) = energy("v1.0", single, PowerChecker::Rules).unwrap();
    assert!((millijoules - 500.0).abs() < 50.0 && unit == PowerUnit::Millijoules);
    assert_eq!(energy("v2.0", single, early("v2.0")), None);
}

/// Line 845 of the program of v1.1 adds `timezone` of both sides, and v2.0:1071 does not read it.
#[test]
fn power_up_to_v1_1_needs_the_zones_of_both_sides() {
    let folder = measured();
    let files = PowerFiles { folder: folder.path(), run: "run_1", round: "v5.1" };
    let has_power = |round: &str| {
        let (path, scenario) = (folder.path(), dyno_rules::RuleScenario::Offline);
        let version = round.parse::<Version>().unwrap();
        let measurement =
            Measurement { folder: path, shown: path, round: version, scenario, log: None };
        check_power(&measurement, PowerChecker::Early(tag(round))).energy.is_some()
    };
    let have_power = || ["v1.0", "v1.1", "v2.0"].map(has_power);
    assert_eq!(have_power(), [true, true, true]);
    files.describe(|client, _| client["timezone"] = serde_json::json!("CET"));
    assert_eq!(have_power(), [false, false, true]);
    files.describe(|_, server| server["timezone"] = serde_json::Value::Null);
    assert_eq!(have_power(), [false, false, true]);
    files.describe(|_, _| ());
    files.write("power/client.json", "{'timezone': 0}");
    assert_eq!(have_power(), [false, false, true]);
}
