//! Sweeps: many runs that differ in the values of a few axes, as one job that can be ended and
//! resumed.
//!
//! [`plan`] turns the options into points, [`play`] runs the pending points, each as a `dyno run`
//! in its own process, and [`dyno_results::sweep`] is the record of their results.

pub mod bounded;
mod check;
mod combinations;
mod line;
mod names;
pub mod plan;
pub mod play;
mod process;
pub mod resume;
mod same;

pub use process::{exit_code, pause};
