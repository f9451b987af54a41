//! Many concurrent streams of an LSTM: steps per second within a bound of the 99th percentile, beside
//! a loop over ONNX Runtime that keeps the states by hand. Our side is the same loop over our
//! engine, and `dyno serve` with its client over HTTP.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Lines;
use crate::bench::Bench;
use crate::figure::json_number as number;
use crate::groups::rnn::SMALL_PACKAGES;
use crate::venv::Venv;
use crate::{cargo, folder, shell, wheel};

const NAME: &str = "rnn.streams";
const UNITS: &str = "256";
const STREAMS: &str = "1000";
/// Bound of the 99th percentile, in ms.
const BOUND: &str = "10";

/// Prints the figures if they are wanted.
///
/// # Errors
/// Dyno or its Python module does not build, or the script fails.
pub(super) fn run(bench: &Bench<'_>, lines: &Lines) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let folder = cargo::target_folder(bench.root)?.join("peers/rnn");
    folder::create(&folder)?;
    let venv = Venv::with_packages(&folder, SMALL_PACKAGES);
    let Some(venv) = bench.or_skip(NAME, venv) else { return Ok(()) };
    let wheels = wheel::build(bench.root, &wheel::RNN)?;
    let installed = wheels.and_then(|wheels| venv.install_wheel(&wheels, wheel::RNN.package));
    if bench.or_skip(NAME, installed).is_none() {
        return Ok(());
    }
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

/// Returns the JSON line of a figure from a line of the script.
fn line(found: &Value, units: &str, streams: &str) -> Result<Value> {
    let figure = |name: &str| found[name].as_f64().with_context(|| format!("no {name}"));
    let (ours, peer) = (figure("ours")?, figure("peer")?);
    let place = found["place"].as_str().context("no place")?;
    Ok(json!({
        "name": format!("{NAME}.{place}.steps_per_s"),
        "ours": number(ours), "peer": number(peer), "ratio": number(ours / peer),
        "unit": format!("steps/s at p99 <= {BOUND} ms"), "streams": streams, "units": units,
        "peer_name": "a loop over onnxruntime in one process, without a network",
        "ours_p99_ms": found["ours_p99_ms"], "peer_p99_ms": found["peer_p99_ms"],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_compared_and_both_ways_are_named() {
        let found = json!({
            "place": "over_http", "ours": 500.0, "peer": 1000.0, "ours_p99_ms": 9.0, "peer_p99_ms": 8.0,
        });
        let result = line(&found, "256", "1000").unwrap();
        assert_eq!(result["ratio"], json!(0.5));
        assert_eq!(result["name"], "rnn.streams.over_http.steps_per_s");
        assert!(line(&json!({"ours": 1.0}), "256", "1000").is_err());
    }
}
