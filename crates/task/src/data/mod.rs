//! Data sets: in the formats in which their publishers give them, in tables of facts, and
//! made of seeds.

pub mod coco;
pub mod digit_boxes;
pub mod imagenet;
pub mod karate;
pub mod mnist;
pub mod movielens;
mod npy;
pub mod part;
pub mod pictures;
pub mod shapes3d;
