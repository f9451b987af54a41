//! Raw records as text. Rows are written as they are made: a hundred million of
//! them take no memory for their text.

use std::fmt::Display;
use std::io::{self, Write};

use super::TestRecords;
use super::rows::COLUMNS;

/// The header line, with units in the names.
pub fn csv_head(out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{}\r\n", COLUMNS.join(","))
}

/// Comma-separated values as in RFC 4180: lines end with CR LF, and what is not
/// there is empty.
pub fn csv(out: &mut (impl Write + ?Sized), test: &TestRecords<'_>) -> io::Result<()> {
    let folder = quoted(test.name);
    for row in test.rows() {
        write!(out, "{folder},{},{},{},{}", row.row, row.sample, row.scheduled_ns, row.issued_ns)?;
        for time in [
            row.completed_ns,
            row.latency_ns,
            row.client_lag_ns,
            row.time_to_first_token_ns,
            row.output_tokens,
        ] {
            cell(out, time)?;
        }
        cell(out, row.failure)?;
        out.write_all(b"\r\n")?;
    }
    Ok(())
}

fn cell(out: &mut (impl Write + ?Sized), value: Option<impl Display>) -> io::Result<()> {
    match value {
        Some(value) => write!(out, ",{value}"),
        None => out.write_all(b","),
    }
}

/// A cell, in quotes where it needs them.
pub fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

/// A JSON object a line, every key in every line; what is not there is null.
pub fn jsonl(out: &mut (impl Write + ?Sized), test: &TestRecords<'_>) -> io::Result<()> {
    for row in test.rows() {
        serde_json::to_writer(&mut *out, &row)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_separators_is_quoted() {
        assert_eq!(quoted("Server/performance"), "Server/performance");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
