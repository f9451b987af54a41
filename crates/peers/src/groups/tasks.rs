//! Tasks as a new user runs them: from a clean cache, with packages from PyPI, to the verdict.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Comparison, Outcome, cargo_test, onnx};
use crate::bench::Bench;
use crate::{cargo, folder, shell};

const REAL: &str = "real tasks reach their targets from a clean cache";
const TESTS: &str = "tests of tasks with ONNX Runtime and what was fetched";
const SHAPE: &str = "shape tasks answer from a clean cache";

/// Shape tasks that take less than seconds.
const QUICK: &[&str] = &["mobilenet-v1-shape", "dlrm-shape"];

/// Maximum size of a task's parameters as 32-bit floats, in bytes: engines need twice as much memory,
/// for the file and for their own copy.
const LARGEST: u64 = 8 << 30;

pub fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let cache = bench.folder.join("cache");
    folder::remove(&cache)?;
    let program = match Program::build(bench, Profile::Debug, cache) {
        Ok(program) => program,
        Err(missing) => return Ok(vec![(REAL, Outcome::Skipped(missing))]),
    };
    let tasks = program.tasks()?;
    let real = tasks.iter().filter(|task| task.tier == "real");
    let is_wanted =
        |task: &&Task| if bench.quick { QUICK.contains(&task.name.as_str()) } else { task.fits() };
    let shape = tasks.iter().filter(|task| task.tier == "shape").filter(is_wanted);
    let accuracy = ["--mode", "accuracy", "--scenario", "Offline"];
    let speed = ["--mode", "performance", "--scenario", "SingleStream", "--duration", "100ms"];
    Ok(vec![
        (REAL, program.check(real, &accuracy, |test| test["verdict"] == "VALID")?),
        (SHAPE, program.check(shape, &speed, |test| test["result"]["value"].is_number())?),
        (TESTS, program.run_tests(bench)),
    ])
}

/// Build profile of `dyno`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// The build that tests use.
    Debug,
    /// The build for measurements.
    Release,
}

/// The program `dyno` with an ONNX Runtime and a cache of its own.
pub struct Program {
    path: PathBuf,
    /// Interpreter whose pip fetches packages.
    python: PathBuf,
    /// Path of the shared library of ONNX Runtime.
    library: String,
    cache: PathBuf,
    /// Folder of the runs.
    out: PathBuf,
}

/// A task of `dyno task list`.
#[derive(Debug)]
pub struct Task {
    pub name: String,
    pub tier: String,
    /// Parameters of its graph; `None` if the graph is not ours.
    pub parameters: Option<u64>,
    /// Operations per sample; `None` if the graph is not ours.
    pub operations: Option<u64>,
}

impl Task {
    /// Returns whether the weights fit into memory.
    pub fn fits(&self) -> bool {
        self.parameters.is_none_or(|parameters| parameters * 4 < LARGEST)
    }
}

impl Program {
    /// Builds the program.
    ///
    /// # Errors
    /// The message names what this machine lacks.
    pub fn build(bench: &Bench, profile: Profile, cache: PathBuf) -> Result<Self, String> {
        let (venv, library) = onnx::library(bench)?;
        let path = match profile {
            Profile::Debug => cargo::debug_dyno(bench.root),
            Profile::Release => cargo::release_dyno(bench.root),
        };
        Ok(Self {
            path: path.map_err(|error| format!("{error:#}"))?,
            python: venv.interpreter(),
            library,
            cache,
            out: bench.folder.join("out"),
        })
    }

    /// Returns the tasks in the order of `dyno task list`.
    pub fn tasks(&self) -> Result<Vec<Task>> {
        let listed = shell::output(self.command().args(["task", "list", "--json"]))?;
        let listed: Vec<Value> = serde_json::from_str(&listed).context("dyno task list --json")?;
        let task = |entry: &Value| {
            Some(Task {
                name: entry["name"].as_str()?.to_owned(),
                tier: entry["tier"].as_str()?.to_owned(),
                parameters: entry["parameters"].as_u64(),
                operations: entry["operations"].as_u64(),
            })
        };
        Ok(listed.iter().filter_map(task).collect())
    }

