//! Exit codes of commands, and the report of failures.

use std::process::ExitCode;

use dyno_experiment::{End, Failure, FailureKind};

use crate::output;

/// The exit codes, as scripts see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The command is complete, and every result is valid.
    Valid,
    /// A result is INVALID or UNDECIDED, or a target was missed.
    Invalid,
    /// The command line or a configuration file is invalid.
    Usage,
    /// Something that the run needs is missing.
    SetUp,
    /// The run was aborted while running.
    Aborted,
    /// Interrupted by Ctrl-C.
    Interrupted,
}

impl Exit {
    /// All exit codes.
    pub const ALL: [Self; 6] =
        [Self::Valid, Self::Invalid, Self::Usage, Self::SetUp, Self::Aborted, Self::Interrupted];

    /// Returns the number.
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

    /// Returns the meaning, as documentation and `dyno info` show it.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Valid => "success: every result is VALID and every target is met",
            Self::Invalid => {
                "done, but a result is INVALID or UNDECIDED, an accuracy below its target, a requirement missed or undecided, a candidate worse than its baseline or a side of a comparison INVALID (with --strict also an inconclusive comparison), or a search or sweep found no point that meets its bounds"
            }
            Self::Usage => {
                "invalid command line or configuration file, or results that cannot be compared"
            }
            Self::SetUp => {
                "the run cannot begin: something is missing (a file, a library, disk space), the folder of --out is in use or not empty, or the system failed a first probe"
            }
            Self::Aborted => "aborted: the system stopped answering, or failed most answers",
            Self::Interrupted => "interrupted by Ctrl-C; the results so far are written",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

impl From<End> for Exit {
    fn from(end: End) -> Self {
        match end {
            End::Valid => Self::Valid,
            End::Invalid => Self::Invalid,
            End::Aborted => Self::Aborted,
            End::Interrupted => Self::Interrupted,
        }
    }
}

impl From<FailureKind> for Exit {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Usage => Self::Usage,
            FailureKind::SetUp | FailureKind::NotReady => Self::SetUp,
            FailureKind::Aborted => Self::Aborted,
            FailureKind::Interrupted => Self::Interrupted,
        }
    }
}

/// Reports a failure on stderr and returns its exit code.
pub fn report(failure: &Failure) -> ExitCode {
    for problem in failure.problems() {
        output::say(format_args!("error: {problem}"));
    }
    for hint in failure.hints() {
        output::say(format_args!("hint: {hint}"));
    }
    Exit::from(failure.kind()).into()
}
