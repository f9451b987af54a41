//! Files within an archive of a package.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use zip::ZipArchive;

/// More than any file that is read whole; a small archive may claim any size.
const LARGEST: u64 = 1 << 30;

/// Why a file of an archive cannot be had.
#[derive(Debug)]
pub struct ArchiveError {
    /// The archive.
    pub path: PathBuf,
    /// The file within it.
    pub file: &'static str,
    /// What is wrong.
    pub why: String,
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, file, why } = self;
        write!(f, "{}: expected an archive with {file} in it: {why}", path.display())
    }
}

impl std::error::Error for ArchiveError {}

/// The bytes of a file in a zip archive.
///
/// # Errors
/// The archive does not read, does not have the file, or has one of more than a gigabyte.
pub fn entry(path: &Path, file: &'static str) -> Result<Vec<u8>, ArchiveError> {
    let refused = |why: String| ArchiveError { path: path.to_owned(), file, why };
    let archive = File::open(path).map_err(|error| refused(error.to_string()))?;
    let mut archive = ZipArchive::new(archive).map_err(|error| refused(error.to_string()))?;
    let entry = archive.by_name(file).map_err(|error| refused(error.to_string()))?;
    let mut bytes = Vec::new();
    entry.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| refused(error.to_string()))?;
    if bytes.len() as u64 > LARGEST {
        return Err(refused(format!("it has more than {LARGEST} bytes")));
    }
    Ok(bytes)
}
