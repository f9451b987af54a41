//! The four log files of a test, `mlperf_log_{summary.txt,detail.txt,accuracy.json,trace.json}`:
//! written after the run from what it left in memory, and read back.
//!
//! Keys, texts, order and number formats are the reference's; where Dyno
//! deviates, the line is valid JSON and the reference's is not.

mod accuracy;
mod fingerprint;
mod format;
pub mod read;
mod sha1;
mod sources;
mod stream;

pub use fingerprint::{combined, combined_fingerprint, fingerprint, recompute_fingerprint};
