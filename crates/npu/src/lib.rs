//! Accelerators that fetch weights and compute at once, and schedulers that share one among networks.
//!
//! A network is a table of layers ([`workload`]); on an NPU ([`hardware`]) under a mapping ([`mapping`]) each layer
//! takes so long to compute and so long to fetch: a [`profile::NetworkProfile`], a list of blocks. A [`machine::Machine`] times
//! blocks one after another, exactly: two resources, and a weight buffer between them. A scheduler ([`schedule`]) says
//! whose block is next.
//!
//! Sources: the thesis' chapters IV (Layerweaver) and V (Layerweaver+); what of them was ambiguous stands where it is
//! resolved.
#![forbid(unsafe_code)]

pub mod balance;
pub mod bounds;
pub mod deploy;
pub mod fleet;
pub mod hardware;
pub mod lowering;
pub mod machine;
pub mod mapping;
mod nearest;
pub mod pass;
pub mod profile;
pub mod queue;
pub mod schedule;
pub mod serve;
pub mod setting;
mod sheet;
pub mod spatial;
pub mod streams;
pub mod version;
pub mod workload;
