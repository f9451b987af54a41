//! Number formats of few bits, and a tuner that finds the smallest format for each layer of a
//! network.
//!
//! A [`Format`] is the canonical tuple <n_s, n_e, n_f, B> of the thesis' chapter III: the bits of
//! the sign, the exponent and the fraction, and the bias of the exponent. FLOAT, FIXED, EXP and BIN
//! are families of it, and the formats of today's processors have names. A [`Dictionary`] assigns a
//! format to each named object of a program; it is the content of a Number configuration file.
//!
//! ```
//! use dyno_number::{Conversion, Dictionary, Format};
//! // Sign and magnitude in 4 bits: multiples of 1/8 below 1.
//! let format: Format = "I4(0)".parse()?;
//! let mut weights = [0.3, -0.9, 1.7];
//! format.quantise_slice(&mut weights, Conversion::default())?;
//! assert_eq!(weights, [0.25, -0.875, 0.875]);
//!
//! let mut formats = Dictionary::new();
//! formats.set("conv1.weight", format)?;
//! assert_eq!(formats.to_string(), "conv1.weight FIXED 4 0\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | I want to | start at |
//! | --- | --- |
//! | convert single values | [`Format::encode`], [`Format::quantise`], [`Number`] |
//! | convert slices | [`Format::quantise_slice`], [`Format::encode_slice`], [`pack`] |
//! | use a scale per tensor, channel or block | [`Affine`], [`BlockFormat`] |
//! | read a network descriptor | [`Network::from_descriptor`] |
//! | tune a network | [`tune::tune`] |
//! | evaluate an ONNX model in formats | [`evaluate::ChainEvaluator`], [`evaluate::graph::GraphEvaluator`] |
//! | run a tuned model | [`evaluate::PackedNetwork`], [`evaluate::PackedFile`] |

#![forbid(unsafe_code)]

mod assignment;
mod codec;
pub mod config;
pub mod confirm;
mod descriptor;
pub mod evaluate;
mod format;
pub mod layers;
mod metric;
pub mod network;
mod number;
mod objective;
mod pack;
mod platform;
mod scaled;
mod search;
mod slice;
pub mod tune;

pub use assignment::Assignment;
pub use codec::{Conversion, NanError, Overflow, Rounding};
pub use config::{Dictionary, Radix};
pub use descriptor::{DescriptorError, Problem};
pub use format::{Format, FormatError, Kind, Special};
pub use network::Network;
pub use number::{Number, wider};
pub use objective::{BitsFunction, Expression, LayerBits, Objective, ValueOfBits, layer_bits};
pub use pack::{pack, packed_bytes, unpack};
pub use platform::{BUILT_IN as BUILT_IN_PLATFORMS, Platform, Role};
pub use scaled::{Affine, BlockFormat, Blocks, Scale, ScaleError};
pub use search::Algorithm;
