//! JSON files: descriptions of systems and measurements.

use serde_json::{Map, Value};
use thiserror::Error;

use super::ReadError;
use super::text;
use crate::python;
use crate::tree::Node;

/// A parsed JSON file.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonFile {
    text: String,
    /// Parsed value.
    pub value: Value,
}

/// Error: a JSON file could not be parsed.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{why}")]
pub struct JsonProblem {
    /// Line number, from 1, if known.
    pub line: Option<usize>,
    /// Description of the problem.
    pub why: String,
    /// The file as Python parses it, if Python accepts it: Python allows `NaN` and `Infinity`.
    to_python: Option<Box<JsonFile>>,
}

impl JsonProblem {
    /// Returns the file as Python parses it.
    ///
    /// # Errors
    /// Returns the error itself if Python rejects the file, too.
    pub fn to_python(mut self) -> Result<JsonFile, Self> {
        self.to_python.take().map(|file| *file).ok_or(self)
    }

    /// Returns a reference to the file as Python parses it.
    ///
    /// # Errors
    /// Returns the error itself if Python rejects the file, too.
    pub(crate) fn as_python(&self) -> Result<&JsonFile, &Self> {
        self.to_python.as_deref().ok_or(self)
    }

    fn new(why: impl Into<String>) -> Self {
        Self { line: None, why: why.into(), to_python: None }
    }
}

impl JsonFile {
    /// Creates an empty file, whose value is null.
    pub fn empty() -> Self {
        Self { text: String::new(), value: Value::Null }
    }

    /// Returns the fields, or `None` if the file is not an object.
    pub fn object(&self) -> Option<&Map<String, Value>> {
        self.value.as_object()
    }

    /// Returns the value of a field.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.value.get(field)
    }

    /// Returns the value of a field as Python's `str` formats it. An integer beyond 64 bits is as
    /// written: Python keeps it, but its parsed value is a float.
    pub(crate) fn python_text(&self, field: &str) -> Option<String> {
        let value = self.get(field)?;
        let is_float = value.is_f64();
        let written = self.integer(field).filter(|_| is_float);
        Some(written.map_or_else(|| python::text(value), str::to_owned))
    }

    /// Returns the integer after the last name of a field, as written.
    fn integer(&self, field: &str) -> Option<&str> {
        let (_, rest) = self.text.rsplit_once(&format!("\"{field}\""))?;
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '-')).unwrap_or(rest.len());
        let (integer, after) = rest.split_at(end);
        let is_whole = !integer.is_empty() && !after.starts_with(['.', 'e', 'E']);
        is_whole.then_some(integer)
    }

    /// Returns the line number of a field, from 1: the first line that contains its name in
    /// quotes.
    pub fn line_of(&self, field: &str) -> Option<usize> {
        let offset = self.text.find(&format!("\"{field}\""))?;
        Some(self.text[..offset].matches('\n').count() + 1)
    }
}

/// Reads a JSON file.
///
/// # Errors
/// Fails if the file cannot be read or is not valid JSON in UTF-8.
pub fn read(file: Node<'_>) -> Result<JsonFile, JsonProblem> {
    let bytes = text::bytes(file).map_err(|missing| match missing {
        ReadError::Absent => JsonProblem::new("the file is missing"),
        ReadError::Unreadable { why } => JsonProblem::new(why),
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|error| JsonProblem::new(format!("not UTF-8: {error}")))?;
    let marked = python::with_marks(&text);
    match serde_json::from_str(&marked) {
        Ok(value) => Ok(JsonFile { value, text }),
        Err(error) => {
            let to_python = python::json(&marked);
            let value = to_python.and_then(|json| serde_json::from_str(&json).ok());
            let to_python = value.map(|value| Box::new(JsonFile { text, value }));
            Err(JsonProblem { line: Some(error.line()), why: error.to_string(), to_python })
        }
    }
}
