//! Whether an accuracy log is whole: a run that was killed leaves one that stops
//! anywhere, also right behind an entry or a bracket.

use std::collections::HashSet;
use std::path::Path;

use dyno_loadgen::log::read::{Detail, open_accuracy};

use super::PackageError;
use super::truncate::is_cut;

/// Reads every entry of a log to its closing bracket, and counts their samples. What the rules cut
/// out of a log is not missing.
///
/// # Errors
/// It does not read, or has answers to fewer samples than `detail` says that there are samples.
pub(super) fn check(log: &Path, detail: &Detail) -> Result<(), PackageError> {
    let failed = |problem: String| PackageError::File { path: log.to_owned(), problem };
    if is_cut(log).map_err(|error| failed(error.to_string()))? {
        return Ok(());
    }
    let mut entries = HashSet::new();
    for entry in open_accuracy(log).map_err(|error| failed(error.to_string()))? {
        let entry = entry.map_err(|problem| failed(format!("{problem}: run it again")))?;
        entries.insert(entry.qsl_idx);
    }
    let entries = entries.len() as u64;
    let keys = ["effective_accuracy_sample_count", "qsl_reported_total_count"];
    let samples = keys.iter().find_map(|key| detail.whole(key).filter(|count| *count > 0));
    match samples.filter(|samples| entries < *samples) {
        Some(samples) => Err(failed(format!(
            "has answers to {entries} samples, and the data set {samples} samples: run it again"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_log_that_stops_anywhere_is_not_whole() {
        let folder = std::env::temp_dir().join(format!("dyno-whole-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let log = folder.join("mlperf_log_accuracy.json");
        let is_whole = |text: &str| {
            fs::write(&log, text).unwrap();
            check(&log, &Detail::default()).is_ok()
        };
        let entry =
            |at: u64| format!("{{ \"seq_id\" : {at}, \"qsl_idx\" : {at}, \"data\" : \"5D\" }}");
        let text = format!("[\n{},\n{},\n{}\n]\n", entry(0), entry(1), entry(2));
        for cut in 0..text.len() - 2 {
            assert!(!is_whole(&text[..cut]), "cut at byte {cut}");
            // A bracket makes it whole only behind an entry; then the count tells.
            let is_closed = text[..cut].trim_end().ends_with(['}', '[']);
            assert_eq!(is_whole(&format!("{}]\n", &text[..cut])), is_closed, "byte {cut}");
        }
        assert!(is_whole(&text) && is_whole(&text[..text.len() - 1]));
        assert!(!is_whole(&format!("{text}{text}")), "written twice");
        fs::remove_dir_all(folder).unwrap();
    }
}
