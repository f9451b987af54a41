//! Unsafe code stays in the crates that may have it, and no lint is switched off for a whole module.

use super::Finding;
use super::allowed::UNSAFE_CRATES;
use super::source::{Source, words};

/// Returns the crate of a file: its folder below `crates/`.
fn crate_of(path: &str) -> &str {
    path.strip_prefix("crates/").and_then(|rest| rest.split('/').next()).unwrap_or("")
}

pub fn unsafe_is_fenced(source: &Source) -> Vec<Finding> {
    if UNSAFE_CRATES.contains(&crate_of(&source.path)) {
        return Vec::new();
    }
    words(&source.code, "unsafe")
        .map(|offset| source.finding(offset, "unsafe code outside of the fenced crates"))
        .collect()
}

/// The root file of each crate forbids unsafe code.
pub fn crate_roots_forbid_unsafe(sources: &[Source]) -> Vec<Finding> {
    let is_root = |path: &str| {
        let below = path.splitn(3, '/').nth(2).unwrap_or("");
        matches!(below, "src/lib.rs" | "src/main.rs") || below.starts_with("src/bin/")
    };
    sources
        .iter()
        .filter(|source| source.path.starts_with("crates/") && is_root(&source.path))
        .filter(|source| !UNSAFE_CRATES.contains(&crate_of(&source.path)))
        .filter(|source| !source.code.contains("#![forbid(unsafe_code)]"))
        .map(|source| source.finding(0, "the crate does not say #![forbid(unsafe_code)]"))
        .collect()
}

/// Clippy checks that exceptions have reasons (`allow_attributes_without_reason`).
pub fn no_lint_is_off_in_a_module(source: &Source) -> Vec<Finding> {
    let attributes = source.code.match_indices("#![allow(");
    attributes
        .map(|(offset, _)| {
            source.finding(offset, "allow for a whole module: put it on the item, as expect")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::*;

    #[test]
    fn unsafe_outside_of_the_fence_is_found() {
        let found = |text| unsafe_is_fenced(&Source::new("crates/a/src/b.rs", text)).len();
        assert_eq!(found("let x = unsafe { f() };"), 1);
        assert_eq!(found("// unsafe\n#![forbid(unsafe_code)]\nlet x = \"unsafe\";"), 0);
    }

    #[test]
    fn a_crate_that_does_not_forbid_unsafe_is_found() {
        let found = |path, text| crate_roots_forbid_unsafe(&[Source::new(path, text)]).len();
        assert_eq!(found("crates/a/src/lib.rs", "//! A.\n"), 1);
        assert_eq!(found("crates/a/src/lib.rs", "//! A.\n// #![forbid(unsafe_code)]\n"), 1);
        assert_eq!(found("crates/a/src/main.rs", "//! A.\n#![forbid(unsafe_code)]\n"), 0);
        assert_eq!(found("crates/a/src/b/main.rs", "//! B.\n"), 0);
    }

    #[test]
    fn a_lint_that_is_off_in_a_module_is_found() {
        let found = |text| no_lint_is_off_in_a_module(&Source::new("a.rs", text)).len();
        assert_eq!(found("#![allow(dead_code, reason = \"r\")]\n"), 1);
        assert_eq!(found("#![expect(dead_code, reason = \"r\")]\n"), 0);
        assert_eq!(found("#[expect(dead_code, reason = \"r\")]\nfn a() {}"), 0);
    }
}
