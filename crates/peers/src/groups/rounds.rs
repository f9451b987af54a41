//! `dyno check` beside the official checker of each published round, on the round's own tree.

use std::process::Command;

use anyhow::Result;

use super::{Comparison, Outcome};
use crate::bench::Bench;
use crate::cargo;

const NAME: &str = "published rounds, judged by their own checkers and by dyno check";
/// Names a folder with a tree per round, such as `v4.1`, and `official/TAG/tools/submission`.
const VARIABLE: &str = "DYNO_ROUNDS";

pub(super) fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let Some(trees) = std::env::var_os(VARIABLE) else {
        let missing = format!("{VARIABLE} names no folder with trees of published rounds");
        return Ok(vec![(NAME, Outcome::Skipped(missing))]);
    };
    let dyno = cargo::release_dyno(bench.root)?;
    let mut script = Command::new("python3");
    script.arg("-B").arg(bench.root.join("crates/peers/scripts/rounds.py"));
    script.arg(trees).arg(dyno).arg(&bench.folder);
    if bench.quick {
        script.arg("v4.1");
    }
    Ok(vec![(NAME, Outcome::from_script(&mut script)?)])
}
