//! A completion allocates nothing and makes no system call.
//!
//! Counted over whole programs: what one more completion costs is the slope
//! between two runs that differ in nothing but their number of samples.
#![cfg(target_os = "linux")]

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::program::{Language, Link, build, compile, folder, output};

/// Samples of the two runs.
const SAMPLES: [u64; 2] = [10_000, 110_000];

/// Larger columns are other numbers of mappings and of reallocations, and the
/// lists of a harness grow; all of that is far below one in a thousand samples.
const NONE_PER_SAMPLE: f64 = 0.001;

/// Completes in the call that issues; holds all and completes one by one; late
/// Server queries without a wait between them.
const RUNS: [&[&str]; 3] = [
    &["scenario=SingleStream"],
    &["scenario=Offline", "--complete=flush", "--batch=1"],
    &["scenario=Server", "server_target_qps=1e9"],
];

/// How `count_syscalls` exits where it may not trace.
const NOT_ALLOWED: i32 = 125;

/// What `count` finds per sample, in each of the runs. `None` if it cannot count.
fn slopes(
    folder: &Path,
    count: impl Fn(&Path, &[&str]) -> Option<Vec<u64>>,
) -> Option<Vec<(&'static [&'static str], f64)>> {
    let program = build("tests/c/scenario.c", Language::C, Link::Shared)?;
    let mut slopes = Vec::new();
    for run in RUNS {
        let mut counts = Vec::new();
        for samples in SAMPLES {
            let samples = format!("min_query_count={samples}");
            let common = [samples.as_str(), "min_duration_ms=0", "log.enable_trace=false"];
            let counted = count(&program, &[run, &common[..]].concat())?;
            assert!(counted[0] > 0, "{run:?}: nothing is counted in {}", folder.display());
            counts.push(counted.iter().rev().copied().reduce(|less, all| all - less).unwrap());
        }
        let more = counts[1].abs_diff(counts[0]) as f64;
        slopes.push((run, more / (SAMPLES[1] - SAMPLES[0]) as f64));
    }
    Some(slopes)
}

fn check_none(what: &str, slopes: &[(&[&str], f64)]) {
    for (run, slope) in slopes {
        assert!(*slope < NONE_PER_SAMPLE, "{slope} {what} per sample in {run:?}");
    }
}

/// The numbers at the ends of the lines that a counter wrote.
fn numbers(path: &Path) -> Vec<u64> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn a_completion_allocates_nothing() {
    let folder = folder("allocations");
    let arguments = ["-shared", "-fPIC", "-ldl"].map(OsString::from);
    let source = "tests/c/count_allocations.c";
    let Some(counter) = compile(source, Language::C, &folder, &arguments) else { return };
    let counted = folder.join("counted.txt");
    let slopes = slopes(&folder, |program, arguments| {
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", &counter).env("COUNT_ALLOCATIONS_TO", &counted);
        output(command.current_dir(&folder).args(arguments));
        Some(numbers(&counted))
    });
    check_none("allocations", &slopes.unwrap_or_default());
}

#[test]
fn a_completion_makes_no_system_call() {
    let folder = folder("system-calls");
    let source = "tests/c/count_syscalls.c";
    let Some(counter) = compile(source, Language::C, &folder, &[]) else { return };
    let counted = folder.join("counted.txt");
    let slopes = slopes(&folder, |program, arguments| {
        let mut command = Command::new(&counter);
        command.current_dir(&folder).arg(&counted).arg(program).args(arguments);
        let result = command.output().unwrap();
        let said = String::from_utf8_lossy(&result.stderr);
        if result.status.code() == Some(NOT_ALLOWED) {
            eprintln!("skipped: {said}");
            return None;
        }
        assert!(result.status.success(), "{said}");
        // System calls, and how many of them the machine needs to read its clock.
        Some(numbers(&counted))
    });
    check_none("system calls", &slopes.unwrap_or_default());
}
