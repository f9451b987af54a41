//! Import of recurrent layers from other formats: ONNX nodes, and weights with the names of PyTorch
//! or Keras.
//!
//! Imported layers have their gates in the order of [`Cell`](crate::Cell) and row-major
//! [`Weights`](crate::Weights), whatever the order of the source.
//!
//! ```
//! use dyno_rnn::import::{Array, pytorch};
//! use dyno_rnn::{Cell, Directions};
//!
//! // A GRU of 3 units over 2 inputs, with the names of `torch.nn.GRU` and without biases.
//! let array = |name: &str| match name {
//!     "weight_ih_l0" => Some(Array { shape: vec![9, 2], numbers: vec![0.1; 18] }),
//!     "weight_hh_l0" => Some(Array { shape: vec![9, 3], numbers: vec![0.2; 27] }),
//!     _ => None,
//! };
//! let layers = pytorch(Cell::Gru, "", &array)?;
//! assert_eq!((layers.len(), layers[0].units()), (1, 3));
//! assert_eq!(layers[0].directions(), Directions::Forward);
//! # Ok::<(), dyno_rnn::import::ImportError>(())
//! ```

mod keras;
mod npz;
mod onnx;
mod options;
mod pytorch;
mod reroll;
mod safetensors;

pub use keras::{KerasLayer, keras};
pub use npz::Npz;
pub use onnx::{ImportedLayer, InitialState, layers};
pub(crate) use onnx::{is_recurrent, layer, named, names, node_name};
pub use pytorch::pytorch;
pub use reroll::reroll;
pub use safetensors::Safetensors;

use thiserror::Error;

use crate::layer::LayerError;

/// A named array of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Dimensions.
    pub shape: Vec<usize>,
    /// Numbers, row-major.
    pub numbers: Vec<f32>,
}

/// Reason why an import failed.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A file does not have the expected format.
    #[error("{0}")]
    Format(String),
    /// An array is missing.
    #[error("array '{0}' not found")]
    Missing(String),
    /// An array of a recurrent layer would not be used.
    #[error(
        "array '{0}' belongs to no complete layer; arrays of its layer or of one before are missing"
    )]
    Unused(String),
    /// Weights depend on inputs of the model, or on nodes that are not folded.
    #[error("{node}: expected constant weights, but '{value}' is computed")]
    NotConstant {
        /// The node.
        node: String,
        /// The value.
        value: String,
    },
    /// An array has an unexpected shape, or a tensor an unexpected element type.
    #[error("'{name}': expected {expected}, found {found}")]
    Shape {
        /// Name of the array.
        name: String,
        /// Expected shape or type.
        expected: String,
        /// Shape or type found.
        found: String,
    },
    /// A tensor of a node is in a file that cannot be read.
    #[error("{node}: cannot read `{value}`: {why}")]
    Unreadable {
        /// The node.
        node: String,
        /// Name of the tensor.
        value: String,
        /// Reason, with the path of the file.
        why: String,
    },
    /// A node contradicts itself or the ONNX specification.
    #[error("{node}: {what}")]
    Invalid {
        /// The node.
        node: String,
        /// The contradiction.
        what: String,
    },
    /// An option has an unsupported value.
    #[error("{node}: {what} is not supported")]
    Option {
        /// The node.
        node: String,
        /// Name and value of the option.
        what: String,
    },
    /// The arrays do not fit together.
    #[error("{0}")]
    Layer(#[from] LayerError),
}

impl Array {
    /// Rows and columns; a vector counts as one row.
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

    /// Checks the shape of the array.
    fn expect(&self, name: &str, shape: &[usize]) -> Result<(), ImportError> {
        if self.shape == shape {
            return Ok(());
        }
        let expected = format!("{shape:?}");
        let found = format!("{:?}", self.shape);
        Err(ImportError::Shape { name: name.into(), expected, found })
    }
}

/// Reorders blocks of equal size: block `order[i]` becomes block i.
fn reordered(blocks: &[f32], order: &[usize]) -> Vec<f32> {
    let size = blocks.len() / order.len();
    order.iter().flat_map(|block| &blocks[block * size..][..size]).copied().collect()
}

/// Transposes a matrix of `rows` x `columns`.
fn transposed(numbers: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let at = |place: usize| numbers[place % rows * columns + place / rows];
    (0..rows * columns).map(at).collect()
}
