//! Whole models with recurrent nodes beside ONNX Runtime, at batch 1 and 8.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Lines;
use crate::bench::Bench;
use crate::figure::{json_number as number, median};
use crate::venv::{ONNX_RUNTIME, Venv};
use crate::{cargo, folder, shell};

/// Prefix of the figures.
const NAME: &str = "rnn.models";
/// Packages of the script, without PyTorch.
const PACKAGES: &str = "onnx==1.19.1 numpy==2.4.6";
/// Packages of models. Their own dependencies are not needed, and would be gigabytes.
const MODELS: &str = "silero-vad==6.2.3 ddddocr==1.6.1 g2p-en==2.1.0 Resemblyzer==0.1.4";
/// Exports models with random weights.
const TORCH: &str = "torch==2.9.1 onnxscript==0.5.6";
/// Largest difference from ONNX Runtime relative to the largest magnitude of an output.
const TOLERANCE: f64 = 1e-5;

/// Prints the wanted figures: a line for each model and batch, and the number of models that differ.
///
/// # Errors
/// Dyno does not build, or the script fails.
pub(super) fn run(bench: &Bench<'_>, lines: &Lines) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let folder = cargo::target_folder(bench.root)?.join("peers/rnn-whole");
    folder::create(&folder)?;
    let packages = format!("{PACKAGES} {ONNX_RUNTIME}");
    let torch = if bench.quick { String::new() } else { format!(" {TORCH}") };
    let venv = Venv::with_packages(&folder, &format!("{packages}{torch}"));
    let Some(venv) = bench.or_skip(NAME, venv) else { return Ok(()) };
    let Some(()) = bench.or_skip(NAME, venv.with_bare(MODELS)) else { return Ok(()) };
    let program = cargo::bench_program(bench.root, "dyno-graph", "whole")?;
    let mut command = venv.script(&bench.root.join("crates/peers/scripts/rnn_whole.py"));
    command.arg(program).arg(bench.folder.join("whole"));
    command.args(if bench.quick { ["1", "0.2"] } else { ["5", "1"] });
    let (mut models, mut differing) = (0, Vec::new());
    shell::each_value(&mut command, |found| {
        if let Some(why) = found["skipped"].as_str() {
            let model = found["model"].as_str().unwrap_or_default();
            bench.skip(&format!("{NAME}.{model}.b{}", found["batch"]), why);
            return Ok(());
        }
        models += 1;
        let line = line(&found)?;
        if line["difference"].as_f64().is_none_or(|difference| difference > TOLERANCE) {
            differing.push(line["name"].clone());
        }
        lines.print(line);
        Ok(())
    })?;
    lines.print(json!({
        "name": "rnn.models.differences", "ours": differing.len(), "peer": null, "ratio": null,
        "unit": format!("of {models} differ from ONNX Runtime by more than {TOLERANCE:.0e}"),
        "which": differing,
    }));
    Ok(())
}

/// Returns the JSON line of a model from a line of the script.
fn line(found: &Value) -> Result<Value> {
    let model = found["model"].as_str().context("name of a model")?;
    let name = format!("{NAME}.{model}.b{}", found["batch"]);
    if let Some(why) = found["failed"].as_str() {
        return Ok(json!({
            "name": name, "ours": null, "peer": null, "ratio": null, "unit": "ms", "failed": why,
        }));
    }
    let rounds = |whose: &str| -> Result<f64> {
        let rounds = found[whose].as_array().filter(|rounds| !rounds.is_empty());
        let times: Option<Vec<f64>> = rounds.context("rounds")?.iter().map(Value::as_f64).collect();
        Ok(median(&times.context("a time")?))
    };
    let (ours, peer) = (rounds("ours")?, rounds("peer")?);
    Ok(json!({
        "name": name, "ours": number(ours), "peer": number(peer), "ratio": number(peer / ours),
        "unit": "ms, one thread", "peer_name": "onnxruntime",
        "difference": found["difference"],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_medians_and_the_difference_or_the_failure() {
        let found = json!({
            "model": "g2p", "batch": 8, "ours": [1.0, 2.0, 9.0], "peer": [4.0, 4.0, 5.0],
            "isa": "avx2", "difference": 1e-7,
        });
        let result = line(&found).unwrap();
        assert_eq!((&result["name"], &result["ratio"]), (&json!("rnn.models.g2p.b8"), &json!(2.0)));
        assert_eq!(result["difference"], json!(1e-7));
        let failed = json!({"model": "g2p", "batch": 1, "failed": "node 'x'"});
        assert_eq!(line(&failed).unwrap()["failed"], "node 'x'");
        assert!(line(&json!({"model": "g2p", "batch": 1, "ours": []})).is_err());
    }
}
