//! Short texts, such as what the scripts of the audits said.

use super::Missing;
use crate::tree::Node;

/// No longer text is read, in bytes: these files have a few lines.
const LONGEST: u64 = 16 << 20;

/// A text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    /// What is written, with marks in place of bytes that are no text.
    pub text: String,
    /// Whether it is UTF-8.
    pub is_utf8: bool,
}

impl TextFile {
    /// Whether one of its lines, without blanks around it, is this.
    #[must_use]
    pub fn has_line(&self, wanted: &str) -> bool {
        self.text.lines().any(|line| line.trim() == wanted)
    }
}

/// Reads a text.
///
/// # Errors
/// There is no file, it cannot be read, or is longer than any such file.
pub fn read(file: Option<Node<'_>>) -> Result<TextFile, Missing> {
    let bytes = bytes(file.ok_or(Missing::Absent)?)?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => TextFile { text, is_utf8: true },
        Err(error) => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            TextFile { text, is_utf8: false }
        }
    })
}

/// Reads the bytes of a file. One that is too long is not cut: what is behind the cut
/// would go unseen.
pub(super) fn bytes(file: Node<'_>) -> Result<Vec<u8>, Missing> {
    if file.size() > LONGEST {
        let why = format!("has {} bytes, expected at most {LONGEST}", file.size());
        return Err(Missing::Unreadable { why });
    }
    let unreadable = |error: std::io::Error| Missing::Unreadable { why: error.to_string() };
    let mut bytes = Vec::new();
    let count = file.read(LONGEST, &mut bytes).map_err(unreadable)?.len();
    bytes.truncate(count);
    Ok(bytes)
}
