//! The models that DeepCPU serves, beside PyTorch with the same weights and words: the part of `bench/rnn`
//! that has no peer but PyTorch.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::ALL;
use crate::bench::{Bench, program};
use crate::dropin::figure::rounded;
use crate::peers::target_folder;
use crate::peers::venv::Venv;

/// A model, its figure, and what the issue asks of it on two cores in bfloat16, in milliseconds.
const MODELS: [(&str, &str, f64); 3] = [
    ("text_similarity", "text_similarity_33_ms", 2.0),
    ("reader", "reader_ms", 2.0),
    ("bidaf", "bidaf_ms", 1.5),
];
/// Precisions, and how their figures begin: those in bfloat16 are the models' own.
const PRECISIONS: [(&str, &str); 3] =
    [("fp32", "rnn.fp32."), ("bf16", "rnn."), ("int8", "rnn.int8.")];

/// Prints a line for each figure that is wanted.
///
/// # Errors
/// Dyno does not build, or the script ends before its time.
pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    let wanted = |begin: &str| -> Vec<&str> {
        let wants = |figure: &str| bench.wants(&format!("{begin}{figure}"));
        MODELS.iter().filter(|(_, figure, _)| wants(figure)).map(|(model, ..)| *model).collect()
    };
    let all: Vec<(&str, Vec<&str>)> =
        PRECISIONS.iter().map(|(precision, begin)| (*precision, wanted(begin))).collect();
    if all.iter().all(|(_, models)| models.is_empty()) {
        return Ok(());
    }
    if bench.quick {
        bench.skip("served models of rnn", "their peer is PyTorch, which --quick does without");
        return Ok(());
    }
    let folder = target_folder(bench.root)?.join("peers/rnn-all");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let venv = match Venv::with(&folder, ALL) {
        Ok(venv) => venv,
        Err(missing) => {
            bench.skip("served models of rnn", &missing);
            return Ok(());
        }
    };
    let dyno = program(bench.root, "dyno-rnn", "models")?;
    for (precision, models) in all.into_iter().filter(|(_, models)| !models.is_empty()) {
        let mut command = venv.python();
        command.arg(bench.root.join("crates/xtask/peers/rnn_models.py")).arg(&dyno);
        command.arg(&bench.folder).args([precision, "5", "0.3"]).args(models);
        let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start python")?;
        let stdout = child.stdout.take().context("stdout of the script is piped")?;
        for told in BufReader::new(stdout).lines() {
            println!("{}", line(precision, &serde_json::from_str(&told?)?)?);
        }
        if !child.wait()?.success() {
            bail!("crates/xtask/peers/rnn_models.py failed for {precision}");
        }
    }
    Ok(())
}

/// The line of what the script found for a model.
fn line(precision: &str, found: &Value) -> Result<Value> {
    let model = found["model"].as_str().context("name of a model")?;
    let (_, figure, goal) =
        MODELS.iter().find(|(name, ..)| *name == model).context("a model of this bench")?;
    let (_, begin) =
        PRECISIONS.iter().find(|(name, _)| *name == precision).context("a precision")?;
    let rounds = |values: &Value| -> Vec<f64> {
        values.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let times = found["times"].as_object().context("times of a model")?;
    let ours = rounds(&found["times"]["dyno"]);
    let peers = times.iter().filter(|(name, _)| *name != "dyno");
    let peers = peers.map(|(name, values)| (name, rounds(values)));
    // The best peer at its better count of threads.
    let best = peers.min_by(|a, b| quantile(&a.1, 0.5).total_cmp(&quantile(&b.1, 0.5)));
    let (peer_name, peer) = best.context("a peer")?;
    let ratios: Vec<f64> = peer.iter().zip(&ours).map(|(peer, ours)| peer / ours).collect();
    let number =
        |value: f64| -> Value { serde_json::from_str(&rounded(value)).unwrap_or(Value::Null) };
    let [of_ours, of_peer] = [&ours, &peer].map(|rounds| quantile(rounds, 0.5));
    let goal = if precision == "bf16" { json!(goal) } else { Value::Null };
    Ok(json!({
        "name": format!("{begin}{figure}"), "ours": number(of_ours), "peer": number(of_peer),
        "ratio": number(of_peer / of_ours), "unit": "ms", "peer_name": peer_name,
        "ratio_q1": number(quantile(&ratios, 0.25)), "ratio_q3": number(quantile(&ratios, 0.75)),
        "goal_ms": goal, "choice": found["choice"], "allocations": found["allocations"],
        "max_abs_error": found["errors"],
    }))
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
    fn a_model_is_told_beside_its_best_peer() {
        let found = json!({
            "model": "reader", "choice": "", "errors": {}, "allocations": 0,
            "times": {"dyno": [1.0, 2.0, 3.0], "a/1": [9.0, 1.0, 9.0], "b/2": [4.0, 4.0, 5.0]},
        });
        let told = line("bf16", &found).unwrap();
        assert_eq!(told["name"], "rnn.reader_ms");
        assert_eq!((&told["peer_name"], &told["ratio"]), (&json!("b/2"), &json!(2.0)));
        assert_eq!((&told["ratio_q1"], &told["goal_ms"]), (&json!(2.0), &json!(2.0)));
        assert_eq!(line("int8", &found).unwrap()["name"], "rnn.int8.reader_ms");
        assert!(line("bf16", &json!({"model": "reader", "times": {}})).is_err());
    }
}
