//! Converts measurements to the documents of a run.

pub mod accelerator;
pub mod answers;
pub mod client;
pub mod distributions;
pub mod observer;
pub mod server;
