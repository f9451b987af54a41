//! Submission trees.

mod check;
mod facts;
mod folder;
mod made;
mod mutations;
mod official;
mod tree;
