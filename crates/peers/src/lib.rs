//! Benchmarks of Dyno beside other tools, its *peers*, and comparisons of what both compute.
//!
//! [`groups`] compares results: a difference is a failure. [`dropin`], [`report`], [`rnn`], [`npu`],
//! [`tune`], [`servers`] and [`tasks`] measure and print one JSON line per figure; [`task_table`] writes a table
//! of the book. `cargo xtask` runs all of them. The other modules build and install what they need:
//! peers come from PyPI or crates.io, and whatever this machine cannot get is skipped and reported.
//!
//! The crate depends on no other crate of the workspace, so that it compiles when they do not.
//!
//! ```
//! use dyno_peers::figure::{Better, Figure, Rounds};
//!
//! let rounds = Rounds { ours: vec![1.0, 2.0, 3.0], peer: vec![4.0] };
//! let figure = Figure { name: "start", unit: "ms", better: Better::Lower };
//! assert!(figure.line(&rounds).starts_with(r#"{"name": "start", "ours": 2.000, "peer": 4.000"#));
//! ```
#![forbid(unsafe_code)]

pub mod bench;
pub mod cargo;
pub mod dropin;
pub mod figure;
pub mod folder;
pub mod groups;
pub mod install_c;
pub mod npu;
pub mod report;
pub mod rnn;
pub mod servers;
pub mod shell;
pub mod task_table;
pub mod tasks;
pub mod tune;
pub mod venv;
pub mod wheel;
