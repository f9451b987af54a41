//! Data sets: in the formats in which their publishers give them, in tables of facts, and
//! made of seeds.

pub mod aggregation;
pub mod coco;
pub mod criteo;
pub mod digit_boxes;
pub mod imagenet;
pub mod karate;
pub mod kits19;
pub mod mnist;
pub mod movielens;
pub mod named;
pub(crate) mod npy;
pub mod part;
pub mod pictures;
pub mod shapes3d;
pub mod speech;
pub mod squad;
pub mod texts;
pub mod words;
