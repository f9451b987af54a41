//! What the drop-in costs: through C++ beside a floor, through Python beside
//! the registry's wheel, in turn in one run. Prints one JSON line a figure.
//!
//! What cannot be had on this machine is skipped, and said on stderr.

mod cases;
mod counts;
mod cpp;
pub mod figure;
mod paced;
mod python;
mod sides;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::bench::Bench;

impl Bench<'_> {
    fn rounds(&self) -> usize {
        if self.quick { 1 } else { ROUNDS }
    }

    /// As many of `full` queries as the run is large, and enough to be measured.
    fn queries(&self, full: u64) -> u64 {
        (full / if self.quick { QUICK_SCALE } else { 1 }).max(1_000)
    }
}

const ROUNDS: usize = 5;
const QUICK_SCALE: u64 = 50;

/// Prints the figures whose names contain one of the arguments, or all.
///
/// # Errors
/// What was set up does not build or does not run.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let bench = match Bench::asked(root, "dropin", args)? {
        Ok(bench) => bench,
        Err(wrong) => return Ok(wrong),
    };
    cpp::figures(&bench)?;
    python::figures(&bench)?;
    Ok(ExitCode::SUCCESS)
}
