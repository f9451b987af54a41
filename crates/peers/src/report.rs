//! `bench/report`: accuracy of search and comparison, size and start time of an installation beside
//! other tools, and the time that a report takes. Prints one JSON line per figure.
//!
//! What this machine cannot get is skipped and reported on stderr.

mod install;
mod render;
mod trials;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::bench::{Bench, FigureOptions};
use crate::figure::rounded;
use crate::folder;
use crate::venv::Venv;

/// A wheel of the program `dyno`.
pub struct Wheel {
    /// Name of the distribution.
    pub package: &'static str,
    /// Builds a release of this machine, with `true` a quick one, and returns the folder of its
    /// wheels. The inner error names what this machine lacks.
    pub build: fn(&Path, bool) -> Result<Result<PathBuf, String>>,
}

/// Prints the wanted figures.
///
/// # Errors
/// A program does not build or does not run.
pub fn run(root: &Path, options: &FigureOptions, wheel: &Wheel) -> Result<ExitCode> {
    let bench = Bench::new(root, "peers/report", options)?;
    trials::figures(&bench)?;
    if !bench.wants(install::SIZE) && !bench.wants(install::HELP) && !bench.wants(render::NAME) {
        return Ok(ExitCode::SUCCESS);
    }
    let ours = install_ours(&bench, wheel)?;
    if let Some(ours) = bench.or_skip("the figures of an installed dyno", ours) {
        install::figures(&bench, &ours)?;
        render::figure(&bench, &ours.program())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A virtual environment with a program.
struct Installation {
    venv: PathBuf,
    name: &'static str,
}

impl Installation {
    fn program(&self) -> PathBuf {
        self.venv.join("bin").join(self.name)
    }
}

/// Installs dyno from the wheel of a release. The inner error names what this machine lacks.
fn install_ours(bench: &Bench, wheel: &Wheel) -> Result<Result<Installation, String>> {
    let wheels = (wheel.build)(bench.root, bench.quick)?;
    let folder = bench.folder.join("dyno");
    folder::create(&folder)?;
    let venv = wheels.and_then(|wheels| Venv::with_wheel(&folder, &wheels, wheel.package));
    Ok(venv.map(|venv| Installation { venv: venv.folder().to_path_buf(), name: "dyno" }))
}

/// Prints one figure. `ratio` is above 1 if ours is better.
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

/// Runs a command and returns the time that it took, in milliseconds.
#[expect(clippy::disallowed_methods, reason = "nothing of ours runs in this process")]
fn milliseconds(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let duration = start.elapsed();
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}: {}", output.status, stderr.trim());
    }
    Ok(duration.as_secs_f64() * 1e3)
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
}
