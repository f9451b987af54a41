//! Serving text similarity: the highest load of the scenario Server within the latency bound, by `dyno search`. It has
//! no peer, because PyTorch takes longer for one query than the bound. A second figure compares with an ideal server,
//! on machines of any speed.

use std::process::Stdio;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Lines;
use crate::bench::Bench;
use crate::{cargo, folder};

/// Name of the first figure.
const NAME: &str = "rnn.text_similarity_server_qps";
/// The system: a query and 33 documents in bfloat16, as in the figure of one call.
const SYSTEM: &str = "rnn:text-similarity,precision=bf16,tune=250ms";
/// Latency bound of the first figure.
const LIMIT: &str = "p99<=6ms";

/// Name of the second figure, which is meaningful even if one call takes longer than [`LIMIT`].
const QUEUE: &str = "rnn.text_similarity_server_mean_ms";
/// Load of the second figure, as a share of the rate of consecutive calls.
const LOAD: f64 = 0.5;

/// Prints the wanted figures.
///
/// # Errors
/// Dyno does not build, or a search or a run fails.
pub(super) fn run(bench: &Bench<'_>, lines: &Lines) -> Result<()> {
    if bench.quick {
        for name in [NAME, QUEUE].into_iter().filter(|name| bench.wants(name)) {
            bench.skip(name, "a search takes minutes");
        }
        return Ok(());
    }
    if bench.wants(NAME) {
        // In a short run a single collision of queries decides, and so do cold caches at the start.
        let mut search =
            vec!["search", "--system", SYSTEM, "--scenario", "Server", "--limit", LIMIT];
        search.extend(["--duration", "20s", "--tolerance", "10%", "--from", "10", "--short", "8s"]);
        // A full run asks for 24,576 queries: minutes at a hundred a second.
        search.extend(["--warm-up", "50", "--max-time", "12m"]);
        lines.print(line(&dyno(bench, "server", &search)?));
    }
    if bench.wants(QUEUE) {
        lines.print(queue(bench)?);
    }
    Ok(())
}

/// Returns the line of the second figure: the same arrivals at the engine and at a simulated server that needs the
/// time of one call for every query. The difference is the cost of waiting, of waking threads and of cold caches.
fn queue(bench: &Bench<'_>) -> Result<Value> {
    let alone =
        ["--system", SYSTEM, "--scenario", "SingleStream", "--duration", "10s", "--warm-up", "50"];
    let call_ms =
        latency_ms(&dyno(bench, "server-alone", &[&["run"], &alone[..]].concat())?, "p50")?;
    let qps = format!("{:.2}", LOAD * 1e3 / call_ms);
    let run = ["run", "--scenario", "Server", "--qps", &qps, "--duration", "30s", "--system"];
    let ours = dyno(bench, "server-queue", &[&run[..], &[SYSTEM, "--warm-up", "50"]].concat())?;
    let constant = format!("model:fixed={}us", (call_ms * 1e3).round());
    let ideal = dyno(bench, "server-ideal", &[&run[..], &[&constant]].concat())?;
    let (mean, least) = (latency_ms(&ours, "mean")?, latency_ms(&ideal, "mean")?);
    Ok(json!({
        "name": QUEUE, "ours": mean, "peer": least, "ratio": least / mean,
        "unit": "ms of mean latency at half load; peer: simulated server of constant service times, same arrivals",
        "call_ms": call_ms, "qps": qps.parse::<f64>()?, "p99_ms": latency_ms(&ours, "p99")?,
        "peer_p99_ms": latency_ms(&ideal, "p99")?, "system": SYSTEM,
    }))
}

/// Returns a figure of the latencies of a run's only test, in ms.
fn latency_ms(summary: &Value, figure: &str) -> Result<f64> {
    let ns = summary["tests"][0]["metrics"]["latency_ns"][figure].as_f64();
    Ok(ns.with_context(|| format!("the summary of dyno has no {figure} of latencies"))? / 1e6)
}

/// Runs `dyno` with its results in an empty folder `name` and returns the JSON that it prints.
fn dyno(bench: &Bench<'_>, name: &str, arguments: &[&str]) -> Result<Value> {
    let out = bench.folder.join(name);
    folder::remove(&out)?;
    let mut cargo = cargo::command(bench.root);
    cargo.args(["run", "--quiet", "--release", "--package", "dyno", "--"]).args(arguments);
    // An accuracy run would first compute answers in double precision, which takes minutes.
    cargo.args(["--mode", "performance", "--samples", "64", "--json", "--no-progress", "--out"]);
    let output = cargo.arg(&out).stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    serde_json::from_slice(&output.stdout).context("dyno printed no JSON")
}

/// Returns the line of a search: the load that a full run confirmed, or null.
fn line(search: &Value) -> Value {
    let peak = &search["peak"];
    json!({
        "name": NAME, "ours": search["confirmed"]["load"], "peer": null, "ratio": null,
        "unit": "queries/s of 33 documents, p99 <= 6 ms", "state": search["state"],
        "peak": peak["load"], "low": peak["low"], "high": peak["high"], "system": SYSTEM,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_was_not_confirmed_is_null() {
        let peak = json!({"load": 101.5, "low": 100.0, "high": 103.0});
        let found = json!({"state": "confirmed", "peak": peak, "confirmed": {"load": 100.5}});
        let result = line(&found);
        assert_eq!((&result["ours"], &result["high"]), (&json!(100.5), &json!(103.0)));
        let result = line(&json!({"state": "unconfirmed", "peak": peak, "confirmed": null}));
        assert_eq!((&result["ours"], &result["peak"]), (&Value::Null, &json!(101.5)));
    }

    #[test]
    fn latencies_are_read_from_a_summary() {
        let summary = json!({"tests": [{"metrics": {"latency_ns": {"mean": 2_500_000}}}]});
        assert_eq!(latency_ms(&summary, "mean").expect("it is there"), 2.5);
        assert!(latency_ms(&summary, "p99").is_err_and(|error| error.to_string().contains("p99")));
    }
}
