//! Timing model of neural processing units (NPUs) that fetch weights while they compute, and schedulers that share one
//! NPU among networks.
//!
//! A simulation has four steps:
//!
//! 1. A network is a table of layers ([`workload`]).
//! 2. [`lowering::lower`] turns the network into a [`profile::NetworkProfile`] for an NPU ([`hardware`]) and a
//!    [`mapping`]: a list of blocks, each with a compute time and a fetch time.
//! 3. A scheduler ([`schedule`]) picks the network whose block is next.
//! 4. A [`machine::Machine`] computes the exact start and end of each block. It has two resources, the memory and the
//!    array of processing elements (PEs), and a weight buffer between them.
//!
//! [`streams`] simulates networks that always have work, [`serve`] simulates networks that serve requests, and
//! [`bounds`] has upper bounds that no scheduler exceeds.
//!
//! ```
//! use dyno_npu::hardware::Npu;
//! use dyno_npu::lowering::{LoweringOptions, lower};
//! use dyno_npu::mapping::Mapping;
//! use dyno_npu::workload::Network;
//!
//! let resnet = Network::preset("RN")?;
//! let npu = Npu::preset("memory-centric")?;
//! let lowering = lower(&resnet, &npu, Mapping::Peak, &LoweringOptions::default())?;
//!
//! // One block per layer. At peak, ResNet-50 computes longer than it fetches.
//! let profile = lowering.profile;
//! assert_eq!(profile.blocks.len(), 54);
//! assert!(profile.compute() > profile.fetch());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Sources: chapters IV (Layerweaver) and V (Layerweaver+) of the Layerweaver thesis. Where the thesis is ambiguous,
//! the affected item documents our reading.
#![forbid(unsafe_code)]

pub mod arithmetic;
pub mod balance;
pub mod bounds;
pub mod deploy;
pub mod fleet;
pub mod hardware;
pub mod lowering;
pub mod machine;
pub mod mapping;
pub mod mix;
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
