//! Packaging into an existing tree: edited files stay, and contradictions with flags are
//! reported.

use std::fs;
use std::path::{Path, PathBuf};

use dyno_loadgen::settings::Scenario;
use dyno_rules::{Round, Suite};
use dyno_submission::package::{
    Availability, Conflict, PackageError, PackageRequest, PackageSummary, package,
};

use super::trees::{asked, files, json, open, run_directory};
use crate::made::folder::Folder;
use crate::made::submission;

const SYSTEM: &str = "open/Us/systems/box.json";

/// A tree with one result, and the request to package another.
fn tree(scratch: &Folder) -> (PathBuf, PackageRequest<'static>) {
    let round = Round::named("v5.1").unwrap();
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &[Scenario::Offline], &run);
    package(&open(round, &run), &out).unwrap();
    (out, PackageRequest { benchmark: "other".into(), ..open(round, &run) })
}

fn edit(file: &Path, from: &str, to: &str) {
    let old = fs::read_to_string(file).unwrap();
    assert!(old.contains(from), "{old}");
    fs::write(file, old.replace(from, to)).unwrap();
}

/// Returns the fields to fill in, in this file.
fn left<'p>(packaged: &'p PackageSummary, file: &str) -> Vec<&'p str> {
    let left = packaged.missing_fields.iter().filter(|fill| fill.path == Path::new(file));
    left.map(|fill| fill.field.as_str()).collect()
}

#[test]
fn a_kept_description_that_says_otherwise_than_the_flags_is_a_conflict() {
    let scratch = Folder::new("conflict");
    let (out, second) = tree(&scratch);
    let before = files(&out);
    let other = PackageRequest {
        suite: Suite::Both,
        availability: Availability::Preview,
        ..second.clone()
    };
    let error = package(&other, &out).unwrap_err();
    let conflict = |field, kept: &str, said: &str, flag| Conflict {
        field,
        existing: kept.to_owned(),
        requested: said.to_owned(),
        flag,
    };
    let conflicts = vec![
        conflict("status", "available", "preview", "--availability"),
        conflict("system_type", "edge", "datacenter,edge", "--suite"),
    ];
    assert_eq!(error, PackageError::SystemDiffers { path: SYSTEM.into(), conflicts });
    let text = error.to_string();
    assert!(text.contains("`status` is `available` there, but --availability is `preview`"));
    assert!(error.hint().unwrap().contains("--system"));
    assert_eq!(files(&out), before);

    // Different spelling of the same value is not a conflict.
    let system = out.join(SYSTEM);
    edit(&system, "\"available\"", "\"Preview\"");
    edit(&system, "\"edge\"", "\"edge,datacenter\"");
    package(&other, &out).unwrap();
    assert_eq!(json(&system)["status"], "Preview");
    fs::write(&system, "{").unwrap();
    let third = PackageRequest { benchmark: "third".into(), ..second };
    let error = package(&third, &out).unwrap_err().to_string();
    assert!(error.contains("box.json: is not a JSON object"), "{error}");
}

#[test]
fn marks_of_kept_files_are_listed_until_they_are_filled_in() {
    let scratch = Folder::new("kept-marks");
    let (out, second) = tree(&scratch);
    let calibration = "open/Us/documentation/calibration.md";
    edit(&out.join(SYSTEM), "\"air\"", "\"by hand\"");
    let marks = fs::read_to_string(out.join(SYSTEM)).unwrap().matches("FILL IN").count();
    let packaged = package(&second, &out).unwrap();
    assert_eq!(left(&packaged, SYSTEM).len(), marks);
    assert_eq!(left(&packaged, calibration), ["text"]);
    let kept: Vec<PathBuf> = [SYSTEM, calibration].map(PathBuf::from).into();
    assert_eq!((packaged.kept, packaged.completed), (kept.clone(), vec![]));
    let note = "open/Us/systems/box.json keeps `cooling` by hand; --describe has air";
    assert_eq!(packaged.notes, [note]);

    // Known values replace the markers and nothing else.
    let description = submission::description(&[]);
    let third = PackageRequest { benchmark: "third".into(), description, ..second };
    let packaged = package(&third, &out).unwrap();
    assert_eq!((&packaged.missing_fields, &packaged.kept), (&vec![], &vec![]));
    assert_eq!(packaged.completed, kept);
    assert_eq!(json(&out.join(SYSTEM))["cooling"], "by hand");
    assert_eq!(json(&out.join(SYSTEM))["framework"], "Some framework");
    let page = fs::read_to_string(out.join(calibration)).unwrap();
    assert_eq!(page, "# Calibration: own on box\n\nPer channel, from the calibration set.\n");
    // The code of another model has its own page.
    let code = fs::read_to_string(out.join("open/Us/code/own/README.md")).unwrap();
    assert!(code.contains("FILL IN"), "{code}");
}

#[test]
fn several_systems_lie_side_by_side() {
    let scratch = Folder::new("systems");
    let (out, second) = tree(&scratch);
    let other = PackageRequest { system: "crate".into(), suite: Suite::Both, ..second };
    package(&other, &out).unwrap();
    assert_eq!(json(&out.join(SYSTEM))["system_type"], "edge");
    assert_eq!(json(&out.join("open/Us/systems/crate.json"))["system_type"], "datacenter,edge");
    assert!(out.join("open/Us/results/crate/other/Offline").is_dir());
}

#[test]
fn a_tree_is_a_folder_beside_the_runs() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("no-tree");
    let run = scratch.path().join("run");
    run_directory(round, &[Scenario::Offline], &run);
    let file = scratch.path().join("file");
    fs::write(&file, "mine").unwrap();
    let error = package(&open(round, &run), &file).unwrap_err();
    assert!(error.to_string().ends_with("one that has other results"), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    for (tree, expected) in
        [(scratch.path(), "is in the tree"), (&run, "is a run, not a submission tree")]
    {
        let error = package(&open(round, &run), tree).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn what_a_killed_package_left_is_no_obstacle_and_never_whole() {
    let round = Round::named("v5.1").unwrap();
    let scratch = Folder::new("killed");
    let (run, out) = (scratch.path().join("run"), scratch.path().join("tree"));
    run_directory(round, &[Scenario::Offline], &run);
    let partial = scratch.path().join(".tree.partial");
    fs::create_dir(&partial).unwrap();
    fs::write(partial.join("left"), "").unwrap();
    package(&open(round, &run), &out).unwrap();
    assert!(!out.join("left").exists() && !partial.exists());
    fs::remove_dir_all(&out).unwrap();
    // An unreadable log is detected late; no other file is written.
    let log = run.join("Offline/accuracy/mlperf_log_accuracy.json");
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    package(&asked(round, &run), &out).unwrap_err();
    assert!(!out.exists() && !partial.exists());
}
