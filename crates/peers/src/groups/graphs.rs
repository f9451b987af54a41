//! Graphs of the benchmarks, checked by the packages `onnx` and `onnxruntime`, and models that scripts
//! export. Without `--quick` it needs 10 GB of memory and as much space below `target`.

use std::process::Command;

use anyhow::Result;

use super::{Comparison, Outcome};
use crate::bench::Bench;
use crate::venv::{ONNX_RUNTIME, Venv};
use crate::{cargo, folder, shell};

const FILES: &str = "valid, of the operations that are counted, and finite in ONNX Runtime";

const EXPORTS: &str = "models that crates/task/export writes, as NumPy has their layers";

/// Graphs that take less than seconds, beside those without weights.
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

/// Prefix of graphs that are too large to be run: their files have no weights.
const WHOLE: &str = "whole:";

pub fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let packages = format!("onnx==1.17.0 numpy==2.4.6 {ONNX_RUNTIME}");
    let [graphs, exports] = match Venv::with_packages(&bench.folder, &packages) {
        Ok(venv) => [compare(bench, &venv)?, check_exports(bench, &venv)?],
        Err(missing) => [&missing, &missing].map(|missing| Outcome::Skipped(missing.clone())),
    };
    Ok(vec![(FILES, graphs), (EXPORTS, exports)])
}

/// Checks the scripts that export checkpoints of the reference, with random weights.
fn check_exports(bench: &Bench, venv: &Venv) -> Result<Outcome> {
    let folder = bench.folder.join("exports");
    folder::create(&folder)?;
    let mut check = venv.script(&bench.root.join("crates/peers/scripts/export.py"));
    check.arg(bench.root.join("crates/task/export")).arg(&folder);
    Ok(match shell::output(&mut check) {
        Ok(lines) => {
            println!("{lines}");
            Outcome::Passed
        }
        Err(error) => Outcome::Failed(format!("{error:#}")),
    })
}

fn compare(bench: &Bench, venv: &Venv) -> Result<Outcome> {
    let folder = bench.folder.join("models");
    folder::create(&folder)?;
    let example = cargo::debug_folder(bench.root)?.join("examples/write_graphs");
    let write = |names: &[&str]| {
        let mut write = Command::new(&example);
        shell::output(write.arg(&folder).args(names).current_dir(bench.root))
    };
    let all = write(&[])?;
    let is_quick = |name: &&str| name.starts_with(WHOLE) || QUICK.contains(name);
    let names = all.lines().filter(|name| !bench.quick || is_quick(name));
    let mut wrong = Vec::new();
    for name in names {
        let written = write(&[name])?;
        let mut check = venv.script(&bench.root.join("crates/peers/scripts/graphs.py"));
        match shell::output(check.args(written.split(' '))) {
            Ok(lines) => println!("{lines}"),
            Err(error) => wrong.push(format!("{error:#}")),
        }
        // The next graph may need the space.
        folder::recreate(&folder)?;
    }
    folder::remove(&folder)?;
    Ok(Outcome::from_differences(&wrong))
}
