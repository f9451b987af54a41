//! Errors of reference files.

use std::io;
use std::path::{Path, PathBuf};

use dyno_tensors::files;
use thiserror::Error;

/// Why a file of references cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{problem}", place(.path, *.line, .problem))]
pub struct DataError {
    /// Path of the file.
    pub path: PathBuf,
    /// Line from 1, if the error has one.
    pub line: Option<usize>,
    /// What is wrong.
    pub problem: DataProblem,
}

/// What is wrong with a file of references.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DataProblem {
    /// The file cannot be read. Holds the error of the operating system.
    #[error("{0}")]
    Unreadable(String),
    /// The file is not in the expected format.
    #[error("expected {expected}, found {found}")]
    Malformed {
        /// Expected content.
        expected: String,
        /// Actual content.
        found: String,
    },
    /// The method requires the file, and it is missing.
    #[error("--with {name}=FILE is not given: {help}")]
    NotGiven {
        /// Name of the input, as in `--with NAME=FILE`.
        name: &'static str,
        /// Description of the file.
        help: &'static str,
    },
}

impl DataError {
    /// Creates the error of a file in a wrong format. Cuts `found` after 120 characters.
    ///
    /// ```
    /// use std::path::Path;
    ///
    /// use dyno_metrics::DataError;
    ///
    /// let error = DataError::malformed(Path::new("val_map.txt"), 3, "a class", "cat.jpeg");
    /// assert_eq!(error.to_string(), "val_map.txt:3: expected a class, found cat.jpeg");
    /// ```
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

    /// Creates the error of a file that cannot be read.
    pub fn unreadable(path: &Path, error: &io::Error) -> Self {
        let problem = DataProblem::Unreadable(error.to_string());
        Self { path: path.to_owned(), line: None, problem }
    }
}

/// Cuts a text that is too long for a message.
fn truncate(text: &str) -> String {
    const MOST: usize = 120;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the beginning of the message: path and line.
fn place(path: &Path, line: Option<usize>, problem: &DataProblem) -> String {
    match (problem, line) {
        // A missing file has no path.
        (DataProblem::NotGiven { .. }, _) => String::new(),
        (_, Some(line)) => format!("{}:{line}: ", path.display()),
        (_, None) => format!("{}: ", path.display()),
    }
}

/// Reads a text file.
pub(super) fn read_text(path: &Path) -> Result<String, DataError> {
    files::read_to_string(path).map_err(|error| DataError::unreadable(path, &error))
}
