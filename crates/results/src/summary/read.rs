//! Reads the JSON files of a run directory.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dyno_loadgen::log::read::open_file;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

use super::Run;

/// Error of reading a JSON file of a run directory.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The file is missing.
    #[error("{} is missing", path.display())]
    Missing {
        /// Path of the file.
        path: PathBuf,
    },
    /// The operating system cannot read the file.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Message of the operating system.
        reason: String,
    },
    /// The file is not JSON, or its fields do not match the document.
    #[error("{}: {reason}", path.display())]
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// Message of the JSON parser, with line and column, or what contradicts another file.
        reason: String,
    },
    /// The file has another schema, or another version of the schema.
    #[error("{}: expected {expected}, found {found}", path.display())]
    Schema {
        /// Path of the file.
        path: PathBuf,
        /// Schema and version in the file.
        found: String,
        /// Schema and version expected.
        expected: String,
    },
}

/// Reads a JSON file that names its schema and version.
///
/// # Errors
/// If the file is missing, unreadable, malformed, or of another schema or version.
pub fn read_json<T: DeserializeOwned>(
    path: &Path,
    schema: &str,
    version: u32,
) -> Result<T, ReadError> {
    let path = path.to_path_buf();
    let text = open_file(&path).and_then(std::io::read_to_string);
    let text = text.map_err(|error| match error.kind() {
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
    /// If the file is missing, damaged or of another version.
    pub fn read(directory: &Path) -> Result<Self, ReadError> {
        read_json(&directory.join(super::FILE), super::SCHEMA, super::SCHEMA_VERSION)
    }
}
