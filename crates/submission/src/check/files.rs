//! Compares the files of a folder with the required ones.

use std::collections::BTreeSet;

use super::issues::{Issues, Location};
use crate::tree::Node;

/// Files that are allowed in any folder of logs.
const ANYWHERE: [&str; 3] = ["mlperf_log_trace.json", "results.json", ".gitkeep"];

/// Difference between the files of a folder and the required ones, each list separated by commas.
pub struct Difference {
    /// Required files that do not exist.
    pub missing: String,
    /// Files that are neither required nor optional.
    pub extra: String,
}

impl Difference {
    /// Returns the difference as a sentence, or `None` if there is none.
    pub fn sentence(&self) -> Option<String> {
        let Self { missing, extra } = self;
        match (missing.is_empty(), extra.is_empty()) {
            (true, true) => None,
            (false, true) => Some(format!("{missing} is missing")),
            (true, false) => Some(format!("{extra} is not permitted")),
            (false, false) => Some(format!("{missing} is missing, and {extra} is not permitted")),
        }
    }
}

/// Returns missing and superfluous files as a sentence, or `None` if there are none.
pub fn mismatch(folder: Node<'_>, required: &[&str], optional: &[&str]) -> Option<String> {
    difference(folder, required, optional).sentence()
}

/// Reports a folder in place of a file that a single-file checker opens.
pub fn crash_at_folder(parent: Node<'_>, name: &str, issues: &mut Issues) {
    if issues.program().one_file().is_some() && parent.folder(name).is_some() {
        let path = parent.path().join(name);
        issues.crash(Location::path(&path), "a folder is in place of the file");
    }
}

/// Compares the files of a folder with the required ones.
pub fn difference(folder: Node<'_>, required: &[&str], optional: &[&str]) -> Difference {
    let names: Vec<String> = folder.files().map(|file| file.text().into_owned()).collect();
    let existing: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let required: BTreeSet<&str> = required.iter().copied().collect();
    let matters = |name: &&&str| !optional.contains(*name) && !ANYWHERE.contains(*name);
    let list = |these: &BTreeSet<&str>, those: &BTreeSet<&str>| {
        these.difference(those).filter(matters).copied().collect::<Vec<_>>().join(", ")
    };
    Difference { missing: list(&required, &existing), extra: list(&existing, &required) }
}
