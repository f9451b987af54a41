//! Checks for markers of `dyno package` that were not filled in.

use std::io::Read;
use std::path::Path;

use super::{Issues, Location, TO_FILL};
use crate::entry::Submitter;
use crate::facts::json::JsonFile;
use crate::package::MARKER;

/// Number of bytes to read of a page; markers are near its start.
const PAGE_BYTES: u64 = 4_096;

/// Checks the fields of a description or a measurement.
pub(super) fn check_fields(json: &JsonFile, path: &Path, issues: &mut Issues) {
    for (field, value) in json.object().into_iter().flatten() {
        if value.as_str().is_some_and(|text| text.starts_with(MARKER)) {
            let message = format!("`{field}` has a placeholder");
            issues.add(&TO_FILL, Location::path(path).line(json.line_of(field)), message);
        }
    }
}

/// Checks the calibration page.
pub(super) fn check_page(submitter: &Submitter<'_>, issues: &mut Issues) {
    let pages = ["calibration.md", "documentation/calibration.md"];
    for page in pages.into_iter().filter_map(|page| submitter.folder.file(page)) {
        let mut text = Vec::new();
        let Ok(file) = std::fs::File::open(page.absolute()) else { continue };
        if file.take(PAGE_BYTES).read_to_end(&mut text).is_err() {
            continue;
        }
        let text = String::from_utf8_lossy(&text);
        if let Some(line) = text.lines().position(|line| line.starts_with(MARKER)) {
            let path = page.path();
            let at = Location::path(&path).line(Some(line + 1));
            issues.add(&TO_FILL, at, "the page has a placeholder");
        }
    }
}
