//! Submission trees.

mod facts;
mod folder;
mod mutations;
mod official;
mod tree;
