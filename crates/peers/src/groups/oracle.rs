//! The oracle beside the standard's examples, the standard's evaluator and ONNX Runtime.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{Comparison, Outcome};
use crate::bench::Bench;
use crate::venv::{ONNX_RUNTIME, Venv};
use crate::{cargo, folder, shell};

const EXAMPLES: &str = "the standard's examples of the operators, within 1e-5";

const RANDOM: &str = "random recurrent models, as onnx.reference and ONNX Runtime compute them";

/// Folders that one command evaluates: their names must fit on a command line.
const AT_ONCE: usize = 1000;

pub(super) fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let packages = format!("onnx==1.19.1 numpy==2.4.6 {ONNX_RUNTIME}");
    let venv = match Venv::with_packages(&bench.folder, &packages) {
        Ok(venv) => venv,
        Err(missing) => {
            return Ok([EXAMPLES, RANDOM]
                .map(|name| (name, Outcome::Skipped(missing.clone())))
                .into());
        }
    };
    let programs = Programs::build(bench, venv)?;
    let examples = bench.folder.join("examples");
    folder::recreate(&examples)?;
    shell::run(&mut programs.script("write", &examples))?;
    let examples = programs.compare("examples", &examples)?;
    let random = bench.folder.join("random");
    folder::recreate(&random)?;
    let count = if bench.quick { "1000" } else { "10000" };
    shell::run(Command::new(programs.folder.join("random")).arg(&random).args(["0", count]))?;
    let random = programs.compare("random", &random)?;
    Ok(vec![(EXAMPLES, examples), (RANDOM, random)])
}

/// Examples of the crate, and the script that compares.
struct Programs {
    folder: PathBuf,
    venv: Venv,
    script: PathBuf,
}

impl Programs {
    fn build(bench: &Bench, venv: Venv) -> Result<Programs> {
        let mut build = cargo::command(bench.root);
        shell::run(build.args(["build", "--quiet", "--package", "dyno-oracle", "--examples"]))?;
        let folder = cargo::target_folder(bench.root)?.join("debug/examples");
        let script = bench.root.join("crates/peers/scripts/oracle.py");
        Ok(Programs { folder, venv, script })
    }

    /// Returns the command that writes or compares models of a folder.
    fn script(&self, kind: &str, folder: &Path) -> Command {
        let mut script = self.venv.script(&self.script);
        script.arg(kind).arg(folder);
        script
    }

    /// Evaluates all models of a folder, and compares the outputs.
    fn compare(&self, kind: &str, folder: &Path) -> Result<Outcome> {
        let mut models = Vec::new();
        for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            models.push(entry?.path());
        }
        for models in models.chunks(AT_ONCE) {
            shell::run(Command::new(self.folder.join("evaluate")).args(models))?;
        }
        Ok(match shell::output(&mut self.script(kind, folder)) {
            Ok(counts) => {
                println!("{counts}");
                Outcome::Passed
            }
            Err(error) => Outcome::Failed(format!("{error:#}")),
        })
    }
}
