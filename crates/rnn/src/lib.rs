//! Recurrent networks on CPUs, after DeepCPU: a layer becomes a schedule of phased products, the
//! schedule a program that a team of pinned threads runs.

#![forbid(unsafe_code)]

pub mod calibrate;
pub mod choices;
pub mod cost;
pub mod dag;
pub mod decode;
pub mod engine;
pub mod explain;
pub mod import;
pub mod layer;
pub mod machine;
pub mod model;
pub mod network;
pub mod oracle;
pub mod partition;
pub mod plan;
pub mod schedule;
pub mod sequence;
pub mod served;
pub mod study;
pub mod tuner;

pub use dyno_kernels::{Activation, Isa, Precision, Tanh, Team};
pub use layer::{Cell, Directions, Layer, LayerError, Options, Weights};
pub use plan::Choice;
pub use sequence::{Sequence, States};
