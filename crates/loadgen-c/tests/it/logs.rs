//! The logs that a program has written.

use std::path::Path;

use dyno_loadgen::log::read::{AccuracyEntry, Detail, open_accuracy, read_detail_file};

/// The detail log of the test that ran in `folder`.
pub fn detail(folder: &Path) -> Detail {
    let (detail, problems) = read_detail_file(&folder.join("mlperf_log_detail.txt")).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    detail
}

/// Texts of the errors and warnings in the detail log.
pub fn grave(folder: &Path) -> Vec<String> {
    let detail = detail(folder);
    let grave = detail.entries.iter().filter(|entry| entry.is_error || entry.is_warning);
    grave.map(|entry| format!("{:?}", entry.value)).collect()
}

/// The responses in the accuracy log.
pub fn accuracy(folder: &Path) -> Vec<AccuracyEntry> {
    let entries = open_accuracy(&folder.join("mlperf_log_accuracy.json")).unwrap();
    entries.map(Result::unwrap).collect()
}
