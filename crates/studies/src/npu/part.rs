//! Tables of the study, as Markdown and as JSON.

use std::fmt;

use serde_json::{Value, json};

/// Content of a table cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A name, or several values that belong together.
    Text(String),
    /// A number, with the digits after the decimal point.
    Number(f64, usize),
    /// No value is known.
    Empty,
}

impl Cell {
    /// Creates a text cell.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Creates a cell that shows a share in percent.
    pub fn percent(share: f64, digits: usize) -> Self {
        Self::Number(100.0 * share, digits)
    }
}

impl From<Option<f64>> for Cell {
    /// Creates a cell with a value of the thesis, in its original precision.
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Empty, |value| Self::Text(value.to_string()))
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(value, digits) if value.is_finite() => {
                let text = format!("{value:.digits$}");
                // A number that rounds to 0 is shown without a sign.
                let is_nothing = !text.contains(|c: char| ('1'..='9').contains(&c));
                f.write_str(if is_nothing { text.trim_start_matches('-') } else { &text })
            }
            Self::Number(..) | Self::Empty => f.write_str("-"),
        }
    }
}

/// A table with a title.
#[derive(Clone, Debug)]
pub struct Table {
    /// Title.
    pub title: String,
    /// Column headers, with units.
    pub columns: Vec<String>,
    /// Rows with one cell per column.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Creates a table without rows.
    pub fn new<'a>(
        title: impl Into<String>,
        columns: impl IntoIterator<Item = impl Into<std::borrow::Cow<'a, str>>>,
    ) -> Self {
        let columns = columns.into_iter().map(|column| column.into().into_owned()).collect();
        Self { title: title.into(), columns, rows: Vec::new() }
    }

    /// Adds a row that starts with a name.
    pub fn row(&mut self, name: impl Into<String>, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(std::iter::once(Cell::text(name)).chain(cells).collect());
    }

    fn json(&self) -> Value {
        let cell = |cell: &Cell| match cell {
            Cell::Text(text) => json!(text),
            // The printed number, so that documents of different machines are equal.
            Cell::Number(..) => json!(cell.to_string().parse::<f64>().ok()),
            Cell::Empty => Value::Null,
        };
        let rows = self.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>());
        json!({ "title": self.title, "columns": self.columns, "rows": rows.collect::<Vec<_>>() })
    }
}

/// Result of a part of the study.
#[derive(Clone, Debug)]
pub struct Part {
    /// Tables in display order.
    pub tables: Vec<Table>,
}

impl Part {
    /// Returns the part as a JSON document.
    pub fn json(&self, name: &str) -> Value {
        json!({ "part": name, "tables": self.tables.iter().map(Table::json).collect::<Vec<_>>() })
    }
}

/// Writes Markdown.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in &self.tables {
            writeln!(f, "**{}**\n", table.title)?;
            writeln!(f, "| {} |", table.columns.join(" | "))?;
            writeln!(f, "|{}", " --- |".repeat(table.columns.len()))?;
            for row in &table.rows {
                let cells: Vec<String> = row.iter().map(Cell::to_string).collect();
                writeln!(f, "| {} |", cells.join(" | "))?;
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
    fn a_table_is_markdown_and_json() {
        let mut table = Table::new("STP", ["pair", "ours", "thesis, %"]);
        table.row("RN + BB", [Cell::Number(1.2345, 2), Cell::from(Some(21.6))]);
        table.row("mean", [Cell::Number(f64::INFINITY, 2), Cell::Empty]);
        table.row("least", [Cell::Number(-0.001, 2), Cell::Number(-1.0, 1)]);
        let part = Part { tables: vec![table] };
        let expected = "**STP**\n\n| pair | ours | thesis, % |\n| --- | --- | --- |\n\
                        | RN + BB | 1.23 | 21.6 |\n| mean | - | - |\n| least | 0.00 | -1.0 |\n\n";
        assert_eq!(part.to_string(), expected);
        let rows = &part.json("iv10")["tables"][0]["rows"];
        assert_eq!(
            *rows,
            json!([["RN + BB", 1.23, "21.6"], ["mean", null, null], ["least", 0.0, -1.0]])
        );
    }
}
