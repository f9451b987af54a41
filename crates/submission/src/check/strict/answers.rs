//! Compares the answers that TEST01 logged with those of the accuracy run, as far as truncated
//! logs contain them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use super::quality;
use crate::check::accuracy as log;
use crate::check::catalogue::{ACCURACY_LOG_LARGE, AUDIT_TEXT_CONTRADICTS};
use crate::check::issues::{Issues, Location};
use crate::check::place::Place;
use crate::facts::{Audit, read_accuracy, text};
use crate::finding::counted;
use crate::layout::{ACCURACY_LOG, ACCURACY_TEXT};
use crate::tree::Node;

/// Checks the accuracy folder of TEST01.
pub(super) fn check(place: &Place<'_, '_>, audit: &Audit<'_>, issues: &mut Issues) {
    let Some(folder) = audit.folder.folder("accuracy") else { return };
    // A missing log is reported elsewhere.
    let Some(logged) = folder.file(ACCURACY_LOG) else { return };
    let mut size = issues.another();
    log::check_log(folder, &mut size);
    // Rules and official programs limit the log of the result alone.
    size.waive(&[&ACCURACY_LOG_LARGE]);
    issues.append(size);
    if let Ok(content) = read_accuracy(folder.file(ACCURACY_TEXT), &[]) {
        let text = folder.path().join(ACCURACY_TEXT);
        quality::check_hash(&content, &text, Some(logged), issues);
    }
    // In a nondeterministic system answers differ, and their qualities are compared instead.
    let is_same = audit.verify_accuracy.as_ref().is_ok_and(|text| text.has_line("TEST PASS"));
    let reference = place.entry.accuracy().and_then(|folder| folder.file(ACCURACY_LOG));
    if let Some(reference) = reference.filter(|_| is_same) {
        compare(reference, logged, issues);
    }
}

/// Compared fields of a log entry.
#[derive(Deserialize)]
struct Entry<'a> {
    qsl_idx: u64,
    #[serde(borrow)]
    data: Cow<'a, str>,
}

fn compare(reference: Node<'_>, logged: Node<'_>, issues: &mut Issues) {
    let (Ok(answers), Ok(text)) = (text::read(Some(reference)), text::read(Some(logged))) else {
        return;
    };
    let known: BTreeMap<u64, Cow<'_, str>> =
        entries(&answers.text).map(|(_, entry)| (entry.qsl_idx, entry.data)).collect();
    let mut differ = entries(&text.text).filter(|(_, entry)| {
        let known = known.get(&entry.qsl_idx);
        known.is_some_and(|known| !known.eq_ignore_ascii_case(&entry.data))
    });
    if let Some((line, first)) = differ.next() {
        let path = logged.path();
        let count = 1 + differ.count();
        let message = format!(
            "the audit reports TEST PASS, but {} differ from the accuracy run, first that of \
             sample {}",
            counted(count as u64, "answer", "answers"),
            first.qsl_idx
        );
        issues.add(&AUDIT_TEXT_CONTRADICTS, Location::path(&path).line(Some(line)), message);
    }
}

/// Returns the complete entries of a log, with their line numbers. Truncated logs lack the
/// middle and parts of lines.
fn entries(log: &str) -> impl Iterator<Item = (usize, Entry<'_>)> {
    log.lines().enumerate().filter_map(|(index, line)| {
        let entry = line.trim().trim_end_matches(',');
        Some((index + 1, serde_json::from_str(entry).ok()?))
    })
}
