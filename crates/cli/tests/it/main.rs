//! The program as its users see it: exit codes, messages, files.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod book;
mod files;
mod messages;
mod program;
mod schema;
mod search;
mod shell;
mod signals;
mod tenants;
mod updated;
