//! `bench/rnn`: layers of DeepCPU's Table 1 beside PyTorch, ONNX Runtime and OpenVINO, in turn, the
//! tuner beside a sweep of all plans, served and whole models, and a layer on a busy machine. Prints one
//! JSON line per cell of the table and one per summary, each with the instruction set of the engine.

mod cell;
mod imports;
mod models;
mod neighbour;
mod server;
mod streams;
mod whole;

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::bench::{Bench, FigureOptions};
use crate::groups::rnn::{PACKAGES, SMALL_PACKAGES};
use crate::venv::Venv;
use crate::{cargo, folder, shell};
use cell::{Cell, summaries};

/// Shapes of the cells of a quick run.
const QUICK: [&str; 3] = ["256x256x1x1", "256x256x1x10", "64x64x10x100"];
const PRECISIONS: [&str; 3] = ["fp32", "bf16", "int8"];
const CELLS: [&str; 2] = ["lstm", "gru"];
/// Shapes of all cells, as in the script; arguments that select none of them start no peer.
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
/// Prefix of the names of the tuner's cells.
const TUNER: &str = "rnn.tuner";
/// Summaries that the bench `tuner` prints.
const TUNER_SUMMARIES: [&str; 4] =
    ["rnn.tuner_against_sweep", "rnn.tuner_s", "rnn.ranking_percent", "rnn.two_cores"];

/// Prints the wanted figures.
///
/// # Errors
/// Dyno does not build, or a program fails.
pub fn run(root: &Path, options: &FigureOptions) -> Result<ExitCode> {
    let bench = Bench::new(root, "rnn", options)?;
    let lines = Lines::new(root)?;
    let cells = cells(&bench, &lines)?;
    summaries(&cells).into_iter().for_each(|line| lines.print(line));
    if wants_tuner(&bench) {
        tuner(&bench, &lines)?;
    }
    imports::run(&bench, &lines)?;
    models::run(&bench, &lines)?;
    whole::run(&bench, &lines)?;
    neighbour::run(&bench, &lines)?;
    streams::run(&bench, &lines)?;
    server::run(&bench, &lines)?;
    Ok(ExitCode::SUCCESS)
}

/// Printer of the bench's lines. Every program of the bench uses the fastest instruction set.
struct Lines {
    isa: String,
}

impl Lines {
    /// Asks the engine for its instruction set.
    fn new(root: &Path) -> Result<Self> {
        let mut command = Command::new(cargo::bench_program(root, "dyno-rnn", "cells")?);
        let mut isa = None;
        shell::each_value(command.arg("isa"), |line| {
            isa = line["isa"].as_str().map(str::to_owned);
            Ok(())
        })?;
        Ok(Self { isa: isa.context("the bench cells of dyno-rnn printed no instruction set")? })
    }

    /// Prints a line with the instruction set.
    fn print(&self, line: Value) {
        println!("{}", self.complete(line));
    }

    fn complete(&self, mut line: Value) -> Value {
        line["isa"] = self.isa.as_str().into();
        line
    }
}

/// Returns the names of the wanted cells. A summary of a precision needs all of its cells.
fn wanted(bench: &Bench, precision: &str) -> Vec<String> {
    let of_first_cell = ["rnn.t1_us", "rnn.allocations_per_call"];
    let mut names = Vec::new();
    for cell in CELLS {
        for shape in SHAPES {
            let name = format!("rnn.{precision}.{cell}.{shape}");
            let is_summarized = ["geomean", "min"].iter().any(|mean| {
                bench.names(&format!("rnn.{precision}.{mean}"))
                    || bench.names(&format!("rnn.{precision}.{cell}.{mean}"))
            });
            let is_first = name == "rnn.fp32.lstm.256x256x1x1"
                && of_first_cell.iter().any(|figure| bench.names(figure));
            if bench.wants(&name) || is_summarized || is_first {
                names.push(name);
            }
        }
    }
    if bench.wants_all() && bench.quick {
        names.retain(|name| QUICK.iter().any(|shape| name.ends_with(&format!(".{shape}"))));
    }
    names
}

