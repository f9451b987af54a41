//! A part of the study: a table, and a chart if its rows have positions on an axis.

use std::fmt;

use serde_json::{Value, json};

/// A table of the study.
#[derive(Debug)]
pub struct Part {
    /// Name in JSON documents.
    pub name: &'static str,
    /// Title in reports.
    pub title: String,
    /// How to read the table; may be empty.
    pub note: String,
    /// Columns of values.
    pub columns: Vec<Column>,
    /// Rows in display order.
    pub rows: Vec<Row>,
    /// Axis on which the rows are positioned, and its scale.
    pub axis: Option<(&'static str, Scale)>,
    /// What bars behind numbers are relative to.
    pub bars: BarScale,
}

/// Reference of the bars behind numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarScale {
    /// The largest number of the row.
    Row,
    /// The largest number of the column, whose last row is the sum.
    Column,
}

/// Scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Linear.
    Linear,
    /// Logarithmic.
    Log,
}

/// Header of a column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Name in tables.
    pub name: &'static str,
    /// Unit of the values; may be empty.
    pub unit: &'static str,
}

/// A row of a table.
#[derive(Debug)]
pub struct Row {
    /// Label of the row.
    pub label: String,
    /// Position on the axis.
    pub x: Option<f64>,
    /// One value per column; `None` if unknown.
    pub values: Vec<Option<f64>>,
}

impl Part {
    /// Creates a part without rows.
    pub fn new(name: &'static str, title: &str, note: &str, columns: Vec<Column>) -> Self {
        let (title, note) = (title.to_owned(), note.to_owned());
        Self { name, title, note, columns, rows: Vec::new(), axis: None, bars: BarScale::Row }
    }

    /// Positions the rows on an axis.
    #[must_use]
    pub fn over(mut self, axis: &'static str, scale: Scale) -> Self {
        self.axis = Some((axis, scale));
        self
    }

    /// Marks the last row as the sum of the others.
    #[must_use]
    pub fn summed(mut self) -> Self {
        self.bars = BarScale::Column;
        self
    }

    /// Returns the part as a JSON document.
    pub fn json(&self) -> Value {
        let columns =
            self.columns.iter().map(|column| json!({"name": column.name, "unit": column.unit}));
        let rows = self.rows.iter().map(|row| json!({"label": row.label, "values": row.values}));
        json!({
            "name": self.name, "title": self.title, "note": self.note,
            "columns": columns.collect::<Vec<_>>(), "rows": rows.collect::<Vec<_>>(),
        })
    }
}

/// Formats a value with about four significant digits; `-` if unknown.
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
            [0.01234, 12.345, 12345.6].map(|value| digits(Some(value))),
            ["0.0123", "12.35", "12346"]
        );
    }
}
