//! Reads files within zip archives.

use std::io::Read;
use std::path::{Path, PathBuf};

use thiserror::Error;
use zip::ZipArchive;

/// Maximum size of an extracted file, in bytes; a small archive may claim any size.
const LARGEST: u64 = 1 << 30;

/// Reason why a file cannot be extracted from an archive.
#[derive(Debug, Error)]
#[error("{}: expected an archive with {file} in it: {why}", path.display())]
pub struct ArchiveError {
    /// The archive.
    pub path: PathBuf,
    /// The file within it.
    pub file: &'static str,
    /// The problem.
    pub why: String,
}

/// Returns the bytes of a file in a zip archive.
///
/// ```no_run
/// use std::path::Path;
///
/// use dyno_task::archive::entry;
///
/// let json = entry(Path::new("model.zip"), "tokenizer.json").unwrap();
/// assert!(json.starts_with(b"{"));
/// ```
///
/// # Errors
/// The archive cannot be read, lacks the file, or the file has more than a gigabyte.
pub fn entry(path: &Path, file: &'static str) -> Result<Vec<u8>, ArchiveError> {
    let refused = |why: String| ArchiveError { path: path.to_owned(), file, why };
    let archive = dyno_tensors::files::open(path).map_err(|error| refused(error.to_string()))?;
    let mut archive = ZipArchive::new(archive).map_err(|error| refused(error.to_string()))?;
    let entry = archive.by_name(file).map_err(|error| refused(error.to_string()))?;
    let mut bytes = Vec::new();
    entry.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| refused(error.to_string()))?;
    if bytes.len() as u64 > LARGEST {
        return Err(refused(format!("it has more than {LARGEST} bytes")));
    }
    Ok(bytes)
}
