//! Checks that an accuracy log is complete. A killed run may stop at any byte, including
//! directly after an entry or a bracket.

use std::collections::HashSet;
use std::io::{BufReader, Read};
use std::path::Path;

use dyno_loadgen::log::read::{AccuracyReader, Detail};

use super::PackageError;

/// Bytes to read at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Reads every entry of a log up to its closing bracket, and counts the samples. `path` is used
/// in errors.
///
/// # Errors
/// Fails if the log is invalid, or has answers to fewer samples than `detail` states.
pub(super) fn check(log: &mut dyn Read, path: &Path, detail: &Detail) -> Result<(), PackageError> {
    let failed = |problem: String| PackageError::File { path: path.to_owned(), problem };
    let mut entries = HashSet::new();
    for entry in AccuracyReader::new(BufReader::with_capacity(CHUNK_BYTES, log)) {
        let entry = entry.map_err(|problem| failed(format!("{problem}: run it again")))?;
        entries.insert(entry.qsl_idx);
    }
    let entries = entries.len() as u64;
    let keys = ["effective_accuracy_sample_count", "qsl_reported_total_count"];
    let samples = keys.iter().find_map(|key| detail.whole(key).filter(|count| *count > 0));
    match samples.filter(|samples| entries < *samples) {
        Some(samples) => Err(failed(format!(
            "has answers to {entries} samples, but the data set has {samples} samples: run it \
             again"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_stops_anywhere_is_not_whole() {
        let is_whole =
            |text: &str| check(&mut text.as_bytes(), Path::new("log"), &Detail::default()).is_ok();
        let entry =
            |at: u64| format!("{{ \"seq_id\" : {at}, \"qsl_idx\" : {at}, \"data\" : \"5D\" }}");
        let text = format!("[\n{},\n{},\n{}\n]\n", entry(0), entry(1), entry(2));
        for cut in 0..text.len() - 2 {
            assert!(!is_whole(&text[..cut]), "cut at byte {cut}");
            // After an entry, a bracket completes the log; then only the count reveals the loss.
            let is_closed = text[..cut].trim_end().ends_with(['}', '[']);
            assert_eq!(is_whole(&format!("{}]\n", &text[..cut])), is_closed, "byte {cut}");
        }
        assert!(is_whole(&text) && is_whole(&text[..text.len() - 1]));
        assert!(!is_whole(&format!("{text}{text}")), "written twice");
    }
}
