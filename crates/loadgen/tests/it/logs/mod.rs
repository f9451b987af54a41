//! The four log files, written and read at the boundary of the crate.

mod dropped;
mod files;
mod played;
mod rebuild;
mod reference;
