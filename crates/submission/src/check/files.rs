//! Compares the files of a folder with the required ones.

use std::collections::BTreeSet;

use crate::tree::Node;

/// Files that are allowed in any folder of logs.
const ANYWHERE: [&str; 3] = ["mlperf_log_trace.json", "results.json", ".gitkeep"];

/// Returns missing and superfluous files as a sentence, or `None` if there are none.
pub fn mismatch(folder: Node<'_>, required: &[&str], optional: &[&str]) -> Option<String> {
    let names: Vec<String> = folder.files().map(|file| file.text().into_owned()).collect();
    let existing: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let required: BTreeSet<&str> = required.iter().copied().collect();
    let matters = |name: &&&str| !optional.contains(*name) && !ANYWHERE.contains(*name);
    let list = |these: &BTreeSet<&str>, those: &BTreeSet<&str>| {
        these.difference(those).filter(matters).copied().collect::<Vec<_>>().join(", ")
    };
    let (missing, extra) = (list(&required, &existing), list(&existing, &required));
    match (missing.is_empty(), extra.is_empty()) {
        (true, true) => None,
        (false, true) => Some(format!("{missing} is missing")),
        (true, false) => Some(format!("{extra} is not permitted")),
        (false, false) => Some(format!("{missing} is missing, and {extra} is not permitted")),
    }
}
