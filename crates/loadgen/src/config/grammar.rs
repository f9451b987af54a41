//! The lines of a `.conf` file: `key = value`, with the reference's quirks.

use super::number::{strtod, strtoull};

/// A line that sets a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Line, from 1; 0 in the built-in table.
    pub line: usize,
    /// `model.scenario.name`.
    pub key: String,
    /// The last value on the line.
    pub value: String,
    /// Values on the line.
    pub values: usize,
}

/// A line that is accepted and sets nothing, though it is no comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IdleLine {
    /// Line, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
}

/// A line that voids its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Line, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
    /// What was expected, and what was found.
    pub expected: String,
    /// Whether it is bad behind the ` = `.
    pub in_value: bool,
}

/// What a text says.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub entries: Vec<Entry>,
    pub idle: Vec<IdleLine>,
    pub bad: Vec<BadLine>,
}

/// Reads every line; a bad one does not hide the next.
pub(super) fn read(text: &str) -> Lines {
    let mut lines = Lines::default();
    for (at, text) in text.split('\n').enumerate() {
        lines.read(at + 1, text);
    }
    lines
}

impl Lines {
    fn read(&mut self, line: usize, text: &str) {
        // What C calls space; other Unicode white space belongs to a token.
        let mut tokens =
            text.split([' ', '\t', '\x0b', '\x0c', '\r']).filter(|token| !token.is_empty());
        let bad = |expected| {
            let text = text.trim().to_string();
            BadLine { line, text, expected, in_value: false }
        };
        let bad_value = |expected| BadLine { in_value: true, ..bad(expected) };
        let idle = || IdleLine { line, text: text.trim().to_string() };
        let key = match tokens.next() {
            None | Some("#") => return,
            Some(key) => key,
        };
        match tokens.next() {
            Some("=") => {}
            // `#word` alone is a key to the reference, and a comment to its author.
            None if key.starts_with('#') => return,
            None | Some("#") => return self.idle.push(idle()),
            Some(_) if key.starts_with('#') => {
                return self.bad.push(bad("a space after the `#` of a comment".to_string()));
            }
            Some(other) => {
                let expected = format!("` = ` after the key `{key}`, found `{other}`");
                return self.bad.push(bad(expected));
            }
        }
        let mut entry = None;
        for (at, value) in tokens.enumerate() {
            if value.starts_with('#') {
                let expected = "no comment behind a value, put it on a line of its own";
                return self.bad.push(bad_value(expected.to_string()));
            }
            if !is_number(value) {
                let expected = format!("a number for the key `{key}`, found `{value}`");
                return self.bad.push(bad_value(expected));
            }
            let (key, value) = (key.to_string(), value.to_string());
            entry = Some(Entry { line, key, value, values: at + 1 });
        }
        match entry {
            Some(entry) => self.entries.push(entry),
            None => self.idle.push(idle()),
        }
    }
}

/// Whether the whole text is one number to C.
fn is_number(text: &str) -> bool {
    strtoull(text).1 == text.len() || strtod(text).1 == text.len()
}
