//! Number formats of few bits.
//!
//! A [`Format`] is the canonical tuple <n_s, n_e, n_f, B> of the thesis' chapter III: bits of the sign, of
//! the exponent, of the fraction, and the exponent's bias. FLOAT, FIXED, EXP and BIN are families of it, and
//! the formats of today's processors are named. A [`Dictionary`] gives each named object of a program its
//! format, and is read from and written to a Number configuration file.

#![forbid(unsafe_code)]

mod assignment;
mod codec;
pub mod config;
mod descriptor;
pub mod evaluate;
mod format;
pub mod layers;
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
pub use objective::{Expression, Objective};
pub use pack::{pack, packed_bytes, unpack};
pub use platform::{BUILT_IN as BUILT_IN_PLATFORMS, Platform, Role};
pub use scaled::{Affine, Blocks, Scale, ScaleError, Shared};
pub use search::Algorithm;
