//! Data sets in the formats in which their publishers give them.

pub mod coco;
pub mod imagenet;
pub mod mnist;
pub mod named;
pub mod pictures;
pub mod squad;
pub mod texts;
