//! Number formats beside ml_dtypes, ONNX Runtime's conversions and the reference of ONNX: all codes, and the borders
//! between them. Where they mean something else, a table of the page of formats says so.

use anyhow::{Context, Result};

use super::venv::Venv;
use super::{Bench, Named, Outcome, target_folder};
use crate::release::shell;

const FORMATS: &str = "codes, casts and scales beside ml_dtypes, ONNX Runtime and ONNX's reference";
/// Pinned: the table tells what these do.
const PACKAGES: &str = "ml_dtypes==0.6.0 numpy==2.4.6 onnx==1.23.2 onnxruntime==1.32.0";
const PAGE: &str = "docs/reference/number-formats.md";

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    let venv = match Venv::with(&bench.folder, PACKAGES) {
        Ok(venv) => venv,
        Err(missing) => return Ok(vec![(FORMATS, Outcome::Skipped(missing))]),
    };
    let mut build = shell::tool("CARGO", "cargo", bench.root);
    build.args(["build", "--quiet", "--package", "dyno-number", "--example", "convert"]);
    shell::said(&mut build)?;
    let mut script = venv.python();
    script.arg("-B").arg(bench.root.join("crates/xtask/peers/number.py"));
    script.arg(target_folder(bench.root)?.join("debug/examples/convert"));
    script.arg(bench.root.join(PAGE)).args(bench.quick.then_some("--quick"));
    let ran = script.output().context("cannot start python")?;
    let said = String::from_utf8_lossy(&ran.stdout);
    print!("{said}");
    let failed = String::from_utf8_lossy(&ran.stderr);
    eprint!("{failed}");
    let last = |said: &str| said.lines().last().unwrap_or("it says nothing").to_owned();
    let outcome = if ran.status.success() {
        Outcome::Passed
    } else {
        Outcome::Failed(last(if failed.is_empty() { &said } else { &failed }))
    };
    Ok(vec![(FORMATS, outcome)])
}
