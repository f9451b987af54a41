//! Documents of a measurement.
//!
//! A run leaves a [run directory](run_directory) with a [summary], the [series] of its plots, the
//! [raw records](records) of each test and the logs of the load generator. This crate holds their
//! types, reads and writes them, [exports](export) them to the formats of other programs, and reads
//! the [results of other tools](foreign). It measures nothing and prints nothing.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use dyno_results::summary::{ReadError, Run};
//!
//! let run = Run::read(Path::new("runs/resnet"))?;
//! for test in &run.tests {
//!     println!("{}: {}", test.title(), test.verdict);
//! }
//! # Ok::<(), ReadError>(())
//! ```
#![forbid(unsafe_code)]

pub mod collection;
pub mod contents;
mod contents_rebuilt;
pub mod effective;
pub mod export;
pub mod foreign;
pub mod records;
pub mod run_directory;
pub mod search;
mod selection;
pub mod series;
pub mod summary;
pub mod sweep;
pub mod units;
pub mod write;

/// Version of the program that writes the documents.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
