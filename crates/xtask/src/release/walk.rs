//! The way of a new user: from a wheel to reports, in an environment that has
//! nothing of ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::shell;
use crate::peers::venv::Venv;

/// What the wheel is installed as.
pub const PACKAGE: &str = "dyno-bench";

/// An engine for models, as users install it.
const ONNX_RUNTIME: &str = "onnxruntime==1.23.2";

/// An environment with the program, installed from a wheel.
pub struct Walk<'a> {
    root: &'a Path,
    folder: PathBuf,
    venv: Venv,
}

impl<'a> Walk<'a> {
    /// Installs the wheel that lies in `wheels` below `folder`; `Err` inside says
    /// what is missing.
    pub fn start(root: &'a Path, folder: &Path, wheels: &Path) -> Result<Result<Self, String>> {
        if folder.exists() {
            fs::remove_dir_all(folder).context("cannot remove the walk of before")?;
        }
        fs::create_dir_all(folder).with_context(|| format!("no {}", folder.display()))?;
        let venv = Venv::with_ours(folder, wheels, PACKAGE);
        Ok(venv.map(|venv| Self { root, folder: folder.to_path_buf(), venv }))
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
        let mut pip = self.venv.python();
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ONNX_RUNTIME]);
        if let Err(missing) = shell::said(&mut pip) {
            return Ok(Err(format!("{missing:#}")));
        }
        let model = self.model()?;
        self.report("own-model", &["--system", &format!("onnx:{model}")]).map(Ok)
    }

    /// The same in the engine that is built in.
    pub fn built_in_engine(&self) -> Result<()> {
        let model = self.model()?;
        self.report("built-in-engine", &["--system", &format!("tract:{model}")])
    }

    /// Writes a model as others would have one.
    fn model(&self) -> Result<String> {
        let file = self.folder.join("model.onnx");
        if !file.is_file() {
            let mut cargo = shell::tool("CARGO", "cargo", self.root);
            cargo.args(["run", "--quiet", "--package", "dyno-sut", "--example"]);
            shell::run(cargo.args(["export_digits_onnx", "--"]).arg(&file))?;
        }
        Ok(file.display().to_string())
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
