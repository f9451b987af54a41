//! Files that `dyno export` writes, read by the libraries that its users have.

use std::fs;

use anyhow::{Context, Result};

use super::{Comparison, Outcome};
use crate::bench::Bench;
use crate::venv::Venv;
use crate::{cargo, folder, shell};

const PACKAGES: &str = "pyarrow==26.0.1 prometheus-client==0.26.0 jsonschema==4.26.0";
const MODULES: &str = "pyarrow.parquet, prometheus_client, jsonschema";
const READS: &str = "parquet, CSV, Prometheus text, schemas and JUnit by Python's libraries";

pub fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let venv = Venv::with_modules(&bench.folder, PACKAGES, MODULES);
    Ok(vec![(READS, Outcome::unless_missing(venv, |venv| compare(bench, &venv))?)])
}

fn compare(bench: &Bench, venv: &Venv) -> Result<Outcome> {
    let built = if bench.quick {
        cargo::debug_dyno(bench.root)?
    } else {
        // With parquet most dependencies are compiled again.
        let mut build = cargo::command(bench.root);
        shell::run(build.args(["build", "--package", "dyno", "--features", "parquet"]))?;
        cargo::target_folder(bench.root)?.join("debug/dyno")
    };
    // A build without the feature could replace the program during the comparison.
    let dyno = bench.folder.join("dyno");
    fs::copy(&built, &dyno).with_context(|| format!("cannot copy {}", built.display()))?;
    let runs = bench.folder.join("runs");
    folder::recreate(&runs)?;
    let mut script = venv.python();
    script.arg(bench.root.join("crates/peers/scripts/interop.py")).arg(dyno).arg(bench.root);
    script.arg(runs).args(bench.quick.then_some("--quick"));
    let status = script.status().context("cannot start python")?;
    Ok(Outcome::from_status(status, || "what Python reads is not what dyno wrote".into()))
}
