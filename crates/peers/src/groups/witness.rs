//! Verdicts of runs that are disturbed on purpose (stopped, short of quota or of processors), judged by
//! a server with its own clock.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use super::{Comparison, Outcome};
use crate::bench::Bench;
use crate::{cargo, folder};

const NAME: &str = "verdicts of disturbed runs, by the clock of a server";
/// More wrong verdicts fail the comparison. Of ten runs one may be at the limit of what counts as
/// wrong; `bench/truth` has many runs and allows none.
const WRONG_VALID: f64 = 1.0;
const WRONG_INVALID_PERCENT: f64 = 20.0;

pub(super) fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    if !cfg!(target_os = "linux") {
        return Ok(vec![(NAME, Outcome::Skipped("the witness needs Linux".into()))]);
    }
    let runs = if bench.quick { 10 } else { 60 };
    let dyno = cargo::debug_dyno(bench.root)?;
    let figures = match disturbed_runs(bench.root, &bench.folder, &dyno, runs)? {
        Ok(figures) => figures,
        Err(missing) => return Ok(vec![(NAME, Outcome::Skipped(missing))]),
    };
    print!("{figures}");
    let valid = figure(&figures, "truth.wrong_valid");
    let invalid = figure(&figures, "truth.wrong_invalid_percent");
    let is_within = |figure: Option<f64>, limit| figure.is_some_and(|figure| figure <= limit);
    let is_passed = is_within(valid, WRONG_VALID) && is_within(invalid, WRONG_INVALID_PERCENT);
    let outcome = if is_passed {
        Outcome::Passed
    } else {
        Outcome::Failed(format!("wrong VALID: {valid:?}, wrong INVALID: {invalid:?} %"))
    };
    Ok(vec![(NAME, outcome)])
}

/// Options of `cargo xtask witness`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Options {
    /// Number of disturbed runs
    #[arg(default_value_t = 300)]
    runs: u32,
    #[command(subcommand)]
    other: Option<OtherWitness>,
}

#[derive(Debug, Subcommand)]
enum OtherWitness {
    /// Let a second, independently written witness disturb and judge runs (needs root)
    Second {
        /// Number of disturbed runs
        #[arg(default_value_t = 120)]
        runs: u32,
    },
    /// Measure how late dyno issues queries, and what that takes from a program next to it
    Load {
        /// Duration of each measurement, in seconds
        #[arg(default_value_t = 5.0)]
        seconds: f64,
    },
}

/// Prints figures of the release build about disturbed runs, or about lateness.
///
/// # Errors
/// Dyno does not build, or a run cannot be completed.
pub fn print_figures(root: &Path, options: &Options) -> Result<ExitCode> {
    let dyno = cargo::release_dyno(root)?;
    let folder = cargo::target_folder(root)?.join("peers/witness");
    let figures = match options.other {
        Some(OtherWitness::Load { seconds }) => {
            let script = Script { server: "clock.c", client: "witness_load.py" };
            script.run(root, &folder, &dyno, &seconds.to_string())?
        }
        Some(OtherWitness::Second { runs }) => second_witness(root, &folder, &dyno, runs)?,
        None => disturbed_runs(root, &folder, &dyno, options.runs)?,
    };
    match figures {
        Ok(figures) => print!("{figures}"),
        Err(missing) => eprintln!("skipped: {missing}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Disturbs so many runs of a program and returns the figures. The inner error names what this
/// machine lacks.
fn disturbed_runs(
    root: &Path,
    folder: &Path,
    dyno: &Path,
    runs: u32,
) -> Result<Result<String, String>> {
    let script = Script { server: "server.c", client: "witness.py" };
    script.run(root, folder, dyno, &runs.to_string())
}

/// As [`disturbed_runs`], by a witness whose author had not seen the code.
fn second_witness(
    root: &Path,
    folder: &Path,
    dyno: &Path,
    runs: u32,
) -> Result<Result<String, String>> {
    // Both witnesses have a program called `server`.
    let folder = &folder.join("second");
    folder::create(folder)?;
    let mut python = Command::new("python3");
    python.arg("-B").arg(root.join("crates/peers/scripts/second_witness/witness.py"));
    python.arg(dyno).args([&runs.to_string(), SECOND_SEED]).env("WITNESS_FOLDER", folder);
    Ok(match python.stderr(Stdio::inherit()).output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => Err(format!("the second witness ends with {}: it needs root", output.status)),
        Err(error) => Err(format!("there is no python3: {error}")),
    })
}

/// Seed of the second witness, which selects its disturbances.
const SECOND_SEED: &str = "21";

/// A witness: a server in C, and a script that runs it and dyno.
struct Script {
    server: &'static str,
    client: &'static str,
}

impl Script {
    /// Compiles the server, runs the script and returns its output. The inner error names what this
    /// machine lacks.
    fn run(
        &self,
        root: &Path,
        folder: &Path,
        dyno: &Path,
        size: &str,
    ) -> Result<Result<String, String>> {
        let Self { server, client } = self;
        let scripts = root.join("crates/peers/scripts");
        let program = match compile(root, folder, server)? {
            Ok(program) => program,
            Err(missing) => return Ok(Err(missing)),
        };
        let mut python = Command::new("python3");
        python.arg("-B").arg(scripts.join(client)).arg(dyno).arg(&program);
        python.arg(folder.join("runs")).arg(size).stderr(Stdio::inherit());
        let output = match python.output() {
            Ok(output) => output,
            Err(error) => return Ok(Err(format!("there is no python3: {error}"))),
        };
        if !output.status.success() {
            bail!("the witness ends with {}", output.status);
        }
        Ok(Ok(String::from_utf8_lossy(&output.stdout).into_owned()))
    }
}

/// Compiles a server of the folder `witness` into `folder`. The inner error names what this machine
/// lacks.
///
/// # Errors
/// The folder cannot be created.
pub fn compile(root: &Path, folder: &Path, server: &str) -> Result<Result<PathBuf, String>> {
    folder::create(folder)?;
    let program = folder.join(server.trim_end_matches(".c"));
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut compile = Command::new(&compiler);
    compile.args(["-O2", "-pthread", "-o"]).arg(&program);
    let source = root.join("crates/peers/scripts/witness").join(server);
    Ok(match compile.arg(source).arg("-lm").status() {
        Ok(status) if status.success() => Ok(program),
        Ok(status) => Err(format!("{compiler} does not compile {server}: {status}")),
        Err(error) => Err(format!("there is no C compiler {compiler}: {error}")),
    })
}

/// Returns our value of a figure from lines of which some are JSON.
fn figure(text: &str, name: &str) -> Option<f64> {
    let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut figures = lines.filter(|line: &serde_json::Value| line["name"] == name);
    figures.next()?["ours"].as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_between_other_lines() {
        let text = "0: SingleStream, none: right\n{\"name\": \"a\", \"ours\": 0}\n{\"name\": \"b\", \"ours\": 1.5}\n";
        assert_eq!(
            (figure(text, "a"), figure(text, "b"), figure(text, "c")),
            (Some(0.0), Some(1.5), None)
        );
    }
}
