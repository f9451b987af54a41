//! Answers to questions of several kinds in one data set, each kind with its own metric.

pub mod matches;
pub mod mixtral;
pub mod retrieval;
