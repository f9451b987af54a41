//! What the checker, the audits and the packer do for their users.
#![expect(clippy::unwrap_used, reason = "tests")]

mod audits;
#[path = "../made/mod.rs"]
mod made;
mod package;
mod power;
mod shared;
mod submission;
