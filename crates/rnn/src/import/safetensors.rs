//! Files of safetensors: arrays by name.

use dyno_tensors::safetensors as format;

use super::{Array, ImportError};

/// The arrays of a file.
pub struct Safetensors<'a>(format::Safetensors<'a>);

impl<'a> Safetensors<'a> {
    /// Reads the header of a file.
    ///
    /// # Errors
    /// The bytes are not of this format.
    pub fn new(bytes: &'a [u8]) -> Result<Self, ImportError> {
        let failed = |why| ImportError::Format(format!("expected a file of safetensors: {why}"));
        format::Safetensors::new(bytes).map(Self).map_err(failed)
    }

    /// Returns the names of all arrays, in alphabetical order.
    pub fn names(&self) -> Vec<&str> {
        self.0.names().collect()
    }

    /// Returns a text of the file's metadata by its key.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.0.metadata(key)
    }

    /// Returns the array of that name, if its elements are floating-point numbers of 16, 32 or 64 bits.
    pub fn array(&self, name: &str) -> Option<Array> {
        let view = self.0.view(name)?;
        let elements = view.elements().filter(|elements| elements.element().is_real())?;
        Some(Array { shape: view.shape.clone(), numbers: elements.into_f32() })
    }
}
