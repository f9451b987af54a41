//! Groups of comparisons about our own chores: the book, fuzzing and releases.

mod book;
mod fuzz;
mod newcomer;
mod release;

use dyno_peers::groups::Group;

/// All groups of this crate.
pub const ALL: &[Group] = &[
    ("book", book::run),
    ("fuzz", fuzz::run),
    ("release", release::run),
    ("newcomer", newcomer::run),
];
