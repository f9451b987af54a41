//! Files of safetensors: arrays by name.

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

use super::{Array, ImportError};

/// The arrays of a file.
pub struct Safetensors<'a>(SafeTensors<'a>);

impl<'a> Safetensors<'a> {
    /// Looks through the bytes of a file.
    ///
    /// # Errors
    /// They are not of this format.
    pub fn new(bytes: &'a [u8]) -> Result<Self, ImportError> {
        let format = |why| ImportError::Format(format!("expected a file of safetensors: {why}"));
        SafeTensors::deserialize(bytes).map(Self).map_err(format)
    }

    /// Names of all arrays, in their order.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut names = self.0.names();
        names.sort_unstable();
        names
    }

    /// An array of that name, of floating-point numbers of 16, 32 or 64 bits.
    #[must_use]
    pub fn array(&self, name: &str) -> Option<Array> {
        let view = self.0.tensor(name).ok()?;
        let bytes = view.data();
        let two = |of: fn([u8; 2]) -> f32| -> Vec<f32> {
            bytes.as_chunks::<2>().0.iter().map(|two| of(*two)).collect()
        };
        let numbers = match view.dtype() {
            Dtype::F32 => {
                bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
            }
            Dtype::F64 => bytes
                .as_chunks::<8>()
                .0
                .iter()
                .map(|eight| f64::from_le_bytes(*eight) as f32)
                .collect(),
            Dtype::F16 => two(|two| f16::from_le_bytes(two).to_f32()),
            Dtype::BF16 => two(|two| bf16::from_le_bytes(two).to_f32()),
            _ => return None,
        };
        Some(Array { shape: view.shape().to_vec(), numbers })
    }
}
