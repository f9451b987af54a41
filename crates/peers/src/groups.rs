//! Groups of comparisons with peers that come from other registries than crates.io.
//!
//! Each group sets up what it needs below `target/peers/GROUP`. A comparison is skipped and reported
//! if this machine cannot get what it needs; only a difference is a failure.

mod browser;
mod examples;
mod graphs;
mod images;
mod interop;
mod loadgen;
pub(crate) mod metrics;
mod net;
pub(crate) mod number;
pub mod onnx;
mod oracle;
mod ray;
pub(crate) mod rnn;
mod rounds;
pub(crate) mod tasks;
pub(crate) mod tune;
pub mod witness;

use std::fmt;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;

pub use browser::pictures;

use crate::bench::{self, Bench};
use crate::{cargo, shell};

/// The wheel of the reference load generator on PyPI.
pub const WHEEL: &str = "mlcommons-loadgen==6.0.17";

/// Result of one comparison.
///
/// ```
/// use dyno_peers::groups::Outcome;
///
/// let differences = ["rouge1: 38.7 and 38.8".to_owned(), "rouge2: 15.9 and 16.0".to_owned()];
/// let outcome = Outcome::from_differences(&differences);
/// assert_eq!(outcome.to_string(), "FAILED: rouge1: 38.7 and 38.8; rouge2: 15.9 and 16.0");
/// assert_eq!(Outcome::from_differences(&[]), Outcome::Passed);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Both sides agree.
    Passed,
    /// There is a difference, or the comparison could not be completed.
    Failed(String),
    /// This machine cannot get something that the comparison needs.
    Skipped(String),
}

impl Outcome {
    /// Returns `Passed` for a program that succeeded, else `Failed` with this reason.
    pub fn from_status(status: ExitStatus, reason: impl FnOnce() -> String) -> Self {
        if status.success() { Self::Passed } else { Self::Failed(reason()) }
    }

    /// Runs a comparison with what it needs, or returns `Skipped` with the name of what is missing.
    ///
    /// # Errors
    /// Those of the comparison.
    pub fn unless_missing<T>(
        needed: Result<T, String>,
        compare: impl FnOnce(T) -> Result<Self>,
    ) -> Result<Self> {
        needed.map_or_else(|missing| Ok(Self::Skipped(missing)), compare)
    }

    /// Returns `Passed` for an empty list of differences, else `Failed` with all of them.
    pub fn from_differences(differences: &[String]) -> Self {
        if differences.is_empty() { Self::Passed } else { Self::Failed(differences.join("; ")) }
    }

    /// Returns `Failed` with the message of an error.
    pub fn from_result(result: Result<()>) -> Self {
        result.map_or_else(|error| Self::Failed(format!("{error:#}")), |()| Self::Passed)
    }

