//! The rate at which text similarity is served: the highest load of the scenario Server that keeps its bound,
//! by `dyno search`. PyTorch takes longer for one query than the bound, so that there is no peer.

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

/// Prints the figure, if it is wanted.
///
/// # Errors
/// Dyno does not build, or cannot search.
pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    if bench.quick {
        bench.skip(NAME, "a search takes minutes");
        return Ok(());
    }
    let out = bench.folder.join("server");
    if out.exists() {
        fs::remove_dir_all(&out).context("cannot remove the search of before")?;
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--release", "--package", "dyno", "--", "search"]);
    cargo.args(["--system", SYSTEM, "--scenario", "Server", "--limit", LIMIT, "--samples", "64"]);
    // Otherwise answers in double precision are computed first, which takes minutes.
    cargo.args(["--mode", "performance", "--duration", "20s", "--tolerance", "10%"]);
    // Of few queries one that meets another decides; of the first ones of a run, a cold cache.
    cargo.args(["--from", "10", "--short", "8s", "--warm-up", "50", "--max-time", "4m"]);
    cargo.args(["--json", "--no-progress", "--out"]);
    cargo.arg(&out).current_dir(bench.root);
    let found = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    let found = serde_json::from_slice(&found.stdout);
    println!("{}", line(&found.context("dyno search printed no search.json")?));
    Ok(())
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
}
