//! Pictures: decoding and preparation as samples.

pub mod decode;
mod jpeg;
pub mod orientation;
pub mod resize;
pub mod steps;

/// A picture of three channels, red first, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture<T> {
    /// Number of columns.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
    /// Three values per pixel.
    pub values: Vec<T>,
}
