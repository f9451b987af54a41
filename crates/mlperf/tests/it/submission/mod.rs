//! Submission trees.

mod check;
mod documents;
mod endpoint;
mod facts;
mod forged;
mod mutations;
mod official;
mod results;
mod rules;
mod spread;
mod strict;
mod tree;
