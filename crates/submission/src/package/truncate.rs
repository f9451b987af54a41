//! Truncates accuracy logs for a submission: the start and the end of the log remain, and
//! `accuracy.txt` gets the hash of the complete log.
//!
//! A log of any size is read once and never held in memory.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use dyno_tensors::files;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::layout::{ACCURACY_LOG as LOG, ACCURACY_TEXT as TEXT};
use crate::partial;

/// Number of bytes kept at the start, and at the end.
pub const KEPT_BYTES: usize = 4_096;

/// Text between the start and the end.
pub const ELLIPSIS: &[u8] = b"\n\n...\n\n";

/// Maximum size of an accuracy log in a submission, in bytes.
pub const LIMIT_BYTES: u64 = 10_240;

/// Number of bytes to read at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// SHA-256 of a log before truncation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hash([u8; 32]);

impl Hash {
    /// Returns the line for `accuracy.txt`, with its line end.
    pub fn line(self) -> String {
        format!("hash={self}\n")
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Writes the truncated log of `reader` in one pass and returns the hash of the complete log.
/// The first and the last [`KEPT_BYTES`] remain, with [`ELLIPSIS`] between them; a log shorter
/// than [`KEPT_BYTES`] is written completely. Partial UTF-8 characters at the cuts are dropped.
///
/// ```
/// use dyno_submission::package::{ELLIPSIS, KEPT_BYTES, truncate};
///
/// let mut log = Vec::new();
/// truncate(&[b'x'; 20_000][..], &mut log).unwrap();
/// assert_eq!(log.len(), 2 * KEPT_BYTES + ELLIPSIS.len());
/// ```
///
/// # Errors
/// Fails if the reader or the writer fails.
pub fn truncate(reader: impl Read, mut writer: impl Write) -> io::Result<Hash> {
    let mut reader = TruncatingReader::new(reader);
    reader.read_to_the_end()?;
    let (kept, hash) = reader.finish();
    writer.write_all(&kept)?;
    Ok(hash)
}

/// Reader that records the truncated log and the hash of the bytes read through it.
struct TruncatingReader<R> {
    log: R,
    hasher: Sha256,
    head: Vec<u8>,
    tail: Vec<u8>,
    total: u64,
}

impl<R: Read> Read for TruncatingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.log.read(buffer)?;
        let bytes = &buffer[..count];
        self.hasher.update(bytes);
        self.total += count as u64;
        let missing = count.min(KEPT_BYTES - self.head.len());
        self.head.extend_from_slice(&bytes[..missing]);
        let last = &bytes[count.saturating_sub(KEPT_BYTES)..];
        self.tail.drain(..(self.tail.len() + last.len()).saturating_sub(KEPT_BYTES));
        self.tail.extend_from_slice(last);
        Ok(count)
    }
}

impl<R: Read> TruncatingReader<R> {
    fn new(log: R) -> Self {
        let [head, tail] = [KEPT_BYTES, 2 * KEPT_BYTES].map(Vec::with_capacity);
        Self { log, hasher: Sha256::new(), head, tail, total: 0 }
    }

    fn read_to_the_end(&mut self) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match self.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }

    /// Returns the truncated log and the hash. The log must have been read to its end.
    fn finish(self) -> (Vec<u8>, Hash) {
        let truncated = if self.total < KEPT_BYTES as u64 {
            self.head
        } else {
            [without_part_at_end(&self.head), ELLIPSIS, without_part_at_start(&self.tail)].concat()
        };
        (truncated, Hash(self.hasher.finalize().into()))
    }
}

/// Drops an incomplete character at the end; other invalid bytes remain.
fn without_part_at_end(bytes: &[u8]) -> &[u8] {
    let is_cut = |error: &std::str::Utf8Error| error.error_len().is_none();
    let cut = (1..=bytes.len().min(3)).rev().map(|back| bytes.len() - back).find(|&start| {
        bytes[start] >= 0b1100_0000
            && std::str::from_utf8(&bytes[start..]).err().as_ref().is_some_and(is_cut)
    });
    &bytes[..cut.unwrap_or(bytes.len())]
}

/// Drops the rest of a character at the start, which has at most three bytes.
fn without_part_at_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take_while(|&&byte| byte & 0b1100_0000 == 0b1000_0000).count();
    if rest <= 3 { &bytes[rest..] } else { bytes }
}

/// Result of truncating an accuracy folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Truncation {
    /// The log was truncated, or was short enough; `accuracy.txt` has the hash.
    Done {
        /// Hash of the complete log.
        hash: Hash,
        /// Size of the log before, in bytes.
        from_bytes: u64,
        /// Size of the log now, in bytes.
        to_bytes: u64,
    },
    /// The folder already had a hash and a log within [`LIMIT_BYTES`]; nothing was changed.
    Already {
        /// Hash in `accuracy.txt`.
        hash: String,
    },
}

