//! The four log files, written and read at the boundary of the crate.
#![expect(clippy::unwrap_used, reason = "tests")]

mod files;
mod rebuild;
mod reference;
