//! The simulations in small, and whether the oracle can fail.
#![expect(clippy::unwrap_used, reason = "tests")]

mod mutation;
mod simulate;
