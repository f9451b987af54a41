//! Tests of the checker, the audits and packaging from a user's view.
#![expect(clippy::unwrap_used, reason = "tests")]

mod audits;
#[path = "../made/mod.rs"]
mod made;
mod package;
mod power;
mod shared;
mod submission;
