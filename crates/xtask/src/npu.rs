//! What `bench/npu` runs: the bench `npu` of `dyno-sut`. There is no peer: nobody ships a simulator of this kind.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::bench::program;

/// Prints the figures whose names contain one of the arguments, or all.
///
/// # Errors
/// The bench does not build, or does not start.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let unknown = args.iter().find(|arg| arg.starts_with("--") && **arg != "--quick");
    if let Some(unknown) = unknown {
        eprintln!("there is no flag '{unknown}'; there is --quick");
        return Ok(ExitCode::from(2));
    }
    let bench = program(root, "dyno-sut", "npu")?;
    let status = Command::new(bench).arg("--bench").args(args).status();
    let status = status.context("cannot start the bench npu")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
