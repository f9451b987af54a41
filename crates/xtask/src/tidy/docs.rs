//! Pages name existing things: tests, and the files of links.

use std::collections::BTreeSet;

use super::Finding;
use super::source::Source;
use super::tree::{File, Tree};
use crate::book::links::resolved;

/// The page with tables whose last columns name tests.
const FIDELITY: &str = "docs/fidelity.md";
/// Header of such a column.
const TESTS: &str = "tests";

/// Every test that the page [`FIDELITY`] names is a function.
pub fn named_tests_exist(tree: &Tree, sources: &[Source]) -> Vec<Finding> {
    let Some(page) = tree.files.iter().find(|file| file.path == FIDELITY) else {
        return vec![Finding::of_file(FIDELITY, "the page is missing")];
    };
    let functions: BTreeSet<&str> =
        sources.iter().flat_map(|source| source.functions().map(|f| f.name)).collect();
    let mut findings = Vec::new();
    let mut names_tests = false;
    for (i, line) in page.text().unwrap_or("").lines().enumerate() {
        let Some(last) = last_cell(line) else {
            names_tests = false;
            continue;
        };
        names_tests |= last == TESTS;
        // Every second piece between backticks is code.
        for name in last.split('`').skip(1).step_by(2).filter(|_| names_tests) {
            if !functions.contains(name) {
                let message = format!("there is no test {name}");
                findings.push(Finding { path: page.path.clone(), line: i + 1, message });
            }
        }
    }
    findings
}

/// Returns the last cell of a table row.
fn last_cell(line: &str) -> Option<&str> {
    let row = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    row.rsplit('|').next().map(str::trim)
}

/// Every relative link of a page leads to a file of the tree.
pub fn links_lead_somewhere(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files.iter().filter(|file| file.path.ends_with(".md") && !file.in_testdata());
    let leads = |page: &File, target: &str| {
        let target = target.split('#').next().unwrap_or(target);
        let path = resolved(&page.path, target);
        target.is_empty() || tree.files.iter().any(|file| file.path == path)
    };
    let judge = |page: &File, line: &str| {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let mut dead = targets.filter(|target| !target.contains("://") && !leads(page, target));
        dead.next().map(|target| format!("the link to {target} leads nowhere"))
    };
    pages.flat_map(|page| page.lines_with(|line| judge(page, line))).collect()
}

/// Table of contents of the book.
const CONTENTS: &str = "docs/SUMMARY.md";

/// The table of contents names each page once: mdBook refuses a second mention.
pub fn pages_are_in_the_book(tree: &Tree) -> Vec<Finding> {
    let contents = tree.files.iter().find(|file| file.path == CONTENTS);
    let contents = contents.and_then(File::text).unwrap_or("");
    let pages = tree.files.iter().filter_map(|file| {
        let page = file.path.strip_prefix("docs/")?;
        (page.ends_with(".md") && file.path != CONTENTS).then_some((file, page))
    });
    let mentions = |page: &str| contents.matches(&format!("]({page})")).count();
    pages
        .map(|(file, page)| (file, mentions(page)))
        .filter(|(_, mentions)| *mentions != 1)
        .map(|(file, n)| Finding::of_file(&file.path, format!("{CONTENTS} names it {n} times")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(path: &str, text: &str) -> Tree {
        Tree { files: vec![File::of_text(path, text), File::of_text("docs/b.md", "")] }
    }

    #[test]
    fn a_test_that_does_not_exist_is_found() {
        let page = "| `key` | tests |\n|---|---|\n| `x` | `exists`, `gone` |\n\n| a | why |\n|---|---|\n| b | `no` |\n";
        let sources = [Source::new("a.rs", "fn exists() {}")];
        let found = named_tests_exist(&tree(FIDELITY, page), &sources);
        let lines: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["docs/fidelity.md:3: there is no test gone"]);
        assert_eq!(named_tests_exist(&tree("a.md", ""), &sources).len(), 1);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let found = |path, text| links_lead_somewhere(&tree(path, text)).len();
        assert_eq!(found("a.md", "[x](docs/b.md), [y](docs/b.md#part), [z](https://a.org/b)"), 0);
        assert_eq!(found("docs/a.md", "[x](b.md)"), 0);
        assert_eq!(found("docs/c/a.md", "[x](../b.md#part)"), 0);
        assert_eq!(found("docs/a.md", "see [x](docs/b.md)"), 1);
    }

    #[test]
    fn a_page_that_the_contents_do_not_name_once_is_found() {
        let found = |contents| pages_are_in_the_book(&tree(CONTENTS, contents)).len();
        assert_eq!(found("- [B](b.md)"), 0);
        assert_eq!(found("- [B](c/b.md)"), 1);
        assert_eq!(found("- [B](b.md)\n- [B again](b.md)"), 1);
    }
}
