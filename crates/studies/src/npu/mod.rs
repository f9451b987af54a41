//! `dyno-studies npu`: compares figures of the thesis with Dyno's, varies the assumptions behind them, and rates Dyno's
//! own scheduler.

mod ablations;
mod balance;
mod four;
mod page;
mod paper;
mod part;
mod readings;
mod sensitivity;
mod server;
mod spread;
mod streams;

use std::path::PathBuf;

use clap::Args;
use dyno_experiment::Failure;
use dyno_npu::hardware::Npu;
use dyno_npu::lowering::{Granularity, LoweringOptions};
use dyno_npu::profile::Picos;
use dyno_npu::setting::Setting;
use serde_json::json;

use self::part::Part;
use self::streams::PairRuns;

/// Which figures, and where to.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Study {
    /// Parts: ii7, ii8, iv10, iv11, iv12, slowdown, iv16, v5, v6, v7, deadlines, readings, served, sensitivity,
    /// ablations, bounds, ours; all if none is named
    #[arg(value_name = "PART")]
    parts: Vec<String>,
    /// Few pairs, points and loads: whether it works, and some of the figures
    #[arg(long)]
    quick: bool,
    /// Print a document for programs instead of tables in Markdown
    #[arg(long)]
    json: bool,
    /// Put the tables into this page, between the marks of their parts
    #[arg(long, value_name = "FILE.md", conflicts_with_all = ["quick", "json"])]
    write: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
What is simulated is the same on every machine. All of it takes some minutes on two cores, nearly all for v5.
Figures are explained in the book, on the page \"The NPU study\" (docs/reference/npu-study.md).
Examples:
  dyno-studies npu iv10
  dyno-studies npu v6 --json
  dyno-studies npu --write docs/reference/npu-study.md";

/// Sequence length and mapping that come closest to the thesis' figures; the thesis does not state them.
const SEQ: u64 = 16;
const MAPPING: &str = "kcpx+1:128";
/// Tiles for studies that split layers: at most 100 us of computation per block.
const TILE: Granularity = Granularity::Tile { bytes: u64::MAX, time: 100_000_000 };
/// One millisecond of virtual time.
const MILLI: Picos = 1_000_000_000;

/// Function that builds a part.
type PartBuilder = fn(&mut StudyContext) -> Result<Part, Failure>;

/// All parts: those of the thesis in its order, then Dyno's own.
const PARTS: [(&str, PartBuilder); 17] = [
    ("ii7", balance::points),
    ("ii8", balance::bars),
    ("iv10", streams::throughput),
    ("iv11", streams::busy),
    ("iv12", streams::turnaround),
    ("slowdown", streams::slowdown),
    ("iv16", four::four),
    ("v5", server::peaks),
    ("v6", server::late),
    ("v7", server::variants),
    ("deadlines", server::deadlines),
    ("readings", readings::streams),
    ("served", readings::served),
    ("sensitivity", sensitivity::sensitivity),
    ("ablations", ablations::ablations),
    ("bounds", streams::bounds),
    ("ours", streams::ours),
];

/// State shared by all parts.
pub struct StudyContext {
    quick: bool,
    pairs: Option<PairRuns>,
}

impl Study {
    /// Computes the selected parts, and prints or writes their tables.
    ///
    /// # Errors
    /// Fails if a part does not exist, or if the page cannot be written or has no place for a part.
    pub fn execute(self) -> Result<(), Failure> {
        let wanted = self.wanted()?;
        let mut page = match &self.write {
            Some(path) => Some(page::Page::read(path, wanted.iter().map(|part| part.0))?),
            None => None,
        };
        let mut context = StudyContext { quick: self.quick, pairs: None };
        let mut documents = Vec::new();
        for (name, build) in wanted {
            eprintln!("npu study: {name}");
            let part = build(&mut context)?;
            match (&mut page, self.json) {
                (Some(page), _) => page.put(&part)?,
                (None, true) => documents.push(part.json(name)),
                (None, false) => print!("{part}"),
            }
        }
        match (page, self.json) {
            (Some(page), _) => page.write()?,
            (None, true) => {
                let document =
                    json!({ "schema_version": 1, "quick": self.quick, "parts": documents });
                let text = serde_json::to_string_pretty(&document).expect("keys are texts");
                println!("{text}");
            }
            (None, false) => {}
        }
        Ok(())
    }

