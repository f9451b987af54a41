//! Accuracy logs as a submission has them: the beginning and the end, and in
//! `accuracy.txt` the hash of the whole.
//!
//! A log is read once, whatever its size, and never held: what is kept of it is
//! known when its hash is.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::layout::{ACCURACY_LOG as LOG, ACCURACY_TEXT as TEXT};

/// Bytes that are kept of the beginning, and of the end.
pub const KEPT_BYTES: usize = 4_096;

/// What stands between them.
pub const ELLIPSIS: &[u8] = b"\n\n...\n\n";

/// An accuracy log of a submission may have so many bytes.
pub const LIMIT_BYTES: u64 = 10_240;

/// What is read of a log at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// SHA-256 of a log before it was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The line that `accuracy.txt` has of it, with its end.
    #[must_use]
    pub fn line(self) -> String {
        format!("hash={self}\n")
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Writes what a submission has of the log that `reader` gives, in one pass: the
/// first and the last [`KEPT_BYTES`] with [`ELLIPSIS`] between, or all of a log
/// shorter than [`KEPT_BYTES`]. Of a character of several bytes neither end has a
/// part. Returns the hash of the whole.
///
/// # Errors
/// What reading or writing says.
pub fn truncate(reader: impl Read, mut writer: impl Write) -> io::Result<Hash> {
    let mut passing = Passing::new(reader);
    passing.read_to_the_end()?;
    let (kept, hash) = passing.finish();
    writer.write_all(&kept)?;
    Ok(hash)
}

/// A log that somebody reads, and of which what a submission has of it stays behind.
struct Passing<R> {
    log: R,
    hasher: Sha256,
    head: Vec<u8>,
    tail: Vec<u8>,
    total: u64,
}

impl<R: Read> Read for Passing<R> {
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

impl<R: Read> Passing<R> {
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

    /// What is kept of a log that was read to its end, and the hash of the whole.
    fn finish(self) -> (Vec<u8>, Hash) {
        let kept = if self.total < KEPT_BYTES as u64 {
            self.head
        } else {
            [without_part_at_end(&self.head), ELLIPSIS, without_part_at_start(&self.tail)].concat()
        };
        (kept, Hash(self.hasher.finalize().into()))
    }
}

/// Without a character that is cut at the end; other bytes that are no text stay.
fn without_part_at_end(bytes: &[u8]) -> &[u8] {
    let is_cut = |error: &std::str::Utf8Error| error.error_len().is_none();
    let cut = (1..=bytes.len().min(3)).rev().map(|back| bytes.len() - back).find(|&start| {
        bytes[start] >= 0b1100_0000
            && std::str::from_utf8(&bytes[start..]).err().as_ref().is_some_and(is_cut)
    });
    &bytes[..cut.unwrap_or(bytes.len())]
}

/// Without the rest of a character at the start, which is at most three bytes.
fn without_part_at_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take_while(|&&byte| byte & 0b1100_0000 == 0b1000_0000).count();
    if rest <= 3 { &bytes[rest..] } else { bytes }
}

/// What became of an accuracy folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Truncation {
    /// The log was cut, or was short enough to stay as it is; the hash is in
    /// `accuracy.txt`.
    Done {
        /// Of the whole log.
        hash: Hash,
        /// Bytes of the log before.
        from_bytes: u64,
        /// Bytes of the log now.
        to_bytes: u64,
    },
    /// It had a hash and a log within [`LIMIT_BYTES`]; nothing was changed.
    Already {
        /// As `accuracy.txt` has it.
        hash: String,
    },
}

/// Why an accuracy folder cannot be cut.
#[derive(Debug, PartialEq, Eq)]
pub enum TruncateError {
    /// A file cannot be read or written.
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        problem: String,
    },
    /// The log is one that was cut, and its hash is lost.
    HashLost {
        /// The log.
        log: PathBuf,
    },
    /// `accuracy.txt` has the hash of another log.
    OtherHash {
        /// The log.
        log: PathBuf,
        /// As `accuracy.txt` has it.
        written: String,
        /// What the log has.
        found: Hash,
    },
}

