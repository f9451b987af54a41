//! Submission trees.

mod check;
mod documents;
mod endpoint;
mod facts;
mod folder;
mod forged;
mod made;
mod mutations;
mod official;
mod ratio;
mod results;
mod rules;
mod strict;
mod tree;
