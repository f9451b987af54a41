//! How a command ends: the exit codes, and what is said when it fails.

use std::fmt::Display;
use std::process::ExitCode;

use dyno_report::WriteError;
use dyno_results::export::ExportError;
use dyno_results::run_directory::DirectoryError;

use crate::output;

/// The exit codes, as scripts see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All that was asked for was done, and every result is valid.
    Valid,
    /// A result is INVALID or UNDECIDED, or a target was missed.
    Invalid,
    /// The command line or a configuration file makes no sense.
    Usage,
    /// Something that the run needs is not there.
    SetUp,
    /// The run was given up while it was on.
    Aborted,
    /// Ctrl-C.
    Interrupted,
}

impl Exit {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Valid, Self::Invalid, Self::Usage, Self::SetUp, Self::Aborted, Self::Interrupted];

    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Valid => 0,
            Self::Invalid => 1,
            Self::Usage => 2,
            Self::SetUp => 3,
            Self::Aborted => 4,
            // 128 + SIGINT, as shells report it.
            Self::Interrupted => 130,
        }
    }

    /// What it means.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Valid => "done; every result is VALID and every target met",
            Self::Invalid => {
                "done, but a result is INVALID or UNDECIDED, an accuracy below its target, a requirement missed or undecided, a candidate worse than its baseline (with --strict also an inconclusive comparison), or a search found or confirmed nothing"
            }
            Self::Usage => {
                "the command line or a configuration file makes no sense, or results cannot be compared"
            }
            Self::SetUp => {
                "something is missing (a file, a library, disk space), or the system failed a first probe"
            }
            Self::Aborted => {
                "given up while running: the system stopped answering, or failed most answers"
            }
            Self::Interrupted => "interrupted by Ctrl-C; what was measured is written",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

/// A command that cannot do what it was asked to.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    /// What is wrong, one entry a problem.
    problems: Vec<String>,
    hints: Vec<String>,
}

impl Failure {
    /// The command line or a configuration file is wrong.
    pub fn usage(problem: impl Display) -> Self {
        Self::of(Exit::Usage, vec![problem.to_string()])
    }

    /// Several things of the command line or of configuration files are wrong.
    pub fn usages(problems: Vec<String>) -> Self {
        Self::of(Exit::Usage, problems)
    }

    /// Something is missing.
    pub fn set_up(problem: impl Display) -> Self {
        Self::of(Exit::SetUp, vec![problem.to_string()])
    }

    /// The system stopped answering while it was measured, or failed most answers.
    pub fn aborted(problem: impl Display) -> Self {
        Self::of(Exit::Aborted, vec![problem.to_string()])
    }

    /// Ctrl-C before anything was measured.
    pub fn interrupted(problem: impl Display) -> Self {
        Self::of(Exit::Interrupted, vec![problem.to_string()])
    }

    fn of(exit: Exit, problems: Vec<String>) -> Self {
        Self { exit, problems, hints: Vec::new() }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Display) -> Self {
        self.hints.push(hint.to_string());
        self
    }

    /// What is wrong, one entry a problem.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Says it on stderr.
    pub fn report(&self) -> ExitCode {
        for problem in &self.problems {
            output::say(format_args!("error: {problem}"));
        }
        for hint in &self.hints {
            output::say(format_args!("hint: {hint}"));
        }
        self.exit.into()
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
