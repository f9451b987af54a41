//! Grammar of `.conf` files: lines `key = value`, with the quirks of the reference.

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

/// Returns the model, the scenario and the name of a key `model.scenario.name`; without a model or a scenario
/// if the key is too short. Models have dots (`wan-2.2-t2v-a14b`), scenarios and names have none.
pub(super) fn parts(key: &str) -> (Option<&str>, &str, &str) {
    let mut parts = key.rsplitn(3, '.');
    let name = parts.next().unwrap_or_default();
    let scenario = parts.next().unwrap_or("*");
    (parts.next(), scenario, name)
}

/// A line that is accepted and sets nothing, but is not a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IdleLine {
    /// Line, from 1.
    pub line: usize,
    /// Text of the line.
    pub text: String,
}

/// A line that makes its file unusable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Line, from 1.
    pub line: usize,
    /// Text of the line.
    pub text: String,
    /// Expected and found content.
    pub expected: String,
    /// Whether the error is in the value.
    pub in_value: bool,
}

/// Parsed lines of a text.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub entries: Vec<Entry>,
    pub idle: Vec<IdleLine>,
    pub bad: Vec<BadLine>,
}

/// Parses all lines, including those after a bad one.
pub(super) fn read(text: &str) -> Lines {
    let mut lines = Lines::default();
    for (at, text) in text.split('\n').enumerate() {
        lines.read(at + 1, text);
    }
    lines
}

impl Lines {
    fn read(&mut self, line: usize, text: &str) {
        // White space of C; other Unicode white space belongs to a token.
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
            // The reference parses `#word` alone as a key; it is meant as a comment.
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

/// Returns whether C parses the whole text as one number.
fn is_number(text: &str) -> bool {
    strtoull(text).1 == text.len() || strtod(text).1 == text.len()
}
