//! Data sets in the formats in which their publishers give them.

pub mod imagenet;
pub mod mnist;
