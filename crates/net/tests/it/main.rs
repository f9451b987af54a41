//! Behaviour of clients through their public surface, against servers that are made for it.
#![expect(clippy::unwrap_used, reason = "tests")]

mod encrypted;
mod faults;
mod http2;
mod hyper_peer;
mod played;
mod protocols;
mod real_time;
mod serve;
mod troubles;
