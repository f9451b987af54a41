//! The Python example with the reference's module and with ours: a program that was not written for
//! ours must work the same with both.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::Outcome;
use crate::bench::Bench;
use crate::venv::Venv;

const SCRIPT: &str = "examples/python/threaded.py";
const USER_CONF: &str = "examples/user.conf";

const SCENARIOS: &[&str] = &["SingleStream", "MultiStream", "Server", "Offline"];
const MODES: &[&str] = &["PerformanceOnly", "AccuracyOnly", "SubmissionRun"];

/// Runs each scenario and mode with the wheel and with our module, and compares the logged answers.
pub fn run(bench: &Bench, wheel: &Venv, ours: &Venv) -> Result<Outcome> {
    for scenario in SCENARIOS {
        for mode in MODES {
            let theirs = run_example(bench, wheel, "wheel", scenario, mode)?;
            let ours = run_example(bench, ours, "ours", scenario, mode)?;
            let difference = match (theirs, ours) {
                (Ok(theirs), Ok(ours)) => difference(&theirs, &ours),
                (Err(failed), _) | (_, Err(failed)) => Some(failed),
            };
            if let Some(difference) = difference {
                return Ok(Outcome::Failed(format!("{scenario} {mode}: {difference}")));
            }
        }
    }
    Ok(Outcome::Passed)
}

/// Entries of the accuracy log, without their order: threads complete in any order.
type Answers = BTreeSet<String>;

/// Runs the example and returns the logged answers. The inner error describes a failed run.
fn run_example(
    bench: &Bench,
    venv: &Venv,
    side: &str,
    scenario: &str,
    mode: &str,
) -> Result<Result<Answers, String>> {
    let folder: PathBuf = bench.folder.join("example").join(side);
    let mut command = venv.python();
    command.arg(SCRIPT).args(["--scenario", scenario, "--mode", mode]);
    command.args(["--user-conf", USER_CONF, "--log-dir"]).arg(&folder).current_dir(bench.root);
    let output = command.output().context("cannot start the example")?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Ok(Err(format!("{side}: {}: {}", output.status, stderr.trim())));
    }
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let summary = read("mlperf_log_summary.txt")?;
    if !summary.contains("No errors encountered during test.") {
        return Ok(Err(format!("{side}: the summary tells of errors")));
    }
    if mode != "AccuracyOnly" && !summary.contains("Result is : ") {
        return Ok(Err(format!("{side}: the summary tells no result")));
    }
    Ok(Ok(answers(&read("mlperf_log_accuracy.json")?)))
}

fn answers(log: &str) -> Answers {
    let entries = log.lines().map(|line| line.trim_end_matches(','));
    entries.filter(|line| line.starts_with('{')).map(str::to_owned).collect()
}

fn difference(wheel: &Answers, ours: &Answers) -> Option<String> {
    let first = wheel.symmetric_difference(ours).next()?;
    let (has, lacks) =
        if ours.contains(first) { ("our", "the wheel's") } else { ("the wheel's", "our") };
    Some(format!(
        "{} answers with the wheel, {} with our module; {has} log has {first}, {lacks} has not",
        wheel.len(),
        ours.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_compared_in_any_order() {
        let log =
            "[\n{ \"seq_id\" : 1, \"data\" : \"00\" },\n{ \"seq_id\" : 0, \"data\" : \"01\" }\n]\n";
        let one = answers(log);
        assert_eq!(one.len(), 2);
        let other = answers(
            "[\n{ \"seq_id\" : 0, \"data\" : \"01\" },\n{ \"seq_id\" : 1, \"data\" : \"00\" }\n]\n",
        );
        assert_eq!(difference(&one, &other), None);
        let differs = difference(&one, &answers("[\n{ \"seq_id\" : 0, \"data\" : \"01\" }\n]\n"));
        assert!(differs.unwrap().starts_with("2 answers with the wheel, 1 with our module"));
    }
}
