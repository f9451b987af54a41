//! Writes documents.

use std::path::Path;
use std::{fs, io};

use serde::Serialize;

/// Returns a document as indented JSON.
///
/// # Panics
/// If a map of the document has keys that are not strings.
pub fn pretty(document: &impl Serialize) -> String {
    serde_json::to_string_pretty(document).expect("keys are texts") + "\n"
}

/// Replaces a file in one step: a reader finds the old text or the new one.
///
/// # Errors
/// Errors of the operating system.
pub fn replace(path: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("file");
    let partial = path.with_file_name(format!(".{name}.partial"));
    fs::write(&partial, text)?;
    fs::rename(&partial, path)
}
