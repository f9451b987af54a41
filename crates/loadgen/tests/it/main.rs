//! Behaviour of the load generator through its public surface.
#![expect(clippy::unwrap_used, reason = "tests")]

mod golden_traces;
mod logs;
mod null;
mod queueing;
mod real_time;
mod scenarios;
