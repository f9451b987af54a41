//! Tables of the study, as Markdown and as JSON.

use std::fmt;

use dyno_experiment::Failure;
use dyno_npu::schedule::SchedulerSpec;
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

/// Part of the cases that a quick study plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuickShare {
    /// Number of cases that were played.
    pub played: usize,
    /// Number of cases of the complete study.
    pub of: usize,
    /// Name of the cases.
    pub what: &'static str,
}

/// A table with a title.
#[derive(Clone, Debug)]
pub struct Table {
    /// Title.
    pub title: String,
    /// Schedulers with all options, if the table depends on readings.
    pub readings: Vec<String>,
    /// Cases behind the table, if it is that of a quick study.
    pub quick: Option<QuickShare>,
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
        let (readings, quick, rows) = (Vec::new(), None, Vec::new());
        Self { title: title.into(), readings, quick, columns, rows }
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
        let quick = self.quick.map(
            |QuickShare { played, of, what }| json!({ "played": played, "of": of, "cases": what }),
        );
        json!({
            "title": self.title,
            "readings": self.readings,
            "partial": quick,
            "columns": self.columns,
            "rows": rows.collect::<Vec<_>>(),
        })
    }
}

/// Result of a part of the study.
#[derive(Clone, Debug)]
pub struct Part {
    /// Tables in display order.
    pub tables: Vec<Table>,
}

impl Part {
    /// Names the readings that all tables depend on, with all options.
    ///
    /// # Errors
    /// Fails if a text specifies no scheduler.
    pub fn with_readings(mut self, specs: &[&str]) -> Result<Self, Failure> {
        let mut names = Vec::new();
        for spec in specs {
            let spec: SchedulerSpec = spec.parse().map_err(Failure::usage)?;
            names.push(format!("{spec:#}"));
        }
        self.tables.iter_mut().for_each(|table| table.readings.clone_from(&names));
        Ok(self)
    }

    /// Marks all tables as those of a quick study, if not all cases were played.
    pub fn of_cases(mut self, played: usize, of: usize, what: &'static str) -> Self {
        if played < of {
            let quick = Some(QuickShare { played, of, what });
            self.tables.iter_mut().for_each(|table| table.quick = quick);
        }
        self
    }

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
            if let Some(QuickShare { played, of, what }) = table.quick {
                writeln!(
                    f,
                    "_Quick study: {played} of {of} {what}. Means are of these and compare neither with the thesis nor \
                     with the page._\n"
                )?;
            }
            if !table.readings.is_empty() {
                let names: Vec<_> = table.readings.iter().map(|name| format!("`{name}`")).collect();
                writeln!(f, "_Readings: {}._\n", names.join("; "))?;
            }
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
    fn a_quick_table_and_its_readings_are_marked() {
        let part = || Part { tables: vec![Table::new("STP", ["pair"])] };
        let text =
            part().of_cases(2, 16, "pairs").with_readings(&["stitched"]).unwrap().to_string();
        assert!(text.contains("_Quick study: 2 of 16 pairs. "), "{text}");
        let reading = "_Readings: `stitched:ties=memory-first,fetch=whole,inherent=counted,relief=least-idle`._";
        assert!(text.contains(reading), "{text}");
        let quick = &part().of_cases(2, 16, "pairs").json("iv10")["tables"][0]["partial"];
        assert_eq!(*quick, json!({ "played": 2, "of": 16, "cases": "pairs" }));
        let whole = part().of_cases(16, 16, "pairs");
        assert!(!whole.to_string().contains("Quick"));
        assert_eq!(whole.json("iv10")["tables"][0]["partial"], Value::Null);
    }

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
