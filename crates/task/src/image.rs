//! Pictures: decoding, and what is done to them before they are samples.

pub mod decode;
mod jpeg;
pub mod orientation;
pub mod resize;
pub mod steps;

/// Three channels, red first, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture<T> {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Three values a pixel.
    pub values: Vec<T>,
}
