//! What `bench/report` runs: how well search and comparison hold their promises,
//! what an installation weighs and how fast it starts beside its peers, and how
//! long a report takes. Prints one JSON line a figure.
//!
//! What cannot be had on this machine is skipped, and said on stderr.

mod install;
mod render;
mod trials;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::bench::Bench;
use crate::dropin::figure::rounded;
use crate::peers::venv::Venv;
use crate::release::{self, walk};

/// Prints the figures whose names contain one of the arguments, or all.
///
/// # Errors
/// What was set up does not build or does not run.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let bench = match Bench::asked(root, "peers/report", args)? {
        Ok(bench) => bench,
        Err(wrong) => return Ok(wrong),
    };
    trials::figures(&bench)?;
    if !bench.wants(install::SIZE) && !bench.wants(install::HELP) && !bench.wants(render::NAME) {
        return Ok(ExitCode::SUCCESS);
    }
    match ours(&bench)? {
        Ok(ours) => {
            install::figures(&bench, &ours)?;
            render::figure(&bench, &ours.program())?;
        }
        Err(missing) => bench.skip("the figures of an installed dyno", &missing),
    }
    Ok(ExitCode::SUCCESS)
}

/// An environment with a program.
struct Installed {
    venv: PathBuf,
    name: &'static str,
}

impl Installed {
    fn program(&self) -> PathBuf {
        self.venv.join("bin").join(self.name)
    }
}

/// Ours, installed from the wheel of a release; `Err` inside says what is missing.
fn ours(bench: &Bench) -> Result<Result<Installed, String>> {
    let wheels = if bench.quick { release::quick(bench.root)? } else { release::host(bench.root)? };
    let folder = bench.folder.join("dyno");
    fs::create_dir_all(&folder).context("cannot make the folder of our environment")?;
    let venv = wheels.and_then(|wheels| Venv::with_ours(&folder, &wheels, walk::PACKAGE));
    Ok(venv.map(|venv| Installed { venv: venv.folder().to_path_buf(), name: "dyno" }))
}

/// Prints one figure. `ratio` is above 1 where ours is better.
fn print(name: &str, ours: f64, peer: Option<f64>, ratio: Option<f64>, unit: &str) {
    println!("{}", line(name, ours, peer, ratio, unit));
}

fn line(name: &str, ours: f64, peer: Option<f64>, ratio: Option<f64>, unit: &str) -> String {
    let number = |value: Option<f64>| value.map_or("null".to_owned(), rounded);
    format!(
        "{{\"name\": \"{name}\", \"ours\": {}, \"peer\": {}, \"ratio\": {}, \"unit\": \"{unit}\"}}",
        rounded(ours),
        number(peer),
        number(ratio)
    )
}

/// How long a command takes, in milliseconds.
#[expect(clippy::disallowed_methods, reason = "nothing of ours runs in this process")]
fn milliseconds(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let took = start.elapsed();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}: {}", output.status, said.trim());
    }
    Ok(took.as_secs_f64() * 1e3)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_without_a_peer_has_no_ratio() {
        assert_eq!(
            line("a.b", 12.0, None, None, "ms"),
            "{\"name\": \"a.b\", \"ours\": 12.00, \"peer\": null, \"ratio\": null, \"unit\": \"ms\"}"
        );
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0]), 4.0);
    }
}
