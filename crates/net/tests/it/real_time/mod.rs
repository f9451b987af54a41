//! Runs in real time. What is asserted is what happened, and that it did not take for ever.

mod accounts;
mod connections;
mod dialects;
mod encrypted;
mod fault_server;
mod faults;
mod http2;
mod http2_frames;
mod hyper_peer;
mod played;
mod protocols;
mod scenarios;
mod stamps;
mod troubles;
