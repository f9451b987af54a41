//! Recurrent networks on CPUs, after DeepCPU: a layer becomes a schedule of phased products, the
//! schedule a program that a team of pinned threads runs.

#![forbid(unsafe_code)]

pub mod import;
pub mod layer;
pub mod oracle;
pub mod plan;
pub mod sequence;

pub use layer::{Cell, Directions, Layer, LayerError, Options, Weights};
pub use plan::Choice;
pub use sequence::{Sequence, States};
