//! Conversion of a model's outputs to answers, before a query counts as answered; timed.

pub mod anchors;
pub mod boxes;
pub mod class;
pub mod detection;
pub mod embedding;
pub mod labels;
pub mod pairs;
pub mod phonemes;
