//! `bench/dropin`: cost of the drop-in for LoadGen. C++ harnesses run beside a minimal load generator
//! (the *floor*), Python scripts beside the reference's wheel, in turn. Prints one JSON line per figure.
//! Also runs LoadGen's own programs, if `DYNO_LOADGEN_SOURCES` names them.
//!
//! What this machine cannot get is skipped and reported on stderr.

mod cases;
mod counts;
mod cpp;
mod own;
mod paced;
mod python;
mod sides;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::bench::{Bench, FigureOptions};

impl Bench<'_> {
    fn rounds(&self) -> usize {
        if self.quick { 1 } else { ROUNDS }
    }

    /// Scales a number of queries down in a quick run; enough remain to measure.
    fn queries(&self, full: u64) -> u64 {
        (full / if self.quick { QUICK_SCALE } else { 1 }).max(1_000)
    }
}

const ROUNDS: usize = 5;
const QUICK_SCALE: u64 = 50;

/// Prints the wanted figures.
///
/// # Errors
/// A program does not build or does not run.
pub fn run(root: &Path, options: &FigureOptions) -> Result<ExitCode> {
    let bench = Bench::new(root, "dropin", options)?;
    cpp::figures(&bench)?;
    python::figures(&bench)?;
    own::run(&bench)?;
    Ok(ExitCode::SUCCESS)
}
