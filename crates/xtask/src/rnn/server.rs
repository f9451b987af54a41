//! The rate at which text similarity is served: the highest load of the scenario Server that keeps its bound,
//! by `dyno search`. PyTorch takes longer for one query than the bound, so that there is no peer; a second figure
//! compares with an ideal server, on machines of any speed.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::bench::Bench;

/// The figure.
const NAME: &str = "rnn.text_similarity_server_qps";
/// A query and 33 documents in bfloat16, as in the figure of one call.
const SYSTEM: &str = "rnn:text-similarity,precision=bf16,tune=250ms";
/// Of the issue: 99 of 100 queries are answered within this.
const LIMIT: &str = "p99<=6ms";

/// The second figure, which also says something where one call takes longer than [`LIMIT`].
const QUEUE: &str = "rnn.text_similarity_server_mean_ms";
/// Of the second figure: queries come at this share of the rate that calls one after another reach.
const LOAD: f64 = 0.5;

/// Prints the figures that are wanted.
///
/// # Errors
/// Dyno does not build, or cannot search or run.
pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    if bench.quick {
        for name in [NAME, QUEUE].into_iter().filter(|name| bench.wants(name)) {
            bench.skip(name, "a search takes minutes");
        }
        return Ok(());
    }
    if bench.wants(NAME) {
        // Of few queries one that meets another decides; of the first ones of a run, a cold cache.
        let mut search =
            vec!["search", "--system", SYSTEM, "--scenario", "Server", "--limit", LIMIT];
        search.extend(["--duration", "20s", "--tolerance", "10%", "--from", "10", "--short", "8s"]);
        // A full run asks for 24,576 queries: minutes at a hundred a second.
        search.extend(["--warm-up", "50", "--max-time", "12m"]);
        println!("{}", line(&dyno(bench, "server", &search)?));
    }
    if bench.wants(QUEUE) {
        println!("{}", queue(bench)?);
    }
    Ok(())
}

/// The line of the second figure: the same arrivals at the engine and at a simulated server whose every query takes as
/// long as one call alone. What is more than that comes of queries that wait, wake threads and find caches cold.
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

/// A figure of the latencies of a run's only test, ms.
fn latency_ms(summary: &Value, figure: &str) -> Result<f64> {
    let ns = summary["tests"][0]["metrics"]["latency_ns"][figure].as_f64();
    Ok(ns.with_context(|| format!("the summary of dyno has no {figure} of latencies"))? / 1e6)
}

/// `dyno` with `arguments`, its results in a fresh folder `name`, read from its standard output.
fn dyno(bench: &Bench<'_>, name: &str, arguments: &[&str]) -> Result<Value> {
    let out = bench.folder.join(name);
    if out.exists() {
        fs::remove_dir_all(&out).context("cannot remove the results of before")?;
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--release", "--package", "dyno", "--"]).args(arguments);
    // Otherwise answers in double precision are computed first, which takes minutes.
    cargo.args(["--mode", "performance", "--samples", "64", "--json", "--no-progress", "--out"]);
    cargo.arg(&out).current_dir(bench.root);
    let told = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    serde_json::from_slice(&told.stdout).context("dyno printed no JSON")
}

/// The line of what a search found: the load that a full run confirmed, null without one.
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
    fn a_load_that_was_not_confirmed_is_no_figure() {
        let peak = json!({"load": 101.5, "low": 100.0, "high": 103.0});
        let found = json!({"state": "confirmed", "peak": peak, "confirmed": {"load": 100.5}});
        let told = line(&found);
        assert_eq!((&told["ours"], &told["high"]), (&json!(100.5), &json!(103.0)));
        let told = line(&json!({"state": "unconfirmed", "peak": peak, "confirmed": null}));
        assert_eq!((&told["ours"], &told["peak"]), (&Value::Null, &json!(101.5)));
    }

    #[test]
    fn latencies_are_read_of_a_summary() {
        let summary = json!({"tests": [{"metrics": {"latency_ns": {"mean": 2_500_000}}}]});
        assert_eq!(latency_ms(&summary, "mean").expect("it is there"), 2.5);
        assert!(latency_ms(&summary, "p99").is_err_and(|error| error.to_string().contains("p99")));
    }
}
