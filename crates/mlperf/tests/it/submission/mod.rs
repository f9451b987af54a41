//! Submission trees.

mod catalogue;
mod check;
mod documents;
mod early;
mod endpoint;
mod facts;
mod folder;
mod forged;
mod made;
mod mutations;
mod official;
mod ratio;
mod quirks;
mod results;
mod rules;
mod strict;
mod tree;
