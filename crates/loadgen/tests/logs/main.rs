//! The four log files, written and read at the boundary of the crate.

mod files;
mod rebuild;
mod reference;
