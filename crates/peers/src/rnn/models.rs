//! The models that DeepCPU serves, beside PyTorch with the same weights and words. No other peer runs
//! these models.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Lines;
use crate::bench::Bench;
use crate::figure::{best_peer, json_number as number, median, quantile};
use crate::groups::rnn::PACKAGES;
use crate::venv::Venv;
use crate::{cargo, folder, shell};

/// Name of a model, its figure, and its goal on two cores in bfloat16, in milliseconds.
const MODELS: [(&str, &str, f64); 3] = [
    ("text_similarity", "text_similarity_33_ms", 2.0),
    ("reader", "reader_ms", 2.0),
    ("bidaf", "bidaf_ms", 1.5),
];
/// Precisions and the prefixes of their figures; bfloat16 is the default of the models.
const PRECISIONS: [(&str, &str); 3] =
    [("fp32", "rnn.fp32."), ("bf16", "rnn."), ("int8", "rnn.int8.")];

/// Prints the wanted figures.
///
/// # Errors
/// Dyno does not build, or the script fails.
pub(super) fn run(bench: &Bench<'_>, lines: &Lines) -> Result<()> {
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
    let folder = cargo::target_folder(bench.root)?.join("peers/rnn-all");
    folder::create(&folder)?;
    let venv = Venv::with_packages(&folder, PACKAGES);
    let Some(venv) = bench.or_skip("served models of rnn", venv) else { return Ok(()) };
    let dyno = cargo::bench_program(bench.root, "dyno-rnn", "models")?;
    for (precision, models) in all.into_iter().filter(|(_, models)| !models.is_empty()) {
        let mut command = venv.python();
        command.arg(bench.root.join("crates/peers/scripts/rnn_models.py")).arg(&dyno);
        command.arg(&bench.folder).args([precision, "5", "0.3"]).args(models);
        shell::each_value(&mut command, |value| {
            lines.print(line(precision, &value)?);
            Ok(())
        })?;
    }
    Ok(())
}

/// Returns the JSON line of a model from a line of the script.
fn line(precision: &str, found: &Value) -> Result<Value> {
    let model = found["model"].as_str().context("name of a model")?;
    let (_, figure, goal) =
        MODELS.iter().find(|(name, ..)| *name == model).context("a model of this bench")?;
    let (_, begin) =
        PRECISIONS.iter().find(|(name, _)| *name == precision).context("a precision")?;
    let (ours, peer_name, peer) = best_peer(&found["times"]).context("times of a model")?;
    let ratios: Vec<f64> = peer.iter().zip(&ours).map(|(peer, ours)| peer / ours).collect();
    let [our_ms, peer_ms] = [&ours, &peer].map(|rounds| median(rounds));
    let goal = if precision == "bf16" { json!(goal) } else { Value::Null };
    Ok(json!({
        "name": format!("{begin}{figure}"), "ours": number(our_ms), "peer": number(peer_ms),
        "ratio": number(peer_ms / our_ms), "unit": "ms", "peer_name": peer_name,
        "ratio_q1": number(quantile(&ratios, 0.25)), "ratio_q3": number(quantile(&ratios, 0.75)),
        "goal_ms": goal, "choice": found["choice"], "allocations": found["allocations"],
        "max_abs_error": found["errors"],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_compared_with_the_best_peer() {
        let found = json!({
            "model": "reader", "choice": "", "errors": {}, "allocations": 0,
            "times": {"dyno": [1.0, 2.0, 3.0], "a/1": [9.0, 1.0, 9.0], "b/2": [4.0, 4.0, 5.0]},
        });
        let result = line("bf16", &found).unwrap();
        assert_eq!(result["name"], "rnn.reader_ms");
        assert_eq!((&result["peer_name"], &result["ratio"]), (&json!("b/2"), &json!(2.0)));
        assert_eq!((&result["ratio_q1"], &result["goal_ms"]), (&json!(2.0), &json!(2.0)));
        assert_eq!(line("int8", &found).unwrap()["name"], "rnn.int8.reader_ms");
        assert!(line("bf16", &json!({"model": "reader", "times": {}})).is_err());
    }
}
