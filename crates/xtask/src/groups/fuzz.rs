//! Fuzz targets for a few seconds each: they build, and none fails at once.

use std::process::Stdio;

use anyhow::Result;
use dyno_peers::bench::Bench;
use dyno_peers::groups::{Comparison, Outcome};
use dyno_peers::{cargo, shell};

use crate::fuzz::{MANIFEST, Targets};

const READS: &str = "readers of files, on made-up input";

pub fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    if let Some(missing) = missing(bench) {
        return Ok(vec![(READS, Outcome::Skipped(missing))]);
    }
    let seconds = if bench.quick { 1 } else { 10 };
    let targets = Targets::build(bench.root)?;
    let failures = targets.fuzz(seconds, |_| true)?;
    let outcome = if failures.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Failed(format!("found by {}: cargo xtask fuzz", failures.join(", ")))
    };
    Ok(vec![(READS, outcome)])
}

/// Returns what the targets need and this machine lacks.
fn missing(bench: &Bench) -> Option<String> {
    let mut compiler = shell::tool("CXX", "c++", bench.root);
    let compiles = compiler.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !compiles.is_ok_and(|status| status.success()) {
        return Some("there is no C++ compiler ($CXX or c++)".to_owned());
    }
    let mut fetch = cargo::command(bench.root);
    fetch.args(["fetch", "--locked", "--manifest-path", MANIFEST]);
    shell::output(&mut fetch).err().map(|error| format!("no crates of the targets: {error:#}"))
}
