//! The Python module of the wheel that we build against the reference's.

use anyhow::Result;

use super::outcome_of;
use crate::peers::venv::Venv;
use crate::peers::{Bench, Named, Outcome};

/// One script of scenarios, its comparer, and the list of what may differ.
const SCENARIOS: &str = "crates/xtask/peers/loadgen_scenarios";
/// What the module's names, defaults, conversions and errors are.
const INTERFACE: &str = "crates/loadgen-py/tests/python/compatibility.py";

const SAME: &str = "both modules leave the same traces and logs";
const THEIRS: &str = "the interface of the reference is as our tests say";
const OURS: &str = "the interface of our wheel is as our tests say";
/// Every comparison of this file.
pub const ALL: [&str; 3] = [SAME, THEIRS, OURS];

/// `ours` has the wheel of this tree, or is what is missing for it.
pub fn run(bench: &Bench, theirs: &Venv, ours: Result<&Venv, &String>) -> Result<Vec<Named>> {
    let told = interface(bench, theirs)?;
    let (same, our_own) = match ours {
        Ok(ours) => (compare(bench, theirs, ours)?, interface(bench, ours)?),
        Err(missing) => (Outcome::Skipped(missing.clone()), Outcome::Skipped(missing.clone())),
    };
    Ok(vec![(SAME, same), (THEIRS, told), (OURS, our_own)])
}

fn compare(bench: &Bench, theirs: &Venv, ours: &Venv) -> Result<Outcome> {
    if cfg!(windows) {
        return Ok(Outcome::Skipped("each case is a fork of a process".to_owned()));
    }
    let mut command = theirs.python();
    command.arg("-B").arg(bench.root.join(SCENARIOS)).arg("compare");
    command.arg("--theirs").arg(theirs.interpreter()).arg("--ours").arg(ours.interpreter());
    command.arg("--folder").arg(bench.folder.join("scenarios"));
    if bench.quick {
        command.arg("--quick");
    }
    outcome_of(&mut command)
}

fn interface(bench: &Bench, venv: &Venv) -> Result<Outcome> {
    let mut command = venv.python();
    outcome_of(command.arg("-B").arg(bench.root.join(INTERFACE)).current_dir(&bench.folder))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_comparer_finds_what_it_must() {
        let is_recent = "import sys; sys.exit(sys.version_info < (3, 9))";
        let python = || Command::new("python3");
        if !python().args(["-c", is_recent]).status().is_ok_and(|status| status.success()) {
            return println!("skipped: there is no python3 of version 3.9 or later");
        }
        let tests = ["-B", "-m", "unittest", "discover", "--pattern", "test_*.py"];
        let folder = crate::root().join(SCENARIOS);
        let said = python().args(tests).current_dir(folder).output().unwrap();
        let text = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{text}");
        assert!(!text.contains("Ran 0 tests"), "{text}");
    }
}
