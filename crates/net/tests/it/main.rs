//! Behaviour of the room's clients, servers and workers through their public surfaces.
#![expect(clippy::unwrap_used, reason = "tests")]

mod real_time;
mod serve;
mod workers;
