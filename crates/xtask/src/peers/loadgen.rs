//! Query traces against the reference LoadGen, bit for bit.

use std::fs;
use std::path::Path;

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
            let skipped = |name| (name, Outcome::Skipped(missing.clone()));
            return Ok(vec![skipped(REPEAT), skipped(REPLAY), skipped(EXAMPLE)]);
        }
    };
    let repeated = script(bench, &venv, &["check", GOLDENS])?;
    let replayed = replay(bench, &venv)?;
    let ours = wheel::build(bench.root)?
        .and_then(|wheels| Venv::with_ours(&bench.folder, &wheels, wheel::PACKAGE));
    let example = match ours {
        Ok(ours) => examples::run(bench, &venv, &ours)?,
        Err(missing) => Outcome::Skipped(missing),
    };
    Ok(vec![(REPEAT, repeated), (REPLAY, replayed), (EXAMPLE, example)])
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
    let args = ["--package", "dyno-loadgen", "--test", "it", "peers", "--", "--nocapture"];
    cargo_test(bench.root, &args, &[("DYNO_PEER_TRACES", Path::new(cases))])
}

fn script(bench: &Bench, venv: &Venv, args: &[&str]) -> Result<Outcome> {
    let status = venv
        .python()
        .arg(SCRIPT)
        .args(args)
        .current_dir(bench.root)
        .status()
        .context("cannot start the script")?;
    Ok(if status.success() {
        Outcome::Passed
    } else {
        Outcome::Failed(format!("{SCRIPT} {}: {status}", args.join(" ")))
    })
}
