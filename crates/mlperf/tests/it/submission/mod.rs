//! Submission trees.

mod documents;
mod facts;
mod folder;
mod mutations;
mod official;
mod results;
mod strict;
mod tree;
