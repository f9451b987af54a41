//! Checks of the tree that no compiler makes. Each rule is a function from a
//! file, or from all of them, to findings; `cargo test` runs them all.

mod allowed;
mod assertions;
mod docs;
mod edges;
pub mod house;
mod naming;
mod prose;
mod safety;
mod size;
mod source;
mod tree;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use source::Source;
use tree::Tree;

/// Something to mend, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// Relative to the root, with `/`.
    path: String,
    /// From 1; 1 also where the finding is about the whole file.
    line: usize,
    message: String,
}

impl Finding {
    fn of_file(path: &str, message: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line: 1, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Prints the findings; fails when there are any.
pub fn run(root: &Path) -> Result<ExitCode> {
    let findings = findings(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} findings", findings.len());
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Rules that look at one Rust file at a time.
const SOURCE_RULES: &[fn(&Source) -> Vec<Finding>] = &[
    assertions::every_test_asserts,
    assertions::no_test_is_switched_off,
    naming::module_doc,
    naming::banned_modules,
    prose::narration,
    prose::leftovers_in_comments,
    prose::scratch_paths,
    safety::exceptions_have_reasons,
    safety::unsafe_is_fenced,
];

fn findings(root: &Path) -> Result<Vec<Finding>> {
    let tree = Tree::read(root)?;
    let sources: Vec<Source> = tree.rust_sources().collect();
    let mut found: Vec<Finding> = sources
        .iter()
        .flat_map(|source| SOURCE_RULES.iter().flat_map(|rule| rule(source)))
        .collect();
    found.extend(safety::crate_roots_forbid_unsafe(&sources));
    found.extend(size::files(&sources, allowed::LONG_FILES));
    found.extend(size::functions(&sources, allowed::LONG_FUNCTIONS));
    let manifests = edges::manifests(&tree)?;
    found.extend(edges::check(&manifests, allowed::EDGES, allowed::OUTSIDE));
    found.extend(edges::fenced(&manifests, allowed::FENCED));
    for file in &tree.files {
        found.extend(naming::banned_paths(file));
        found.extend(prose::machine_paths(file));
        found.extend(prose::leftovers_in_text(file));
        found.extend(tree::large_binary(file));
    }
    found.extend(tree::changelog(&tree));
    found.extend(tree::benchmarks_are_listed(&tree));
    found.extend(docs::named_tests_exist(&tree, &sources));
    found.extend(docs::links_lead_somewhere(&tree));
    found.extend(docs::pages_are_in_the_book(&tree));
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::findings;

    #[test]
    fn the_tree_is_tidy() {
        let findings = findings(&dyno_peers::cargo::root()).unwrap();
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "{} findings:\n{}", lines.len(), lines.join("\n"));
    }
}
