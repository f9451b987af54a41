//! Comparisons with peers that come from other registries than crates.io.
//!
//! Each group sets up what it needs below `target/peers/GROUP`. What cannot be
//! had on this machine is skipped, and said; only a difference is a failure.

mod book;
pub mod browser;
mod examples;
mod fuzz;
mod graphs;
mod images;
mod interop;
mod loadgen;
pub mod metrics;
mod net;
pub mod number;
mod onnx;
mod ray;
mod release;
mod rnn;
pub mod tasks;
mod tune;
pub mod venv;
pub mod witness;

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::release::shell;

/// The reference load generator, as its registry has it.
pub const WHEEL: &str = "mlcommons-loadgen==6.0.17";

/// How one comparison came out.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// There is a difference, or the comparison broke.
    Failed(String),
    /// Something it needs cannot be had here.
    Skipped(String),
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

/// What a group is given.
pub struct Bench<'a> {
    /// Of the repository.
    root: &'a Path,
    /// Where the group may leave what it sets up.
    folder: PathBuf,
    /// Fewer cases.
    quick: bool,
}

impl<'a> Bench<'a> {
    /// For what sets up as groups do, and compares nothing.
    pub fn at(root: &'a Path, folder: PathBuf) -> Self {
        Self { root, folder, quick: false }
    }
}

/// A comparison and how it came out.
pub type Named = (&'static str, Outcome);
type Group = fn(&Bench) -> Result<Vec<Named>>;

const GROUPS: &[(&str, Group)] = &[
    ("book", book::run),
    ("browser", browser::run),
    ("fuzz", fuzz::run),
    ("graphs", graphs::run),
    ("images", images::run),
    ("interop", interop::run),
    ("loadgen", loadgen::run),
    ("metrics", metrics::run),
    ("net", net::run),
    ("number", number::run),
    ("onnx", onnx::run),
    ("ray", ray::run),
    ("release", release::run),
    ("rnn", rnn::run),
    ("tasks", tasks::run),
    ("tune", tune::run),
    ("witness", witness::run),
];

/// Groups that compile a world of their own for minutes. With `--quick` they run only if named;
/// `.ci/daily` runs all.
const DAILY: [&str; 2] = ["book", "fuzz"];

/// Runs the named group, or all; fails when a comparison failed, and with
/// `--strict` when one was skipped.
#[expect(clippy::disallowed_methods, reason = "nothing of ours runs in this process")]
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let (quick, strict) = (args.contains(&"--quick"), args.contains(&"--strict"));
    let is_name = |arg: &&str| !["--quick", "--strict"].contains(arg);
    let names: Vec<&str> = args.iter().copied().filter(is_name).collect();
    let known: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(*name)) {
        eprintln!("there is no group '{unknown}'; there are {}", known.join(", "));
        return Ok(ExitCode::from(2));
    }
    let mut outcomes = Vec::new();
    let is_wanted = |name: &str| match names.is_empty() {
        true => !quick || !DAILY.contains(&name),
        false => names.contains(&name),
    };
    if quick && names.is_empty() {
        println!("peers: left to .ci/daily: {}", DAILY.join(", "));
    }
    for (name, group) in GROUPS.iter().filter(|(name, _)| is_wanted(name)) {
        let folder = target_folder(root)?.join("peers").join(name);
        let bench = Bench { root, folder, quick };
        std::fs::create_dir_all(&bench.folder)
            .with_context(|| format!("cannot create {}", bench.folder.display()))?;
        // A group that breaks is a failure of its own, and the others still run.
        let begun = Instant::now();
        let found = group(&bench)
            .unwrap_or_else(|error| vec![("the group", Outcome::Failed(format!("{error:#}")))]);
        println!("peers {name}: took {} s", begun.elapsed().as_secs());
        for (comparison, outcome) in found {
            println!("peers {name}: {comparison}: {outcome}");
            outcomes.push(outcome);
        }
    }
    let (summary, failed) = summarise(&outcomes, strict);
    println!("{summary}");
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn summarise(outcomes: &[Outcome], strict: bool) -> (String, bool) {
    let count = |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(|o| wanted(o)).count();
    let passed = count(|o| matches!(o, Outcome::Passed));
    let failed = count(|o| matches!(o, Outcome::Failed(_)));
    let skipped = count(|o| matches!(o, Outcome::Skipped(_)));
    (
        format!("{passed} passed, {failed} failed, {skipped} skipped"),
        failed > 0 || strict && skipped > 0,
    )
}

