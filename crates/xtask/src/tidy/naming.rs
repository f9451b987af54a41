//! Names of files, folders and modules state their contents.

use super::Finding;
use super::source::Source;
use super::tree::File;

/// Names that do not state any contents.
const BANNED: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc", "manager"];

pub fn banned_paths(file: &File) -> Vec<Finding> {
    let bad =
        file.path.split('/').find(|part| BANNED.contains(&part.split('.').next().unwrap_or(part)));
    bad.map(|part| {
        Finding::of_file(
            &file.path,
            format!("'{part}' names no subject: put it with the noun it serves"),
        )
    })
    .into_iter()
    .collect()
}

pub fn banned_modules(source: &Source) -> Vec<Finding> {
    let names = source.code.match_indices("mod ").filter_map(|(offset, _)| {
        let name = source.code[offset + 4..].split(|c: char| !super::source::is_word(c)).next()?;
        BANNED.contains(&name).then_some((offset, name))
    });
    names
        .map(|(offset, name)| {
            source.finding(
                offset,
                format!("mod {name} names no subject: put it with the noun it serves"),
            )
        })
        .collect()
}

/// Every file in a folder `src` begins with a description of the module.
pub fn module_doc(source: &Source) -> Vec<Finding> {
    let in_src = source.path.split('/').any(|part| part == "src");
    if !in_src || source.text.starts_with("//!") {
        return Vec::new();
    }
    vec![source.finding(0, "the file does not begin with //! and what it is")]
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::super::tree::File;
    use super::{banned_modules, banned_paths, module_doc};

    #[test]
    fn names_without_subject_are_found() {
        let path = |path: &str| banned_paths(&File::of_text(path, "")).len();
        assert_eq!(path("crates/a/src/utils.rs"), 1);
        assert_eq!(path("crates/common/src/lib.rs"), 1);
        assert_eq!(path("crates/a/src/commonly.rs"), 0);
        let module = |text| banned_modules(&Source::new("a.rs", text)).len();
        assert_eq!(module("pub mod helpers;\nmod misc { }"), 2);
        assert_eq!(module("mod record;\n// mod utils;"), 0);
    }

    #[test]
    fn a_file_without_module_doc_is_found() {
        let found = |path, text| module_doc(&Source::new(path, text)).len();
        assert_eq!(found("crates/a/src/b.rs", "use std::fmt;\n"), 1);
        assert_eq!(found("crates/a/src/b.rs", "//! What it is.\n"), 0);
        assert_eq!(found("crates/a/build.rs", "fn main() {}\n"), 0);
    }
}
