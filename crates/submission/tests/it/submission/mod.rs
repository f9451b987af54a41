//! Tests of submission trees.

mod catalogue;
mod check;
mod compat;
mod documents;
mod early;
mod early_checkers;
mod endpoint;
mod facts;
mod forged;
mod made;
mod mutations;
mod official;
mod overlooked;
mod proven;
mod published;
mod quirks;
mod ratio;
mod results;
mod rounds;
mod rules;
mod selection;
mod spread;
mod strict;
mod tracebacks;
mod tree;
