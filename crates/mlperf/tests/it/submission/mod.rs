//! Submission trees.

mod facts;
mod folder;
mod tree;