/// Builds the command, and says where it is.
pub fn built_dyno(root: &Path) -> Result<PathBuf> {
    Ok(built(root)?.join("dyno"))
}

/// Builds the command as people install it, and says where it is.
pub fn released_dyno(root: &Path) -> Result<PathBuf> {
    let mut build = shell::tool("CARGO", "cargo", root);
    shell::run(build.args(["build", "--quiet", "--release", "--package", "dyno"]))?;
    Ok(target_folder(root)?.join("release/dyno"))
}

/// Builds the command and all examples as `cargo test --workspace` does, and says where they are.
/// For one package alone features differ, and most of its dependencies would be compiled again.
pub fn built(root: &Path) -> Result<PathBuf> {
    let mut build = shell::tool("CARGO", "cargo", root);
    shell::run(build.args(["test", "--quiet", "--workspace", "--no-run"]))?;
    Ok(target_folder(root)?.join("debug"))
}

/// Where cargo builds; absolute, because tests run in the folder of their crate.
pub fn target_folder(root: &Path) -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("CARGO_TARGET_DIR") {
        return std::path::absolute(folder).context("there is no current folder");
    }
    // A configuration file may name it, too.
    let mut cargo = shell::tool("CARGO", "cargo", root);
    let metadata = shell::said(cargo.args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value =
        serde_json::from_str(&metadata).context("cannot read what cargo metadata says")?;
    let folder = metadata["target_directory"].as_str();
    Ok(folder.context("cargo metadata names no target folder")?.into())
}

/// Runs the tests that these arguments choose, such as those in folders `tests` whose
/// names contain a word, with these variables: of all crates, because features differ for
/// one alone, and most would be compiled again. That none is run fails: otherwise a
/// renamed test would pass for ever.
fn cargo_test(root: &Path, which: &[&str], variables: &[(&str, &Path)]) -> Result<Outcome> {
    let mut command = shell::tool("CARGO", "cargo", root);
    let args = [&["test", "--workspace"], which, &["--", "--nocapture"]].concat();
    command.args(&args).stdout(Stdio::piped()).envs(variables.iter().copied());
    println!("cargo {}", args.join(" "));
    let mut child = command.spawn().context("cannot start cargo")?;
    let stdout = child.stdout.take().expect("stdout is piped");
    let mut passed = 0;
    for line in BufReader::new(stdout).lines() {
        let line = line.context("cannot read what cargo says")?;
        passed += tests_passed(&line);
        println!("{line}");
    }
    let status = child.wait().context("cannot wait for cargo")?;
    Ok(match (status.success(), passed) {
        (false, _) => Outcome::Failed(format!("cargo test {}", args.join(" "))),
        (true, 0) => Outcome::Failed(format!("cargo test {} ran no test", args.join(" "))),
        (true, _) => Outcome::Passed,
    })
}

/// Tests that a line such as `test result: ok. 3 passed; 0 failed` counts.
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
        let lenient = |outcomes: &[Outcome]| summarise(outcomes, false);
        assert_eq!(lenient(&[]), ("0 passed, 0 failed, 0 skipped".to_owned(), false));
        let two = [Outcome::Passed, skipped(), skipped()];
        assert_eq!(lenient(&two), ("1 passed, 0 failed, 2 skipped".to_owned(), false));
        assert!(summarise(&two, true).1, "--strict wants all of them");
        assert!(!summarise(&[Outcome::Passed], true).1);
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
