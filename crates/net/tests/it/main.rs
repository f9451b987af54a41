//! Behaviour of the network's rooms through their public surfaces.
#![expect(clippy::unwrap_used, reason = "tests")]

mod workers;
