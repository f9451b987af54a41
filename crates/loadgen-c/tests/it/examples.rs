//! The examples of the repository run.

use std::fs;
use std::path::Path;

use crate::logs::grave;
use crate::program::{Language, Link, build, folder, run};

const SCENARIOS: [&str; 4] = ["SingleStream", "MultiStream", "Server", "Offline"];

/// The tests ran in `folder` and found nothing to object to.
fn check_sound(folder: &Path, name: &str) {
    assert_eq!(grave(folder), [""; 0]);
    let summary = fs::read_to_string(folder.join("mlperf_log_summary.txt")).unwrap();
    assert!(summary.contains(&format!("SUT name : {name}")), "{summary}");
}

#[test]
fn the_example_in_c_answers_every_scenario() {
    const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/c/null_system.c");
    let Some(program) = build(SOURCE, Language::C, Link::Shared) else { return };
    for scenario in SCENARIOS {
        let folder = folder(&format!("example-c-{scenario}"));
        let printed = run(&program, &folder, &[scenario, "."]);
        let samples = if scenario == "MultiStream" { 80_000 } else { 10_000 };
        assert_eq!(printed.trim(), format!("{samples} samples answered"));
        check_sound(&folder, "null system in C");
    }
}
