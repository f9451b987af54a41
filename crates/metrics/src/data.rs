//! What is wrong with a file of references.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file of references that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataError {
    /// The file.
    pub path: PathBuf,
    /// Line, from 1, where there is one.
    pub line: Option<usize>,
    /// What is wrong.
    pub problem: DataProblem,
}

/// What is wrong with a file of references.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataProblem {
    /// It cannot be read.
    Unreadable(String),
    /// It is not of its format.
    Malformed {
        /// What was expected.
        expected: String,
        /// What there is.
        found: String,
    },
    /// The metric needs it, and it was not given.
    NotGiven {
        /// Name of the input, as in `--with NAME=FILE`.
        name: &'static str,
        /// What it is.
        what: &'static str,
    },
}

impl DataError {
    /// A file that is not of its format.
    #[must_use]
    pub fn malformed(
        path: &Path,
        line: impl Into<Option<usize>>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let problem =
            DataProblem::Malformed { expected: expected.into(), found: cut(&found.into()) };
        Self { path: path.to_owned(), line: line.into(), problem }
    }

    /// A file that cannot be read.
    #[must_use]
    pub fn unreadable(path: &Path, error: &io::Error) -> Self {
        let problem = DataProblem::Unreadable(error.to_string());
        Self { path: path.to_owned(), line: None, problem }
    }
}

/// Messages stay of a length that one reads.
fn cut(text: &str) -> String {
    const MOST: usize = 120;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let DataProblem::NotGiven { name, what } = &self.problem {
            return write!(f, "--with {name}=FILE is not given: {what}");
        }
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        match &self.problem {
            DataProblem::Unreadable(why) => write!(f, ": {why}"),
            DataProblem::Malformed { expected, found } => {
                write!(f, ": expected {expected}, found {found}")
            }
            DataProblem::NotGiven { .. } => Ok(()),
        }
    }
}

impl std::error::Error for DataError {}

/// The text of a file.
pub(super) fn read_text(path: &Path) -> Result<String, DataError> {
    fs::read_to_string(path).map_err(|error| DataError::unreadable(path, &error))
}
