//! A load, a sweep and a tuner on a Ray cluster of three local nodes.

use anyhow::{Context, Result};

use super::venv::Venv;
use super::{Bench, Named, Outcome, built_dyno};

const PACKAGES: &str = "ray==2.60.0";
const LOAD: &str =
    "a load shared by workers on three nodes of Ray, a sweep and a tuner in its tasks";

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    if bench.quick {
        let why = "a cluster takes half a minute to start".into();
        return Ok(vec![(LOAD, Outcome::Skipped(why))]);
    }
    let venv = Venv::with(&bench.folder, PACKAGES).and_then(|venv| {
        venv.ask("import ray")?;
        Ok(venv)
    });
    let outcome = match venv {
        Ok(venv) => on_cluster(bench, &venv)?,
        Err(missing) => Outcome::Skipped(missing),
    };
    Ok(vec![(LOAD, outcome)])
}

fn on_cluster(bench: &Bench, venv: &Venv) -> Result<Outcome> {
    let dyno = built_dyno(bench.root)?;
    let runs = bench.folder.join("runs");
    if runs.exists() {
        std::fs::remove_dir_all(&runs)
            .with_context(|| format!("cannot empty {}", runs.display()))?;
    }
    std::fs::create_dir(&runs).with_context(|| format!("cannot create {}", runs.display()))?;
    let script = bench.root.join("crates/xtask/peers/ray_cluster.py");
    let mut cluster = venv.python();
    // Tokens would be written below the home folder of whoever runs this.
    cluster.arg(script).arg(dyno).arg(runs).env("RAY_AUTH_MODE", "disabled");
    cluster.env("RAY_USAGE_STATS_ENABLED", "0");
    Ok(match cluster.status().context("cannot start python")?.success() {
        true => Outcome::Passed,
        false => Outcome::Failed("what came of the cluster is told above".into()),
    })
}
