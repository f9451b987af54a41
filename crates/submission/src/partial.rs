//! Temporary names of files that are being written.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Creates the file that replaces `path` once it is complete, and returns its path. A link or a pipe of this
/// name is removed, and not followed: others may write in the folder, too, and can guess the name.
///
/// # Errors
/// Errors of the operating system.
pub(crate) fn create(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = File::create_new(&partial)?;
    Ok((partial, file))
}
