//! Runs that are disturbed (stopped, short of quota or of processors), judged by a server that keeps its own times.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};

use super::{Bench, Named, Outcome, built_dyno, released_dyno, target_folder};

const NAME: &str = "verdicts of disturbed runs, by the clock of a server";
/// Wrong verdicts that fail the comparison when there are more. Of ten runs one may be at the border
/// of what counts as wrong; `bench/truth` has many runs and no such excuse.
const WRONG_VALID: f64 = 1.0;
const WRONG_INVALID_PERCENT: f64 = 20.0;

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    if !cfg!(target_os = "linux") {
        return Ok(vec![(NAME, Outcome::Skipped("the witness needs Linux".into()))]);
    }
    let runs = if bench.quick { "10" } else { "60" };
    let dyno = built_dyno(bench.root)?;
    let found = match campaign(bench.root, &bench.folder, &dyno, runs)? {
        Ok(said) => said,
        Err(missing) => return Ok(vec![(NAME, Outcome::Skipped(missing))]),
    };
    print!("{found}");
    let outcome = match (
        figure(&found, "truth.wrong_valid"),
        figure(&found, "truth.wrong_invalid_percent"),
    ) {
        (Some(valid), Some(percent))
            if valid <= WRONG_VALID && percent <= WRONG_INVALID_PERCENT =>
        {
            Outcome::Passed
        }
        (valid, invalid) => {
            Outcome::Failed(format!("wrong VALID: {valid:?}, wrong INVALID: {invalid:?} %"))
        }
    };
    Ok(vec![(NAME, outcome)])
}

/// Runs of `bench/truth`.
const RUNS: &str = "300";

/// Seconds of each measurement of the lag and of the load on a program next to dyno.
const SECONDS: &str = "5";

/// Runs of the second witness in `bench/truth`.
const SECOND_RUNS: &str = "120";

/// Prints figures of the release build: of so many disturbed runs, after `second` of runs that
/// another witness disturbs and judges, or after `load` of how late it issues and what it takes
/// from a program next to it, measured for so many seconds each.
///
/// # Errors
/// If it does not build, or a run breaks.
pub fn bench(root: &Path, words: &[&str]) -> Result<ExitCode> {
    let (dyno, folder) = (released_dyno(root)?, target_folder(root)?.join("peers/witness"));
    let figures = match words {
        ["load", seconds @ ..] => {
            let seconds = seconds.first().unwrap_or(&SECONDS);
            witness(root, &folder, &dyno, ("clock.c", "witness_load.py"), seconds)?
        }
        ["second", runs @ ..] => {
            second(root, &folder, &dyno, runs.first().unwrap_or(&SECOND_RUNS))?
        }
        runs => campaign(root, &folder, &dyno, runs.first().unwrap_or(&RUNS))?,
    };
    match figures {
        Ok(figures) => print!("{figures}"),
        Err(missing) => eprintln!("skipped: {missing}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Disturbs so many runs of a program. Returns the figures, or what is missing here.
fn campaign(root: &Path, folder: &Path, dyno: &Path, runs: &str) -> Result<Result<String, String>> {
    witness(root, folder, dyno, ("server.c", "witness.py"), runs)
}

/// Has another witness, whose author had not seen the code, disturb so many runs.
fn second(root: &Path, folder: &Path, dyno: &Path, runs: &str) -> Result<Result<String, String>> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let mut python = Command::new("python3");
    python.arg("-B").arg(root.join("crates/xtask/peers/second_witness/witness.py"));
    python.arg(dyno).args([runs, SECOND_SEED]).env("WITNESS_FOLDER", folder);
    match python.stderr(Stdio::inherit()).output() {
        Ok(ran) if ran.status.success() => {
            Ok(Ok(String::from_utf8_lossy(&ran.stdout).into_owned()))
        }
        Ok(ran) => Ok(Err(format!("the second witness ends with {}: it needs root", ran.status))),
        Err(error) => Ok(Err(format!("there is no python3: {error}"))),
    }
}

/// Chooses the runs of the second witness.
const SECOND_SEED: &str = "21";

/// Compiles a C program and runs a script with it. Returns what the script prints, or what is
/// missing here.
fn witness(
    root: &Path,
    folder: &Path,
    dyno: &Path,
    (source, script): (&str, &str),
    size: &str,
) -> Result<Result<String, String>> {
    let scripts = root.join("crates/xtask/peers");
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let program = folder.join(source.trim_end_matches(".c"));
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut compile = Command::new(&compiler);
    compile.args(["-O2", "-pthread", "-o"]).arg(&program).arg(scripts.join("witness").join(source));
    match compile.arg("-lm").status() {
        Ok(status) if status.success() => {}
        Ok(status) => return Ok(Err(format!("{compiler} does not compile {source}: {status}"))),
        Err(error) => return Ok(Err(format!("there is no C compiler {compiler}: {error}"))),
    }
    let mut python = Command::new("python3");
    python.arg("-B").arg(scripts.join(script)).arg(dyno).arg(&program);
    let ran = match python.arg(folder.join("runs")).arg(size).stderr(Stdio::inherit()).output() {
        Ok(ran) => ran,
        Err(error) => return Ok(Err(format!("there is no python3: {error}"))),
    };
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    if !ran.status.success() {
        anyhow::bail!("the witness ends with {}", ran.status);
    }
    Ok(Ok(said))
}

/// A figure of a line of JSON.
fn figure(said: &str, name: &str) -> Option<f64> {
    let lines = said.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut figures = lines.filter(|line: &serde_json::Value| line["name"] == name);
    figures.next()?["ours"].as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_between_other_lines() {
        let said = "0: SingleStream, none: right\n{\"name\": \"a\", \"ours\": 0}\n{\"name\": \"b\", \"ours\": 1.5}\n";
        assert_eq!(
            (figure(said, "a"), figure(said, "b"), figure(said, "c")),
            (Some(0.0), Some(1.5), None)
        );
    }
}
