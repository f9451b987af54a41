//! The four log files of a test, `mlperf_log_{summary.txt,detail.txt,accuracy.json,trace.json}`:
//! written after the run from what it left in memory, and read back.
//!
//! Keys, texts, order and number formats are the reference's; where Dyno
//! deviates, the line is valid JSON and the reference's is not.

mod accuracy;
mod detail;
mod files;
mod fingerprint;
mod format;
mod lines;
pub mod read;
mod report;
mod sha1;
mod sources;
mod stream;
mod summary;
mod trace;

pub use files::{FailedFile, LogError, LogFiles, LogSettings, expected_bytes};
pub use fingerprint::{combined, combined_fingerprint, fingerprint, recompute_fingerprint};
pub use report::{Report, reports, reports_by};

/// Grave messages of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Errors.
    pub errors: u64,
    /// Warnings.
    pub warnings: u64,
}
