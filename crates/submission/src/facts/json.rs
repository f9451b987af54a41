//! JSON files: descriptions of systems and measurements.

use std::fmt;

use serde_json::{Map, Value};

use super::Missing;
use super::text;
use crate::python;
use crate::tree::Node;

/// A JSON file that reads.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonFile {
    text: String,
    /// What it says.
    pub value: Value,
}

/// A JSON file that does not read.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonProblem {
    /// Line, from 1, where it is known.
    pub line: Option<usize>,
    /// What is wrong.
    pub why: String,
    /// What Python reads nevertheless, which knows `NaN` and `Infinity`.
    to_python: Option<Box<JsonFile>>,
}

impl JsonProblem {
    /// What Python reads of the file, if it does.
    ///
    /// # Errors
    /// It does not either.
    pub fn to_python(mut self) -> Result<JsonFile, Self> {
        self.to_python.take().map(|file| *file).ok_or(self)
    }

    /// As [`Self::to_python`].
    ///
    /// # Errors
    /// It does not either.
    pub fn as_python(&self) -> Result<&JsonFile, &Self> {
        self.to_python.as_deref().ok_or(self)
    }

    fn of(why: impl Into<String>) -> Self {
        Self { line: None, why: why.into(), to_python: None }
    }
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
        Missing::Absent => JsonProblem::of("there is no such file"),
        Missing::Unreadable { why } => JsonProblem::of(why),
    })?;
    let text =
        String::from_utf8(bytes).map_err(|error| JsonProblem::of(format!("not text: {error}")))?;
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
