//! Unsafe code stays behind its fence, and a lint is overruled with a reason.

use super::Finding;
use super::allowed::UNSAFE_CRATES;
use super::source::{Source, words};

/// The crate that a file belongs to: its folder below `crates/`.
fn crate_of(path: &str) -> &str {
    path.strip_prefix("crates/").and_then(|rest| rest.split('/').next()).unwrap_or("")
}

pub fn unsafe_is_fenced(source: &Source) -> Vec<Finding> {
    if UNSAFE_CRATES.contains(&crate_of(&source.path)) {
        return Vec::new();
    }
    words(&source.code, "unsafe")
        .map(|at| source.finding(at, "unsafe code outside of the fenced crates"))
        .collect()
}

/// The file that a crate's lints hang on says `forbid`.
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

pub fn exceptions_have_reasons(source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, _) in source.code.match_indices("#[").chain(source.code.match_indices("#![")) {
        let attribute = attribute(&source.code[at..]);
        let overrules = |lint: &str| {
            words(attribute, lint)
                .any(|i| attribute[i + lint.len()..].trim_start().starts_with('('))
        };
        if attribute.starts_with("#!") && overrules("allow") {
            found.push(
                source.finding(at, "allow for a whole module: put it on the item, as expect"),
            );
        } else if (overrules("allow") || overrules("expect")) && !attribute.contains("reason") {
            found.push(source.finding(at, "a lint is overruled without reason = \"..\""));
        }
    }
    found
}

/// The attribute that `code` begins with, to its closing bracket.
fn attribute(code: &str) -> &str {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' if depth == 1 => return &code[..=at],
            b']' => depth -= 1,
            _ => {}
        }
    }
    code
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
    fn an_exception_without_reason_is_found() {
        let found = |text| exceptions_have_reasons(&Source::new("a.rs", text)).len();
        assert_eq!(found("#[allow(dead_code)]\nfn a() {}"), 1);
        assert_eq!(found("#[expect(dead_code)]\nfn a() {}"), 1);
        assert_eq!(found("#[cfg_attr(x, allow(dead_code))]\nfn a() {}"), 1);
        assert_eq!(found("#![allow(dead_code, reason = \"r\")]\n"), 1);
        assert_eq!(found("#[expect(dead_code, reason = \"r\")]\nfn a() {}"), 0);
        assert_eq!(found("#![expect(dead_code, reason = \"r\")]\n"), 0);
        assert_eq!(found("fn a() { x.expect(1); allow(2); }"), 0);
    }
}
