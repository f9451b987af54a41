//! Query traces, logs and the Python module beside the reference LoadGen.

mod modules;

use std::path::Path;

use anyhow::{Context, Result};

use super::{Comparison, Outcome, WHEEL, cargo_test, examples};
use crate::bench::Bench;
use crate::venv::Venv;
use crate::{folder, wheel};

const SCRIPT: &str = "crates/peers/scripts/loadgen_traces.py";
/// Recorded cases that `cargo test` replays.
const GOLDENS: &str = "crates/loadgen/testdata/traces";

const CASES: u32 = 600;
const CASES_QUICK: u32 = 60;

const REPEAT: &str = "the wheel repeats the recorded cases";
const REPLAY: &str = "random cases replay bit for bit";
const EXAMPLE: &str = "the example with a thread pool runs alike";

pub fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let venv = match Venv::with_modules(&bench.folder, WHEEL, "mlperf_loadgen") {
        Ok(venv) => venv,
        Err(missing) => {
            let all = [REPEAT, REPLAY, EXAMPLE].into_iter().chain(modules::ALL);
            return Ok(all.map(|name| (name, Outcome::Skipped(missing.clone()))).collect());
        }
    };
    let repeated = script(bench, &venv, &["check", GOLDENS])?;
    let replayed = replay(bench, &venv)?;
    let ours = wheel::build(bench.root, &wheel::LOADGEN)?
        .and_then(|wheels| Venv::with_wheel(&bench.folder, &wheels, wheel::LOADGEN.package));
    let example = Outcome::unless_missing(ours.as_ref().map_err(String::clone), |ours| {
        examples::run(bench, &venv, ours)
    })?;
    let mut outcomes = vec![(REPEAT, repeated), (REPLAY, replayed), (EXAMPLE, example)];
    outcomes.extend(modules::run(bench, &venv, ours.as_ref())?);
    Ok(outcomes)
}

/// Generates cases with the wheel and replays them in the tests of our crate.
fn replay(bench: &Bench, venv: &Venv) -> Result<Outcome> {
    let cases = bench.folder.join("cases");
    folder::remove(&cases)?;
    let cases = cases.to_str().context("the target folder is not UTF-8")?;
    let count = if bench.quick { CASES_QUICK } else { CASES }.to_string();
    let generated = script(bench, venv, &["generate", cases, "--cases", &count])?;
    if generated != Outcome::Passed {
        return Ok(generated);
    }
    let variables = [("DYNO_PEER_TRACES", Path::new(cases))];
    Ok(cargo_test(bench.root, &["--test", "it", "peers"], &variables))
}

fn script(bench: &Bench, venv: &Venv, args: &[&str]) -> Result<Outcome> {
    let mut command = venv.python();
    Outcome::from_script(command.arg(SCRIPT).args(args).current_dir(bench.root))
}
