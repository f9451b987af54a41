//! Behaviour of the load generator through its public surface.
#![expect(clippy::unwrap_used, reason = "tests")]

mod compare;
mod drop_in;
mod excluded;
mod extend;
mod golden_traces;
mod interval;
mod issue_threads;
mod limits;
mod logs;
mod misbehaving;
mod null;
mod observer;
mod peak;
mod queueing;
mod real_time;
mod repetition;
mod scenarios;
mod search;
mod sessions;
mod share;
