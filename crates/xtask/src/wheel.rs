//! The Python wheel: `mlperf_loadgen` as the distribution `dyno-loadgen`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::peers::target_folder;
use crate::peers::venv::Venv;

/// What the wheel is installed as.
pub const PACKAGE: &str = "dyno-loadgen";
/// The builder; `pyproject.toml` names the same one.
const BUILDER: &str = "maturin==1.16.0";
const MANIFEST: &str = "crates/loadgen-py/Cargo.toml";

/// Builds the wheel into `target/wheels`, and says how to install it.
pub fn run(root: &Path) -> Result<ExitCode> {
    match build(root)? {
        Ok(wheels) => {
            println!(
                "install it with: python3 -m pip install --no-index --find-links {} {PACKAGE}",
                wheels.display()
            );
            Ok(ExitCode::SUCCESS)
        }
        Err(missing) => {
            eprintln!(
                "{missing}\nthe wheel is built by {BUILDER}: this needs python3 with its module \
                 venv, and PyPI once"
            );
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Builds the wheel; the folder where it is then. `Err` inside says what this
/// machine lacks.
pub fn build(root: &Path) -> Result<Result<PathBuf, String>> {
    let target = target_folder(root)?;
    let wheels = target.join("wheels");
    let folder = target.join("wheel-builder");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let venv = match Venv::with(&folder, BUILDER) {
        Ok(venv) => venv,
        Err(missing) => return Ok(Err(missing)),
    };
    let status = venv
        .python()
        .args(["-m", "maturin", "build", "--manifest-path", MANIFEST, "--out"])
        .arg(&wheels)
        .current_dir(root)
        .stdout(std::io::stderr())
        .status()
        .context("cannot start maturin")?;
    if !status.success() {
        bail!("maturin: {status}");
    }
    Ok(Ok(wheels))
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
