//! CSV reader whose problems name file, line and column.

use std::fmt;

use thiserror::Error;

use crate::nearest::nearest;

/// Problems of a table that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct TableError {
    /// Name of the file.
    pub file: String,
    /// Problems sorted by line; at least one.
    pub problems: Vec<TableProblem>,
}

/// One problem of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableProblem {
    /// Line number, counted from 1.
    pub line: u64,
    /// Column; empty if the problem concerns the whole line.
    pub column: String,
    /// Expected and found values.
    pub problem: String,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, TableProblem { line, column, problem }) in self.problems.iter().enumerate() {
            let end = if at == 0 { "" } else { "\n" };
            write!(f, "{end}{}:{line}: ", self.file)?;
            match column.as_str() {
                "" => f.write_str(problem)?,
                column => write!(f, "`{column}`: {problem}")?,
            }
        }
        Ok(())
    }
}

/// Largest time, us (about 17 minutes). Ten thousand lines of it fit into 64 bits of ps.
const MOST_MICROS: f64 = 1e9;

/// A sheet that is being read.
pub(crate) struct Sheet<'c> {
    file: String,
    required: &'c [&'c str],
    optional: &'c [&'c str],
    /// Position of each column, in the order of `required` and `optional`.
    places: Vec<Option<usize>>,
    /// Records with their line numbers.
    rows: Vec<(u64, csv::StringRecord)>,
    problems: Vec<TableProblem>,
}

/// One line of a sheet.
#[derive(Clone, Copy)]
pub(crate) struct Row<'s> {
    pub line: u64,
    record: &'s csv::StringRecord,
}

/// Line numbers of byte offsets, which must be queried in ascending order. The CSV reader would report
/// the line of an empty line before a record.
struct Lines<'t> {
    text: &'t str,
    at: usize,
    line: u64,
}

impl Lines<'_> {
    /// Returns the line of the first character at or after `byte` that is no line break.
    fn line_of(&mut self, byte: u64) -> u64 {
        let byte = usize::try_from(byte).unwrap_or(usize::MAX);
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() && (self.at < byte || matches!(bytes[self.at], b'\r' | b'\n')) {
            self.line += u64::from(bytes[self.at] == b'\n');
            self.at += 1;
        }
        self.line
    }
}

