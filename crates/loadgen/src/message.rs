//! Messages of the detail log: texts with a key and a severity.

use crate::clock::Nanos;

/// Key of Dyno's own notes, which the reference does not have. They count neither as errors nor
/// as warnings.
pub(crate) const NOTE: &str = "dyno_note";

/// How grave a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// For the reader.
    Info,
    /// Counted as a warning in the logs.
    Warning,
    /// Counted as an error in the logs.
    Error,
}

/// A line of text in the detail log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// When, in ns since the origin of the log.
    pub at: Nanos,
    /// Key of the detail log, such as `generic_message` or `error_runtime`.
    pub key: &'static str,
    /// How grave it is.
    pub severity: Severity,
    /// The text.
    pub text: String,
}
