//! A part of the study: a table, and a chart if its rows stand along an axis.

use std::fmt;

use serde_json::{Value, json};

/// A table of the study.
#[derive(Debug)]
pub struct Part {
    /// For programs.
    pub name: &'static str,
    /// For people.
    pub title: String,
    /// How to read it; may be empty.
    pub note: String,
    /// What its values are.
    pub columns: Vec<Column>,
    /// In the order in which they are shown.
    pub rows: Vec<Row>,
    /// What its rows stand along, and how.
    pub axis: Option<(&'static str, Scale)>,
    /// What the numbers of a page have bars of.
    pub bars: Bars,
}

/// What a number is compared with at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bars {
    /// The greatest of its row.
    OfRow,
    /// The greatest of its column: the last row is the sum.
    OfColumn,
}

/// How rows stand along their axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm.
    Log,
}

/// What a column is.
#[derive(Debug, Clone)]
pub struct Column {
    /// As tables name it.
    pub name: &'static str,
    /// Of its values; may be empty.
    pub unit: &'static str,
}

/// A row.
#[derive(Debug)]
pub struct Row {
    /// What it is.
    pub label: String,
    /// Where it stands along the axis.
    pub x: Option<f64>,
    /// One for each column, if it is known.
    pub values: Vec<Option<f64>>,
}

impl Part {
    /// A part without rows.
    pub fn new(name: &'static str, title: &str, note: &str, columns: Vec<Column>) -> Self {
        let (title, note) = (title.to_owned(), note.to_owned());
        Self { name, title, note, columns, rows: Vec::new(), axis: None, bars: Bars::OfRow }
    }

    /// Its rows stand along an axis.
    #[must_use]
    pub fn over(mut self, axis: &'static str, scale: Scale) -> Self {
        self.axis = Some((axis, scale));
        self
    }

    /// Its last row is the sum of the others.
    #[must_use]
    pub fn summed(mut self) -> Self {
        self.bars = Bars::OfColumn;
        self
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let columns = self.columns.iter().map(|of| json!({"name": of.name, "unit": of.unit}));
        let rows = self.rows.iter().map(|of| json!({"label": of.label, "values": of.values}));
        json!({
            "name": self.name, "title": self.title, "note": self.note,
            "columns": columns.collect::<Vec<_>>(), "rows": rows.collect::<Vec<_>>(),
        })
    }
}

/// Four digits.
pub fn digits(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() >= 1000.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 100.0 => format!("{value:.1}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.2}"),
        Some(value) if value.abs() >= 1.0 => format!("{value:.3}"),
        Some(value) => format!("{value:.4}"),
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        if !self.note.is_empty() {
            writeln!(f, "  {}", self.note)?;
        }
        if self.rows.is_empty() {
            return Ok(());
        }
        let head = self.axis.map_or("layer", |(axis, _)| axis);
        let labels = self.rows.iter().map(|row| row.label.chars().count());
        let first = labels.chain([head.len()]).max().unwrap_or(0);
        let names = self.columns.iter().map(|column| match column.unit {
            "" => column.name.to_owned(),
            unit => format!("{}, {unit}", column.name),
        });
        let names: Vec<String> = names.collect();
        write!(f, "  {head:<first$}")?;
        for name in &names {
            write!(f, "  {name:>9}")?;
        }
        writeln!(f)?;
        for row in &self.rows {
            write!(f, "  {:<first$}", row.label)?;
            for (value, name) in row.values.iter().zip(&names) {
                let width = name.chars().count().max(9);
                write!(f, "  {:>width$}", digits(*value))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_stands_in_columns() {
        let columns =
            vec![Column { name: "a", unit: "ms" }, Column { name: "long one", unit: "GFLOP/s" }];
        let mut part = Part::new("p", "Title", "Note.", columns).over("rows", Scale::Log);
        let values = vec![Some(1.23456), None];
        part.rows.push(Row { label: "16".to_owned(), x: Some(16.0), values });
        let expected = "Title\n  Note.\n  rows      a, ms  long one, GFLOP/s\n  16        1.235                  -\n";
        assert_eq!(part.to_string(), expected);
        assert_eq!(part.json()["rows"][0]["values"][1], Value::Null);
        assert_eq!(
            [0.01234, 12.345, 12345.6].map(|of| digits(Some(of))),
            ["0.0123", "12.35", "12346"]
        );
    }
}
