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

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

/// One run of the benchmark.
struct Bench<'a> {
    /// Of the repository.
    root: &'a Path,
    /// Where it may leave what it sets up.
    folder: PathBuf,
    rounds: usize,
    /// Divides the number of queries.
    scale: u64,
    /// Only figures whose name contains one of these; all if empty.
    wanted: Vec<String>,
}

impl Bench<'_> {
    fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|part| name.contains(part))
    }

    /// As many of `full` queries as the run is large, and enough to be measured.
    fn queries(&self, full: u64) -> u64 {
        (full / self.scale).max(1_000)
    }

    fn skip(&self, what: &str, why: &str) {
        eprintln!("skipped {what}: {why}");
    }
}

const ROUNDS: usize = 5;
const QUICK_SCALE: u64 = 50;

/// Prints the figures whose names contain one of the arguments, or all.
///
/// # Errors
/// What was set up does not build or does not run.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let quick = args.contains(&"--quick");
    let unknown = args.iter().find(|arg| arg.starts_with("--") && **arg != "--quick");
    if let Some(unknown) = unknown {
        eprintln!("there is no flag '{unknown}'; there is --quick");
        return Ok(ExitCode::from(2));
    }
    let names = args.iter().filter(|arg| !arg.starts_with("--"));
    let bench = Bench {
        root,
        folder: crate::peers::target_folder(root)?.join("dropin"),
        rounds: if quick { 1 } else { ROUNDS },
        scale: if quick { QUICK_SCALE } else { 1 },
        wanted: names.map(|&name| name.to_owned()).collect(),
    };
    std::fs::create_dir_all(&bench.folder)
        .with_context(|| format!("cannot create {}", bench.folder.display()))?;
    cpp::figures(&bench)?;
    python::figures(&bench)?;
    Ok(ExitCode::SUCCESS)
}
