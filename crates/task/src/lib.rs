//! Benchmark tasks: a problem with a model, data, what is done to samples and
//! answers, a figure of quality and its target.
#![forbid(unsafe_code)]

pub mod answers;
pub mod cache;
pub mod card;
pub mod data;
pub mod files;
pub mod graphs;
pub mod image;
pub mod package;
pub mod pickle;
pub mod shape;
pub mod system;
pub mod trained;
