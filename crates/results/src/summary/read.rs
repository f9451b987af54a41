//! Reads the JSON files of a run directory.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Run;

/// Why a file of a run directory does not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// It is not there.
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The operating system's reason.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It is no JSON, or not of this shape.
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        reason: String,
    },
    /// It is the file of something else, or of a later version.
    Schema {
        /// The file.
        path: PathBuf,
        /// Name and version found.
        found: String,
        /// Name and version expected.
        expected: String,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { path } => write!(f, "{} is missing", path.display()),
            Self::Unreadable { path, reason } => {
                write!(f, "cannot read {}: {reason}", path.display())
            }
            Self::Malformed { path, reason } => write!(f, "{}: {reason}", path.display()),
            Self::Schema { path, found, expected } => {
                write!(f, "{}: expected {expected}, found {found}", path.display())
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads a file that names its schema and version.
///
/// # Errors
/// See [`ReadError`].
pub fn read_json<T: DeserializeOwned>(
    path: &Path,
    schema: &str,
    version: u32,
) -> Result<T, ReadError> {
    let path = path.to_path_buf();
    let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => ReadError::Missing { path: path.clone() },
        _ => ReadError::Unreadable { path: path.clone(), reason: error.to_string() },
    })?;
    let malformed = |error: serde_json::Error| ReadError::Malformed {
        path: path.clone(),
        reason: error.to_string(),
    };
    let value: Value = serde_json::from_str(&text).map_err(malformed)?;
    if value["schema"] != schema || value["schema_version"] != version {
        let found = format!("{} version {}", value["schema"], value["schema_version"]);
        let expected = format!("\"{schema}\" version {version}");
        return Err(ReadError::Schema { path: path.clone(), found, expected });
    }
    serde_json::from_value(value).map_err(malformed)
}

impl Run {
    /// Reads the summary of a run directory.
    ///
    /// # Errors
    /// If it is not there or does not read.
    pub fn read(directory: &Path) -> Result<Self, ReadError> {
        read_json(&directory.join(super::FILE), super::SCHEMA, super::SCHEMA_VERSION)
    }
}
