//! Query traces, logs and the Python module against the reference LoadGen.

mod modules;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::venv::Venv;
use super::{Bench, Named, Outcome, WHEEL, cargo_test, examples};
use crate::wheel;

const SCRIPT: &str = "crates/xtask/peers/loadgen_traces.py";
/// Recorded cases that `cargo test` replays.
const GOLDENS: &str = "crates/loadgen/testdata/traces";

const CASES: u32 = 600;
const CASES_QUICK: u32 = 60;

const REPEAT: &str = "the wheel repeats the recorded cases";
const REPLAY: &str = "random cases replay bit for bit";
const EXAMPLE: &str = "the example with a thread pool runs alike";

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    let venv = Venv::with(&bench.folder, WHEEL).and_then(|venv| {
        venv.ask("import mlperf_loadgen")?;
        Ok(venv)
    });
    let venv = match venv {
        Ok(venv) => venv,
        Err(missing) => {
            let all = [REPEAT, REPLAY, EXAMPLE].into_iter().chain(modules::ALL);
            return Ok(all.map(|name| (name, Outcome::Skipped(missing.clone()))).collect());
        }
    };
    let repeated = script(bench, &venv, &["check", GOLDENS])?;
    let replayed = replay(bench, &venv)?;
    let ours = wheel::build(bench.root, &wheel::LOADGEN)?
        .and_then(|wheels| Venv::with_ours(&bench.folder, &wheels, wheel::LOADGEN.package));
    let example = match &ours {
        Ok(ours) => examples::run(bench, &venv, ours)?,
        Err(missing) => Outcome::Skipped(missing.clone()),
    };
    let mut outcomes = vec![(REPEAT, repeated), (REPLAY, replayed), (EXAMPLE, example)];
    outcomes.extend(modules::run(bench, &venv, ours.as_ref())?);
    Ok(outcomes)
}

/// Generates cases with the wheel and has the tests of our crate replay them.
fn replay(bench: &Bench, venv: &Venv) -> Result<Outcome> {
    let cases = bench.folder.join("cases");
    // The tests would read what an earlier run left.
    if cases.exists() {
        fs::remove_dir_all(&cases).context("cannot remove the cases of an earlier run")?;
    }
    let cases = cases.to_str().context("the target folder is not UTF-8")?;
    let count = if bench.quick { CASES_QUICK } else { CASES }.to_string();
    let generated = script(bench, venv, &["generate", cases, "--cases", &count])?;
    if generated != Outcome::Passed {
        return Ok(generated);
    }
    cargo_test(bench.root, &["--test", "it", "peers"], &[("DYNO_PEER_TRACES", Path::new(cases))])
}

fn script(bench: &Bench, venv: &Venv, args: &[&str]) -> Result<Outcome> {
    let mut command = venv.python();
    outcome_of(command.arg(SCRIPT).args(args).current_dir(bench.root))
}

/// Runs a command that shows its findings, and fails if it has any.
fn outcome_of(command: &mut Command) -> Result<Outcome> {
    let status = command.status().context("cannot start the interpreter")?;
    let shown = || {
        let args: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        format!("{}: {status}", args.join(" "))
    };
    Ok(if status.success() { Outcome::Passed } else { Outcome::Failed(shown()) })
}
