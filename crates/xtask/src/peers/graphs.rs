//! Graphs of the benchmarks as the packages `onnx` and `onnxruntime` see them, and models that
//! scripts export. In full it takes
//! 10 GB of memory and as much room below `target`.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::venv::{ONNX_RUNTIME, Venv};
use super::{Bench, Named, Outcome, built};
use crate::release::shell;

const FILES: &str = "valid, of the operations that are counted, and finite in ONNX Runtime";

const EXPORTS: &str = "models that crates/task/export writes, as NumPy has their layers";

/// Those that take less than seconds; so do graphs without weights.
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

/// Before the names of graphs that are too large to be run: their files have no weights.
const WHOLE: &str = "whole:";

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    let packages = format!("onnx==1.17.0 numpy==2.4.6 {ONNX_RUNTIME}");
    let [graphs, exports] = match Venv::with(&bench.folder, &packages) {
        Ok(venv) => [compare(bench, &venv)?, exported(bench, &venv)?],
        Err(missing) => [&missing, &missing].map(|missing| Outcome::Skipped(missing.clone())),
    };
    Ok(vec![(FILES, graphs), (EXPORTS, exports)])
}

/// The scripts for checkpoints of the reference, with random weights of their names.
fn exported(bench: &Bench, venv: &Venv) -> Result<Outcome> {
    let folder = bench.folder.join("exports");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut check = venv.python();
    check.arg("-B").arg(bench.root.join("crates/xtask/peers/export.py"));
    check.arg(bench.root.join("crates/task/export")).arg(&folder);
    Ok(match shell::said(&mut check) {
        Ok(said) => {
            println!("{}", said.trim());
            Outcome::Passed
        }
        Err(error) => Outcome::Failed(format!("{error:#}")),
    })
}

fn compare(bench: &Bench, venv: &Venv) -> Result<Outcome> {
    let folder = bench.folder.join("models");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let example = built(bench.root)?.join("examples/write_graphs");
    let write = |names: &[&str]| {
        let mut write = Command::new(&example);
        shell::said(write.arg(&folder).args(names).current_dir(bench.root))
    };
    let all = write(&[])?;
    let is_quick = |name: &&str| name.starts_with(WHOLE) || QUICK.contains(name);
    let names = all.lines().filter(|name| !bench.quick || is_quick(name));
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
        fs::remove_dir_all(&folder)?;
        fs::create_dir_all(&folder)?;
    }
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    Ok(if wrong.is_empty() { Outcome::Passed } else { Outcome::Failed(wrong.join("; ")) })
}
