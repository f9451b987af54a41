//! `cargo xtask tidy`: checks of the tree that neither the compiler nor clippy makes. Each rule is a
//! function from one file or all files to findings; `cargo test` runs them all.

mod allowed;
mod assertions;
mod docs;
mod edges;
pub mod house;
mod language;
mod modules;
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

/// A violation of a rule, and its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// Path relative to the root, with `/`.
    path: String,
    /// Line from 1; 1 also for a finding about the whole file.
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

/// Rules about one Rust file.
const SOURCE_RULES: &[fn(&Source) -> Vec<Finding>] = &[
    assertions::every_test_asserts,
    assertions::no_test_is_switched_off,
    naming::module_doc,
    naming::banned_modules,
    prose::narration,
    prose::leftovers_in_comments,
    prose::scratch_paths,
    safety::no_lint_is_off_in_a_module,
    safety::unsafe_is_fenced,
    size::files,
];

fn findings(root: &Path) -> Result<Vec<Finding>> {
    let tree = Tree::read(root)?;
    let sources: Vec<Source> = tree.rust_sources().collect();
    let mut findings: Vec<Finding> = sources
        .iter()
        .flat_map(|source| SOURCE_RULES.iter().flat_map(|rule| rule(source)))
        .collect();
    findings.extend(language::check(&sources));
    findings.extend(safety::crate_roots_forbid_unsafe(&sources));
    let manifests = edges::manifests(&tree)?;
    findings.extend(edges::check(&manifests, allowed::EDGES, allowed::OUTSIDE));
    findings.extend(edges::fenced(&manifests, allowed::FENCED));
    for file in &tree.files {
        findings.extend(naming::banned_paths(file));
        findings.extend(prose::machine_paths(file));
        findings.extend(prose::leftovers_in_text(file));
        findings.extend(tree::large_binary(file));
    }
    findings.extend(tree::changelog(&tree));
    findings.extend(tree::benchmarks_are_listed(&tree));
    findings.extend(docs::named_tests_exist(&tree, &sources));
    findings.extend(docs::links_lead_somewhere(&tree));
    findings.extend(docs::pages_are_in_the_book(&tree));
    findings.sort();
    Ok(findings)
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