    /// Runs a script that shows its own output, and returns `Failed` with its arguments if it fails.
    ///
    /// # Errors
    /// The script does not start.
    pub fn from_script(script: &mut Command) -> Result<Self> {
        let status = script.status().context("cannot start the interpreter")?;
        Ok(Self::from_status(status, || {
            let arguments: Vec<_> = script.get_args().map(|word| word.to_string_lossy()).collect();
            format!("{}: {status}", arguments.join(" "))
        }))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Passed => write!(f, "passed"),
            Outcome::Failed(why) => write!(f, "FAILED: {why}"),
            Outcome::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}

/// Name and outcome of a comparison.
pub type Comparison = (&'static str, Outcome);
/// Name of a group, and the function that runs its comparisons.
pub type Group = (&'static str, fn(&Bench) -> Result<Vec<Comparison>>);

const GROUPS: &[Group] = &[
    ("browser", browser::run),
    ("graphs", graphs::run),
    ("images", images::run),
    ("interop", interop::run),
    ("loadgen", loadgen::run),
    ("metrics", metrics::run),
    ("net", net::run),
    ("number", number::run),
    ("onnx", onnx::run),
    ("oracle", oracle::run),
    ("ray", ray::run),
    ("rnn", rnn::run),
    ("rounds", rounds::run),
    ("tasks", tasks::run),
    ("tune", tune::run),
    ("witness", witness::run),
];

/// Groups that compile for minutes. With `--quick` they run only if they are named; `.ci/daily`
/// runs all.
const DAILY: [&str; 2] = ["book", "fuzz"];

/// Options of `cargo xtask peers`.
#[derive(Debug, Args)]
pub struct Options {
    /// Groups to run; all when none is named: book, browser, fuzz, graphs, images, interop, loadgen,
    /// metrics, net, number, onnx, oracle, ray, release, rnn, rounds, tasks, tune, witness
    #[arg(value_name = "GROUP")]
    names: Vec<String>,
    /// Run a part of the cases, without book and fuzz unless they are named
    #[arg(long)]
    quick: bool,
    /// Fail when a comparison is skipped
    #[arg(long)]
    strict: bool,
}

/// Runs the wanted groups, in the order of their names. `more` are groups of other crates.
///
/// Fails when a comparison failed, and with `--strict` when one was skipped.
///
/// # Errors
/// A folder of a group cannot be created.
#[expect(clippy::disallowed_methods, reason = "nothing of ours runs in this process")]
pub fn run(root: &Path, options: &Options, more: &[Group]) -> Result<ExitCode> {
    let Options { names, quick, strict } = options;
    let mut groups = [GROUPS, more].concat();
    groups.sort_by_key(|(name, _)| *name);
    if let Some(unknown) = names.iter().find(|name| groups.iter().all(|group| group.0 != **name)) {
        let known: Vec<&str> = groups.iter().map(|(name, _)| *name).collect();
        eprintln!("there is no group '{unknown}'; there are {}", known.join(", "));
        return Ok(ExitCode::from(2));
    }
    if names.is_empty() {
        groups.retain(|(name, _)| !quick || !DAILY.contains(name));
    } else {
        groups.retain(|(name, _)| names.iter().any(|wanted| wanted == name));
    }
    if *quick && names.is_empty() {
        println!("peers: left to .ci/daily: {}", DAILY.join(", "));
    }
    let (mut outcomes, mut failures) = (Vec::new(), Vec::new());
    for (name, group) in groups {
        let options = bench::FigureOptions { quick: *quick, parts: Vec::new() };
        let bench = Bench::new(root, &format!("peers/{name}"), &options)?;
        // An error fails its group, and the other groups still run.
        let start = Instant::now();
        let comparisons = group(&bench)
            .unwrap_or_else(|error| vec![("the group", Outcome::Failed(format!("{error:#}")))]);
        println!("peers {name}: took {} s", start.elapsed().as_secs());
        for (comparison, outcome) in comparisons {
            let line = format!("peers {name}: {comparison}: {outcome}");
            println!("{line}");
            if matches!(outcome, Outcome::Failed(_)) {
                failures.push(line);
            }
            outcomes.push(outcome);
        }
    }
    // The line above is far away by now, and who reads the log of a CI run starts at its end.
    failures.iter().for_each(|line| println!("{line}"));
    let (summary, is_failure) = summarize(&outcomes, *strict);
    println!("{summary}");
    Ok(if is_failure { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns the last line of the output, and whether the command fails.
fn summarize(outcomes: &[Outcome], strict: bool) -> (String, bool) {
    let count = |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(|o| wanted(o)).count();
    let passed = count(|o| matches!(o, Outcome::Passed));
    let failed = count(|o| matches!(o, Outcome::Failed(_)));
    let skipped = count(|o| matches!(o, Outcome::Skipped(_)));
    (
        format!("{passed} passed, {failed} failed, {skipped} skipped"),
        failed > 0 || strict && skipped > 0,
    )
}

/// Runs tests of all crates and returns whether they pass. With one crate alone, features differ and
/// most of its dependencies are compiled again.
///
/// `which` selects test programs and tests; `variables` are set for them. Selecting no test is a
/// failure: otherwise a renamed test would pass forever.
pub fn cargo_test(root: &Path, which: &[&str], variables: &[(&str, &Path)]) -> Outcome {
    let arguments = [&["test", "--workspace"], which, &["--", "--nocapture"]].concat();
    let mut command = cargo::command(root);
    command.args(&arguments).envs(variables.iter().copied());
    println!("cargo {}", arguments.join(" "));
    let mut passed = 0;
    let result = shell::each_line(&mut command, |line| {
        passed += tests_passed(line);
        println!("{line}");
        Ok(())
    });
    match (result, passed) {
        (Err(_), _) => Outcome::Failed(format!("cargo {}", arguments.join(" "))),
        (Ok(()), 0) => Outcome::Failed(format!("cargo {} ran no test", arguments.join(" "))),
        (Ok(()), _) => Outcome::Passed,
    }
}

/// Returns the number of tests that a line such as `test result: ok. 3 passed; 0 failed` counts.
fn tests_passed(line: &str) -> u64 {
    let rest = line.strip_prefix("test result: ok. ");
    rest.and_then(|rest| rest.split_once(" passed")?.0.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failure_fails() {
        let skipped = || Outcome::Skipped("no network".to_owned());
        let failed = || Outcome::Failed("differs".to_owned());
        let lenient = |outcomes: &[Outcome]| summarize(outcomes, false);
        assert_eq!(lenient(&[]), ("0 passed, 0 failed, 0 skipped".to_owned(), false));
        let two = [Outcome::Passed, skipped(), skipped()];
        assert_eq!(lenient(&two), ("1 passed, 0 failed, 2 skipped".to_owned(), false));
        assert!(summarize(&two, true).1, "--strict");
        assert!(!summarize(&[Outcome::Passed], true).1);
        assert_eq!(
            lenient(&[failed(), skipped()]),
            ("0 passed, 1 failed, 1 skipped".to_owned(), true)
        );
    }

    #[test]
    fn passed_tests_are_counted() {
        assert_eq!(tests_passed("test result: ok. 12 passed; 0 failed; 0 ignored"), 12);
        assert_eq!(tests_passed("test result: FAILED. 12 passed; 1 failed"), 0);
        assert_eq!(tests_passed("running 12 tests"), 0);
    }
}
