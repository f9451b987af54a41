//! The interfaces for C and C++: programs in `tests/c` and `tests/cpp` are
//! compiled, linked against the static and the shared library, and run; their
//! logs are read back.
#![expect(clippy::unwrap_used, reason = "tests")]

mod completion_cost;
mod cpp;
mod examples;
mod header;
mod misuse;
mod program;
mod scenarios;
mod traces;