    fn wanted(&self) -> Result<Vec<(&'static str, PartBuilder)>, Failure> {
        for name in &self.parts {
            if !PARTS.iter().any(|part| part.0 == name) {
                let all = PARTS.map(|part| part.0);
                let near = dyno_loadgen::settings::similar(name, all.into_iter());
                let near =
                    near.map(|near| format!("; the nearest is `{near}`")).unwrap_or_default();
                return Err(Failure::usage(format!("there is no part `{name}`{near}"))
                    .hint(format!("parts are {}", all.join(", "))));
            }
        }
        let is_wanted = |part: &&(&str, PartBuilder)| {
            self.parts.is_empty() || self.parts.iter().any(|name| name == part.0)
        };
        Ok(PARTS.iter().filter(is_wanted).copied().collect())
    }
}

/// Returns the setting of a named NPU with the documented sequence length.
fn setting(
    npu: &str,
    mapping: &str,
    batch: u64,
    granularity: Granularity,
) -> Result<Setting, Failure> {
    Ok(Setting {
        npu: Npu::preset(npu).map_err(Failure::usage)?,
        mapping: mapping.parse().map_err(Failure::usage)?,
        seq: SEQ,
        options: LoweringOptions { batch, granularity, ..LoweringOptions::default() },
    })
}

fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sum = 0.0;
    let mut count = 0;
    for value in values {
        sum += value;
        count += 1;
    }
    sum / f64::from(count.max(1))
}

fn geomean(values: impl IntoIterator<Item = f64>) -> f64 {
    mean(values.into_iter().map(f64::ln)).exp()
}

#[cfg(test)]
mod tests {
    use super::part::Part;
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/reference/npu-study.md");

    fn context() -> StudyContext {
        StudyContext { quick: true, pairs: None }
    }

