//! The Python wheels: `mlperf_loadgen` as the distribution `dyno-loadgen`, `dyno_rnn` as `dyno-rnn`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::venv::Venv;
use crate::{cargo, folder};

/// A Python module of ours.
#[derive(Debug)]
pub struct Module {
    /// Name of the distribution.
    pub package: &'static str,
    /// Manifest of its crate, beside `pyproject.toml`; relative to the root.
    manifest: &'static str,
}

/// The load generator.
pub const LOADGEN: Module =
    Module { package: "dyno-loadgen", manifest: "crates/loadgen-py/Cargo.toml" };
/// The engine of recurrent networks.
pub const RNN: Module = Module { package: "dyno-rnn", manifest: "crates/rnn-py/Cargo.toml" };

/// The builder; each `pyproject.toml` names the same version.
const BUILDER: &str = "maturin==1.16.0";

/// Builds all wheels into `target/wheels` and prints how to install them.
///
/// # Errors
/// A wheel does not build.
pub fn run(root: &Path) -> Result<ExitCode> {
    for module in [LOADGEN, RNN] {
        match build(root, &module)? {
            Ok(wheels) => println!(
                "install it with: python3 -m pip install --no-index --find-links {} {}",
                wheels.display(),
                module.package
            ),
            Err(missing) => {
                eprintln!(
                    "{missing}\nwheels are built by {BUILDER}: this needs python3 with its module \
                     venv, and PyPI once"
                );
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds a wheel and returns its folder. The inner error names what this machine lacks.
///
/// # Errors
/// The wheel does not build.
pub fn build(root: &Path, module: &Module) -> Result<Result<PathBuf, String>> {
    let target = cargo::target_folder(root)?;
    let (wheels, builder) = (target.join("wheels"), target.join("wheel-builder"));
    folder::create(&builder)?;
    let venv = match Venv::with_packages(&builder, BUILDER) {
        Ok(venv) => venv,
        Err(missing) => return Ok(Err(missing)),
    };
    let status = venv
        .python()
        .args(["-m", "maturin", "build", "--manifest-path", module.manifest, "--out"])
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
    fn project_files_name_the_builder_and_the_package() {
        for module in [LOADGEN, RNN] {
            let project =
                crate::cargo::root().join(module.manifest).with_file_name("pyproject.toml");
            let project: toml::Table = std::fs::read_to_string(project).unwrap().parse().unwrap();
            let requires = &project["build-system"]["requires"];
            assert_eq!(requires.as_array().unwrap(), &[toml::Value::from(BUILDER)]);
            assert_eq!(project["project"]["name"].as_str(), Some(module.package));
        }
    }
}
