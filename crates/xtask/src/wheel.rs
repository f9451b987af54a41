//! The Python wheel: `mlperf_loadgen` as the distribution `dyno-loadgen`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::peers::target_folder;
use crate::peers::venv::Venv;

/// The builder; `pyproject.toml` names the same one.
const BUILDER: &str = "maturin==1.16.0";
/// What the wheel is called.
pub const DISTRIBUTION: &str = "dyno-loadgen";
const MANIFEST: &str = "crates/loadgen-py/Cargo.toml";

/// Builds the wheel into `target/wheels`.
pub fn run(root: &Path) -> Result<ExitCode> {
    let wheels = target_folder(root)?.join("wheels");
    if let Err(missing) = build(root, &wheels)? {
        eprintln!(
            "{missing}\nthe wheel is built by {BUILDER}: this needs python3 with its module venv, \
             and PyPI once"
        );
        return Ok(ExitCode::FAILURE);
    }
    println!(
        "install it with: python3 -m pip install --no-index --find-links {} {DISTRIBUTION}",
        wheels.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Builds the wheel into a folder, or says what is missing on this machine.
///
/// # Errors
/// The builder is there, and fails.
pub fn build(root: &Path, wheels: &Path) -> Result<Result<(), String>> {
    let folder = target_folder(root)?.join("wheel-builder");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let venv = match Venv::with(&folder, BUILDER) {
        Ok(venv) => venv,
        Err(missing) => return Ok(Err(missing)),
    };
    let status = venv
        .python()
        .args(["-m", "maturin", "build", "--manifest-path", MANIFEST, "--out"])
        .arg(wheels)
        .current_dir(root)
        .status()
        .context("cannot start maturin")?;
    anyhow::ensure!(status.success(), "maturin: {status}");
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builder_is_that_of_the_project_file() {
        let project = crate::root().join(MANIFEST).with_file_name("pyproject.toml");
        let project: toml::Table = std::fs::read_to_string(project).unwrap().parse().unwrap();
        let requires = &project["build-system"]["requires"];
        assert_eq!(requires.as_array().unwrap(), &[toml::Value::from(BUILDER)]);
    }
}