    /// Returns the text between the marks of a part.
    fn tables_of_page(name: &str) -> &'static str {
        let (begin, end) = page::marks(name);
        let from = PAGE.find(&begin).unwrap_or_else(|| panic!("the page has no {begin}"));
        let rest = &PAGE[from + begin.len()..];
        &rest[..rest.find(&end).unwrap_or_else(|| panic!("the page has no {end}"))]
    }

    /// A table of the page.
    struct PageTable {
        title: String,
        columns: Vec<String>,
        rows: Vec<Vec<String>>,
    }

    /// Parses the tables of a Markdown text that [`Part`] wrote.
    fn parse_tables(text: &str) -> Vec<PageTable> {
        let cells = |line: &str| -> Vec<String> {
            let inner = line.trim_start_matches("| ").trim_end_matches(" |");
            inner.split(" | ").map(|cell| cell.trim().to_owned()).collect()
        };
        let mut tables: Vec<PageTable> = Vec::new();
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("**") {
                let title = title.trim_end_matches("**").to_owned();
                tables.push(PageTable { title, columns: Vec::new(), rows: Vec::new() });
            } else if let Some(table) = tables.last_mut()
                && line.starts_with("| ")
            {
                if table.columns.is_empty() {
                    table.columns = cells(line);
                } else if !line.starts_with("| ---") {
                    table.rows.push(cells(line));
                }
            }
        }
        tables
    }

    impl PageTable {
        /// Returns the name of a row, and its scheduler if the table has such a column. Which thresholds are best is a
        /// result and no part of the name.
        fn name<'a>(&self, row: &'a [String]) -> (&'a str, &'a str) {
            let name = match row[0].split_once(": ") {
                Some((which @ ("best" | "worst"), _)) => which,
                _ => &row[0],
            };
            let scheduler = self.columns.iter().position(|column| column == "scheduler");
            (name, scheduler.map_or("", |at| &row[at]))
        }
    }

    /// Returns the number of rows on the page, for tables whose rows a quick study simulates as long as a complete one.
    fn complete_rows(table: &PageTable) -> Option<usize> {
        match table.columns[0].as_str() {
            "pair" => {
                let is_mean = |row: &&Vec<String>| row[0].ends_with("mean");
                let means = table.rows.iter().filter(is_mean).count();
                Some(dyno_npu::setting::pairs().len() + means)
            }
            "networks" => Some(9),
            "point" if table.title.contains("by rule of urgency") => Some(9),
            "point" => Some(63),
            // Figure V.6. Other tables by mapping are means, and a quick study has fewer pairs.
            "mapping" if table.title.ends_with("queries/s") => Some(table.rows.len()),
            _ => None,
        }
    }

    #[test]
    fn tables_that_are_fast_to_compute_equal_those_of_the_page() {
        for (name, build) in PARTS.iter().filter(|part| part.0.starts_with("ii")) {
            let part = build(&mut context()).unwrap().to_string();
            let same = tables_of_page(name).trim() == part.trim();
            assert!(same, "dyno-studies npu {name} --write docs/reference/npu-study.md\n{part}");
        }
    }

    /// A quick study has fewer rows and shorter runs, so the page has its rows and more. Rows of pairs, of four
    /// networks, and of loads in the scenario Server are equal to the last digit.
    #[test]
    fn tables_of_the_page_are_those_of_the_study() {
        let mut context = context();
        for (part, build) in PARTS {
            let quick = parse_tables(&build(&mut context).unwrap().to_string());
            let page = parse_tables(tables_of_page(part));
            let heads = |tables: &[PageTable]| -> Vec<(String, Vec<String>)> {
                tables.iter().map(|table| (table.title.clone(), table.columns.clone())).collect()
            };
            assert_eq!(heads(&page), heads(&quick), "{part}");
            for (page, quick) in page.iter().zip(&quick) {
                let title = &page.title;
                let is_whole = |row: &Vec<String>| row.len() == page.columns.len();
                assert!(page.rows.iter().all(is_whole), "{part}: {title}");
                assert!(!quick.rows.is_empty(), "{part}: {title}");
                let rows = complete_rows(page);
                assert!(rows.is_none_or(|rows| rows == page.rows.len()), "{part}: {title}");
                // In the order of the page.
                let mut left = page.rows.iter();
                for row in &quick.rows {
                    let same = left.find(|other| page.name(other) == page.name(row));
                    let same = same.unwrap_or_else(|| panic!("{part}: {title}: no row {row:?}"));
                    let is_figure = rows.is_some() && !row[0].ends_with("mean");
                    assert!(!is_figure || same == row, "{part}: {title}: {same:?}, now {row:?}");
                }
            }
        }
    }

    /// A mean of two pairs next to one of sixteen misleads, so every table that a quick study abridges says so.
    #[test]
    fn quick_tables_that_differ_from_the_page_are_marked() {
        let mut context = context();
        for (part, build) in PARTS {
            let quick = build(&mut context).unwrap();
            let page = parse_tables(tables_of_page(part));
            for (quick, page) in quick.tables.iter().zip(&page) {
                let text = Part { tables: vec![quick.clone()] }.to_string();
                let is_same = parse_tables(&text)[0].rows == page.rows;
                assert!(is_same || quick.quick.is_some(), "{part}: {}", quick.title);
            }
        }
    }

    #[test]
    fn the_book_lists_every_option_and_value() {
        const BOOK: &str = include_str!("../../../../docs/reference/npu.md");
        for scheduler in dyno_npu::schedule::SCHEDULERS {
            for option in scheduler.options {
                let names = option.values.iter().map(|value| value.name);
                for name in std::iter::once(option.key).chain(names) {
                    let listed = BOOK.contains(&format!("`{name}`"));
                    assert!(listed, "{}: {}: `{name}`", scheduler.name, option.key);
                }
            }
        }
    }

    #[test]
    fn means_are_those_of_the_book() {
        assert_eq!(mean([1.0, 3.0]), 2.0);
        assert!((geomean([1.0, 4.0]) - 2.0).abs() < 1e-12);
    }
}
