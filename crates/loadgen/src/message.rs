//! Messages of the detail log: texts with a key and a severity.

use crate::clock::Nanos;

/// Key of Dyno's own notes, which the reference does not have. They count neither as errors nor
/// as warnings.
pub(crate) const NOTE: &str = "dyno_note";

/// Severity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Information for the reader.
    Info,
    /// Counted as a warning in the logs.
    Warning,
    /// Counted as an error in the logs.
    Error,
}

/// Message in the detail log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Time in ns since the origin of the log.
    pub at: Nanos,
    /// Key of the detail log, such as `generic_message` or `error_runtime`.
    pub key: &'static str,
    /// Severity.
    pub severity: Severity,
    /// Text.
    pub text: String,
}
