//! Readers of rows: JSON lines, a JSON list, or CSV.

use std::collections::HashSet;
use std::fmt;

use serde_json::{Map, Value};

use super::members::from_cell;
use super::rows::is_list;

/// A row: values by column name.
pub type Row = Map<String, Value>;

/// Rows of a file, in order. Each may have an error of its own, with its position.
pub type Rows = Box<dyn Iterator<Item = Result<Row, ReadError>>>;

/// Format of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line.
    JsonLines,
    /// A JSON list of objects, or objects one after the other.
    Json,
    /// Comma-separated values, with column names in the first line.
    Csv,
}

/// Error in a workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", row_label(*.row))]
pub struct ReadError {
    /// Number of the row or line, from 1; 0 means the whole file.
    pub row: usize,
    /// The error.
    pub why: String,
}

fn row_label(row: usize) -> String {
    if row == 0 { String::new() } else { format!("row {row}: ") }
}

impl Format {
    /// Returns the format of a file with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        let (_, extension) = name.rsplit_once('.')?;
        match extension.to_ascii_lowercase().as_str() {
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }

    /// Reads rows one by one, so that large files need little memory beside their own.
    ///
    /// # Errors
    /// A file without valid columns.
    pub fn rows(self, bytes: impl Into<Vec<u8>>) -> Result<Rows, ReadError> {
        let bytes = bytes.into();
        match self {
            Self::Json => Ok(Box::new(Elements::new(bytes))),
            Self::JsonLines => Ok(Box::new(Lines { at: start(&bytes), bytes, row: 0 })),
            Self::Csv => cells(bytes),
        }
    }
}

/// Returns the position of the first character. Some editors start a UTF-8 file with a byte order
/// mark.
fn start(bytes: &[u8]) -> usize {
    if bytes.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 }
}

/// Returns the records of a table.
fn cells(mut bytes: Vec<u8>) -> Result<Rows, ReadError> {
    let wrong = |row: usize, why: &dyn fmt::Display| ReadError { row, why: why.to_string() };
    bytes.drain(..start(&bytes));
    if let Some(line) = open_quote(&bytes) {
        let why = format!(
            "the quote that begins in line {line} has no end; write \" as \"\" within \
                           quotes"
        );
        return Err(wrong(0, &why));
    }
    let mut reader = csv::Reader::from_reader(std::io::Cursor::new(bytes));
    let names = reader.headers().map_err(|error| wrong(1, &error))?.clone();
    if let Some(name) = repeated(&names) {
        return Err(wrong(1, &format!("two columns are named `{name}`")));
    }
    let row = move |(at, record): (usize, csv::Result<csv::StringRecord>)| {
        let record = record.map_err(|error| wrong(at + 2, &error))?;
        let cells = names.iter().zip(record.iter());
        let value = |name: &str, cell| from_cell(name, cell, is_list(name));
        Ok(cells.map(|(name, cell)| (name.to_owned(), value(name, cell))).collect())
    };
    Ok(Box::new(reader.into_records().enumerate().map(row)))
}

/// Returns the first name that occurs twice.
fn repeated(names: &csv::StringRecord) -> Option<&str> {
    let mut seen = HashSet::new();
    names.iter().find(|name| !seen.insert(*name))
}

/// Returns the line, from 1, of a quote that the end of a table leaves open. The reader would take the rest
/// of the table as one cell.
fn open_quote(bytes: &[u8]) -> Option<usize> {
    let (mut line, mut opened, mut begins_cell) = (1, None, true);
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match (opened, byte) {
            (None, b'"') if begins_cell => opened = Some(line),
            // Two quotes are one of the cell.
            (Some(_), b'"') if bytes.get(at + 1) == Some(&b'"') => at += 1,
            (Some(_), b'"') => opened = None,
            _ => {}
        }
        begins_cell = opened.is_none() && matches!(byte, b',' | b'\n' | b'\r');
        line += usize::from(byte == b'\n');
        at += 1;
    }
    opened
}

/// Returns the row that a JSON value is.
fn row_in(value: Value) -> Result<Row, String> {
    let found = match value {
        Value::Object(row) => return Ok(row),
        Value::Array(_) => "a list",
        Value::String(_) => "a string",
        Value::Number(_) => "a number",
        Value::Bool(_) => "true or false",
        Value::Null => "null",
    };
    Err(format!("expected an object such as {{\"prompt\": \"...\"}}, found {found}"))
}

/// Returns why a text is not JSON. Its position counts from the start of the row.
fn syntax_error(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "the JSON text is cut off".into();
    }
    format!("not valid JSON: {error}")
}

/// Lines with a JSON object each; empty ones are skipped.
struct Lines {
    bytes: Vec<u8>,
    at: usize,
    /// Lines so far.
    row: usize,
}

impl Iterator for Lines {
    type Item = Result<Row, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.bytes.len() {
            let rest = &self.bytes[self.at..];
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let line = &rest[..end];
            self.at += end + 1;
            self.row += 1;
            if !line.trim_ascii().is_empty() {
                let value = serde_json::from_slice(line).map_err(|error| syntax_error(&error));
                let row = value.and_then(row_in);
                return Some(row.map_err(|why| ReadError { row: self.row, why }));
            }
        }
        None
    }
}

