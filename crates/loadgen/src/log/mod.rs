//! The four log files of a test, `mlperf_log_{summary.txt,detail.txt,accuracy.json,trace.json}`:
//! written after the run from its record in memory, and read back.
//!
//! Keys, texts, order and number formats are those of the reference. Dyno only deviates in lines
//! that are not valid JSON in the reference. [`reports`] computes the results of a
//! [`TestLog`](crate::run::TestLog), [`LogFiles`] writes its files, and [`read`] parses them:
//!
//! ```
//! use dyno_loadgen::log::read::read_summary;
//!
//! let text = "Result is : VALID\n\nNo warnings encountered during test.\n\n\
//!             No errors encountered during test.\n";
//! let (summary, problems) = read_summary(text);
//! assert_eq!(summary.value("Result is"), Some("VALID"));
//! assert_eq!((summary.errors, problems.len()), (Some(0), 0));
//! ```

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

pub use files::{FailedFile, LogError, LogFiles, LogSettings, expected_bytes, expected_samples};
pub use fingerprint::{combined, combined_fingerprint, fingerprint, recompute_fingerprint};
pub use report::{Report, reports, reports_by};

/// Numbers of errors and warnings of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Errors.
    pub errors: u64,
    /// Warnings.
    pub warnings: u64,
}
