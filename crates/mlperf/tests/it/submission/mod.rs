//! Submission trees.

mod documents;
mod facts;
mod folder;
mod mutations;
mod official;
mod strict;
mod tree;
