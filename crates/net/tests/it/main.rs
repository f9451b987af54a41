//! Behaviour of the network's rooms through their public surfaces: clients against servers that
//! are made for it, and workers.
#![expect(clippy::unwrap_used, reason = "tests")]

mod real_time;
mod serve;
mod workers;
