//! Number formats beside ml_dtypes, ONNX Runtime's conversions and the reference of ONNX: all codes, and the borders
//! between them. Where they mean something else, a table of the page of formats says so. And scores of the built-in
//! evaluator.

use std::process::Command;

use anyhow::{Context, Result};

use super::venv::Venv;
use super::{Bench, Named, Outcome, target_folder};
use crate::release::shell;

const FORMATS: &str = "codes, casts and scales beside ml_dtypes, ONNX Runtime and ONNX's reference";
const SCORES: &str = "networks of the built-in evaluator beside ONNX Runtime";
/// Pinned: the table tells what these do.
const PACKAGES: &str = "ml_dtypes==0.6.0 numpy==2.4.6 onnx==1.23.2 onnxruntime==1.32.0";
const PAGE: &str = "docs/reference/number-formats.md";

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    let venv = match Venv::with(&bench.folder, PACKAGES) {
        Ok(venv) => venv,
        Err(missing) => {
            let skipped = |name| (name, Outcome::Skipped(missing.clone()));
            return Ok([FORMATS, SCORES].map(skipped).into());
        }
    };
    let mut build = shell::tool("CARGO", "cargo", bench.root);
    build.args(["build", "--quiet", "--package", "dyno-number"]);
    shell::said(build.args(["--example", "convert", "--example", "scores"]))?;
    let examples = target_folder(bench.root)?.join("debug/examples");
    let mut formats = script(bench, &venv, "number.py");
    formats.arg(examples.join("convert")).arg(bench.root.join(PAGE));
    let mut scores = script(bench, &venv, "scores.py");
    scores.arg(examples.join("scores"));
    let commands = [(FORMATS, formats), (SCORES, scores)];
    commands.into_iter().map(|(name, command)| Ok((name, outcome(bench, command)?))).collect()
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
