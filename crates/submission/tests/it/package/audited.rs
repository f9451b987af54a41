//! Packaging of the folders that `dyno audit` writes.

use std::fs;

use dyno_loadgen::settings::Scenario;
use dyno_rules::Round;
use dyno_submission::package::{Infer, PackageError, PackageRequest, find, package};

use super::trees::{asked, files, json, open, run_directory};
use crate::made::folder::Folder;

#[test]
fn a_folder_of_dyno_audit_gives_its_baseline_and_its_verdicts() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("audit");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &[Scenario::Offline], &run.join("baseline"));
    run_directory(round, &[Scenario::Offline], &run.join("audited"));
    fs::write(run.join("audit.json"), "{}").unwrap();
    let judged = run.join("compliance/Offline/TEST04");
    fs::create_dir_all(&judged).unwrap();
    fs::write(judged.join("verify_performance.txt"), "TEST PASS\n").unwrap();
    // The rules require only the answers and the text of TEST06.
    let tokens = run.join("compliance/Offline/TEST06/accuracy");
    fs::create_dir_all(&tokens).unwrap();
    fs::write(tokens.join("mlperf_log_accuracy.json"), "[\n]\n").unwrap();
    package(&open(round, &run), &out).unwrap();
    let found = files(&out);
    let audits: Vec<_> = found.iter().filter(|path| path.contains("/TEST0")).collect();
    let below = "open/Us/compliance/box/own/Offline";
    let tokens = format!("{below}/TEST06/accuracy/mlperf_log_accuracy.json");
    assert_eq!(audits, [&format!("{below}/TEST04/verify_performance.txt"), &tokens]);

    // A run without an audit takes precedence over reference runs of audits.
    let all = scratch.path().join("all");
    fs::create_dir_all(&all).unwrap();
    fs::rename(&run, all.join("audited")).unwrap();
    run_directory(round, &[Scenario::Offline], &all.join("own"));
    package(&open(round, &all), &scratch.path().join("other")).unwrap();
    let tests = find(&[all]).unwrap().tests;
    assert!(tests.iter().all(|test| test.folder.to_string_lossy().contains("/own/")), "{tests:?}");
}

#[test]
fn an_audit_that_was_made_twice_is_refused() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("audit-twice");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &[Scenario::Offline], &run);
    for name in ["first", "second"] {
        let judged = run.join(name).join("compliance/Offline/TEST04");
        fs::create_dir_all(&judged).unwrap();
        fs::write(judged.join("verify_performance.txt"), "TEST PASS\n").unwrap();
    }
    let error = package(&open(round, &run), &out).unwrap_err();
    assert!(matches!(error, PackageError::DuplicateAudit { .. }), "{error}");
}

#[test]
fn an_audit_that_does_not_say_that_it_passes_is_told_where_it_counts() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("audit-failed");
    let run = scratch.path().join("run");
    run_directory(round, &[Scenario::SingleStream], &run);
    let audits = run.join("compliance/SingleStream");
    let say = |path: &str, text: &str| {
        let path = audits.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    say("TEST01/verify_accuracy.txt", "TEST PASS\n");
    say("TEST04/verify_performance.txt", "TEST FAIL: Test score invalid\n");
    say("TEST06/verify_accuracy.txt", "TEST06 verification failed\n");
    let told = |asked: PackageRequest<'_>, out: &str| {
        let packaged = package(&asked, &scratch.path().join(out)).unwrap();
        let [doubts, notes] = [packaged.doubts, packaged.notes].map(|said| {
            said.into_iter().filter(|said| said.contains("SingleStream TEST")).collect::<Vec<_>>()
        });
        (doubts, notes)
    };
    // Offline and MultiStream share the audits of SingleStream, which are reported once.
    let (doubts, notes) =
        told(PackageRequest { infer: Infer::Missing, ..asked(round, &run) }, "closed");
    assert_eq!((doubts.len(), notes.len()), (2, 1), "{doubts:?} {notes:?}");
    assert!(doubts[0].ends_with("verify_performance.txt is missing"), "{doubts:?}");
    assert!(doubts[1].ends_with("verify_performance.txt contains TEST FAIL"), "{doubts:?}");
    assert!(notes[0].contains("TEST06"), "{notes:?}");
    // The open division requires no audits.
    let (doubts, notes) = told(open(round, &run), "open");
    assert_eq!((doubts.len(), notes.len()), (0, 3), "{doubts:?} {notes:?}");
    // Answers of TEST01 may differ if both accuracies exist.
    say("TEST01/verify_accuracy.txt", "TEST FAIL\n");
    say("TEST01/verify_performance.txt", "TEST PASS\n");
    say("TEST01/accuracy/baseline_accuracy.txt", "accuracy=1%\n");
    let infer = || PackageRequest { infer: Infer::Missing, ..asked(round, &run) };
    assert_eq!(told(infer(), "one").0.len(), 2);
    say("TEST01/accuracy/compliance_accuracy.txt", "accuracy=1%\n");
    assert_eq!(told(infer(), "both").0.len(), 1);
}

