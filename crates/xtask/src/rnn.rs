//! What `bench/rnn` runs: layers of DeepCPU's Table 1 beside PyTorch, ONNX Runtime and
//! OpenVINO, in turn, the tuner beside a sweep of all plans, and models that are served. Prints one
//! JSON line a cell and one a summary.

mod cell;
mod models;
mod server;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::bench::{Bench, program};
use crate::peers::target_folder;
use crate::peers::venv::Venv;
use cell::{Cell, summaries};

/// What is small enough for each run of CI: the wheel of PyTorch is of gigabytes.
pub const FEW: &str = "onnxruntime openvino onnx numpy";
/// And PyTorch.
pub const ALL: &str = "onnxruntime openvino onnx numpy torch";
/// Cells that say that the bench works.
const QUICK: [&str; 3] = ["256x256x1x1", "256x256x1x10", "64x64x10x100"];
const PRECISIONS: [&str; 3] = ["fp32", "bf16", "int8"];
const CELLS: [&str; 2] = ["lstm", "gru"];
/// What the script knows; a filter that fits none of it starts no peer.
const SHAPES: [&str; 15] = [
    "64x64x1x100",
    "256x64x1x100",
    "1024x64x1x100",
    "64x256x1x100",
    "64x1024x1x100",
    "1024x1024x1x100",
    "256x256x1x1",
    "256x256x1x10",
    "256x256x1x100",
    "64x64x10x100",
    "64x64x20x100",
    "256x256x10x100",
    "256x256x20x100",
    "1024x1024x10x100",
    "1024x1024x20x100",
];
/// What names of its cells begin with.
const TUNER: &str = "rnn.tuner";
/// Summaries that are made of lines of the bench `tuner`.
const OF_TUNER: [&str; 4] =
    ["rnn.tuner_against_sweep", "rnn.tuner_s", "rnn.ranking_percent", "rnn.two_cores"];

/// Prints the figures whose names contain one of the arguments, or all.
///
/// # Errors
/// Dyno does not build, or a program ends before its time.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let bench = match Bench::asked(root, "rnn", args)? {
        Ok(bench) => bench,
        Err(wrong) => return Ok(wrong),
    };
    // Plans are tuned anew: kernels may have changed.
    let _ = std::fs::remove_file(bench.folder.join("choices.txt"));
    let found = cells(&bench)?;
    summaries(&found).iter().for_each(|line| println!("{line}"));
    if wants_tuner(&bench) {
        tuner(&bench)?;
    }
    models::run(&bench)?;
    server::run(&bench)?;
    Ok(ExitCode::SUCCESS)
}

/// Names of the cells that are asked for. Without any, a summary of a precision asks for all of its
/// cells.
fn wanted(bench: &Bench, precision: &str) -> Vec<String> {
    let of_all = ["rnn.t1_us", "rnn.allocations_per_call"];
    let mut names = Vec::new();
    for cell in CELLS {
        for shape in SHAPES {
            let name = format!("rnn.{precision}.{cell}.{shape}");
            let means = ["geomean", "min"].iter().any(|of| {
                bench.asks(&format!("rnn.{precision}.{of}"))
                    || bench.asks(&format!("rnn.{precision}.{cell}.{of}"))
            });
            let first = name == "rnn.fp32.lstm.256x256x1x1" && of_all.iter().any(|n| bench.asks(n));
            if bench.wants(&name) || means || first {
                names.push(name);
            }
        }
    }
    if bench.is_all() && bench.quick {
        names.retain(|name| QUICK.iter().any(|shape| name.ends_with(&format!(".{shape}"))));
    }
    names
}

