//! JSON files: descriptions of systems and measurements.

use std::fmt;

use serde_json::{Map, Value};

use super::Missing;
use super::text;
use crate::submission::tree::Node;

/// A JSON file that reads.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonFile {
    text: String,
    /// What it says.
    pub value: Value,
}

/// A JSON file that does not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonProblem {
    /// Line, from 1, where it is known.
    pub line: Option<usize>,
    /// What is wrong.
    pub why: String,
}

impl fmt::Display for JsonProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for JsonProblem {}

impl JsonFile {
    /// A file that says nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self { text: String::new(), value: Value::Null }
    }

    /// Its fields; `None` if it is no object.
    #[must_use]
    pub fn object(&self) -> Option<&Map<String, Value>> {
        self.value.as_object()
    }

    /// A field.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.value.get(field)
    }

    /// The line of a field, from 1.
    #[must_use]
    pub fn line_of(&self, field: &str) -> Option<usize> {
        let at = self.text.find(&format!("\"{field}\""))?;
        Some(self.text[..at].matches('\n').count() + 1)
    }
}

/// Reads a JSON file.
///
/// # Errors
/// It cannot be read, is no text or no JSON.
pub fn read(file: Node<'_>) -> Result<JsonFile, JsonProblem> {
    let bytes = text::bytes(file).map_err(|missing| match missing {
        Missing::Absent => JsonProblem { line: None, why: "there is no such file".into() },
        Missing::Unreadable { why } => JsonProblem { line: None, why },
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|error| JsonProblem { line: None, why: format!("not text: {error}") })?;
    match serde_json::from_str(&text) {
        Ok(value) => Ok(JsonFile { text, value }),
        Err(error) => Err(JsonProblem { line: Some(error.line()), why: error.to_string() }),
    }
}
