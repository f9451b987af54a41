//! Runs in real time. What is asserted is what happened, and that it did not take for ever.

mod encrypted;
mod faults;
mod http2;
mod hyper_peer;
mod played;
mod protocols;
mod scenarios;
mod stamps;
mod troubles;
