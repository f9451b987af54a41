//! Answers to questions of several kinds in one data set, each kind with a metric
//! of its own.

pub mod matches;
pub mod mixtral;
pub mod retrieval;
