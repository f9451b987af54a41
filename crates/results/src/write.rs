//! Writes documents.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::Path;

use serde::Serialize;

/// Returns a document as indented JSON.
///
/// # Panics
/// If a map of the document has keys that are not strings.
pub fn pretty(document: &impl Serialize) -> String {
    serde_json::to_string_pretty(document).expect("keys are texts") + "\n"
}

/// Replaces a file in one step: a reader finds the old text or the new one, also after a crash of the
/// machine.
///
/// # Errors
/// Errors of the operating system. The old file is then unchanged.
pub fn replace(path: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let partial = path.with_file_name(format!(".{name}.partial"));
    let replaced = to_disk(&partial, text.as_ref()).and_then(|()| fs::rename(&partial, path));
    replaced.inspect_err(|_| drop(fs::remove_file(&partial)))
}

/// Creates a folder and the folders around it.
///
/// # Errors
/// Errors of the operating system. A file in place of a folder is no directory; the system may state that it
/// exists.
pub fn create_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => ErrorKind::NotADirectory.into(),
        _ => error,
    })
}

/// Files that hold the results of runs and studies.
const RESULTS: [&str; 10] = [
    "effective.toml",
    "interleave.json",
    "journal.jsonl",
    "records.bin",
    "search.json",
    "series.json",
    "summary.json",
    "sweep.json",
    "texts.jsonl",
    "tune.json",
];

/// Returns whether a path names an existing file of results, also if it was renamed. Nothing that is derived
/// from results may replace it.
pub fn is_result(path: &Path) -> bool {
    let real = fs::canonicalize(path).unwrap_or_default();
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    RESULTS.contains(&&*name) || name.starts_with("mlperf_log_") || begins_as_result(&real)
}

/// Returns whether a command measured what an existing file holds. Tables of a submission are derived, and
/// are written again for each draft.
fn is_measured(real: &Path) -> bool {
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    let is_log = name.starts_with("mlperf_log_");
    // A document is known by its schema, because other documents may have its name.
    let is_text = RESULTS.contains(&&*name) && !name.ends_with(".json");
    let is_table = || head(real).starts_with("{\"schema\":\"dyno.results\"");
    real.is_file() && (is_log || is_text || (begins_as_result(real) && !is_table()))
}

/// Returns whether a file begins as raw records, or as a document with a schema of Dyno.
fn begins_as_result(path: &Path) -> bool {
    let head = head(path);
    head.starts_with("dyno.records") || head.starts_with("{\"schema\":\"dyno.")
}

/// Returns the beginning of a regular file without blanks; empty if it cannot be read.
fn head(path: &Path) -> String {
    /// Bytes that are read: the schema is the first member.
    const HEAD: u64 = 256;
    let mut head = Vec::new();
    let is_read = fs::metadata(path).is_ok_and(|file| file.is_file())
        && File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head)).is_ok();
    if is_read {
        String::from_utf8_lossy(&head).split_whitespace().collect()
    } else {
        String::new()
    }
}

/// Writes a file that the user names: a regular file is replaced in one step, a link is followed, and a
/// pipe or a device is written to directly.
///
/// # Errors
/// The file holds results that were measured, or errors of the operating system.
pub fn to_named(path: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    let text = text.as_ref();
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if is_measured(&real) {
        let problem = "it holds results, which would be lost";
        return Err(io::Error::new(ErrorKind::AlreadyExists, problem));
    }
    let directly = || File::options().write(true).truncate(true).open(&real)?.write_all(text);
    match fs::metadata(&real) {
        Ok(file) if !file.is_file() => directly(),
        // The file may be writable in a folder that is not.
        Ok(_) => replace(&real, text).or_else(|error| match error.kind() {
            ErrorKind::PermissionDenied => directly(),
            _ => Err(error),
        }),
        Err(_) => replace(&real, text),
    }
}

/// Creates a file. A link or a pipe of this name is removed, and not followed: others may write in the
/// folder, too, and can guess the names of temporary files.
///
/// # Errors
/// Errors of the operating system.
pub fn create_new(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).open(path)
}

/// Writes a new file and waits until the disk has it: some file systems report only then that they
/// are full.
pub(crate) fn to_disk(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = create_new(path)?;
    file.write_all(text)?;
    file.sync_all()
}
