//! Failures of experiments.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::Path;

use dyno_net::trouble::Kind;
use dyno_report::WriteError;
use dyno_results::export::ExportError;
use dyno_results::run_directory::DirectoryError;
use dyno_results::{search, sweep};
use dyno_tensors::files;

/// Kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The arguments or a configuration file are wrong.
    Usage,
    /// A prerequisite of the experiment is missing.
    SetUp,
    /// A server is not ready, and may become so.
    NotReady,
    /// The experiment was aborted while it ran.
    Aborted,
    /// The user interrupted the experiment.
    Interrupted,
}

/// Why an experiment cannot run, or ended without a result.
#[derive(Debug, thiserror::Error)]
#[error("{}", .problems.join("; "))]
pub struct Failure {
    kind: FailureKind,
    problems: Vec<String>,
    hints: Vec<String>,
}

impl Failure {
    /// The arguments or a configuration file are wrong.
    pub fn usage(problem: impl Display) -> Self {
        Self::new(FailureKind::Usage, vec![problem.to_string()])
    }

    /// Several things in the arguments or in configuration files are wrong.
    pub fn usages(problems: Vec<String>) -> Self {
        Self::new(FailureKind::Usage, problems)
    }

    /// A prerequisite is missing.
    pub fn set_up(problem: impl Display) -> Self {
        Self::new(FailureKind::SetUp, vec![problem.to_string()])
    }

    /// A file cannot be read: it is missing, which is a missing prerequisite, or it is not a text or
    /// not a file at all, which is a wrong argument.
    pub fn unreadable(path: &Path, error: &io::Error) -> Self {
        let problem = format!("cannot read {}: {error}", path.display());
        match error.kind() {
            ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::IsADirectory => {
                Self::usage(problem)
            }
            _ => Self::set_up(problem),
        }
    }

    /// A file or folder cannot be written, which is a missing prerequisite. The hint names a missing folder.
    pub fn unwritable(path: &Path, error: &io::Error) -> Self {
        let failure = Self::set_up(format!("cannot write {}: {error}", path.display()));
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        match (error.kind(), folder) {
            (ErrorKind::NotFound, Some(folder)) if !folder.exists() => {
                failure.hint(format!("create the folder {}", folder.display()))
            }
            (ErrorKind::StorageFull, _) => failure.hint("free some space"),
            _ => failure,
        }
    }

    /// The folder of a job cannot be written. `next` is what to do after the cause is removed.
    pub fn unwritable_folder(folder: &Path, error: &io::Error, next: &str) -> Self {
        let folder = folder.display();
        let remedy = match error.kind() {
            ErrorKind::NotFound => format!("move the folder back to {folder}"),
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                "make the folder writable".to_owned()
            }
            _ => "free some space".to_owned(),
        };
        let problem = format!("cannot write to {folder}: {error}");
        Self::set_up(problem).hint(format!("{remedy}, then {next}"))
    }

    /// Checks that files exist.
    ///
    /// # Errors
    /// The first one that does not.
    pub fn check_files<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> Result<(), Self> {
        files.into_iter().try_for_each(|path| {
            let path = path.as_ref();
            std::fs::metadata(path).map(drop).map_err(|error| Self::unreadable(path, &error))
        })
    }

    /// A server cannot be used: not yet if the trouble is one of its start-up, or else a prerequisite
    /// is missing.
    pub fn server(kind: Kind, problem: impl Display) -> Self {
        let kind = if kind.is_of_start_up() { FailureKind::NotReady } else { FailureKind::SetUp };
        Self::new(kind, vec![problem.to_string()])
    }

    /// The system stopped answering while it was measured, or failed most answers.
    pub fn aborted(problem: impl Display) -> Self {
        Self::new(FailureKind::Aborted, vec![problem.to_string()])
    }

    /// The user interrupted the experiment before anything was measured.
    pub fn interrupted(problem: impl Display) -> Self {
        Self::new(FailureKind::Interrupted, vec![problem.to_string()])
    }

    pub(crate) fn new(kind: FailureKind, problems: Vec<String>) -> Self {
        Self { kind, problems, hints: Vec::new() }
    }

    /// Adds a hint: what to do about the failure.
    #[must_use]
    pub fn hint(mut self, hint: impl Display) -> Self {
        self.hints.push(hint.to_string());
        self
    }

    /// Adds the hint to use a similar name, if there is one, and `list`, which states where all names are.
    #[must_use]
    pub fn hint_name(self, similar: Option<&str>, list: &str) -> Self {
        match similar {
            Some(name) => self.hint(format!("did you mean {name}? {list}")),
            None => self.hint(list),
        }
    }

    /// Adds the hint to pass one run, if a path is a search or a sweep, or a file of one.
    #[must_use]
    pub fn hint_one_run(self, path: &Path) -> Self {
        let is_of_several = |name: &&str| path.ends_with(name) || path.join(name).is_file();
        if [sweep::FILE, search::FILE].iter().any(is_of_several) {
            return self.hint("it holds several runs: pass the folder of one, with a summary.json");
        }
        self
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// Returns the problems.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns the failure of a path at which there is no regular file. `what` names its use.
    pub(crate) fn no_file(what: &str, path: &Path) -> Self {
        let why = if path.exists() { "is not a regular file" } else { "does not exist" };
        Self::set_up(format!("{what} {} {why}", path.display()))
    }

    /// Returns the hints.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }
}

impl From<DirectoryError> for Failure {
    fn from(error: DirectoryError) -> Self {
        let advice = error.advice();
        advice.into_iter().fold(Self::set_up(error), Self::hint)
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let advice = error.advice();
        let failure = if error.is_usage() { Self::usage(error) } else { Self::set_up(error) };
        advice.into_iter().fold(failure, Self::hint)
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        Self::set_up(error)
    }
}

/// Rejects a device, a socket or a pipe in place of a file: reading most devices never ends, opening a named
/// pipe waits for a writer, and files of options, models and samples are read several times.
pub(crate) fn reject_special(path: &Path) -> Result<(), Failure> {
    let kind = files::special_kind(path).or(files::is_open_pipe(path).then_some("pipe"));
    match kind {
        Some(kind) => {
            let problem = format!("`{}` is a {kind}; expected a file", path.display());
            Err(Failure::usage(problem).hint("save the content as a file"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_written_has_the_advice_for_its_cause() {
        let hints = |kind: ErrorKind| {
            Failure::unwritable_folder(Path::new("a/b"), &kind.into(), "go on").hints().join("; ")
        };
        assert_eq!(hints(ErrorKind::NotFound), "move the folder back to a/b, then go on");
        assert_eq!(hints(ErrorKind::ReadOnlyFilesystem), "make the folder writable, then go on");
        assert_eq!(hints(ErrorKind::StorageFull), "free some space, then go on");
    }
}
