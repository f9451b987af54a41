//! An LSTM at batch 1 on a busy machine: the 99th percentile of calls on two threads while another
//! process keeps each core busy, beside ONNX Runtime.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Lines;
use crate::bench::Bench;
use crate::figure::{json_number as number, median};
use crate::groups::rnn::SMALL_PACKAGES;
use crate::venv::Venv;
use crate::{cargo, folder, shell};

const NAME: &str = "rnn.neighbour.p99_ratio";
const UNITS: &str = "256";
const STEPS: &str = "100";
const THREADS: &str = "2";
/// Ours is at most 1.5 times the peer's.
const GOAL: f64 = 1.0 / 1.5;

/// Prints the figure if it is wanted.
///
/// # Errors
/// Dyno does not build, or the script fails.
pub(super) fn run(bench: &Bench<'_>, lines: &Lines) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    if !cfg!(target_os = "linux") {
        bench.skip(NAME, "it pins processes to cores as Linux does");
        return Ok(());
    }
    let folder = cargo::target_folder(bench.root)?.join("peers/rnn");
    folder::create(&folder)?;
    let venv = Venv::with_packages(&folder, SMALL_PACKAGES);
    let Some(venv) = bench.or_skip(NAME, venv) else { return Ok(()) };
    let program = cargo::bench_program(bench.root, "dyno-rnn", "neighbour")?;
    let script = bench.root.join("crates/peers/scripts/rnn_neighbour.py");
    let mut command = venv.script(&script);
    command.arg(program).args([UNITS, STEPS, THREADS]);
    command.args(if bench.quick { ["1", "2"] } else { ["7", "6"] });
    shell::each_value(&mut command, |found| {
        lines.print(line(&found)?);
        Ok(())
    })
}

/// Returns the JSON line of the figure from a line of the script.
fn line(found: &Value) -> Result<Value> {
    let quantiles = |whose: &str, name: &str| -> Result<Vec<f64>> {
        let rounds = found[whose].as_array().filter(|rounds| !rounds.is_empty());
        let rounds = rounds.context("rounds")?;
        rounds.iter().map(|round| round[name].as_f64().context("a quantile")).collect()
    };
    let middle = |whose: &str, name: &str| quantiles(whose, name).map(|found| median(&found));
    let (ours, peer) = (middle("ours", "p99")?, middle("peer", "p99")?);
    Ok(json!({
        "name": NAME, "ours": number(ours), "peer": number(peer), "ratio": number(peer / ours),
        "unit": "ms", "peer_name": format!("onnxruntime/{THREADS}"), "goal": number(GOAL),
        "ours_p50": number(middle("ours", "p50")?), "peer_p50": number(middle("peer", "p50")?),
        "rounds": quantiles("ours", "p99")?.len(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_the_rounds_are_compared() {
        let round = |p50: f64, p99: f64| json!({"p50": p50, "p99": p99});
        let found = json!({
            "ours": [round(1.0, 4.0), round(1.0, 8.0), round(1.0, 5.0)],
            "peer": [round(2.0, 10.0), round(2.0, 9.0), round(2.0, 90.0)],
        });
        let result = line(&found).unwrap();
        assert_eq!(result["ratio"], 2.0);
        assert_eq!((&result["ours"], &result["peer"]), (&json!(5.0), &json!(10.0)));
        assert!(line(&json!({"ours": []})).is_err());
    }
}
