//! Kernels of Dyno's engines: packed matrix products for small batches, convolutions, cells of recurrent
//! networks, and the team of threads that runs them. All unsafe code of the engines is in this
//! crate.
//!
//! Weights are packed once ([`Panels`]). A [`Program`] describes the work as data and is checked
//! when it is created, so that the interface of this crate is safe. An [`Execution`] runs it on a
//! [`Team`] with the instructions of an [`Isa`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use dyno_kernels::*;
//!
//! // One product on one worker: two rows of three numbers times a matrix of 64 outputs.
//! let weights = Arc::new(Panels::pack_matrix(Precision::F32, 3, &[0.5; 64 * 3]));
//! let buffer = |kind, columns| Buffer { kind, slots: Slots::Count(1), rows: 2, columns };
//! let place = |buffer| Place { buffer, at: SlotIndex::Fixed(0), column: 0 };
//! let product = Product {
//!     a: place(0),
//!     holds: Precision::F32,
//!     panels: 0..weights.panels(),
//!     weights,
//!     rows: 0..2,
//!     bias: None,
//!     scale: 1.0,
//!     reads_state: false,
//!     epilogue: Epilogue::Store { to: place(1), activation: Activation::Relu, outputs: 64 },
//! };
//! let phase = Phase { work: vec![vec![product]], has_barrier: false };
//! let stages = vec![Stage { cadence: Cadence::Step, phases: vec![phase] }];
//! let buffers = vec![buffer(BufferKind::Input(0), 3), buffer(BufferKind::Output(0), 64)];
//! let program = Program::new(1, buffers, vec![Loop { length: 0, chunk: 1, stages }])?;
//!
//! let mut execution = Execution::new(program, Isa::best());
//! let mut output = [0.0; 2 * 64];
//! let call = Call {
//!     lengths: &[1],
//!     inputs: &[&[1.0, 2.0, 3.0, -1.0, -2.0, -3.0]],
//!     outputs: &mut [&mut output],
//!     ..Call::default()
//! };
//! execution.run(&mut Team::with_workers(1), call)?;
//! assert_eq!((output[0], output[64]), (3.0, 0.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![expect(unsafe_code, reason = "vectors, packed memory and workers that share it")]

mod activation;
mod ahead;
mod arch;
mod cell;
pub mod convert;
mod each;
mod execute;
mod exponential;
mod isa;
mod lanes;
mod memory;
mod moments;
mod narrow;
mod panels;
mod planes;
mod pool;
mod program;
mod rows;
mod taps;
mod team;
mod tile;
mod windows;

pub use activation::{Activation, Bounds, Tanh, erf};
pub use ahead::{Prefetch, multiply_ahead};
pub use each::change_each;
pub use execute::{Call, Execution, RunError};
pub use exponential::{exp, log_softmax, softmax};
pub use isa::{Isa, IsaError};
pub use lanes::LANES;
pub use moments::{mean, mean_square, standardize};
pub use panels::{MAX_BYTES, MAX_VECTORS, Panels, Precision};
pub use planes::{PlaneAxis, convolve_planes};
pub use pool::{Pixels, largest};
pub use program::{
    BlendCell, Buffer, BufferKind, Cadence, Epilogue, Gates, GeneralCell, GeneralGru, GeneralLstm,
    GeneralRnn, Gru, HiddenState, HighwayCell, Loop, Lstm, Phase, Place, Product, Program,
    ProgramError, ResetCell, Rnn, SlotIndex, Slots, Stage, Work,
};
pub use rows::{Rows, dots, mix};
pub use taps::{Phases, WindowRows, convolve, split};
pub use team::{Team, WaitPolicy};
pub use windows::{WindowWeights, Windows, Words, multiply_windows, sum_windows};