/// Elements of a JSON list, or JSON objects that follow each other, as in files of JSON lines under
/// another name.
struct Elements {
    bytes: Vec<u8>,
    at: usize,
    is_list: bool,
    /// Elements so far.
    row: usize,
    is_over: bool,
}

impl Elements {
    fn new(bytes: Vec<u8>) -> Self {
        let mut elements =
            Self { at: start(&bytes), bytes, is_list: false, row: 0, is_over: false };
        if elements.next_byte() == Some(b'[') {
            elements.at += 1;
            elements.is_list = true;
        }
        elements
    }

    /// Skips white space. Returns the next byte.
    fn next_byte(&mut self) -> Option<u8> {
        let rest = &self.bytes[self.at..];
        self.at += rest.len() - rest.trim_ascii_start().len();
        self.bytes.get(self.at).copied()
    }

    /// Skips what is before an element, or the end of the list. Returns false at the end.
    fn advance(&mut self) -> Result<bool, &'static str> {
        let next = self.next_byte();
        if !self.is_list {
            return Ok(next.is_some());
        }
        match (next, self.row) {
            (Some(b']'), _) => {
                self.at += 1;
                match self.next_byte() {
                    None => Ok(false),
                    Some(_) => Err("unexpected data after the list"),
                }
            }
            (Some(b','), 1..) => {
                self.at += 1;
                Ok(true)
            }
            (Some(_), 0) => Ok(true),
            (Some(_), _) => Err("expected a comma or the end of the list"),
            (None, _) => Err("the list has no end; the file may be cut off"),
        }
    }

    fn element(&mut self) -> Result<Option<Row>, String> {
        if !self.advance()? {
            return Ok(None);
        }
        self.row += 1;
        let rest = &self.bytes[self.at..];
        let mut elements = serde_json::Deserializer::from_slice(rest).into_iter::<Value>();
        let found = elements.next().ok_or("the list has no end; the file may be cut off")?;
        let row = row_in(found.map_err(|error| syntax_error(&error))?)?;
        self.at += elements.byte_offset();
        Ok(Some(row))
    }
}

impl Iterator for Elements {
    type Item = Result<Row, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let found = self.element();
        self.is_over = !matches!(found, Ok(Some(_)));
        found.map_err(|why| ReadError { row: self.row, why }).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(format: Format, text: &str) -> Result<Vec<Row>, ReadError> {
        format.rows(text)?.collect()
    }

    #[test]
    fn lists_and_lines_of_objects_are_rows() {
        for text in [
            r#"[{"a": 1}, {"a": "],"}]"#,
            " [ {\"a\":1},{\"a\":\"],\"}\n]\n",
            "{\"a\":1}\n{\"a\":\"],\"}",
        ] {
            let read = rows(Format::Json, text).unwrap();
            assert_eq!((read.len(), read[1]["a"].as_str()), (2, Some("],")), "{text}");
        }
        assert!(rows(Format::Json, "[]").unwrap().is_empty());
        for (text, why) in [
            ("[{\"a\":1}", "row 1: the list has no end"),
            ("[{\"a\":1},", "row 2: the list has no end"),
            ("[{\"a\":1} {}]", "row 1: expected a comma"),
            ("[1, 2]", "row 1: expected an object such as {\"prompt\": \"...\"}, found a number"),
            (
                "[\"a\", \"b\"]",
                "row 1: expected an object such as {\"prompt\": \"...\"}, found a string",
            ),
            (
                "[{}, [\"a\"]]",
                "row 2: expected an object such as {\"prompt\": \"...\"}, found a list",
            ),
            ("[null]", "row 1: expected an object such as {\"prompt\": \"...\"}, found null"),
            ("[{\"a\":", "row 1: the JSON text is cut off"),
            ("[{'a': 1}]", "row 1: not valid JSON: key must be a string"),
            ("[{}] x", "row 1: unexpected data after"),
        ] {
            let error = rows(Format::Json, text).unwrap_err().to_string();
            assert!(error.starts_with(why), "{text}: {error}");
        }
        for (text, why) in [
            (
                "{}\n\"x\"\n",
                "row 2: expected an object such as {\"prompt\": \"...\"}, found a string",
            ),
            (
                "true\n",
                "row 1: expected an object such as {\"prompt\": \"...\"}, found true or false",
            ),
            ("{\"prompt\":\n", "row 1: the JSON text is cut off"),
        ] {
            assert_eq!(rows(Format::JsonLines, text).unwrap_err().to_string(), why, "{text}");
        }
    }

    #[test]
    fn names_have_their_formats() {
        assert_eq!(Format::of_name("a.b/PROMPTS.CSV"), Some(Format::Csv));
        assert_eq!(Format::of_name("a.txt"), None);
        let error = rows(Format::Csv, "text\n\"a\"\n\"b\nc\n").unwrap_err().to_string();
        assert!(error.contains("begins in line 3"), "{error}");
        assert!(rows(Format::Csv, "text\n\"a \"\"b\"\" c\nd\"\n5\" e\n").is_ok());
        let error = rows(Format::Csv, "text,n,text\na,1,b\n").unwrap_err().to_string();
        assert_eq!(error, "row 1: two columns are named `text`");
    }
}
