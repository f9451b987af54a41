//! The Python wheel: `mlperf_loadgen` as the distribution `dyno-loadgen`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::peers::target_folder;
use crate::peers::venv::Venv;

/// The builder; `pyproject.toml` names the same one.
const BUILDER: &str = "maturin==1.16.0";
const MANIFEST: &str = "crates/loadgen-py/Cargo.toml";

/// Builds the wheel into `target/wheels`.
pub fn run(root: &Path) -> Result<ExitCode> {
    let target = target_folder(root)?;
    let wheels = target.join("wheels");
    let folder = target.join("wheel-builder");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let venv = match Venv::with(&folder, BUILDER) {
        Ok(venv) => venv,
        Err(missing) => {
            eprintln!(
                "{missing}\nthe wheel is built by {BUILDER}: this needs python3 with its module \
                 venv, and PyPI once"
            );
            return Ok(ExitCode::FAILURE);
        }
    };
    let status = venv
        .python()
        .args(["-m", "maturin", "build", "--manifest-path", MANIFEST, "--out"])
        .arg(&wheels)
        .current_dir(root)
        .status()
        .context("cannot start maturin")?;
    if !status.success() {
        eprintln!("maturin: {status}");
        return Ok(ExitCode::FAILURE);
    }
    println!(
        "install it with: python3 -m pip install --no-index --find-links {} dyno-loadgen",
        wheels.display()
    );
    Ok(ExitCode::SUCCESS)
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
