//! What `dyno export` writes, read by the libraries that its users have.

use anyhow::{Context, Result};

use super::venv::Venv;
use super::{Bench, Named, Outcome, built_dyno, target_folder};
use crate::release::shell;

const PACKAGES: &str = "pyarrow==26.0.1 prometheus-client==0.26.0 jsonschema==4.26.0";
const READS: &str = "parquet, CSV, Prometheus text, schemas and JUnit by Python's libraries";

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    let venv = Venv::with(&bench.folder, PACKAGES).and_then(|venv| {
        venv.ask("import pyarrow.parquet, prometheus_client, jsonschema")?;
        Ok(venv)
    });
    let outcome = match venv {
        Ok(venv) => read_with(bench, &venv)?,
        Err(missing) => Outcome::Skipped(missing),
    };
    Ok(vec![(READS, outcome)])
}

fn read_with(bench: &Bench, venv: &Venv) -> Result<Outcome> {
    // With parquet most dependencies are compiled again.
    if !bench.quick {
        let mut build = shell::tool("CARGO", "cargo", bench.root);
        shell::run(build.args(["build", "--package", "dyno", "--features", "parquet"]))?;
    }
    let built = match bench.quick {
        true => built_dyno(bench.root)?,
        false => target_folder(bench.root)?.join("debug/dyno"),
    };
    // Another build, without the feature, must not take its place meanwhile.
    let dyno = bench.folder.join("dyno");
    std::fs::copy(&built, &dyno).with_context(|| format!("cannot copy {}", built.display()))?;
    let runs = bench.folder.join("runs");
    if runs.exists() {
        std::fs::remove_dir_all(&runs)
            .with_context(|| format!("cannot empty {}", runs.display()))?;
    }
    std::fs::create_dir(&runs).with_context(|| format!("cannot create {}", runs.display()))?;
    let script = bench.root.join("crates/xtask/peers/interop.py");
    let mut read = venv.python();
    read.arg(script).arg(dyno).arg(bench.root).arg(runs);
    read.args(bench.quick.then_some("--quick"));
    Ok(match read.status().context("cannot start python")?.success() {
        true => Outcome::Passed,
        false => Outcome::Failed("what Python reads is not what dyno wrote".into()),
    })
}
