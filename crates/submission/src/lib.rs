//! Validates and packages MLPerf submission trees.
//!
//! [`tree::Tree::walk`] lists the files once. [`entry`] finds the results in the tree by the
//! [`layout`] of the round, [`facts`] reads the files of each result once, and [`check`] judges
//! them. [`audit`] verifies audits (compliance tests), [`power`] verifies power measurements,
//! and [`package`] writes a tree from test folders.
//!
//! The crate works on files only and never runs anything.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use dyno_rules::Round;
//! use dyno_submission::check::{Options, Program, check};
//!
//! let round = Round::named("v5.1").unwrap();
//! let report = check(Path::new("submission"), round, &Options::new(Program::Strict)).unwrap();
//! println!("{} valid results", report.valid());
//! ```
//!
//! Results are not official MLPerf results unless a human submits them.
#![forbid(unsafe_code)]

pub mod audit;
pub mod check;
pub mod entry;
pub mod facts;
pub mod finding;
pub mod json;
pub mod layout;
pub mod package;
mod partial;
pub mod power;
mod python;
pub mod results;
pub mod sarif;
pub mod selection;
pub mod table;
pub mod tree;
mod yaml;
