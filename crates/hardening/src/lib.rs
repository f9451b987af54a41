//! Hardening: seeded simulations of faults, judged by an oracle that shares nothing with the code
//! that it judges.
//!
//! ```
//! use dyno_hardening::simulate::case::{Case, Simplification};
//! use dyno_hardening::simulate::{CaseResult, check};
//!
//! let case = Case::draw(1, 7, &Simplification::default());
//! let CaseResult::Judged { findings, .. } = check(&case) else { panic!("these settings are valid") };
//! assert!(findings.is_empty());
//! ```
#![forbid(unsafe_code)]

pub mod coverage;
pub mod files;
pub mod framing;
pub mod kills;
pub mod oracle;
pub mod real;
pub mod rng;
pub mod searches;
pub mod simulate;
pub mod soak;
pub mod spread;
pub mod streams;
pub mod workers;
