//! Data sets in the formats in which their publishers give them.

pub mod coco;
pub mod imagenet;
pub mod mnist;
pub mod pictures;
pub mod speech;
pub mod words;
