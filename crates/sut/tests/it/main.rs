//! Behaviour of the systems under test through their public surface.
#![expect(clippy::unwrap_used, reason = "tests")]

mod batching;
mod by_value;
mod cheats;
mod digits;
mod onnx;
#[cfg(unix)]
mod python;
mod queueing;
mod real_time;
mod rnn;
mod streams;
