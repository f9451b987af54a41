//! What the rule book does for its users.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod audits;
mod rounds;
