//! Messages of the detail log: texts with a key and a severity. Characters that control a display.

use crate::clock::Nanos;

/// Key of Dyno's own notes, which the reference does not have. They count neither as errors nor
/// as warnings.
pub(crate) const NOTE: &str = "dyno_note";

/// Returns whether a terminal or a page obeys a character instead of showing it: control characters,
/// and marks that change the direction of the text behind them.
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

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
