//! What the rule book does for its users.
#![expect(clippy::unwrap_used, reason = "tests")]

mod audits;
mod package;
mod power;
mod rounds;
mod shared;
mod submission;
