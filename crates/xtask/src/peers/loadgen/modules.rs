//! The Python module of the wheel that we build against the reference's.

use anyhow::{Context, Result};

use super::outcome_of;
use crate::peers::venv::Venv;
use crate::peers::{Bench, Named, Outcome};
use crate::wheel;

/// One script of scenarios, its comparer, and the list of what may differ.
const SCENARIOS: &str = "crates/xtask/peers/loadgen_scenarios";
/// What the module's names, defaults, conversions and errors are.
const INTERFACE: &str = "crates/loadgen-py/tests/python/compatibility.py";

const SAME: &str = "both modules leave the same traces and logs";
const THEIRS: &str = "the interface of the reference is as our tests say";
const OURS: &str = "the interface of our wheel is as our tests say";
/// Every comparison of this file.
pub const ALL: [&str; 3] = [SAME, THEIRS, OURS];

pub fn run(bench: &Bench, theirs: &Venv) -> Result<Vec<Named>> {
    let told = interface(bench, theirs)?;
    let ours = match our_wheel(bench)? {
        Ok(ours) => ours,
        Err(missing) => {
            let skipped = |name| (name, Outcome::Skipped(missing.clone()));
            return Ok(vec![skipped(SAME), (THEIRS, told), skipped(OURS)]);
        }
    };
    let same = compare(bench, theirs, &ours)?;
    Ok(vec![(SAME, same), (THEIRS, told), (OURS, interface(bench, &ours)?)])
}

/// An environment with the wheel of this tree, or what is missing for it.
fn our_wheel(bench: &Bench) -> Result<Result<Venv, String>> {
    let folder = bench.folder.join("ours");
    let wheels = folder.join("wheels");
    // Of several versions pip would take the newest.
    if wheels.exists() {
        std::fs::remove_dir_all(&wheels).context("cannot remove the wheel of an earlier run")?;
    }
    if let Err(missing) = wheel::build(bench.root, &wheels)? {
        return Ok(Err(missing));
    }
    Ok(Venv::with_wheel(&folder, &wheels, wheel::DISTRIBUTION).and_then(|venv| {
        venv.ask("import mlperf_loadgen")?;
        Ok(venv)
    }))
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
