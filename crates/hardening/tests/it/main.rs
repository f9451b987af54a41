//! The simulations in small, and whether the oracle can fail.
#![expect(clippy::unwrap_used, reason = "tests")]

mod framing;
mod mutation;
mod real_time;
mod simulate;
