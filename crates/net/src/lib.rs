//! Systems over a network: clients that load a server, a server that answers them, and workers
//! that share one load.
//!
//! A [`protocol::Protocol`] says what is sent for a sample and what the bytes of its answer mean;
//! it knows no socket, clock or thread. [`client`] owns those.
#![forbid(unsafe_code)]

pub mod ask;
pub mod client;
pub mod coding;
mod compressed;
pub mod endpoint;
pub mod exchange;
pub mod faults;
pub mod grpc;
pub mod launch;
pub mod ledger;
pub mod oip;
pub mod openai;
pub mod protocol;
pub mod raw;
pub mod serve;
pub mod sink;
pub mod sse;
pub mod tls;
pub mod tokens;
pub mod trouble;
pub mod worker;
pub mod workload;
