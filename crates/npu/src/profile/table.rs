//! Profiles as CSV: times from the NPU model or measured on a real engine.

use std::fmt;

use super::{Block, NetworkProfile};
use crate::sheet::{Sheet, TableError};

const COLUMNS: &[&str] = &["name", "compute_us", "fetch_us", "bytes"];

impl NetworkProfile {
    /// Returns whether the header of a CSV table is that of a profile; otherwise the table may be one of layers.
    pub fn is_table(text: &str) -> bool {
        let head = text.lines().next().unwrap_or("");
        head.split(',').any(|column| column.trim().trim_matches('"') == "compute_us")
    }

    /// Reads a table with the columns `name`, `compute_us`, `fetch_us` and `bytes`, one line per block. The times may
    /// come from a mapping or from a profiler of a real engine.
    ///
    /// ```
    /// use dyno_npu::profile::NetworkProfile;
    ///
    /// let text = "name,compute_us,fetch_us,bytes\nconv1,1.5,2,100\n";
    /// let profile = NetworkProfile::from_csv("measured.csv", text)?;
    /// assert_eq!((profile.blocks[0].compute, profile.blocks[0].fetch), (1_500_000, 2_000_000));
    /// # Ok::<(), dyno_npu::workload::TableError>(())
    /// ```
    ///
    /// # Errors
    /// Returns all problems with the lines and columns of `file`.
    pub fn from_csv(file: &str, text: &str) -> Result<Self, TableError> {
        let mut sheet = Sheet::parse(file, text, COLUMNS, &[])?;
        let read = sheet.rows(|sheet, row| {
            let label = sheet.text(row, "name").map(str::to_owned);
            let (compute, fetch) = (sheet.micros(row, "compute_us"), sheet.micros(row, "fetch_us"));
            let bytes = sheet.count(row, "bytes", 0);
            Some((Block { compute: compute?, fetch: fetch?, bytes: bytes? }, label?))
        });
        if read.is_empty() && sheet.is_valid() {
            sheet.problem(1, "", "has no blocks");
        }
        let (blocks, labels) = read.into_iter().unzip();
        sheet.finish(Self { name: file.to_owned(), blocks, labels })
    }
}

/// Writes the CSV that [`NetworkProfile::from_csv`] reads.
impl fmt::Display for NetworkProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", COLUMNS.join(","))?;
        let micros = |picos: u64| format!("{}.{:06}", picos / 1_000_000, picos % 1_000_000);
        for (block, label) in self.blocks.iter().zip(&self.labels) {
            // A name with a comma, a quote or a line break could not be read back.
            let label = label.replace([',', '"', '\n'], "_");
            let (compute, fetch) = (micros(block.compute), micros(block.fetch));
            writeln!(f, "{label},{compute},{fetch},{}", block.bytes)?;
        }
        Ok(())
    }
}
