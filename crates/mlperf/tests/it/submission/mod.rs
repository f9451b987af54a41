//! Submission trees.

mod check;
mod documents;
mod facts;
mod folder;
mod made;
mod mutations;
mod official;
mod results;
mod strict;
mod tree;
