//! Layers as others write them: nodes of ONNX, weights under the names of PyTorch or Keras.
//!
//! Whoever trained a layer, its gates come in the order of [`Cell`](crate::Cell) here, and row-major as
//! [`Weights`](crate::Weights) has them.

mod keras;
mod npz;
mod onnx;
mod options;
mod pytorch;
mod reroll;
mod safetensors;

use std::fmt;

pub use keras::{Keras, keras};
pub use npz::Npz;
pub use onnx::{Imported, Initial, layers};
pub use pytorch::pytorch;
pub use reroll::reroll;
pub use safetensors::Safetensors;

use crate::layer::LayerError;

/// An array of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its numbers, row-major.
    pub numbers: Vec<f32>,
}

/// Why something is no layer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ImportError {
    /// A file is not of its format.
    Format(String),
    /// An array is missing.
    Missing(String),
    /// Weights that are computed from what a model is fed, or by nodes that are not folded.
    NotConstant {
        /// The node.
        node: String,
        /// The value.
        value: String,
    },
    /// An array of a shape, or a tensor of elements, that does not belong there.
    Shape {
        /// Which.
        name: String,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A choice that is not known.
    Option {
        /// The node.
        node: String,
        /// Which, and what it says.
        what: String,
    },
    /// Arrays that do not fit one another.
    Layer(LayerError),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(why) => f.write_str(why),
            Self::Missing(name) => write!(f, "there is no array '{name}'"),
            Self::NotConstant { node, value } => {
                write!(f, "{node}: expected constant weights, but '{value}' is computed")
            }
            Self::Shape { name, expected, found } => {
                write!(f, "'{name}': expected {expected}, found {found}")
            }
            Self::Option { node, what } => write!(f, "{node}: {what} is not known"),
            Self::Layer(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ImportError {}

impl From<LayerError> for ImportError {
    fn from(error: LayerError) -> Self {
        Self::Layer(error)
    }
}

impl Array {
    /// Two dimensions, or one that is taken for a single row.
    fn matrix(&self, name: &str) -> Result<(usize, usize), ImportError> {
        match self.shape[..] {
            [rows, columns] => Ok((rows, columns)),
            [columns] => Ok((1, columns)),
            _ => Err(ImportError::Shape {
                name: name.into(),
                expected: "one or two dimensions".into(),
                found: format!("{:?}", self.shape),
            }),
        }
    }

    /// Whether an array has this shape.
    fn expect(&self, name: &str, shape: &[usize]) -> Result<(), ImportError> {
        if self.shape == shape {
            return Ok(());
        }
        let (expected, found) = (format!("{shape:?}"), format!("{:?}", self.shape));
        Err(ImportError::Shape { name: name.into(), expected, found })
    }
}

/// Blocks of equal size in another order: block `order[i]` becomes block i.
fn reordered(blocks: &[f32], order: &[usize]) -> Vec<f32> {
    let size = blocks.len() / order.len();
    order.iter().flat_map(|block| &blocks[block * size..][..size]).copied().collect()
}

/// Rows become columns.
fn transposed(numbers: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let at = |place: usize| numbers[place % rows * columns + place / rows];
    (0..rows * columns).map(at).collect()
}
