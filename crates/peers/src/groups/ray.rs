//! A load, a sweep and a tuner on a Ray cluster of three local nodes.

use anyhow::{Context, Result};

use super::{Comparison, Outcome};
use crate::bench::Bench;
use crate::venv::Venv;
use crate::{cargo, folder};

const PACKAGES: &str = "ray==2.60.0";
const LOAD: &str =
    "a load shared by workers on three nodes of Ray, a sweep and a tuner in its tasks";

pub fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    if bench.quick {
        let why = "a cluster takes half a minute to start".into();
        return Ok(vec![(LOAD, Outcome::Skipped(why))]);
    }
    let venv = Venv::with_modules(&bench.folder, PACKAGES, "ray");
    Ok(vec![(LOAD, Outcome::unless_missing(venv, |venv| compare(bench, &venv))?)])
}

fn compare(bench: &Bench, venv: &Venv) -> Result<Outcome> {
    let dyno = cargo::debug_dyno(bench.root)?;
    let runs = bench.folder.join("runs");
    folder::recreate(&runs)?;
    let mut cluster = venv.python();
    cluster.arg(bench.root.join("crates/peers/scripts/ray_cluster.py")).arg(dyno).arg(runs);
    // Otherwise Ray writes tokens below the user's home folder.
    cluster.env("RAY_AUTH_MODE", "disabled").env("RAY_USAGE_STATS_ENABLED", "0");
    let status = cluster.status().context("cannot start python")?;
    Ok(Outcome::from_status(status, || "what came of the cluster is told above".into()))
}
