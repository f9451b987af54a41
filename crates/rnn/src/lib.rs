//! Recurrent neural networks on CPUs, following DeepCPU (Zhang, Rajbhandari, Wang and He, USENIX
//! ATC 2018).
//!
//! A [`Layer`] is compiled into a schedule of phased matrix products, and the schedule into a
//! program that a [`Team`] of pinned threads runs. Start with [`engine::Engine`] for models,
//! [`Sequence`] for single layers, and [`network::Network`] for graphs of layers, attention and
//! more.
//!
//! ```
//! use dyno_rnn::engine::{Engine, EngineOptions};
//! use dyno_rnn::model::Model;
//!
//! // An LSTM of 16 units over 8 inputs, with random weights.
//! let mut engine = Engine::new(Model::open("lstm:8x16")?, &EngineOptions::default())?;
//! // One sequence of three steps.
//! let mut output = [0.0; 3 * 16];
//! engine.run(&[0.5; 3 * 8], &[3], None, &mut output)?;
//! assert!(output.iter().all(|h| h.abs() < 1.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod calibrate;
pub mod cost;
pub mod dag;
pub mod decode;
pub mod engine;
pub mod explain;
pub mod import;
pub mod layer;
pub mod load;
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
pub use layer::{Cell, CellOptions, Directions, Layer, LayerError, Weights};
pub use plan::Choice;
pub use sequence::{Sequence, States};
