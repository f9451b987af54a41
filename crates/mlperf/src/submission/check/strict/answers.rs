//! The answers that TEST01 logged: what is left of them, against what is left of those of
//! the accuracy run.

use std::collections::BTreeMap;

use serde_json::Value;

use super::quality;
use crate::submission::check::accuracy as log;
use crate::submission::check::catalogue::AUDIT_TEXT_CONTRADICTS;
use crate::submission::check::issues::{At, Issues};
use crate::submission::check::place::Place;
use crate::submission::facts::{Audit, accuracy, text};
use crate::submission::layout::{ACCURACY_LOG, ACCURACY_TEXT};
use crate::submission::tree::Node;

/// Checks the accuracy folder of TEST01.
pub(super) fn check(place: &Place<'_, '_>, audit: &Audit<'_>, issues: &mut Issues) {
    let Some(folder) = audit.folder.folder("accuracy") else { return };
    // That it is missing is told elsewhere.
    let Some(logged) = folder.file(ACCURACY_LOG) else { return };
    log::check_log(folder, issues);
    if let Ok(said) = accuracy::read(folder.file(ACCURACY_TEXT), &[]) {
        let text = folder.path().join(ACCURACY_TEXT);
        quality::check_hash(&said, &text, Some(logged), issues);
    }
    // Without determinism answers differ, and their qualities are compared.
    let is_same = audit.verify_accuracy.as_ref().is_ok_and(|text| text.has_line("TEST PASS"));
    let reference = place.entry.accuracy().and_then(|folder| folder.file(ACCURACY_LOG));
    if let Some(reference) = reference.filter(|_| is_same) {
        compare(reference, logged, issues);
    }
}

fn compare(reference: Node<'_>, logged: Node<'_>, issues: &mut Issues) {
    let known: BTreeMap<u64, String> =
        entries(reference).into_iter().map(|(_, sample, answer)| (sample, answer)).collect();
    let logged_entries = entries(logged);
    let mut differ = logged_entries
        .iter()
        .filter(|(_, sample, answer)| known.get(sample).is_some_and(|known| known != answer));
    if let Some((line, sample, _)) = differ.next() {
        let path = logged.path();
        let count = 1 + differ.count();
        let message = format!(
            "the audit says TEST PASS, and {count} answers are not those of the accuracy run; \
             the first is that of sample {sample}"
        );
        issues.add(&AUDIT_TEXT_CONTRADICTS, At::path(&path).line(Some(*line)), message);
    }
}

/// Lines, samples and answers of a log, of which the middle and parts of lines may have
/// been cut out.
fn entries(log: Node<'_>) -> Vec<(usize, u64, String)> {
    let Ok(text) = text::read(Some(log)) else { return Vec::new() };
    let of = |(at, line): (usize, &str)| {
        let entry: Value = serde_json::from_str(line.trim().trim_end_matches(',')).ok()?;
        let answer = entry.get("data")?.as_str()?.to_ascii_uppercase();
        Some((at + 1, entry.get("qsl_idx")?.as_u64()?, answer))
    };
    text.text.lines().enumerate().filter_map(of).collect()
}
