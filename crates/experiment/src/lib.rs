//! Dyno as a library: load a system, measure it, search for its peak, compare runs, audit, tune.
//!
//! [`run::Prepared`] is the start: it reads [options](options), loads the [system](system) that they
//! name and plays its tests. What was found are documents of [`dyno_results`]. This crate prints
//! nothing; who watches an experiment implements [`Watch`].
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod audit;
pub mod cache;
pub mod compare;
pub mod division;
pub mod effect;
pub mod environment;
mod failure;
mod gather;
pub mod goals;
pub mod measure;
pub mod member;
pub mod observe;
pub mod options;
pub mod outcome;
pub mod probe;
pub mod requirement;
pub mod run;
pub mod search;
pub mod sweep;
pub mod system;
pub mod test;
pub mod throughput;
pub mod tune;
mod watch;
pub mod workers;

pub use failure::{Failure, FailureKind};
pub use watch::{Control, Interrupt, TestResult, Watch, quiet};

/// How an experiment came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Every result is valid and every target is met.
    Valid,
    /// A result is INVALID or UNDECIDED, or a target was missed.
    Invalid,
    /// It was ended while it was on: the system stopped answering, or failed most answers.
    Aborted,
    /// The user ended it.
    Interrupted,
}

/// If this variable is set, a `dyno` process that was started takes the end of its standard input
/// for an interrupt. Its parent holds the other end: if the parent goes away, no run is left
/// behind.
pub const LIFELINE: &str = "DYNO_END_WITH_STDIN";
