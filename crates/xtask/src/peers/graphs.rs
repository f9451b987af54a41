//! Graphs of the benchmarks as the packages `onnx` and `onnxruntime` see them.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::venv::{ONNX_RUNTIME, Venv};
use super::{Bench, Named, Outcome};
use crate::release::shell;

const FILES: &str = "valid, of the operations that are counted, and finite in ONNX Runtime";

/// Those that take less than seconds.
const QUICK: &[&str] = &[
    "resnet50",
    "mobilenet-v1",
    "efficientnet-lite0",
    "minilm-l6",
    "dlrm",
    "dlrm-v2",
    "ssd-mobilenet-v1",
    "rnnt-step",
];

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    let packages = format!("onnx==1.17.0 numpy==2.4.6 {ONNX_RUNTIME}");
    let outcome = match Venv::with(&bench.folder, &packages) {
        Ok(venv) => compare(bench, &venv)?,
        Err(missing) => Outcome::Skipped(missing),
    };
    Ok(vec![(FILES, outcome)])
}

fn compare(bench: &Bench, venv: &Venv) -> Result<Outcome> {
    let folder = bench.folder.join("models");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let write = |names: &[&str]| {
        let mut write = Command::new(&cargo);
        write.args(["run", "--quiet", "--package", "dyno-task", "--example", "write_graphs", "--"]);
        shell::said(write.arg(&folder).args(names).current_dir(bench.root))
    };
    let all = write(&[])?;
    let names: Vec<&str> = if bench.quick { QUICK.to_vec() } else { all.lines().collect() };
    let mut wrong = Vec::new();
    for name in names {
        let written = write(&[name])?;
        let mut check = venv.python();
        check.arg("-B").arg(bench.root.join("crates/xtask/peers/graphs.py"));
        match shell::said(check.args(written.trim().split(' '))) {
            Ok(said) => println!("{}", said.trim()),
            Err(error) => wrong.push(format!("{error:#}")),
        }
        // The next one may need the room.
        for file in [format!("{name}.onnx"), format!("{name}.onnx.data")] {
            let _ = fs::remove_file(folder.join(file));
        }
    }
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    Ok(if wrong.is_empty() { Outcome::Passed } else { Outcome::Failed(wrong.join("; ")) })
}
