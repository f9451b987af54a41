//! Submission trees: what lies where, what the files of a result say, and which
//! results count.
//!
//! [`tree`] walks once, [`entry`] finds the results in it by the [`layout`] of the
//! round, [`facts`] reads the files of a result, each once.

pub mod check;
pub mod entry;
pub mod facts;
pub mod json;
pub mod layout;
mod python;
pub mod results;
pub mod sarif;
pub mod table;
pub mod tree;
