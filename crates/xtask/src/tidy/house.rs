//! `cargo xtask house`: counts by which the architecture and the language of the tree are judged.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use super::allowed::UNSAFE_CRATES;
use super::safety::Inventory;
use super::source::{Source, by_crate, is_word};
use super::tree::Tree;
use super::{edges, language, modules};

/// Columns of the table before and after those of [`language::RULES`].
const COLUMNS: [&[&str]; 2] = [
    &["code lines", "comment lines", "functions", "over 50 lines"],
    &["examples", "modules", "largest cycle", "unused public"],
];
/// Column that is not summed, because the greatest value counts.
const LARGEST_CYCLE: &str = "largest cycle";

/// Prints the counts of each crate, and those of all.
///
/// # Errors
/// The tree cannot be read.
pub fn run(root: &Path) -> Result<ExitCode> {
    let tree = Tree::read(root)?;
    let sources: Vec<Source> = tree.rust_sources().collect();
    let words = occurrences(&sources);
    let rules = language::RULES.map(|rule| rule.name);
    let columns = [COLUMNS[0], &rules, COLUMNS[1]].concat();
    println!("| crate | {} |", columns.join(" | "));
    println!("|{}", " --- |".repeat(columns.len() + 1));
    let mut all = vec![0; columns.len()];
    for (name, sources) in by_crate(&sources) {
        let row = counts(&sources, &words);
        println!("| {name} | {} |", shown(&row));
        for ((total, n), column) in all.iter_mut().zip(row).zip(&columns) {
            *total = if *column == LARGEST_CYCLE { n.max(*total) } else { n + *total };
        }
    }
    println!("| all | {} |", shown(&all));
    println!("\nedges between crates: {}\n", edges::count(&edges::manifests(&tree)?));
    print_unsafe(&sources);
    Ok(ExitCode::SUCCESS)
}

/// Prints the unsafe code of each crate that may have it, with its tests and its reason.
fn print_unsafe(sources: &[Source]) {
    println!(
        "| crate | unsafe blocks | unsafe functions | other unsafe | without SAFETY | reason |"
    );
    println!("|{}", " --- |".repeat(6));
    let crates = by_crate(sources);
    let [mut blocks, mut unjustified] = [0; 2];
    for (name, reason) in UNSAFE_CRATES {
        let mut found = Inventory::default();
        crates.get(name).into_iter().flatten().for_each(|source| found.count(source));
        let Inventory { blocks: own, functions, others, unjustified: without } = found;
        println!("| {name} | {own} | {functions} | {others} | {without} | {reason} |");
        blocks += own;
        unjustified += without;
    }
    println!("\nunsafe blocks: {blocks}; blocks and implementations without SAFETY: {unjustified}");
}

fn shown(row: &[usize]) -> String {
    row.iter().map(usize::to_string).collect::<Vec<_>>().join(" | ")
}

/// Returns the counts of one crate without its tests. `words` counts each word of the tree.
fn counts(sources: &[&Source], words: &BTreeMap<&str, usize>) -> Vec<usize> {
    let mut lines = Lines::default();
    let [mut functions, mut long, mut unused] = [0; 3];
    for source in sources {
        lines.count(source);
        for function in source.functions().filter(|f| !source.is_test(f.span.start)) {
            functions += 1;
            let length = source.line(function.span.end) - source.line(function.span.start) + 1;
            long += usize::from(length > 50);
        }
        for (_, name, offset) in source.items() {
            let is_public = source.code[..offset].trim_end().ends_with("pub");
            unused += usize::from(is_public && words.get(name) == Some(&1));
        }
    }
    let graph = modules::imports(sources);
    let mut row = vec![lines.code, lines.comments, functions, long];
    row.extend(language::RULES.map(|rule| {
        sources.iter().map(|source| language::violations(source, &rule).len()).sum::<usize>()
    }));
    row.extend([lines.examples, graph.len(), modules::largest_cycle(&graph), unused]);
    row
}

/// Counts of lines without those of tests.
#[derive(Debug, Default)]
struct Lines {
    code: usize,
    /// Lines of comments and docs.
    comments: usize,
    /// Code blocks of doc comments that are compiled.
    examples: usize,
}

impl Lines {
    fn count(&mut self, source: &Source) {
        let mut offset = 0;
        let mut is_open = false;
        for (text, code) in source.text.lines().zip(source.code.lines()) {
            let (begin, trimmed) = (offset, text.trim_start());
            offset += text.len() + 1;
            if source.is_test(begin) {
                continue;
            }
            self.code += usize::from(!code.trim().is_empty());
            self.comments += usize::from(trimmed.starts_with("//"));
            let doc = trimmed.strip_prefix("///").or_else(|| trimmed.strip_prefix("//!"));
            if let Some(info) = doc.map(str::trim).and_then(|doc| doc.strip_prefix("```")) {
                let is_compiled = ["", "no_run", "should_panic", "rust"].contains(&info);
                self.examples += usize::from(is_compiled && !is_open);
                is_open = !is_open;
            }
        }
    }
}

/// Returns how often each word occurs in the code of all files.
fn occurrences(sources: &[Source]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for source in sources {
        for word in source.code.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()) {
            *counts.entry(word).or_default() += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_do_not_include_tests() {
        let text = "//! A file.\n\n/// Of it.\n///\n/// ```\n/// f();\n/// ```\npub fn of() -> u8 {\n    1\n}\n\
            pub struct Told;\n#[cfg(test)]\nmod tests {\n    fn of() {}\n}\n";
        let source = Source::new("crates/x/src/lib.rs", text);
        let row = counts(&[&source], &[("of", 2), ("Told", 1)].into());
        let [lines, language, rest] = [&row[..4], &row[4..9], &row[9..]];
        assert_eq!(lines, [6, 6, 1, 0]);
        assert_eq!(language, [1, 1, 1, 0, 0]);
        assert_eq!(rest, [1, 0, 0, 1]);
    }
}
