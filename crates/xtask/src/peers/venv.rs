//! Python packages in an environment of our own.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A virtual environment that holds one pinned package.
pub struct Venv {
    folder: PathBuf,
}

impl Venv {
    /// Makes the environment, or takes the one of an earlier run.
    ///
    /// # Errors
    /// Says what is missing on this machine: a Python, or the package for it.
    pub fn with(folder: &Path, requirement: &str) -> Result<Venv, String> {
        let venv = Venv { folder: folder.join("venv") };
        let installed = venv.folder.join("installed.txt");
        if fs::read_to_string(&installed).is_ok_and(|text| text == requirement) {
            return Ok(venv);
        }
        venv.renew(requirement, &[])?;
        fs::write(&installed, requirement).map_err(|error| error.to_string())?;
        Ok(venv)
    }

    /// Makes the environment anew with a package out of a folder of wheels,
    /// which may have changed since an earlier run.
    ///
    /// # Errors
    /// As [`Venv::with`].
    pub fn with_wheel(folder: &Path, wheels: &Path, package: &str) -> Result<Venv, String> {
        let venv = Venv { folder: folder.join("venv") };
        let from = ["--no-index".as_ref(), "--find-links".as_ref(), wheels.as_os_str()];
        venv.renew(package, &from)?;
        Ok(venv)
    }

    fn renew(&self, requirement: &str, options: &[&OsStr]) -> Result<(), String> {
        println!("installing {requirement} into {}", self.folder.display());
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).map_err(|error| error.to_string())?;
        }
        let mut make = Command::new("python3");
        output_of(make.args(["-m", "venv"]).arg(&self.folder))?;
        let mut install = self.python();
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        output_of(install.args(options).arg(requirement))?;
        Ok(())
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
