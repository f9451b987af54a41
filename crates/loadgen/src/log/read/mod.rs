//! Parsers of the four log files: Dyno's own and the reference's, whose detail
//! and trace logs are not always valid JSON.
//!
//! Readers collect unreadable lines with their numbers instead of stopping, and never panic.

mod accuracy;
mod agree;
mod cursor;
mod detail;
mod summary;
mod trace;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;

pub use accuracy::{AccuracyEntry, AccuracyReader, open_accuracy};
pub use agree::{ComparedValue, Disagreement, disagreements, disagreements_with};
pub use detail::{Detail, Entry, Number, Value, read_detail, read_detail_file};
pub use summary::{Summary, read_summary};
pub use trace::{TraceEvent, TraceReader, TraceSample, record_of, samples_of};

/// Opens a log, or another file that a user names. Reading a device may never end, and opening a named pipe
/// waits for a writer. A pipe of the process, such as `/dev/stdin` or `/dev/fd/63`, has a writer already.
///
/// # Errors
/// Errors of the operating system, or a path that is not a file.
pub fn open_file(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    let open = ["/dev/stdin", "/dev/fd", "/proc/self/fd"];
    let is_open = open.iter().any(|open| path.starts_with(open));
    if kind.is_file() || kind.is_dir() || is_open {
        return File::open(path);
    }
    let why = "it is a device, a socket or a named pipe; expected a file";
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// Problem with a line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogReadProblem {
    /// Line, from 1.
    pub line: usize,
    /// Kind of the problem.
    pub kind: ProblemKind,
}

/// Kind of a problem with a line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The line does not belong to this log.
    Foreign {
        /// Expected form of a line.
        expected: &'static str,
    },
    /// A field is missing or cannot be parsed.
    Field {
        /// Name of the field.
        field: &'static str,
    },
    /// A field of an entry occurs twice.
    Repeated {
        /// Name of the field.
        field: &'static str,
    },
    /// The value of a key cannot be parsed.
    Value {
        /// Name of the key.
        key: String,
    },
    /// The file ends before it is complete.
    Truncated {
        /// Expected content.
        expected: &'static str,
    },
    /// The rest of the file could not be read.
    Io {
        /// Message of the operating system.
        message: String,
    },
}

impl fmt::Display for LogReadProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.kind {
            ProblemKind::Foreign { expected } => write!(f, "expected {expected}"),
            ProblemKind::Field { field } => write!(f, "field `{field}` is missing or unreadable"),
            ProblemKind::Repeated { field } => write!(f, "field `{field}` occurs twice"),
            ProblemKind::Value { key } => write!(f, "the value of `{key}` does not read"),
            ProblemKind::Truncated { expected } => write!(
                f,
                "the file ends early, expected {expected}; the run was interrupted or the disk was full"
            ),
            ProblemKind::Io { message } => write!(f, "cannot read on: {message}"),
        }
    }
}

impl std::error::Error for LogReadProblem {}
