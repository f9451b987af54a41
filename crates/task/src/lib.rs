//! Benchmark tasks: a problem with a model, data, what is done to samples and
//! answers, a figure of quality and its target.
#![forbid(unsafe_code)]

pub mod answers;
pub mod archive;
pub mod cache;
pub mod card;
pub mod data;
pub mod encoder;
pub mod features;
pub mod files;
pub mod fit;
pub mod graphs;
pub mod image;
pub mod judge;
mod networks;
pub mod open;
pub mod package;
pub mod pipelines;
mod sentences;
pub mod shape;
pub mod system;
pub mod trained;
pub mod weights;
