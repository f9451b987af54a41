//! Trained weights of files that other frameworks wrote, as tensors of graphs here.

use std::collections::BTreeMap;

use dyno_onnx::{Tensor, Values};
use dyno_tensors::View;
use dyno_tensors::pickle::{self, PickleError, Value};
use dyno_tensors::safetensors::{Safetensors, SafetensorsError};
use thiserror::Error;

/// Why the bytes of `torch.save` are no weights.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TorchError {
    /// They are no pickle of data.
    #[error("{0}")]
    Pickle(PickleError),
    /// They are one of something else.
    #[error("expected weights by their names, found other data")]
    Content,
}

/// The weights by their names that `torch.save(model.state_dict())` wrote, or a training
/// with more beside them, which has them as `model_state_dict`.
///
/// # Errors
/// [`TorchError`] if the bytes hold something else.
pub fn torch(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>, TorchError> {
    let value = pickle::weights(bytes).map_err(TorchError::Pickle)?;
    let value = match value.get("model_state_dict") {
        Some(inner) => inner.clone(),
        None => value,
    };
    let Value::Dict(entries) = value else { return Err(TorchError::Content) };
    let weight = |(name, value): (Value, Value)| {
        let (Value::Text(name), Value::Array(array)) = (name, value) else {
            return Err(TorchError::Content);
        };
        let tensor = Tensor {
            name: name.to_string(),
            element: array.element,
            shape: array.shape.clone(),
            values: Values::Bytes(array.bytes.clone()),
        };
        Ok((tensor.name.clone(), tensor))
    };
    entries.into_iter().map(weight).collect()
}

/// Reads the tensors of a file of safetensors by their names.
///
/// # Errors
/// [`SafetensorsError`] if the bytes are another file, or hold a type that is not read.
pub fn safetensors(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>, SafetensorsError> {
    let tensor = |(name, view): (String, View<'_>)| {
        let View { element, shape, bytes } = view;
        let tensor =
            Tensor { name: name.clone(), element, shape, values: Values::Bytes(bytes.to_vec()) };
        (name, tensor)
    };
    Ok(Safetensors::new(bytes)?.into_views()?.into_iter().map(tensor).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_table_of_weights_is_refused() {
        // `pickle.dumps([1])` in an older file of PyTorch is none, nor are other bytes.
        assert!(matches!(torch(b"\x80\x02]K\x01a."), Err(TorchError::Pickle(_))));
        assert!(!torch(b"").unwrap_err().to_string().is_empty());
    }
}
