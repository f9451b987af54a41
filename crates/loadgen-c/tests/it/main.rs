//! The C interface, from C: programs in `tests/c` are compiled, linked against
//! the static and the shared library, and run; their logs are read back.
#![expect(clippy::unwrap_used, reason = "tests")]

mod completion_cost;
mod header;
mod misuse;
mod program;
mod scenarios;
mod traces;
