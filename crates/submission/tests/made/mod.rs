//! Generated submissions for the tests of this crate and for `bench/check`.
//!
//! The load generator writes all logs: [`played`] runs tests in virtual time, [`submission`]
//! adds the files that people write and packages them. [`power`] adds a power measurement to a
//! run.

pub mod folder;
pub mod played;
pub mod power;
pub mod submission;
