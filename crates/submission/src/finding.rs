//! Findings of checks: check, severity, place, and how to fix it.

use std::fmt;
use std::path::PathBuf;

dyno_loadgen::named_enum! {
    /// Severity of a finding.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Severity {
        /// Information; changes nothing.
        Note = "note",
        /// Probably a mistake; the result counts.
        Warning = "warning",
        /// The result does not count.
        Error = "error",
    }
}

/// Returns a count with its noun, such as `1 query` or `2 queries`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A problem that a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Stable id of the check, such as `performance.seeds`.
    pub check: &'static str,
    /// Severity.
    pub severity: Severity,
    /// File or folder, relative to the root of the checked tree.
    pub path: PathBuf,
    /// Line number, from 1, if the finding concerns one line.
    pub line: Option<usize>,
    /// Description, as a sentence without a final dot.
    pub message: String,
    /// Expected value, if there is one.
    pub expected: Option<String>,
    /// How to fix it.
    pub mend: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}] {}", self.severity.name(), self.check, self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)?;
        match &self.expected {
            Some(expected) => write!(f, " (expected {expected})"),
            None => Ok(()),
        }
    }
}
