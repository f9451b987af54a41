//! The load generator: generates the traffic of a scenario, records it, and
//! says whether the run is valid.
//!
//! It knows no model, no data format, no metric of quality and no rule book.
//! Start reading at [`session::Session`], the state machine that decides when
//! which query is issued; [`drive`] holds the two drivers that play it, in real
//! and in virtual time.
#![forbid(unsafe_code)]

pub mod clock;
pub mod compare;
pub mod config;
pub mod drive;
pub mod drop_in;
pub mod early_stopping;
pub mod log;
pub mod message;
pub mod metrics;
pub mod peak;
pub mod plan;
mod printf;
pub mod qsl;
pub mod record;
pub mod rng;
pub mod run;
pub mod search;
pub mod session;
pub mod settings;
pub mod share;
pub mod sut;
pub mod trace;
pub mod verdict;