impl<'c> Sheet<'c> {
    /// Splits a text into records. Columns may be in any order; a column that is neither required nor optional is a
    /// problem.
    pub fn parse(
        file: &str,
        text: &str,
        required: &'c [&'c str],
        optional: &'c [&'c str],
    ) -> Result<Self, TableError> {
        let mut sheet = Self {
            file: file.to_owned(),
            required,
            optional,
            places: Vec::new(),
            rows: Vec::new(),
            problems: Vec::new(),
        };
        let text = text.trim_start_matches('\u{feff}');
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let mut records = reader.records();
        match records.next() {
            Some(Ok(head)) => sheet.head(&head),
            Some(Err(error)) => sheet.problem(1, "", error),
            None => sheet.problem(1, "", "is empty; expected a line with the names of the columns"),
        }
        let mut lines = Lines { text, at: 0, line: 1 };
        for record in records {
            match record {
                Ok(record) => {
                    let at = record.position().map_or(0, csv::Position::byte);
                    sheet.rows.push((lines.line_of(at), record));
                }
                Err(error) => {
                    let line = error.position().map_or(0, csv::Position::line);
                    sheet.problem(line, "", error);
                }
            }
        }
        // Without valid columns, every cell would be reported as missing.
        if sheet.problems.is_empty() { Ok(sheet) } else { Err(sheet.wrong()) }
    }

    fn head(&mut self, head: &csv::StringRecord) {
        let known = self.required.iter().chain(self.optional);
        self.places = known.map(|name| head.iter().position(|cell| cell == *name)).collect();
        for (at, cell) in head.iter().enumerate() {
            let names = self.required.iter().chain(self.optional).copied();
            if head.iter().take(at).any(|before| before == cell) {
                self.problem(1, cell, "appears twice");
            } else if !names.clone().any(|name| name == cell) {
                let near = nearest(cell, names);
                self.problem(1, cell, format_args!("unknown column{near}"));
            }
        }
        let missing: Vec<&str> = self
            .required
            .iter()
            .zip(&self.places)
            .filter_map(|(name, place)| place.is_none().then_some(*name))
            .collect();
        for name in missing {
            self.problem(1, name, "is missing");
        }
    }

    /// Records a problem at a line, counted from 1.
    pub fn problem(&mut self, line: u64, column: &str, problem: impl fmt::Display) {
        let (column, problem) = (column.to_owned(), problem.to_string());
        self.problems.push(TableProblem { line, column, problem });
    }

    /// Returns whether no problem is recorded.
    pub fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }

    fn wrong(mut self) -> TableError {
        self.problems.sort_by_key(|problem| problem.line);
        TableError { file: self.file, problems: self.problems }
    }

    /// Returns `read`, or all recorded problems.
    pub fn finish<T>(self, read: T) -> Result<T, TableError> {
        if self.problems.is_empty() { Ok(read) } else { Err(self.wrong()) }
    }

    /// Reads each line with `read`, which returns `None` after it recorded a problem.
    pub fn rows<T>(&mut self, mut read: impl FnMut(&mut Self, Row<'_>) -> Option<T>) -> Vec<T> {
        let rows = std::mem::take(&mut self.rows);
        rows.iter().filter_map(|(line, record)| read(self, Row { line: *line, record })).collect()
    }

    /// Returns the text of a cell; `None` if the column or the cell is absent.
    fn cell<'r>(&self, row: Row<'r>, column: &str) -> Option<&'r str> {
        let mut known = self.required.iter().chain(self.optional).zip(&self.places);
        let (_, place) = known.find(|(name, _)| **name == column)?;
        row.record.get((*place)?)
    }

    /// Returns the text of a required cell.
    pub fn text<'r>(&mut self, row: Row<'r>, column: &str) -> Option<&'r str> {
        let text = self.cell(row, column).filter(|text| !text.is_empty());
        if text.is_none() {
            self.problem(row.line, column, "is missing");
        }
        text
    }

    /// Returns the text of an optional cell; `None` if it is absent or empty.
    pub fn optional_text<'r>(&self, row: Row<'r>, column: &str) -> Option<&'r str> {
        self.cell(row, column).filter(|text| !text.is_empty())
    }

    /// Returns the whole number of a required cell, at least `least`.
    pub fn count(&mut self, row: Row<'_>, column: &str, least: u64) -> Option<u64> {
        let text = self.text(row, column)?;
        self.number(row, column, text, least)
    }

    /// Returns the whole number of an optional cell, at least `least`. The outer `None` means a problem, the inner one
    /// an absent or empty cell.
    pub fn optional_count(
        &mut self,
        row: Row<'_>,
        column: &str,
        least: u64,
    ) -> Option<Option<u64>> {
        let Some(text) = self.optional_text(row, column) else { return Some(None) };
        self.number(row, column, text, least).map(Some)
    }

    /// Returns the time of a required cell, in us of at least 0, as ps.
    pub fn micros(&mut self, row: Row<'_>, column: &str) -> Option<u64> {
        let text = self.text(row, column)?;
        let found = text.parse().ok().filter(|us| (0.0..=MOST_MICROS).contains(us));
        let Some(us): Option<f64> = found else {
            let problem = format!("expected a time of 0 to {MOST_MICROS:e} us, found `{text}`");
            self.problem(row.line, column, problem);
            return None;
        };
        Some((us * 1e6).round() as u64)
    }

    fn number(&mut self, row: Row<'_>, column: &str, text: &str, least: u64) -> Option<u64> {
        use std::num::IntErrorKind::PosOverflow;
        let problem = match text.parse::<u64>() {
            Ok(number) if number >= least => return Some(number),
            Err(error) if *error.kind() == PosOverflow => {
                format!("{text} exceeds 64 bits")
            }
            _ => format!("expected a whole number of at least {least}, found `{text}`"),
        };
        self.problem(row.line, column, problem);
        None
    }
}
