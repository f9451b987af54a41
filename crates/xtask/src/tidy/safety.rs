//! Unsafe code stays in the crates that may have it, and no lint is switched off for a whole module.

use super::Finding;
use super::allowed::UNSAFE_CRATES;
use super::source::{Source, words};

/// Returns the crate of a file: its folder below `crates/`.
fn crate_of(path: &str) -> &str {
    path.strip_prefix("crates/").and_then(|rest| rest.split('/').next()).unwrap_or("")
}

/// Returns whether a file belongs to a crate that may contain unsafe code.
fn is_fenced_in(path: &str) -> bool {
    UNSAFE_CRATES.iter().any(|(name, _)| *name == crate_of(path))
}

/// Unsafe code of a crate, by kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Blocks: operations that the compiler does not check.
    pub blocks: usize,
    /// Functions whose callers must keep a promise, and pointers to such functions.
    pub functions: usize,
    /// Implementations of unsafe traits, attributes and blocks of foreign functions.
    pub others: usize,
    /// Blocks and implementations without a `SAFETY:` comment above them.
    pub unjustified: usize,
}

impl Inventory {
    /// Counts the unsafe code of a file, with its tests.
    pub fn count(&mut self, source: &Source) {
        for offset in words(&source.code, "unsafe") {
            let rest = source.code[offset + "unsafe".len()..].trim_start();
            let is_function = rest.starts_with("fn") || rest.starts_with("extern \"");
            let is_block = rest.starts_with('{');
            self.blocks += usize::from(is_block);
            self.functions += usize::from(is_function && !is_block);
            self.others += usize::from(!is_block && !is_function);
            let needs_reason = is_block || rest.starts_with("impl");
            self.unjustified += usize::from(needs_reason && !is_justified(source, offset));
        }
    }
}

/// Returns whether a comment with `SAFETY:` is above the statement at an offset: on its line or above,
/// with neither the end of a statement nor the begin of a block between them.
fn is_justified(source: &Source, offset: usize) -> bool {
    let reason = source.comments[..offset].rfind("SAFETY:");
    reason.is_some_and(|reason| {
        let between = source.code[reason..offset].trim_start();
        !between.contains(';') && !between.contains('}')
    })
}

pub fn unsafe_is_fenced(source: &Source) -> Vec<Finding> {
    if is_fenced_in(&source.path) {
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
        .filter(|source| !is_fenced_in(&source.path))
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
    fn the_inventory_counts_kinds_and_missing_reasons() {
        let text = "// SAFETY: it is valid.\nlet x = unsafe { f() };\nlet y = unsafe { g() };\n\
            /// # Safety\n/// Valid.\nunsafe fn h() {}\n// SAFETY: no state.\nunsafe impl Send for A {}\n\
            // unsafe { not code }\n";
        let mut found = Inventory::default();
        found.count(&Source::new("crates/kernels/src/a.rs", text));
        assert_eq!(found, Inventory { blocks: 2, functions: 1, others: 1, unjustified: 1 });
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
