//! Python packages in an environment of our own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A virtual environment that holds pinned packages.
pub struct Venv {
    folder: PathBuf,
}

impl Venv {
    /// Makes the environment, or takes the one of an earlier run. Several packages
    /// have spaces between them.
    ///
    /// # Errors
    /// Says what is missing on this machine: a Python, or the package for it.
    pub fn with(folder: &Path, requirement: &str) -> Result<Venv, String> {
        let venv = Venv { folder: folder.join("venv") };
        let installed = venv.folder.join("installed.txt");
        if fs::read_to_string(&installed).is_ok_and(|text| text == requirement) {
            return Ok(venv);
        }
        eprintln!("installing {requirement} into {}", venv.folder.display());
        if venv.folder.exists() {
            fs::remove_dir_all(&venv.folder).map_err(|error| error.to_string())?;
        }
        let mut make = Command::new("python3");
        output_of(make.args(["-m", "venv"]).arg(&venv.folder))?;
        let mut install = venv.python();
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        output_of(install.args(requirement.split_whitespace()))?;
        fs::write(&installed, requirement).map_err(|error| error.to_string())?;
        Ok(venv)
    }

    /// An environment with the package of ours that lies in `wheels`, as it was
    /// built last.
    ///
    /// # Errors
    /// As [`Venv::with`].
    pub fn with_ours(folder: &Path, wheels: &Path, package: &str) -> Result<Venv, String> {
        let venv = Venv { folder: folder.join("venv-ours") };
        if !venv.folder.exists() {
            output_of(Command::new("python3").args(["-m", "venv"]).arg(&venv.folder))?;
        }
        let mut install = venv.python();
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        install.args(["--no-index", "--force-reinstall", "--find-links"]);
        output_of(install.arg(wheels).arg(package))?;
        Ok(venv)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where its interpreter is.
    pub fn interpreter(&self) -> PathBuf {
        let inside = if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" };
        self.folder.join(inside)
    }

    /// Its interpreter.
    pub fn python(&self) -> Command {
        Command::new(self.interpreter())
    }

    /// What a line of Python prints.
    ///
    /// # Errors
    /// The last line that the interpreter said, such as an import that fails.
    pub fn ask(&self, line: &str) -> Result<String, String> {
        output_of(self.python().args(["-c", line]))
    }
}

/// What a command prints, or the last line of what went wrong.
fn output_of(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot run {name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    // Some programs, such as venv, complain on stdout.
    let said = [output.stderr, output.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
    Err(format!("{name}: {last}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_run_is_an_error_that_names_it() {
        let error = output_of(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(error.starts_with("cannot run no-such-program-here: "), "{error}");
    }
}
