//! Submission trees: what lies where, what the files of a result say, which results count by the
//! official checkers and the rules, and how a tree is made. With the audits and the power
//! measurements that belong to a result.
//!
//! Works on files only and never runs anything. [`tree`] walks once, [`entry`] finds the results
//! in it by the [`layout`] of the round, [`facts`] reads the files of a result, each once, and
//! [`check`] judges them.
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
pub mod power;
mod python;
pub mod results;
pub mod sarif;
pub mod table;
pub mod tree;
