//! Official tasks with models and data made here, in the formats of the reference: from
//! the user's files to the figure that decides. What computes needs ONNX Runtime and is
//! skipped without; what is wrong with files is told in any case.
#![expect(clippy::unwrap_used, reason = "tests")]

mod criteo;
mod decoders;
mod diffusion;
#[path = "../engines/mod.rs"]
mod engines;
mod gnmt;
mod graph;
mod kits;
mod made;
mod page;
mod rnnt;
mod squad;
mod vision;