/// Prints and returns all cells that are asked for.
fn cells(bench: &Bench) -> Result<Vec<Cell>> {
    let all: Vec<(&str, Vec<String>)> = PRECISIONS
        .iter()
        .map(|precision| (*precision, wanted(bench, precision)))
        .filter(|(_, names)| !names.is_empty())
        .collect();
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let folder =
        target_folder(bench.root)?.join("peers").join(if bench.quick { "rnn" } else { "rnn-all" });
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let venv = match Venv::with(&folder, if bench.quick { FEW } else { ALL }) {
        Ok(venv) => venv,
        Err(missing) => {
            bench.skip("rnn beside its peers", &missing);
            return Ok(Vec::new());
        }
    };
    let program = program(bench.root, "dyno-rnn", "cells")?;
    let mut found = Vec::new();
    for (precision, names) in all {
        let mut command = venv.python();
        command.arg(bench.root.join("crates/xtask/peers/rnn.py")).arg(&program).arg(&bench.folder);
        command.args([precision, if bench.quick { "1" } else { "5" }]);
        command.arg(if bench.quick { "0.02" } else { "0.2" }).args(names);
        let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start python")?;
        let stdout = child.stdout.take().context("stdout of the script is piped")?;
        for line in BufReader::new(stdout).lines() {
            let cell = Cell::of(&serde_json::from_str(&line?)?)?;
            println!("{}", cell.line());
            found.push(cell);
        }
        if !child.wait()?.success() {
            bail!("crates/xtask/peers/rnn.py failed for {precision}");
        }
    }
    Ok(found)
}

/// Whether any line of the tuner is asked for.
fn wants_tuner(bench: &Bench) -> bool {
    let lines = CELLS.iter().flat_map(|cell| SHAPES.map(|shape| format!("{TUNER}.{cell}.{shape}")));
    OF_TUNER.iter().any(|name| prints(bench, name))
        || lines.into_iter().any(|name| bench.wants(&name))
}

/// Whether a line of the tuner is asked for: `bench/rnn tuner` asks for all of them, whatever their names.
fn prints(bench: &Bench, name: &str) -> bool {
    bench.wants(name) || bench.asks(TUNER)
}

/// Prints the lines of the bench `tuner`.
fn tuner(bench: &Bench) -> Result<()> {
    let mut command = Command::new(program(bench.root, "dyno-rnn", "tuner")?);
    if !bench.quick {
        command.arg("--bench");
    }
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start the bench")?;
    let stdout = child.stdout.take().context("stdout of the bench is piped")?;
    for line in BufReader::new(stdout).lines() {
        let found: Value = serde_json::from_str(&line?).context("a line of the bench tuner")?;
        if found["name"].as_str().is_some_and(|name| prints(bench, name)) {
            println!("{found}");
        }
    }
    if !child.wait()?.success() {
        bail!("the bench tuner of dyno-rnn failed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(args: &[&str], precision: &str) -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let bench = Bench::asked(root, "rnn-names", args).unwrap().unwrap();
        wanted(&bench, precision)
    }

    #[test]
    fn figures_ask_for_the_cells_that_they_are_made_of() {
        assert_eq!(names(&[], "fp32").len(), 30);
        assert_eq!(names(&["--quick"], "bf16").len(), 2 * QUICK.len());
        assert_eq!(names(&["rnn.bf16.lstm.geomean"], "bf16").len(), 15);
        assert_eq!(names(&["rnn.bf16.lstm.geomean"], "fp32").len(), 0);
        assert_eq!(names(&["rnn.int8.geomean"], "int8").len(), 30);
        assert_eq!(names(&["rnn.t1_us"], "fp32"), ["rnn.fp32.lstm.256x256x1x1"]);
        assert_eq!(names(&["--quick", "fp32.gru.64x1024"], "fp32").len(), 1);
        assert_eq!(names(&["rnn.tuner_against_sweep"], "fp32").len(), 0);
    }

    #[test]
    fn the_tuner_prints_its_cells_and_all_that_is_made_of_them() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let of = |args: &[&str]| {
            let bench = Bench::asked(root, "rnn-names", args).unwrap().unwrap();
            OF_TUNER.map(|name| prints(&bench, name))
        };
        assert_eq!(of(&["tuner"]), [true; 4]);
        assert_eq!(of(&["ranking_percent"]), [false, false, true, false]);
        assert_eq!(of(&["rnn.bf16"]), [false; 4]);
    }

    /// The script has the same shapes.
    #[test]
    fn shapes_are_those_of_the_script() {
        let script = include_str!("../peers/rnn.py");
        for shape in SHAPES {
            let row = format!("({})", shape.replace('x', ", "));
            assert!(script.contains(&row), "{row}");
        }
    }
}
