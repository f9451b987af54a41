//! Submissions that are made here, for the tests of this crate and for `bench/check`.
//!
//! Nothing is made up that the load generator writes: [`played`] plays tests in virtual
//! time, [`submission`] adds what people write, and has it packaged. [`power`] makes a
//! run one whose power was measured.

pub mod folder;
pub mod played;
pub mod power;
pub mod submission;
