//! Data sets in the formats in which their publishers give them.

pub mod aggregation;
pub mod coco;
pub mod criteo;
pub mod imagenet;
pub mod mnist;
pub mod named;
pub mod pictures;
pub mod speech;
pub mod squad;
pub mod texts;
pub mod words;
