//! Checks the book, the README and the examples: the kind of every fenced block is declared, and
//! each block is run, read or looked up.
//!
//! `UPDATE_EXPECT=1 cargo test -p dyno book` writes what commands print now into
//! the pages. `cargo xtask peers book` runs the blocks that need Python packages.

mod block;
mod log_keys;
mod output;
mod play;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use block::Block;
use play::Page;

use crate::updated::check_file;

#[path = "../../examples/coordinated_omission.rs"]
#[expect(dead_code, reason = "an example has a main")]
mod coordinated_omission;
#[path = "../../examples/early_stopping.rs"]
#[expect(dead_code, reason = "an example has a main")]
mod early_stopping;

#[path = "../../examples/repeated_runs.rs"]
#[expect(dead_code, reason = "an example has a main")]
pub mod repeated_runs;

/// The name of an example, and what it prints.
type Example = (&'static str, fn() -> String);

/// Examples of this crate that pages show.
const EXAMPLES: [Example; 3] = [
    ("coordinated_omission", coordinated_omission::text),
    ("repeated_runs", repeated_runs::text),
    ("early_stopping", || early_stopping::text(simulated_runs())),
];

/// The runs behind the table and the figure of early stopping, played once.
fn simulated_runs() -> &'static [Vec<early_stopping::PassedShares>; 2] {
    static TABLE: OnceLock<[Vec<early_stopping::PassedShares>; 2]> = OnceLock::new();
    TABLE.get_or_init(early_stopping::table)
}

/// The folder of the repository.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every page whose blocks are checked, relative to the repository.
fn pages(root: &Path) -> Vec<String> {
    let mut pages: Vec<String> = Vec::new();
    let mut folders = vec!["docs".to_string(), "examples".to_string()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}/{}", entry.file_name().display());
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(path),
                false if path.ends_with(".md") => pages.push(path),
                false => {}
            }
        }
    }
    pages.extend(
        ["ARCHITECTURE.md", "BENCHMARKS.md", "CONTRIBUTING.md", "README.md"].map(str::to_string),
    );
    pages.sort();
    pages
}

#[test]
fn every_block_of_the_book_does_what_its_page_says() {
    let root = repository();
    let todo = Mutex::new(pages(&root));
    assert!(todo.lock().unwrap().iter().any(|page| page == "README.md"));
    let findings = Mutex::new(Vec::new());
    // Most of the time is spent in tests of fixed duration.
    let work = || {
        while let Some(name) = { todo.lock().unwrap().pop() } {
            let text = std::fs::read_to_string(root.join(&name)).unwrap();
            let found = match Block::all(&text) {
                Ok(blocks) => Page::new(&root, &name, text).play(&blocks),
                Err(unclear) => unclear,
            };
            let found = found.into_iter().map(|(line, what)| format!("{name}:{line}: {what}"));
            findings.lock().unwrap().extend(found);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(work);
        }
    });
    let mut findings = findings.into_inner().unwrap();
    findings.sort();
    assert!(findings.is_empty(), "{}", findings.join("\n\n"));
}

#[test]
fn every_row_of_a_table_has_the_cells_of_its_head() {
    let root = repository();
    for name in pages(&root) {
        let text = std::fs::read_to_string(root.join(&name)).unwrap();
        let mut is_code = false;
        let mut head = None;
        for (line, row) in text.lines().enumerate() {
            is_code ^= row.trim_start().starts_with("```");
            if is_code || !row.starts_with('|') {
                head = None;
                continue;
            }
            // A pipe in a cell is escaped, also in code.
            let pipes = row.replace("\\|", "").matches('|').count();
            assert_eq!(pipes, *head.get_or_insert(pipes), "{name}:{}: {row}", line + 1);
        }
    }
}

#[test]
fn the_figure_of_early_stopping_is_what_the_example_draws() {
    let figure = early_stopping::svg(simulated_runs());
    check_file(&repository().join("docs/concepts/early-stopping.svg"), &figure);
}

#[test]
fn a_client_that_waits_hides_a_stall_that_a_schedule_shows() {
    let [closed, sent, due] = coordinated_omission::reports();
    const MS: u64 = 1_000_000;
    for omits in [closed, sent] {
        assert_eq!(omits.percentile(0.99), MS, "{}", omits.client);
        assert!(omits.slow() < 0.001, "{}", omits.client);
    }
    // One of ten seconds is stalled, and it takes another one to empty the queue.
    assert!((due.slow() - 0.2).abs() < 0.01);
    assert!(due.percentile(0.99) > 900 * MS);
}

#[test]
fn a_single_look_at_the_percentile_passes_what_early_stopping_does_not() {
    let on_the_boundary = early_stopping::passed(1_000, 0.01);
    assert!(on_the_boundary.percentile > 0.3);
    assert!(on_the_boundary.early_stopping < 0.05);
    assert!(early_stopping::passed(5_000, 0.002).early_stopping > 0.95);
}

#[test]
fn the_page_of_log_keys_has_every_key_that_is_written() {
    check_file(&repository().join("docs/reference/log-keys.md"), &log_keys::page());
}
