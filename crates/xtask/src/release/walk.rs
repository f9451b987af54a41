//! The way of a new user: from a wheel to reports, in an environment that has
//! nothing of ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::shell;
use crate::peers::venv::{ONNX_RUNTIME, Venv};

/// What the wheel is installed as.
pub const PACKAGE: &str = "dyno-bench";

/// Goals of the two ways; a busy machine misses them, so that they are only told.
const WHEEL_GOAL: Duration = Duration::from_secs(300);
const CLONE_GOAL: Duration = Duration::from_secs(180);

/// An environment with the program, installed from a wheel.
pub struct Walk {
    began: Instant,
    folder: PathBuf,
    /// Of the user.
    model: PathBuf,
    venv: Venv,
}

impl Walk {
    /// Installs the wheel that lies in `wheels` below `folder`; `Err` inside says
    /// what is missing.
    pub fn start(root: &Path, folder: &Path, wheels: &Path) -> Result<Result<Self, String>> {
        if folder.exists() {
            fs::remove_dir_all(folder).context("cannot remove the walk of before")?;
        }
        fs::create_dir_all(folder).with_context(|| format!("no {}", folder.display()))?;
        let model = folder.join("model.onnx");
        let mut cargo = shell::tool("CARGO", "cargo", root);
        cargo.args(["run", "--quiet", "--package", "dyno-sut", "--example"]);
        shell::run(cargo.args(["export_digits_onnx", "--"]).arg(&model))?;
        let (folder, began) = (folder.to_path_buf(), now());
        let venv = Venv::with_ours(&folder, wheels, PACKAGE);
        Ok(venv.map(|venv| Self { began, folder, model, venv }))
    }

    fn dyno(&self) -> Command {
        let mut command = Command::new(self.venv.interpreter().with_file_name("dyno"));
        // As a user who activated nothing.
        command.env_remove("ORT_DYLIB_PATH").env_remove("VIRTUAL_ENV").current_dir(&self.folder);
        command
    }

    /// The built-in system, from nothing to a report.
    pub fn built_in(&self) -> Result<()> {
        let version = shell::said(self.dyno().arg("--version"))?;
        ensure!(version.starts_with("dyno "), "it calls itself {version}");
        self.report("built-in", &[])
    }

    /// A model of the user's in ONNX Runtime; `Err` inside says what is missing.
    pub fn own_model(&self) -> Result<Result<(), String>> {
        if let Err(missing) = self.venv.install(ONNX_RUNTIME) {
            return Ok(Err(missing));
        }
        self.report("own-model", &["--system", &self.system("onnx")])?;
        eprintln!("from the wheel to a report on an ONNX file: {}", told(self.began, WHEEL_GOAL));
        Ok(Ok(()))
    }

    /// The same in the engine that is built in.
    pub fn built_in_engine(&self) -> Result<()> {
        self.report("built-in-engine", &["--system", &self.system("tract")])
    }

    fn system(&self, engine: &str) -> String {
        format!("{engine}:{}", self.model.display())
    }

    /// Runs, and looks for the report. On a busy machine the verdict may be either.
    fn report(&self, out: &str, arguments: &[&str]) -> Result<()> {
        let mut run = self.dyno();
        run.args(["run", "--duration", "200ms", "--out", out]).args(arguments);
        let output = run.output().context("cannot run dyno")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(matches!(output.status.code(), Some(0 | 1)), "{}: {}", output.status, said.trim());
        for name in ["report.html", "summary.json"] {
            let file = self.folder.join(out).join(name);
            ensure!(file.is_file(), "dyno run {} left no {name}", arguments.join(" "));
        }
        Ok(())
    }
}

/// The README's first command in a clone that has built nothing. Packages that
/// cargo has already are not loaded again.
pub fn from_clone(root: &Path, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).context("cannot remove the clone of before")?;
    }
    let began = now();
    shell::run(Command::new("git").args(["clone", "--quiet"]).arg(root).arg(folder))?;
    let mut run = shell::tool("CARGO", "cargo", folder);
    // As from a shell, not from within a build.
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_cargo(&name.to_string_lossy())) {
        run.env_remove(name);
    }
    let output = run.args(["run", "--quiet", "--release", "--", "run"]).output();
    let output = output.context("cannot run cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(matches!(output.status.code(), Some(0 | 1)), "{}: {}", output.status, said.trim());
    let mut runs = fs::read_dir(folder.join("runs")).context("it left no folder runs")?.flatten();
    let has_report = runs.any(|run| run.path().join("report.html").is_file());
    ensure!(has_report, "it left no report.html");
    eprintln!("from a clone to a first report: {}", told(began, CLONE_GOAL));
    fs::remove_dir_all(folder).context("cannot remove the clone")
}

fn is_of_cargo(variable: &str) -> bool {
    let of_user = ["CARGO", "CARGO_HOME"].contains(&variable);
    variable == "RUSTFLAGS" || variable.starts_with("CARGO") && !of_user
}

#[expect(clippy::disallowed_methods, reason = "nothing of ours runs in this process")]
fn now() -> Instant {
    Instant::now()
}

fn told(since: Instant, goal: Duration) -> String {
    format!("{:.0} s; the goal is {} s", since.elapsed().as_secs_f64(), goal.as_secs())
}
