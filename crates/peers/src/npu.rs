//! `bench/npu`: the bench `npu` of `dyno-sut`, schedulers of multi-tenant accelerators. It has no
//! peer, because no other simulator of this kind is published.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::bench::FigureOptions;
use crate::cargo;

/// Prints the figures whose names contain one of the parts, or all.
///
/// # Errors
/// The bench does not build, or does not start.
pub fn run(root: &Path, options: &FigureOptions) -> Result<ExitCode> {
    let bench = cargo::bench_program(root, "dyno-sut", "npu")?;
    let status = Command::new(bench).arg("--bench").args(options.to_arguments()).status();
    let is_success = status.context("cannot start the bench npu")?.success();
    Ok(if is_success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
