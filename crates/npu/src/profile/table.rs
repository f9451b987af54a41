//! Profiles as CSV: what a model of the NPU says, or what was measured on a real engine.

use std::fmt;

use super::{Block, NetworkProfile};
use crate::sheet::{Sheet, TableError};

const COLUMNS: &[&str] = &["name", "compute_us", "fetch_us", "bytes"];

impl NetworkProfile {
    /// Whether a table is one of times, by its head, and not one of layers.
    #[must_use]
    pub fn is_table(text: &str) -> bool {
        let head = text.lines().next().unwrap_or("");
        head.split(',').any(|column| column.trim().trim_matches('"') == "compute_us")
    }

    /// Reads a table with the columns `name`, `compute_us`, `fetch_us` and `bytes`, a line a block: times of a
    /// profiler of a real engine serve as well as those of a mapping.
    ///
    /// # Errors
    /// All that is wrong, by line and column of `file`.
    pub fn from_csv(file: &str, text: &str) -> Result<Self, TableError> {
        let mut sheet = Sheet::parse(file, text, COLUMNS, &[])?;
        let read = sheet.rows(|sheet, row| {
            let label = sheet.text(row, "name").map(str::to_owned);
            let (compute, fetch) = (sheet.micros(row, "compute_us"), sheet.micros(row, "fetch_us"));
            let bytes = sheet.count(row, "bytes", 0);
            Some((Block { compute: compute?, fetch: fetch?, bytes: bytes? }, label?))
        });
        if read.is_empty() {
            sheet.problem(1, "", "has no blocks");
        }
        let (blocks, labels) = read.into_iter().unzip();
        sheet.finish(Self { name: file.to_owned(), blocks, labels })
    }
}

/// CSV, which [`NetworkProfile::from_csv`] reads.
impl fmt::Display for NetworkProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", COLUMNS.join(","))?;
        let micros = |picos: u64| format!("{}.{:06}", picos / 1_000_000, picos % 1_000_000);
        for (block, label) in self.blocks.iter().zip(&self.labels) {
            // No name with a comma or a quote would read.
            let label = label.replace([',', '"', '\n'], "_");
            let (compute, fetch) = (micros(block.compute), micros(block.fetch));
            writeln!(f, "{label},{compute},{fetch},{}", block.bytes)?;
        }
        Ok(())
    }
}
