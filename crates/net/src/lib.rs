//! Systems over a network: clients that load a server, a server that answers them, and workers
//! that share one load.
//!
//! A [`protocol::Protocol`] says what is sent for a sample and what the bytes of its answer mean;
//! it knows no socket, clock or thread. [`client`] owns those.
#![forbid(unsafe_code)]

pub mod exchange;
pub mod launch;
pub mod protocol;
pub mod trouble;
pub mod worker;
