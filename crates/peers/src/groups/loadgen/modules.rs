//! The Python module of our wheel beside the reference's.

use anyhow::Result;

use crate::bench::Bench;
use crate::groups::{Comparison, Outcome};
use crate::venv::Venv;

/// A script of scenarios, the comparison of its results, and the list of allowed differences.
const SCENARIOS: &str = "crates/peers/scripts/loadgen_scenarios";
/// A test of the module's names, defaults, conversions and errors.
const INTERFACE: &str = "crates/loadgen-py/tests/python/compatibility.py";

const SAME: &str = "both modules leave the same traces and logs";
const THEIRS: &str = "the interface of the reference is as our tests say";
const OURS: &str = "the interface of our wheel is as our tests say";
/// Names of the comparisons of this file.
pub const ALL: [&str; 3] = [SAME, THEIRS, OURS];

/// Compares the modules in two environments; the error of `ours` names what this machine lacks.
pub fn run(bench: &Bench, theirs: &Venv, ours: Result<&Venv, &String>) -> Result<Vec<Comparison>> {
    let their_interface = interface(bench, theirs)?;
    let [traces, our_interface] = match ours {
        Ok(ours) => [compare(bench, theirs, ours)?, interface(bench, ours)?],
        Err(missing) => [(); 2].map(|()| Outcome::Skipped(missing.clone())),
    };
    Ok(vec![(SAME, traces), (THEIRS, their_interface), (OURS, our_interface)])
}

fn compare(bench: &Bench, theirs: &Venv, ours: &Venv) -> Result<Outcome> {
    if cfg!(windows) {
        return Ok(Outcome::Skipped("each case is a fork of a process".to_owned()));
    }
    let mut command = theirs.script(&bench.root.join(SCENARIOS));
    command.arg("compare");
    command.arg("--theirs").arg(theirs.interpreter()).arg("--ours").arg(ours.interpreter());
    command.arg("--folder").arg(bench.folder.join("scenarios"));
    Outcome::from_script(command.args(bench.quick.then_some("--quick")))
}

fn interface(bench: &Bench, venv: &Venv) -> Result<Outcome> {
    Outcome::from_script(venv.script(&bench.root.join(INTERFACE)).current_dir(&bench.folder))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_tests_of_the_comparison_script_pass() {
        let is_recent = "import sys; sys.exit(sys.version_info < (3, 9))";
        let python = || Command::new("python3");
        if !python().args(["-c", is_recent]).status().is_ok_and(|status| status.success()) {
            return println!("skipped: there is no python3 of version 3.9 or later");
        }
        let tests = ["-B", "-m", "unittest", "discover", "--pattern", "test_*.py"];
        let folder = crate::cargo::root().join(SCENARIOS);
        let output = python().args(tests).current_dir(folder).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        assert!(!text.contains("Ran 0 tests"), "{text}");
    }
}
