//! Short text files, such as the output of audit scripts.

use super::ReadError;
use crate::tree::Node;

/// Maximum file size in bytes. These files have a few lines.
const LONGEST: u64 = 16 << 20;

/// Content of a text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    /// Text; bytes that are not UTF-8 became replacement characters.
    pub text: String,
    /// Whether it is UTF-8.
    pub is_utf8: bool,
}

impl TextFile {
    /// Whether a line equals `wanted`, ignoring blanks around it. A carriage return also ends a
    /// line, as in the official checkers.
    pub fn has_line(&self, wanted: &str) -> bool {
        self.text.split(['\n', '\r']).any(|line| line.trim() == wanted)
    }
}

/// Reads a text file.
///
/// # Errors
/// Fails if the file does not exist, cannot be read, or exceeds the size limit.
pub fn read(file: Option<Node<'_>>) -> Result<TextFile, ReadError> {
    let bytes = bytes(file.ok_or(ReadError::Absent)?)?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => TextFile { text, is_utf8: true },
        Err(error) => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            TextFile { text, is_utf8: false }
        }
    })
}

/// Reads the bytes of a file. A file above the size limit is an error: truncating it would hide
/// what follows.
pub(super) fn bytes(file: Node<'_>) -> Result<Vec<u8>, ReadError> {
    if file.size() > LONGEST {
        let why = format!("has {} bytes, expected at most {LONGEST}", file.size());
        return Err(ReadError::Unreadable { why });
    }
    let unreadable = |error: std::io::Error| ReadError::Unreadable { why: error.to_string() };
    let mut bytes = Vec::new();
    let count = file.read(LONGEST, &mut bytes).map_err(unreadable)?.len();
    bytes.truncate(count);
    Ok(bytes)
}
