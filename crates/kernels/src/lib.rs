//! Packed products for small batches, the cells of recurrent networks, and the team of threads that
//! runs them: what is unsafe in Dyno's engines is here.
//!
//! Weights are packed once ([`Panels`]). What is done with them is a [`Program`]: data, proven when it is
//! made, so that this crate's interface is safe. An [`Execution`] runs it on a [`Team`] with the
//! instructions of an [`Isa`].

#![expect(unsafe_code, reason = "vectors, packed memory and workers that share it")]

mod activation;
mod ahead;
mod arch;
mod cell;
pub mod convert;
mod execute;
mod isa;
mod lanes;
mod memory;
mod narrow;
mod panels;
mod pool;
mod program;
mod rows;
mod team;
mod tile;
mod windows;

pub use activation::{Activation, Bounds, Tanh, erf};
pub use ahead::{Ahead, multiply_ahead};
pub use execute::{Call, Execution, RunError};
pub use isa::{Isa, IsaError};
pub use lanes::LANES;
pub use panels::{MAX_BYTES, MAX_VECTORS, Panels, Precision};
pub use pool::{Pixels, largest};
pub use program::{
    At, Blend, Buffer, Every, Gates, General, GeneralGru, GeneralLstm, GeneralRnn, Gru, Hidden,
    Highway, Kind, Loop, Lstm, Phase, Place, Product, Program, ProgramError, Reset, Rnn, Slots,
    Stage, Then, Work,
};
pub use rows::{Rows, dots, mix};
pub use team::{Team, Waiting};
pub use windows::{Weights, Windows, Words, multiply_windows};
