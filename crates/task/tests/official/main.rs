//! Official tasks with generated models and data in the formats of the reference: from the user's
//! files to the figure that decides. Tests that compute need ONNX Runtime and are skipped without
//! it; errors in files are tested in any case.
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
