//! Behaviour of clients through their public surface, against servers that are made for it.
#![expect(clippy::unwrap_used, reason = "tests")]

mod real_time;
mod serve;
