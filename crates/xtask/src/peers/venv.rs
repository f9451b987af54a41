//! Python packages in an environment of our own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// ONNX Runtime, as its registry has it for each Python: none has wheels for all.
pub const ONNX_RUNTIME: &str =
    "onnxruntime==1.23.2;python_version<'3.14' onnxruntime==1.24.4;python_version>='3.14'";

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
        venv.make()?;
        venv.install(requirement)?;
        fs::write(&installed, requirement).map_err(|error| error.to_string())?;
        Ok(venv)
    }

    /// An environment that holds nothing.
    ///
    /// # Errors
    /// As [`Venv::with`].
    pub fn empty(folder: &Path) -> Result<Venv, String> {
        let venv = Venv { folder: folder.join("venv-empty") };
        if !venv.is_whole() {
            venv.make()?;
        }
        Ok(venv)
    }

    /// Makes the environment anew; leaves nothing of one that cannot be made.
    fn make(&self) -> Result<(), String> {
        let remove = || match fs::remove_dir_all(&self.folder) {
            Err(error) if self.folder.exists() => {
                Err(format!("cannot remove {}: {error}", self.folder.display()))
            }
            _ => Ok(()),
        };
        remove()?;
        let made = output_of(Command::new("python3").args(["-m", "venv"]).arg(&self.folder));
        made.map(drop).inspect_err(|_| drop(remove()))
    }

    /// Whether it was not left half made: pip comes last.
    fn is_whole(&self) -> bool {
        self.interpreter().is_file() && self.interpreter().with_file_name("pip").is_file()
    }

    /// Installs packages with spaces between them.
    ///
    /// # Errors
    /// As [`Venv::with`].
    pub fn install(&self, requirement: &str) -> Result<(), String> {
        let mut install = self.python();
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        output_of(install.args(requirement.split_whitespace())).map(drop)
    }

    /// An environment with the package of ours that lies in `wheels`, as it was
    /// built last.
    ///
    /// # Errors
    /// As [`Venv::with`].
    pub fn with_ours(folder: &Path, wheels: &Path, package: &str) -> Result<Venv, String> {
        let venv = Venv { folder: folder.join("venv-ours") };
        if !venv.is_whole() {
            venv.make()?;
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
    fn half_an_environment_is_not_whole() {
        let venv =
            Venv { folder: std::env::temp_dir().join(format!("dyno-{}", std::process::id())) };
        for (file, is_whole) in [("bin/python", false), ("bin/pip", true)] {
            fs::create_dir_all(venv.folder.join("bin")).unwrap();
            fs::write(venv.folder.join(file), "").unwrap();
            assert_eq!(venv.is_whole(), is_whole, "after {file}");
        }
        fs::remove_dir_all(&venv.folder).unwrap();
    }

    #[test]
    fn what_cannot_be_run_is_an_error_that_names_it() {
        let error = output_of(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(error.starts_with("cannot run no-such-program-here: "), "{error}");
    }
}
