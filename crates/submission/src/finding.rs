//! What a check has to say: which rule, how grave, where, and how to mend it.

use std::fmt;
use std::path::PathBuf;

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; changes nothing.
    Note,
    /// Probably a mistake; the result counts.
    Warning,
    /// The result does not count.
    Error,
}

impl Severity {
    /// As it is written, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// So many of these, such as `1 query` or `2 queries`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// One thing that a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Id of the check, such as `performance.seeds`; stable.
    pub check: &'static str,
    /// How grave it is.
    pub severity: Severity,
    /// File or folder, relative to the root of what was checked.
    pub path: PathBuf,
    /// Line, from 1, where there is one.
    pub line: Option<usize>,
    /// What was found, as a sentence without a dot at the end.
    pub message: String,
    /// What was expected, where that is a value.
    pub expected: Option<String>,
    /// How to mend it.
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
