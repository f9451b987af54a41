//! Raw records as text. Rows are written one by one, so the text is never held in memory.

use std::fmt::Display;
use std::io::{self, Write};

use super::TestRecords;
use super::rows::{COLUMNS, RETRY_COLUMNS, SESSION_COLUMNS};

/// Columns that not every run has.
#[derive(Debug, Clone, Copy)]
pub struct OptionalColumns {
    /// Those of sessions.
    pub sessions: bool,
    /// Those of retries.
    pub retries: bool,
}

/// Writes the header line, with units in the names.
pub fn csv_head(out: &mut dyn Write, has: OptionalColumns) -> io::Result<()> {
    let sessions: &[&str] = if has.sessions { &SESSION_COLUMNS } else { &[] };
    let retries: &[&str] = if has.retries { &RETRY_COLUMNS } else { &[] };
    write!(out, "{}\r\n", [&COLUMNS[..], sessions, retries].concat().join(","))
}

/// Writes comma-separated values as in RFC 4180: lines end with CR LF, and missing values are
/// empty.
pub fn csv(
    out: &mut (impl Write + ?Sized),
    test: &TestRecords<'_>,
    has: OptionalColumns,
) -> io::Result<()> {
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
        if has.sessions {
            cell(out, row.session)?;
            cell(out, row.turn)?;
        }
        if has.retries {
            cell(out, row.retries)?;
            cell(out, row.retry_wait_ns)?;
        }
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

/// Returns a CSV cell, in quotes where RFC 4180 requires them.
///
/// ```
/// use dyno_results::export::quoted;
///
/// assert_eq!(quoted("a,b"), "\"a,b\"");
/// ```
pub fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

/// Writes one JSON object per line, each with all keys; missing values are null. Rows of a run without
/// sessions or retries have no keys of them.
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
