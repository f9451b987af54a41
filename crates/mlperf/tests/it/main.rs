//! What the rule book does for its users.
#![expect(clippy::unwrap_used, reason = "tests")]

mod audits;
#[path = "../made/mod.rs"]
mod made;
mod package;
mod power;
mod rounds;
mod shared;
mod submission;
