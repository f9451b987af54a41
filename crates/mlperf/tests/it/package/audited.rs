//! What `dyno audit` leaves becomes a part of a submission.

use std::fs;

use dyno_loadgen::settings::Scenario as Played;
use dyno_mlperf::package::{PackageError, find, package};
use dyno_mlperf::round::Round;

use super::trees::{files, open, run_directory};
use crate::made::folder::Folder;

#[test]
fn a_folder_of_dyno_audit_gives_its_baseline_and_its_verdicts() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("audit");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &[Played::Offline], &run.join("baseline"));
    run_directory(round, &[Played::Offline], &run.join("audited"));
    fs::write(run.join("audit.json"), "{}").unwrap();
    let judged = run.join("compliance/Offline/TEST04");
    fs::create_dir_all(&judged).unwrap();
    fs::write(judged.join("verify_performance.txt"), "TEST PASS\n").unwrap();
    // Of TEST06 the rules ask for no more than its answers and its text.
    let tokens = run.join("compliance/Offline/TEST06/accuracy");
    fs::create_dir_all(&tokens).unwrap();
    fs::write(tokens.join("mlperf_log_accuracy.json"), "[\n]\n").unwrap();
    package(&open(round, &run), &out).unwrap();
    let found = files(&out);
    let audits: Vec<_> = found.iter().filter(|path| path.contains("/TEST0")).collect();
    let below = "open/Us/compliance/box/own/Offline";
    let tokens = format!("{below}/TEST06/accuracy/mlperf_log_accuracy.json");
    assert_eq!(audits, [&format!("{below}/TEST04/verify_performance.txt"), &tokens]);

    // A run that was made for no audit counts before those that were.
    let all = scratch.path().join("all");
    fs::create_dir_all(&all).unwrap();
    fs::rename(&run, all.join("audited")).unwrap();
    run_directory(round, &[Played::Offline], &all.join("own"));
    package(&open(round, &all), &scratch.path().join("other")).unwrap();
    let tests = find(&[all]).unwrap().tests;
    assert!(tests.iter().all(|test| test.folder.to_string_lossy().contains("/own/")), "{tests:?}");
}

#[test]
fn an_audit_that_was_made_twice_is_refused() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("audit-twice");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &[Played::Offline], &run);
    for name in ["first", "second"] {
        let judged = run.join(name).join("compliance/Offline/TEST04");
        fs::create_dir_all(&judged).unwrap();
        fs::write(judged.join("verify_performance.txt"), "TEST PASS\n").unwrap();
    }
    let error = package(&open(round, &run), &out).unwrap_err();
    assert!(matches!(error, PackageError::AuditTwice { .. }), "{error}");
}