impl fmt::Display for TruncateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, problem } => write!(f, "{}: {problem}", path.display()),
            Self::HashLost { log } => write!(
                f,
                "{} is cut already, but {TEXT} beside it has no line `hash=`: put the whole log \
                 back, or the line",
                log.display()
            ),
            Self::OtherHash { log, written, found } => write!(
                f,
                "{TEXT} has the hash {written}, but {} has {found}: they are of different runs; \
                 make {TEXT} of this log anew",
                log.display()
            ),
        }
    }
}

impl std::error::Error for TruncateError {}

/// The hash that a text of an accuracy script ends with, if there is one.
#[must_use]
pub fn hash_in(text: &str) -> Option<&str> {
    let is_word = |c: char| c == '_' || c.is_ascii_alphanumeric();
    text.lines()
        .filter_map(|line| line.strip_prefix("hash="))
        .find(|hash| !hash.is_empty() && hash.chars().all(is_word))
}

/// Cuts the log of an accuracy folder, and appends the line of its hash to the
/// folder's `accuracy.txt`. What was done before stays as it is. Killed at any
/// moment it leaves a folder that can be cut again: the hash is written before the
/// log is cut, and each file is replaced by one rename.
///
/// # Errors
/// A file is absent or cannot be replaced, or log and text are not of one run.
pub fn truncate_folder(folder: &Path) -> Result<Truncation, TruncateError> {
    let (log, text_path) = (folder.join(LOG), folder.join(TEXT));
    let text = fs::read(&text_path).map_err(|error| at(&text_path, &error))?;
    let short = shorten::<TruncateError>(&log, text, |_| Ok(()))?;
    if let Some(text) = &short.text {
        replace(&text_path, text).map_err(|error| at(&text_path, &error))?;
    }
    if let Some(kept) = &short.kept {
        replace(&log, kept).map_err(|error| at(&log, &error))?;
    }
    Ok(short.done)
}

/// What an accuracy log and the text beside it become.
pub(super) struct Shortened {
    /// The log, unless it stays as it is.
    pub kept: Option<Vec<u8>>,
    /// The text, unless it stays as it is.
    pub text: Option<Vec<u8>>,
    pub done: Truncation,
}

/// Reads a log, once; `text` is that of the accuracy script. `look` reads it, as far as it
/// likes, unless it was cut before.
pub(super) fn shorten<E: From<TruncateError>>(
    log: &Path,
    mut text: Vec<u8>,
    look: impl FnOnce(&mut dyn Read) -> Result<(), E>,
) -> Result<Shortened, E> {
    let failed = |error: io::Error| at(log, &error);
    let written = hash_in(&String::from_utf8_lossy(&text)).map(str::to_owned);
    let file = File::open(log).map_err(failed)?;
    let from_bytes = file.metadata().map_err(failed)?.len();
    if was_cut(log, from_bytes).map_err(failed)? {
        let hash = written.ok_or_else(|| TruncateError::HashLost { log: log.to_owned() })?;
        let done = Truncation::Already { hash };
        return Ok(Shortened { kept: None, text: None, done });
    }
    let mut passing = Passing::new(file);
    look(&mut passing)?;
    passing.read_to_the_end().map_err(failed)?;
    let (kept, hash) = passing.finish();
    let text = match written {
        // What is whole must have the hash that is told of it.
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
    let kept = (to_bytes != from_bytes).then_some(kept);
    Ok(Shortened { kept, text, done: Truncation::Done { hash, from_bytes, to_bytes } })
}

fn at(path: &Path, error: &io::Error) -> TruncateError {
    TruncateError::File { path: path.to_owned(), problem: error.to_string() }
}

/// Whether a log of this size has the ellipsis in the middle: the rules' tool has cut it.
fn was_cut(log: &Path, bytes: u64) -> io::Result<bool> {
    if bytes > LIMIT_BYTES {
        return Ok(false);
    }
    let content = fs::read(log)?;
    let is_ellipsis = |window: &[u8]| window == ELLIPSIS;
    Ok(content.windows(ELLIPSIS.len()).skip(KEPT_BYTES - 3).take(4).any(is_ellipsis))
}

/// Under another name first, so that nobody finds half of it.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    fs::write(&partial, content)?;
    fs::rename(&partial, path)
}
