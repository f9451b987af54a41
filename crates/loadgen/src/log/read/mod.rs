//! Reads the four log files back: Dyno's own and the reference's, whose detail
//! and trace logs are not always valid JSON.
//!
//! Readers collect what they cannot read instead of stopping, name the line, and
//! never panic, whatever the bytes.

mod accuracy;
mod agree;
mod cursor;
mod detail;
mod summary;
mod trace;

use std::fmt;

pub use accuracy::{AccuracyEntry, AccuracyReader, open_accuracy};
pub use agree::{ComparedValue, Disagreement, disagreements, disagreements_with};
pub use detail::{Detail, Entry, Number, Value, read_detail, read_detail_file};
pub use summary::{Summary, read_summary};
pub use trace::{TraceEvent, TraceReader, TraceSample, record_of, samples_of};

/// A line of a log that does not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogReadProblem {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub kind: ProblemKind,
}

/// What can be wrong with a line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// Something else than a line of this log.
    Foreign {
        /// What such a line looks like.
        expected: &'static str,
    },
    /// A field is missing or does not read.
    Field {
        /// Name of the field.
        field: &'static str,
    },
    /// The value of a key does not read.
    Value {
        /// The key.
        key: String,
    },
    /// The file ends before it is complete.
    Truncated {
        /// What should have come.
        expected: &'static str,
    },
    /// The file could not be read any further.
    Io {
        /// What the system said.
        message: String,
    },
}

impl fmt::Display for LogReadProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.kind {
            ProblemKind::Foreign { expected } => write!(f, "expected {expected}"),
            ProblemKind::Field { field } => write!(f, "field `{field}` is missing or unreadable"),
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
