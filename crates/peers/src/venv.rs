//! Python packages in virtual environments below the target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// ONNX Runtime for every Python version: none of its releases has wheels for all.
pub const ONNX_RUNTIME: &str =
    "onnxruntime==1.23.2;python_version<'3.14' onnxruntime==1.24.4;python_version>='3.14'";

/// A virtual environment with pinned packages.
///
/// ```no_run
/// use dyno_peers::venv::Venv;
///
/// let venv = Venv::with_packages("target/example".as_ref(), "numpy==2.4.6")?;
/// assert_eq!(venv.eval("import numpy; print(numpy.__version__)")?, "2.4.6");
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct Venv {
    folder: PathBuf,
}

impl Venv {
    /// Creates `folder/venv` with packages, or takes the one of an earlier run. `packages` are
    /// separated by spaces.
    ///
    /// # Errors
    /// The message names what this machine lacks: Python, or a package for it.
    pub fn with_packages(folder: &Path, packages: &str) -> Result<Venv, String> {
        let venv = Venv { folder: folder.join("venv") };
        let installed = venv.folder.join("installed.txt");
        if fs::read_to_string(&installed).is_ok_and(|text| text == packages) {
            return Ok(venv);
        }
        eprintln!("installing {packages} into {}", venv.folder.display());
        venv.create()?;
        venv.install(packages)?;
        fs::write(&installed, packages).map_err(|error| error.to_string())?;
        Ok(venv)
    }

    /// As [`Venv::with_packages`], and checks that the named modules can be imported.
    ///
    /// # Errors
    /// As [`Venv::with_packages`], or a module cannot be imported.
    pub fn with_modules(folder: &Path, packages: &str, modules: &str) -> Result<Venv, String> {
        let venv = Self::with_packages(folder, packages)?;
        venv.eval(&format!("import {modules}"))?;
        Ok(venv)
    }

    /// Creates an environment without packages.
    ///
    /// # Errors
    /// As [`Venv::with_packages`].
    pub fn empty(folder: &Path) -> Result<Venv, String> {
        let venv = Venv { folder: folder.join("venv-empty") };
        venv.create_unless_complete()?;
        Ok(venv)
    }

    /// Creates an environment with the newest build of a package whose wheel lies in `wheels`.
    ///
    /// # Errors
    /// As [`Venv::with_packages`].
    pub fn with_wheel(folder: &Path, wheels: &Path, package: &str) -> Result<Venv, String> {
        let venv = Venv { folder: folder.join("venv-ours") };
        venv.create_unless_complete()?;
        venv.install_wheel(wheels, package)?;
        Ok(venv)
    }

    /// Installs the newest build of a package whose wheel lies in `wheels`, without what it depends
    /// on.
    ///
    /// # Errors
    /// As [`Venv::with_packages`].
    pub fn install_wheel(&self, wheels: &Path, package: &str) -> Result<(), String> {
        let mut install = self.pip_install();
        install.args(["--no-index", "--no-deps", "--force-reinstall", "--find-links"]);
        output_of(install.arg(wheels).arg(package)).map(drop)
    }

    /// Replaces the environment by an empty one; removes an incomplete one after a failure.
    fn create(&self) -> Result<(), String> {
        let remove = || match fs::remove_dir_all(&self.folder) {
            Err(error) if self.folder.exists() => {
                Err(format!("cannot remove {}: {error}", self.folder.display()))
            }
            _ => Ok(()),
        };
        remove()?;
        let created = output_of(Command::new("python3").args(["-m", "venv"]).arg(&self.folder));
        created.map(drop).inspect_err(|_| drop(remove()))
    }

    fn create_unless_complete(&self) -> Result<(), String> {
        if self.is_complete() { Ok(()) } else { self.create() }
    }

    /// Returns whether creating the environment was finished: pip is its last program.
    fn is_complete(&self) -> bool {
        self.interpreter().is_file() && self.interpreter().with_file_name("pip").is_file()
    }

    fn pip_install(&self) -> Command {
        let mut install = self.python();
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        install
    }

    /// Installs more packages, separated by spaces.
    ///
    /// # Errors
    /// As [`Venv::with_packages`].
    pub fn install(&self, packages: &str) -> Result<(), String> {
        output_of(self.pip_install().args(packages.split_whitespace())).map(drop)
    }

    /// Adds packages without what they depend on, for the files in them.
    ///
    /// # Errors
    /// As [`Venv::with_packages`].
    pub fn with_bare(&self, packages: &str) -> Result<(), String> {
        let installed = self.folder.join("installed-bare.txt");
        if fs::read_to_string(&installed).is_ok_and(|text| text == packages) {
            return Ok(());
        }
        output_of(self.pip_install().arg("--no-deps").args(packages.split_whitespace()))?;
        fs::write(&installed, packages).map_err(|error| error.to_string())
    }

    /// Returns the folder of the environment.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of the interpreter.
    pub fn interpreter(&self) -> PathBuf {
        let inside = if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" };
        self.folder.join(inside)
    }

    /// Returns a command of the interpreter.
    pub fn python(&self) -> Command {
        Command::new(self.interpreter())
    }

    /// Returns a command that runs a script without writing bytecode beside it.
    pub fn script(&self, path: &Path) -> Command {
        let mut python = self.python();
        python.arg("-B").arg(path);
        python
    }

    /// Runs one line of Python and returns its output.
    ///
    /// # Errors
    /// The last line that the interpreter printed, such as that of a failed import.
    pub fn eval(&self, line: &str) -> Result<String, String> {
        output_of(self.python().args(["-c", line]))
    }
}

/// Returns the stdout of a command, or the last line that it printed before it failed.
fn output_of(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot run {name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    // Some modules, such as venv, print errors on stdout.
    let text = [output.stderr, output.stdout].concat();
    let text = String::from_utf8_lossy(&text);
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
    Err(format!("{name}: {last}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_without_pip_is_incomplete() {
        let venv =
            Venv { folder: std::env::temp_dir().join(format!("dyno-{}", std::process::id())) };
        for (file, is_complete) in [("bin/python", false), ("bin/pip", true)] {
            fs::create_dir_all(venv.folder.join("bin")).unwrap();
            fs::write(venv.folder.join(file), "").unwrap();
            assert_eq!(venv.is_complete(), is_complete, "after {file}");
        }
        fs::remove_dir_all(&venv.folder).unwrap();
    }

    #[test]
    fn the_error_of_a_missing_program_names_it() {
        let error = output_of(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(error.starts_with("cannot run no-such-program-here: "), "{error}");
    }
}