/// Measures, prints and returns the wanted cells.
fn cells(bench: &Bench, lines: &Lines) -> Result<Vec<Cell>> {
    let all: Vec<(&str, Vec<String>)> = PRECISIONS
        .iter()
        .map(|precision| (*precision, wanted(bench, precision)))
        .filter(|(_, names)| !names.is_empty())
        .collect();
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let (name, packages) =
        if bench.quick { ("rnn", SMALL_PACKAGES) } else { ("rnn-all", PACKAGES) };
    let folder = cargo::target_folder(bench.root)?.join("peers").join(name);
    folder::create(&folder)?;
    let venv = Venv::with_packages(&folder, packages);
    let Some(venv) = bench.or_skip("rnn beside its peers", venv) else { return Ok(Vec::new()) };
    let program = cargo::bench_program(bench.root, "dyno-rnn", "cells")?;
    let mut cells = Vec::new();
    for (precision, names) in all {
        let mut command = venv.python();
        command
            .arg(bench.root.join("crates/peers/scripts/rnn.py"))
            .arg(&program)
            .arg(&bench.folder);
        command.args([precision, if bench.quick { "1" } else { "5" }]);
        command.arg(if bench.quick { "0.02" } else { "0.2" }).args(names);
        shell::each_value(&mut command, |line| {
            let cell = Cell::parse(line)?;
            lines.print(cell.line());
            cells.push(cell);
            Ok(())
        })?;
    }
    Ok(cells)
}

/// Returns whether any line of the tuner is wanted.
fn wants_tuner(bench: &Bench) -> bool {
    let lines = CELLS.iter().flat_map(|cell| SHAPES.map(|shape| format!("{TUNER}.{cell}.{shape}")));
    TUNER_SUMMARIES.iter().any(|name| prints(bench, name))
        || lines.into_iter().any(|name| bench.wants(&name))
}

/// Returns whether a line of the tuner is wanted. `bench/rnn tuner` selects all, also those without that word.
fn prints(bench: &Bench, name: &str) -> bool {
    bench.wants(name) || bench.names(TUNER)
}

/// Prints the wanted lines of the bench `tuner`.
fn tuner(bench: &Bench, lines: &Lines) -> Result<()> {
    let mut command = Command::new(cargo::bench_program(bench.root, "dyno-rnn", "tuner")?);
    command.args((!bench.quick).then_some("--bench"));
    let printed = shell::each_value(&mut command, |line| {
        if line["name"].as_str().is_some_and(|name| prints(bench, name)) {
            lines.print(line);
        }
        Ok(())
    });
    printed.context("the bench tuner of dyno-rnn failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(args: &[&str]) -> Bench<'static> {
        let mut args = args.to_vec();
        let quick = args.first() == Some(&"--quick");
        args.retain(|arg| *arg != "--quick");
        let options = FigureOptions { quick, parts: args.into_iter().map(str::to_owned).collect() };
        Bench::new(Path::new(env!("CARGO_MANIFEST_DIR")), "rnn-names", &options).unwrap()
    }

    fn names(args: &[&str], precision: &str) -> Vec<String> {
        wanted(&bench(args), precision)
    }

    #[test]
    fn summaries_select_the_cells_that_they_need() {
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
    fn the_argument_tuner_selects_all_lines_of_the_tuner() {
        let printed = |args: &[&str]| TUNER_SUMMARIES.map(|name| prints(&bench(args), name));
        assert_eq!(printed(&["tuner"]), [true; 4]);
        assert_eq!(printed(&["ranking_percent"]), [false, false, true, false]);
        assert_eq!(printed(&["rnn.bf16"]), [false; 4]);
    }

    #[test]
    fn every_line_has_the_instruction_set() {
        let lines = Lines { isa: "avx2".to_owned() };
        let line = lines.complete(serde_json::json!({"name": "rnn.fp32.min", "ours": null}));
        assert_eq!((&line["isa"], &line["name"]), (&"avx2".into(), &"rnn.fp32.min".into()));
    }

    #[test]
    fn shapes_are_those_of_the_script() {
        let script = include_str!("../scripts/rnn.py");
        for shape in SHAPES {
            let row = format!("({})", shape.replace('x', ", "));
            assert!(script.contains(&row), "{row}");
        }
    }
}
