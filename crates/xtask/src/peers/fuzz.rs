//! Every reader of files on made-up input, for as long as a look takes: that the
//! targets build, and that none falls at its first steps.

use std::process::Stdio;

use anyhow::Result;

use super::{Bench, Named, Outcome};
use crate::fuzz::{Built, MANIFEST};
use crate::release::shell;

const READS: &str = "readers of files, on made-up input";

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    if let Some(missing) = missing(bench) {
        return Ok(vec![(READS, Outcome::Skipped(missing))]);
    }
    let seconds = if bench.quick { 1 } else { 10 };
    let built = Built::new(bench.root)?;
    let failed = built.fuzz(seconds, |_| true)?;
    let outcome = match failed.is_empty() {
        true => Outcome::Passed,
        false => Outcome::Failed(format!("found by {}: cargo xtask fuzz", failed.join(", "))),
    };
    Ok(vec![(READS, outcome)])
}

/// What the targets need and this machine has not.
fn missing(bench: &Bench) -> Option<String> {
    let mut compiler = shell::tool("CXX", "c++", bench.root);
    let compiles = compiler.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !compiles.is_ok_and(|status| status.success()) {
        return Some("there is no C++ compiler ($CXX or c++)".to_owned());
    }
    let mut fetch = shell::tool("CARGO", "cargo", bench.root);
    fetch.args(["fetch", "--locked", "--manifest-path", MANIFEST]);
    shell::said(&mut fetch).err().map(|error| format!("no crates of the targets: {error:#}"))
}