/// Error: an accuracy folder cannot be truncated.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum TruncateError {
    /// A file cannot be read or written.
    #[error("{}: {problem}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        problem: String,
    },
    /// The log was truncated before, and its hash is missing.
    #[error(
        "{} is already truncated, but {TEXT} beside it has no line `hash=`; restore the complete \
         log or the line",
        log.display()
    )]
    HashLost {
        /// Path of the log.
        log: PathBuf,
    },
    /// `accuracy.txt` has the hash of another log.
    #[error(
        "{TEXT} has the hash {written}, but {} has {found}: they are of different runs; write \
         {TEXT} again from this log",
        log.display()
    )]
    OtherHash {
        /// Path of the log.
        log: PathBuf,
        /// Hash in `accuracy.txt`.
        written: String,
        /// Hash of the log.
        found: Hash,
    },
}

/// Returns the first hash in the output of an accuracy script.
pub fn hash_in(text: &str) -> Option<&str> {
    let is_word = |c: char| c == '_' || c.is_ascii_alphanumeric();
    text.lines()
        .filter_map(|line| line.strip_prefix("hash="))
        .find(|hash| !hash.is_empty() && hash.chars().all(is_word))
}

/// Truncates the log of an accuracy folder and appends its hash to `accuracy.txt`. A folder that
/// was truncated before is not changed. If the process is killed at any time, the folder can be
/// truncated again: the hash is written first, and each file is replaced by one rename.
///
/// # Errors
/// Fails if a file is missing or cannot be replaced, or if log and text belong to different
/// runs.
pub fn truncate_folder(folder: &Path) -> Result<Truncation, TruncateError> {
    let (log, text_path) = (folder.join(LOG), folder.join(TEXT));
    let text = files::read(&text_path).map_err(|error| file_error(&text_path, &error))?;
    let short = shorten::<TruncateError>(&log, text, |_| Ok(()))?;
    if let Some(text) = &short.text {
        replace(&text_path, text).map_err(|error| file_error(&text_path, &error))?;
    }
    if let Some(content) = &short.log {
        replace(&log, content).map_err(|error| file_error(&log, &error))?;
    }
    Ok(short.done)
}

/// Truncated accuracy log and the text next to it.
pub(super) struct TruncatedLog {
    /// Truncated log; `None` if it does not change.
    pub log: Option<Vec<u8>>,
    /// New text; `None` if it does not change.
    pub text: Option<Vec<u8>>,
    pub done: Truncation,
}

/// Reads and truncates a log in one pass; `text` is the output of the accuracy script. `look`
/// may read the log, unless it was truncated before.
pub(super) fn shorten<E: From<TruncateError>>(
    log: &Path,
    mut text: Vec<u8>,
    look: impl FnOnce(&mut dyn Read) -> Result<(), E>,
) -> Result<TruncatedLog, E> {
    let failed = |error: io::Error| file_error(log, &error);
    let written = hash_in(&String::from_utf8_lossy(&text)).map(str::to_owned);
    let file = files::open(log).map_err(failed)?;
    let from_bytes = file.metadata().map_err(failed)?.len();
    if was_cut(log, from_bytes).map_err(failed)? {
        let hash = written.ok_or_else(|| TruncateError::HashLost { log: log.to_owned() })?;
        let done = Truncation::Already { hash };
        return Ok(TruncatedLog { log: None, text: None, done });
    }
    let mut reader = TruncatingReader::new(file);
    look(&mut reader)?;
    reader.read_to_the_end().map_err(failed)?;
    let (kept, hash) = reader.finish();
    let text = match written {
        // A complete log must have the recorded hash.
        Some(written) if written != hash.to_string() => {
            let log = log.to_owned();
            return Err(TruncateError::OtherHash { log, written, found: hash }.into());
        }
        Some(_) => None,
        None => {
            if text.last().is_some_and(|&last| last != b'\n') {
                text.push(b'\n');
            }
            text.extend_from_slice(hash.line().as_bytes());
            Some(text)
        }
    };
    let to_bytes = kept.len() as u64;
    let log = (to_bytes != from_bytes).then_some(kept);
    Ok(TruncatedLog { log, text, done: Truncation::Done { hash, from_bytes, to_bytes } })
}

fn file_error(path: &Path, error: &io::Error) -> TruncateError {
    TruncateError::File { path: path.to_owned(), problem: error.to_string() }
}

/// Whether a log was truncated for a submission, so that most answers are missing.
///
/// # Errors
/// Fails if the log cannot be read.
pub fn is_truncated(log: &Path) -> io::Result<bool> {
    was_cut(log, fs::metadata(log)?.len())
}

/// Whether a log has the ellipsis in the middle, so that the tool of the rules truncated it. On Windows
/// it keeps as many characters, but more bytes.
fn was_cut(log: &Path, bytes: u64) -> io::Result<bool> {
    if bytes > LIMIT_BYTES {
        return Ok(false);
    }
    let content = files::read(log)?;
    let has = |ellipsis: &[u8]| {
        content.windows(ellipsis.len()).skip(KEPT_BYTES - 3).any(|window| window == ellipsis)
    };
    Ok(has(ELLIPSIS) || has(b"\r\n\r\n...\r\n\r\n"))
}

/// Writes a file under a temporary name and renames it, so that it is never incomplete.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let (partial, mut file) = partial::create(path)?;
    file.write_all(content)?;
    fs::rename(&partial, path)
}