    /// Fetches the packages that a task needs.
    ///
    /// # Errors
    /// The message names what is not available.
    pub fn fetch(&self, task: &Task) -> Result<(), String> {
        let mut fetch = self.command();
        // `dyno fetch` calls `python3 -m pip`, which must be that of the environment.
        let folder = self.python.parent().unwrap_or(Path::new("."));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = [folder.to_owned()].into_iter().chain(std::env::split_paths(&path));
        let path = std::env::join_paths(folders).map_err(|error| error.to_string())?;
        fetch.args(["fetch", &task.name]).env("PATH", path);
        shell::output(&mut fetch).map(drop).map_err(|error| format!("{error:#}"))
    }

    /// Runs a task and returns the summary.
    pub fn summary(&self, task: &Task, args: &[&str]) -> Result<Value> {
        let out = self.out.join(&task.name);
        let mut run = self.command();
        run.args(["task", "run", &task.name, "--no-progress", "--json"]).args(args);
        let output = run.arg("--out").arg(&out).output().context("cannot start dyno")?;
        let _ = fs::remove_dir_all(&out);
        if output.status.code().is_none() {
            // Killed by a signal: only the system does that, for lack of memory.
            bail!("ended by the system ({}), most likely for want of memory", output.status);
        }
        // 1: a test is INVALID, as the summary shows.
        if !matches!(output.status.code(), Some(0 | 1)) {
            bail!("{}: {}", task.name, String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).with_context(|| format!("summary of {}", task.name))
    }

    /// Runs tasks and checks each of their tests with `is_right`.
    fn check<'a>(
        &self,
        tasks: impl Iterator<Item = &'a Task>,
        args: &[&str],
        is_right: fn(&Value) -> bool,
    ) -> Result<Outcome> {
        let (mut wrong, mut missing) = (Vec::new(), Vec::new());
        for task in tasks {
            if task.tier == "real"
                && let Err(why) = self.fetch(task)
            {
                missing.push(why);
                continue;
            }
            let summary = match self.summary(task, args) {
                Ok(summary) => summary,
                Err(error) => {
                    wrong.push(format!("{error:#}"));
                    continue;
                }
            };
            let tests = summary["tests"].as_array().map_or(&[][..], Vec::as_slice);
            for test in tests {
                println!("{}: {}", task.name, describe(test));
            }
            if tests.is_empty() || !tests.iter().all(is_right) {
                wrong.push(format!("{}: {}", task.name, summary["tests"]));
            }
        }
        Ok(match (wrong.is_empty(), missing.is_empty()) {
            (false, _) => Outcome::Failed(wrong.join("; ")),
            (true, false) => Outcome::Skipped(missing.join("; ")),
            (true, true) => Outcome::Passed,
        })
    }

    /// Runs the tests that are skipped without ONNX Runtime or without the files of a task.
    fn run_tests(&self, bench: &Bench) -> Outcome {
        let which = ["golden", "official", "real", "recurrent", "speech", "trained"];
        let which = which.map(|name| ["--test", name]);
        let library = Path::new(&self.library);
        let cache = ("DYNO_CACHE", self.cache.as_path());
        let variables = [cache, ("ORT_DYLIB_PATH", library), onnx::required_runtime()];
        cargo_test(bench.root, which.as_flattened(), &variables)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.env("DYNO_CACHE", &self.cache).env("ORT_DYLIB_PATH", &self.library);
        command
    }
}

/// Returns one line about a test.
fn describe(test: &Value) -> String {
    let accuracy = &test["accuracy"];
    let figure = match accuracy["value"].as_f64() {
        Some(value) => format!("{} {value:.4}", accuracy["metric"].as_str().unwrap_or_default()),
        None => format!("{} {}", test["result"]["value"], test["result"]["unit"]),
    };
    let text = |key: &str| test[key].as_str().unwrap_or_default();
    format!("{} {} {figure} {}", text("scenario"), text("mode"), text("verdict"))
}
