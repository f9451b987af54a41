//! The rule book of MLPerf Inference: its rounds as data, its audits, and
//! submission trees with what the official checkers and the rules say of them.
//!
//! Works on files only and never runs anything. Start reading at
//! [`round::Round`], what one round of the benchmark asks for.
//!
//! Results are not official MLPerf results unless a human submits them.
#![forbid(unsafe_code)]

pub mod accuracy;
pub mod audit;
pub mod finding;
pub mod package;
mod parallel;
pub mod power;
pub mod round;
pub mod submission;
