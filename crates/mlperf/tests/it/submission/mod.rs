//! Submission trees.

mod facts;
mod folder;
mod mutations;
mod official;
mod results;
mod strict;
mod tree;
