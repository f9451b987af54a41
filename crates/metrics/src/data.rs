//! What is wrong with a file of references.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A file of references that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{problem}", place(.path, *.line, .problem))]
pub struct DataError {
    /// The file.
    pub path: PathBuf,
    /// Line, from 1, where there is one.
    pub line: Option<usize>,
    /// What is wrong.
    pub problem: DataProblem,
}

/// What is wrong with a file of references.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DataProblem {
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// It is not of its format.
    #[error("expected {expected}, found {found}")]
    Malformed {
        /// What was expected.
        expected: String,
        /// What there is.
        found: String,
    },
    /// The metric needs it, and it was not given.
    #[error("--with {name}=FILE is not given: {help}")]
    NotGiven {
        /// Name of the input, as in `--with NAME=FILE`.
        name: &'static str,
        /// What it is.
        help: &'static str,
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
            DataProblem::Malformed { expected: expected.into(), found: truncate(&found.into()) };
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
fn truncate(text: &str) -> String {
    const MOST: usize = 120;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the place with which a message begins.
fn place(path: &Path, line: Option<usize>, problem: &DataProblem) -> String {
    match (problem, line) {
        // A file that is missing has no path.
        (DataProblem::NotGiven { .. }, _) => String::new(),
        (_, Some(line)) => format!("{}:{line}: ", path.display()),
        (_, None) => format!("{}: ", path.display()),
    }
}

/// The text of a file.
pub(super) fn read_text(path: &Path) -> Result<String, DataError> {
    fs::read_to_string(path).map_err(|error| DataError::unreadable(path, &error))
}
