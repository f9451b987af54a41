//! A sweep: many runs that differ in the values of a few axes, as one job that
//! can be ended and resumed.
//!
//! [`plan`] makes points of what was said, [`play`] runs those that are still to
//! be run, each as a `dyno run` in a process of its own, and
//! [`dyno_results::sweep`] is what is known of them.

mod combinations;
mod line;
pub mod plan;
pub mod play;
mod process;
pub mod resume;
pub mod rows;

pub use process::{exit_code, pause};