#[test]
fn an_audit_that_is_shorter_than_the_round_requires_is_told() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("audit-short");
    let run = scratch.path().join("run");
    run_directory(round, &[Scenario::SingleStream], &run);
    let audit = run.join("compliance/SingleStream/TEST04");
    let logs = audit.join("performance/run_1");
    fs::create_dir_all(&logs).unwrap();
    fs::write(audit.join("verify_performance.txt"), "TEST PASS\n").unwrap();
    let log = run.join("SingleStream/performance/mlperf_log_detail.txt");
    let log = fs::read_to_string(log).unwrap();
    let key = "\"effective_min_duration_ms\", \"value\": ";
    let (before, rest) = log.split_once(key).unwrap();
    let (_, after) = rest.split_once(',').unwrap();
    for (ms, is_told) in [("600000", false), ("5000", true)] {
        let text = format!("{before}{key}{ms},{after}");
        fs::write(logs.join("mlperf_log_detail.txt"), text).unwrap();
        let request = PackageRequest { infer: Infer::Missing, ..asked(round, &run) };
        let packaged = package(&request, &scratch.path().join(ms)).unwrap();
        let of_audit = packaged.doubts.iter().filter(|doubt| doubt.contains("TEST04 ("));
        let of_audit: Vec<&String> = of_audit.collect();
        assert_eq!(of_audit.len(), usize::from(is_told), "{:?}", packaged.doubts);
        assert!(of_audit.iter().all(|doubt| doubt.contains("5000 ms, but")), "{of_audit:?}");
    }
}

#[test]
fn the_run_of_an_audit_is_no_result() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("audit-as-result");
    let run = scratch.path().join("run");
    run_directory(round, &[Scenario::Offline], &run);
    let key = "\"effective_performance_issue_same\", \"value\": ";
    for part in ["accuracy", "performance"] {
        let log = run.join("Offline").join(part).join("mlperf_log_detail.txt");
        let text = fs::read_to_string(&log).unwrap();
        fs::write(&log, text.replace(&format!("{key}false"), &format!("{key}true"))).unwrap();
    }
    let packaged = package(&open(round, &run), &scratch.path().join("tree")).unwrap();
    let doubts = packaged.doubts.iter().filter(|doubt| doubt.contains("issue_same is true"));
    assert_eq!(doubts.count(), 2, "{:?}", packaged.doubts);
}

#[test]
fn a_tree_is_of_one_round() {
    let scratch = Folder::new("rounds");
    let round = |name: &str| Round::named(name).unwrap();
    let run = |name: &str| {
        let run = scratch.path().join(name);
        run_directory(round(name), &[Scenario::Offline], &run);
        run
    };
    let (old, middle, new) = (run("v5.0"), run("v5.1"), run("v6.0"));
    let out = scratch.path().join("tree");
    package(&open(round("v5.1"), &middle), &out).unwrap();
    let error = package(&open(round("v6.0"), &new), &out).unwrap_err();
    let PackageError::OtherLayout { path, .. } = &error else { panic!("{error}") };
    assert_eq!(path, &out.join("open/Us/measurements"));
    // Rounds with the same layout are distinguished by their seeds.
    let other = PackageRequest { system: "other".into(), ..open(round("v5.0"), &old) };
    let packaged = package(&other, &out).unwrap();
    assert!(packaged.notes.iter().any(|note| note.contains("seeds")), "{:?}", packaged.notes);
}

#[test]
fn a_system_has_no_type_where_the_round_knows_none() {
    let scratch = Folder::new("untyped");
    for (name, has_type) in [("v0.5", false), ("v5.1", true)] {
        let round = Round::named(name).unwrap();
        let run = scratch.path().join(name);
        run_directory(round, &[Scenario::Offline], &run);
        let out = scratch.path().join(format!("{name}-tree"));
        package(&open(round, &run), &out).unwrap();
        let system = json(&out.join("open/Us/systems/box.json"));
        assert_eq!(system.get("system_type").is_some(), has_type, "{name}");
    }
}
