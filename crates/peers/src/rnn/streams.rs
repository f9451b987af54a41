//! Many concurrent streams of an LSTM: steps per second within a bound of the 99th percentile, by
//! `dyno serve` over HTTP, beside a loop over ONNX Runtime that keeps the states by hand.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Lines;
use crate::bench::Bench;
use crate::figure::json_number as number;
use crate::groups::rnn::SMALL_PACKAGES;
use crate::venv::Venv;
use crate::{cargo, folder, shell};

const NAME: &str = "rnn.streams.steps_per_s";
const UNITS: &str = "256";
const STREAMS: &str = "1000";
/// Bound of the 99th percentile, in ms.
const BOUND: &str = "10";

/// Prints the figure if it is wanted.
///
/// # Errors
/// Dyno does not build, or the script fails.
pub(super) fn run(bench: &Bench<'_>, lines: &Lines) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let folder = cargo::target_folder(bench.root)?.join("peers/rnn");
    folder::create(&folder)?;
    let venv = Venv::with_packages(&folder, SMALL_PACKAGES);
    let Some(venv) = bench.or_skip(NAME, venv) else { return Ok(()) };
    let script = bench.root.join("crates/peers/scripts/rnn_streams_load.py");
    let mut command = venv.script(&script);
    command.arg(cargo::release_dyno(bench.root)?).arg(bench.folder.join("streams"));
    let [units, streams, seconds] =
        if bench.quick { ["64", "100", "1"] } else { [UNITS, STREAMS, "10"] };
    command.args([units, streams, BOUND, seconds]);
    shell::each_value(&mut command, |found| {
        lines.print(line(&found, units, streams)?);
        Ok(())
    })
}

/// Returns the JSON line of the figure from a line of the script.
fn line(found: &Value, units: &str, streams: &str) -> Result<Value> {
    let figure = |name: &str| found[name].as_f64().with_context(|| format!("no {name}"));
    let (ours, peer) = (figure("ours")?, figure("peer")?);
    Ok(json!({
        "name": NAME, "ours": number(ours), "peer": number(peer), "ratio": number(ours / peer),
        "unit": format!("steps/s at p99 <= {BOUND} ms"), "streams": streams, "units": units,
        "peer_name": "a loop over onnxruntime without a network", "ours_over": "HTTP",
        "ours_p99_ms": found["ours_p99_ms"], "peer_p99_ms": found["peer_p99_ms"],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_compared_and_both_ways_are_named() {
        let found = json!({"ours": 500.0, "peer": 1000.0, "ours_p99_ms": 9.0, "peer_p99_ms": 8.0});
        let result = line(&found, "256", "1000").unwrap();
        assert_eq!((&result["ratio"], &result["ours_over"]), (&json!(0.5), &json!("HTTP")));
        assert!(line(&json!({"ours": 1.0}), "256", "1000").is_err());
    }
}
