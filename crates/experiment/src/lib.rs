//! Dyno as a library: loads systems, measures them, searches for their peak, compares runs, audits
//! and tunes.
//!
//! [`run::PreparedRun`] is the entry point: it reads [options](options), loads the
//! [system](system) that they name and plays its tests. Results are documents of
//! [`dyno_results`]. This crate prints nothing; [`Watch`] is the trait of observers.
//!
//! This example plays one test of a simulated system in virtual time:
//! ```
//! use dyno_experiment::options::CommandLine;
//! use dyno_experiment::run::PreparedRun;
//! use dyno_experiment::{Control, quiet};
//!
//! let mut line = CommandLine::default();
//! line.give("system", "model:fixed=1ms");
//! line.give("scenario", "single-stream");
//! line.give("mode", "performance");
//! line.give("duration", "2s");
//! let watch = quiet();
//! let prepared = PreparedRun::new(&line, &watch)?;
//! let tests = prepared.tests()?;
//! let control = Control { watch: &watch, interrupt: None, most: None };
//! let (played, _) = prepared.play_and_judge(&tests[0], control, "example")?;
//! let run = played.logs[0].runs().last().expect("a test has a run");
//! assert!(run.finished_at - run.started_at >= 2_000_000_000);
//! # Ok::<(), dyno_experiment::Failure>(())
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod advice;
pub mod audit;
pub mod cache;
pub mod compare;
pub mod division;
pub mod effect;
pub mod environment;
mod failure;
mod gather;
pub mod goals;
mod inputs;
mod lock;
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

pub use dyno_plugin::{permit_exit, set_last_action};
pub use dyno_sut::process_group::kill_all as end_programs;
pub use dyno_tensors::files;
pub use failure::{Failure, FailureKind};
pub use lock::FolderLock;
pub use watch::{Control, Interrupt, TestResult, Watch, quiet};

/// How an experiment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Every result is valid and every target is met.
    Valid,
    /// A result is INVALID or UNDECIDED, or a target was missed.
    Invalid,
    /// The experiment was aborted: the system stopped answering, or failed most answers.
    Aborted,
    /// The user interrupted the experiment.
    Interrupted,
}

/// Environment variable that makes a started `dyno` process treat the end of its standard input as
/// an interrupt. Its parent holds the other end: if the parent exits, no run is left behind.
pub const LIFELINE: &str = "DYNO_END_WITH_STDIN";
