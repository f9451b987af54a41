//! What keeps an experiment from being made.

use std::fmt::{self, Display};

use dyno_report::WriteError;
use dyno_results::export::ExportError;
use dyno_results::run_directory::DirectoryError;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The arguments or a configuration file are wrong.
    Usage,
    /// Something that the experiment needs is missing.
    SetUp,
    /// The experiment was ended while it was on.
    Aborted,
    /// The user ended it.
    Interrupted,
}

/// An experiment that cannot be made, or that was ended without a result.
#[derive(Debug)]
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

    /// Something is missing.
    pub fn set_up(problem: impl Display) -> Self {
        Self::new(FailureKind::SetUp, vec![problem.to_string()])
    }

    /// The system stopped answering while it was measured, or failed most answers.
    pub fn aborted(problem: impl Display) -> Self {
        Self::new(FailureKind::Aborted, vec![problem.to_string()])
    }

    /// The user ended it before anything was measured.
    pub fn interrupted(problem: impl Display) -> Self {
        Self::new(FailureKind::Interrupted, vec![problem.to_string()])
    }

    fn new(kind: FailureKind, problems: Vec<String>) -> Self {
        Self { kind, problems, hints: Vec::new() }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Display) -> Self {
        self.hints.push(hint.to_string());
        self
    }

    /// Returns what went wrong.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// Returns what is wrong, one entry a problem.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns what to do about it, one entry a hint.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("; "))
    }
}

impl std::error::Error for Failure {}

impl From<DirectoryError> for Failure {
    fn from(error: DirectoryError) -> Self {
        let advice = error.advice();
        advice.into_iter().fold(Self::set_up(error), Self::hint)
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let advice = error.advice();
        let failure = match error.is_usage() {
            true => Self::usage(error),
            false => Self::set_up(error),
        };
        advice.into_iter().fold(failure, Self::hint)
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        Self::set_up(error)
    }
}
