//! What is made of a model's outputs before a query counts as answered; timed.

pub mod class;
pub mod detection;
pub mod embedding;
pub mod given;
pub mod pairs;
pub mod phonemes;
