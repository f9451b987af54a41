//! What `bench/rnn` runs: layers of DeepCPU's Table 1 beside PyTorch, ONNX Runtime and
//! OpenVINO, in turn. Prints one JSON line a cell and one a summary.

mod models;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::dropin::figure::rounded;
use crate::peers::target_folder;
use crate::peers::venv::Venv;

/// What is small enough for each run of CI: the wheel of PyTorch is of gigabytes.
const FEW: &str = "onnxruntime openvino onnx numpy";
const ALL: &str = "onnxruntime openvino onnx numpy torch";
const PRECISIONS: [&str; 3] = ["f32", "bf16", "int8"];

/// Prints the figures whose names contain one of the arguments, or all.
///
/// # Errors
/// Dyno does not build, or the script ends before its time.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let bench = match Bench::asked(root, "rnn", args)? {
        Ok(bench) => bench,
        Err(wrong) => return Ok(wrong),
    };
    let folder =
        target_folder(root)?.join("peers").join(if bench.quick { "rnn" } else { "rnn-all" });
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let venv = match Venv::with(&folder, if bench.quick { FEW } else { ALL }) {
        Ok(venv) => venv,
        Err(missing) => {
            bench.skip("rnn", &missing);
            return Ok(ExitCode::SUCCESS);
        }
    };
    let program = program(root, "cells")?;
    let mut summaries = Vec::new();
    for precision in PRECISIONS {
        let mut cells = Vec::new();
        let mut command = venv.python();
        command.arg(root.join("crates/xtask/peers/rnn.py")).arg(&program).arg(&bench.folder);
        command.args([precision, if bench.quick { "1" } else { "5" }]);
        command.arg(if bench.quick { "0.02" } else { "0.2" });
        let names: Vec<&str> = args.iter().copied().filter(|arg| !arg.starts_with("--")).collect();
        // Two cells say that the bench works.
        let few = ["256x256x1x10", "64x64x10x100"];
        command.args(if bench.quick && names.is_empty() { &few[..] } else { &names[..] });
        let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start python")?;
        let stdout = child.stdout.take().context("stdout of the script is piped")?;
        for line in BufReader::new(stdout).lines() {
            let cell = Cell::of(&serde_json::from_str(&line?)?)?;
            println!("{}", cell.line());
            cells.push(cell);
        }
        if !child.wait()?.success() {
            bail!("crates/xtask/peers/rnn.py failed for {precision}");
        }
        summaries.extend(summary(precision, &cells));
    }
    summaries.iter().for_each(|line| println!("{line}"));
    models::run(&bench)?;
    Ok(ExitCode::SUCCESS)
}

/// A program that times Dyno: a bench of its crate.
fn program(root: &Path, bench: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["bench", "--package", "dyno-rnn", "--bench", bench, "--no-run"]);
    build.args(["--message-format", "json-render-diagnostics"]).current_dir(root);
    let built = build.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !built.status.success() {
        bail!("cargo bench --package dyno-rnn --bench {bench} failed");
    }
    let messages = String::from_utf8(built.stdout)?;
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_ours = message["target"]["name"] == bench;
        message["executable"].as_str().filter(|_| is_ours).map(PathBuf::from)
    };
    let found = messages.lines().find_map(executable);
    found.with_context(|| format!("cargo named no program for the bench {bench}"))
}

/// Medians of the rounds of one cell.
struct Cell {
    name: String,
    ours: Vec<f64>,
    /// The best peer at its better count of threads, by the median of all rounds.
    peer: Vec<f64>,
    peer_name: String,
    choice: String,
    errors: Value,
}

impl Cell {
    fn of(found: &Value) -> Result<Self> {
        let rounds = |values: &Value| -> Vec<f64> {
            values.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
        };
        let times = found["times"].as_object().context("times of a cell")?;
        let ours = rounds(&found["times"]["dyno"]);
        let peers = times.iter().filter(|(name, _)| *name != "dyno");
        let peers = peers.map(|(name, values)| (name.clone(), rounds(values)));
        let best = peers.min_by(|a, b| median(&a.1).total_cmp(&median(&b.1)));
        let (peer_name, peer) = best.context("a peer")?;
        Ok(Self {
            name: found["name"].as_str().context("name of a cell")?.to_owned(),
            ours,
            peer,
            peer_name,
            choice: found["choice"].as_str().unwrap_or_default().to_owned(),
            errors: found["errors"].clone(),
        })
    }

    fn ratio(&self) -> f64 {
        median(&self.peer) / median(&self.ours)
    }

    /// Quartiles of the ratios of each round.
    fn quartiles(&self) -> [f64; 2] {
        let ratios: Vec<f64> = self.peer.iter().zip(&self.ours).map(|(p, o)| p / o).collect();
        [quantile(&ratios, 0.25), quantile(&ratios, 0.75)]
    }

    fn line(&self) -> Value {
        let number =
            |value: f64| -> Value { serde_json::from_str(&rounded(value)).unwrap_or(Value::Null) };
        let [low, high] = self.quartiles().map(number);
        json!({
            "name": self.name, "ours": number(median(&self.ours)), "peer": number(median(&self.peer)),
            "ratio": number(self.ratio()), "unit": "ms", "ratio_q1": low, "ratio_q3": high,
            "peer_name": self.peer_name, "choice": self.choice, "max_abs_error": self.errors,
        })
    }
}

/// Geometric means, and the worst, of one precision.
fn summary(precision: &str, cells: &[Cell]) -> Vec<Value> {
    let of = |part: &str| -> Vec<f64> {
        cells.iter().filter(|cell| cell.name.contains(part)).map(Cell::ratio).collect()
    };
    let line = |name: String, ratio: f64| json!({"name": name, "ours": null, "peer": null, "ratio": (ratio * 1000.0).round() / 1000.0, "unit": "x"});
    let mean = |ratios: &[f64]| {
        (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
    };
    let parts = [("", ""), ("lstm.", ".lstm."), ("gru.", ".gru.")];
    let with_cells =
        parts.iter().map(|(name, part)| (name, of(part))).filter(|(_, r)| !r.is_empty());
    let mut lines: Vec<Value> = with_cells
        .map(|(name, ratios)| line(format!("rnn.{precision}.{name}geomean"), mean(&ratios)))
        .collect();
    let least = of("").into_iter().min_by(f64::total_cmp);
    lines.extend(least.map(|least| line(format!("rnn.{precision}.min"), least)));
    lines
}

fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value of that rank; NaN of none.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_peer_is_that_of_the_least_median() {
        let found = json!({
            "name": "rnn.f32.lstm.1x1x1x1", "choice": "", "errors": {},
            "times": {"dyno": [1.0, 2.0, 3.0], "a/1": [9.0, 1.0, 9.0], "b/2": [4.0, 4.0, 5.0]},
        });
        let cell = Cell::of(&found).unwrap();
        assert_eq!((cell.peer_name.as_str(), cell.ratio()), ("b/2", 2.0));
        assert_eq!(cell.quartiles(), [2.0, 4.0]);
        let names: Vec<Value> = summary("f32", &[cell]).iter().map(|l| l["name"].clone()).collect();
        assert_eq!(names, ["rnn.f32.geomean", "rnn.f32.lstm.geomean", "rnn.f32.min"]);
    }
}
