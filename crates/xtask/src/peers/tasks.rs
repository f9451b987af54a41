//! Tasks as a new user has them: from a clean cache, with packages from the registry,
//! until the verdict.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Bench, Named, Outcome, built_dyno, cargo_test, onnx, released_dyno};
use crate::release::shell;

const REAL: &str = "real tasks reach their targets from a clean cache";
const TESTS: &str = "tests of tasks with ONNX Runtime and what was fetched";
const SHAPE: &str = "shape tasks answer from a clean cache";

/// Shape tasks that take less than seconds.
const QUICK: &[&str] = &["mobilenet-v1-shape", "dlrm-shape"];

/// More of parameters, in bytes of 32-bit floats, is not tried: engines hold them twice, as the file
/// has them and as they multiply by them.
const LARGEST: u64 = 8 << 30;

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    let cache = bench.folder.join("cache");
    if cache.exists() {
        fs::remove_dir_all(&cache).with_context(|| format!("cannot remove {}", cache.display()))?;
    }
    let program = match Program::build(bench, Profile::Debug, cache) {
        Ok(program) => program,
        Err(missing) => return Ok(vec![(REAL, Outcome::Skipped(missing))]),
    };
    let tasks = program.tasks()?;
    let real = tasks.iter().filter(|task| task.tier == "real");
    let is_asked = |task: &&Task| match bench.quick {
        true => QUICK.contains(&task.name.as_str()),
        false => task.fits(),
    };
    let shape = tasks.iter().filter(|task| task.tier == "shape").filter(is_asked);
    let accuracy = ["--mode", "accuracy", "--scenario", "Offline"];
    let speed = ["--mode", "performance", "--scenario", "SingleStream", "--duration", "100ms"];
    Ok(vec![
        (REAL, program.all(real, &accuracy, |test| test["verdict"] == "VALID")?),
        (SHAPE, program.all(shape, &speed, |test| test["result"]["value"].is_number())?),
        (TESTS, program.tests(bench)?),
    ])
}

/// How `dyno` is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// As tests have built it.
    Debug,
    /// For figures.
    Release,
}

/// `dyno` with an ONNX Runtime and a cache of its own.
pub struct Program {
    path: PathBuf,
    /// Its pip fetches.
    python: PathBuf,
    /// ONNX Runtime.
    library: String,
    cache: PathBuf,
    /// Runs lie here.
    out: PathBuf,
}

/// A task of `dyno task list`.
#[derive(Debug)]
pub struct Task {
    pub name: String,
    pub tier: String,
    /// Of its graph, where it is ours.
    pub parameters: Option<u64>,
    /// Of a sample.
    pub operations: Option<u64>,
}

impl Task {
    /// Whether its weights fit in memory here.
    pub fn fits(&self) -> bool {
        self.parameters.is_none_or(|parameters| parameters * 4 < LARGEST)
    }
}

impl Program {
    /// Builds it.
    ///
    /// # Errors
    /// Says what cannot be had on this machine.
    pub fn build(bench: &Bench, profile: Profile, cache: PathBuf) -> Result<Self, String> {
        let (venv, library) = onnx::library(bench)?;
        let path = match profile {
            Profile::Debug => built_dyno(bench.root),
            Profile::Release => released_dyno(bench.root),
        };
        Ok(Self {
            path: path.map_err(|error| format!("{error:#}"))?,
            python: venv.interpreter(),
            library,
            cache,
            out: bench.folder.join("out"),
        })
    }

    /// The tasks, in the order of the list.
    pub fn tasks(&self) -> Result<Vec<Task>> {
        let listed = shell::said(self.command().args(["task", "list", "--json"]))?;
        let listed: Vec<Value> = serde_json::from_str(&listed).context("dyno task list --json")?;
        let task = |of: &Value| {
            Some(Task {
                name: of["name"].as_str()?.to_owned(),
                tier: of["tier"].as_str()?.to_owned(),
                parameters: of["parameters"].as_u64(),
                operations: of["operations"].as_u64(),
            })
        };
        Ok(listed.iter().filter_map(task).collect())
    }

    /// Gets what a task needs from the registry.
    ///
    /// # Errors
    /// What cannot be had.
    pub fn fetch(&self, task: &Task) -> Result<(), String> {
        let mut fetch = self.command();
        // `python3 -m pip` is that of the environment.
        let folder = self.python.parent().unwrap_or(Path::new("."));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = [folder.to_owned()].into_iter().chain(std::env::split_paths(&path));
        let path = std::env::join_paths(folders).map_err(|error| error.to_string())?;
        fetch.args(["fetch", &task.name]).env("PATH", path);
        shell::said(&mut fetch).map(drop).map_err(|error| format!("{error:#}"))
    }

    /// The summary of a run of a task.
    pub fn summary(&self, task: &Task, args: &[&str]) -> Result<Value> {
        let out = self.out.join(&task.name);
        let mut run = self.command();
        run.args(["task", "run", &task.name, "--no-progress", "--json"]).args(args);
        let ran = run.arg("--out").arg(&out).output().context("cannot start dyno")?;
        let _ = fs::remove_dir_all(&out);
        if ran.status.code().is_none() {
            // Nobody but the system kills it, and for nothing but memory.
            bail!("ended by the system ({}), most likely for want of memory", ran.status);
        }
        // 1 says that a test is INVALID, which the summary tells.
        if !matches!(ran.status.code(), Some(0 | 1)) {
            bail!("{}: {}", task.name, String::from_utf8_lossy(&ran.stderr).trim());
        }
        serde_json::from_slice(&ran.stdout).with_context(|| format!("summary of {}", task.name))
    }

    fn all<'a>(
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
                println!("{}: {}", task.name, told(test));
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

    /// Tests that skip where there is no ONNX Runtime, or a task was not fetched.
    fn tests(&self, bench: &Bench) -> Result<Outcome> {
        let which = ["golden", "official", "real", "recurrent", "speech", "trained"];
        let which = which.map(|name| ["--test", name]);
        let library = Path::new(&self.library);
        let cache = ("DYNO_CACHE", self.cache.as_path());
        let variables = [cache, ("ORT_DYLIB_PATH", library), onnx::demanded()];
        cargo_test(bench.root, which.as_flattened(), &variables)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.env("DYNO_CACHE", &self.cache).env("ORT_DYLIB_PATH", &self.library);
        command
    }
}

/// A test in a line.
fn told(test: &Value) -> String {
    let accuracy = &test["accuracy"];
    let figure = match accuracy["value"].as_f64() {
        Some(value) => format!("{} {value:.4}", accuracy["metric"].as_str().unwrap_or_default()),
        None => format!("{} {}", test["result"]["value"], test["result"]["unit"]),
    };
    let of = |key: &str| test[key].as_str().unwrap_or_default().to_owned();
    format!("{} {} {figure} {}", of("scenario"), of("mode"), of("verdict"))
}
