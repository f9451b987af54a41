//! Inputs that requests may omit: initializers that a file lists as inputs, too.

use std::path::Path;

use dyno_onnx::{Model, Values};

use crate::engine::Port;
use crate::infer::Value;
use crate::tensors::{Elements, ModelInput};

/// Maximum bytes of all defaults, which are held beside the model. Larger ones are weights that an
/// exporter lists as inputs.
const MAX_BYTES: u64 = 1 << 26;

/// Returns the optional inputs of a file with their defaults; none if they cannot be read or exceed
/// [`MAX_BYTES`].
pub(super) fn read(path: &Path) -> Vec<(ModelInput, Value)> {
    let ports = Model::optional_inputs(path).unwrap_or_default();
    if ports.is_empty() {
        return Vec::new();
    }
    let Ok(model) = Model::read(path) else { return Vec::new() };
    let tensor = |name: &str| model.tensors.iter().find(|tensor| tensor.name == name);
    let bytes = ports.iter().filter_map(|port| tensor(&port.name)).map(dyno_onnx::Tensor::bytes);
    if bytes.sum::<u64>() > MAX_BYTES {
        return Vec::new();
    }
    let input = |port: &dyno_onnx::Port| {
        let tensor = tensor(&port.name)?.clone().in_memory().ok()?;
        let Values::Bytes(bytes) = &tensor.values else { return None };
        let elements = Elements::read(tensor.element, bytes)?;
        let Port { name, shape, .. } = Port::from(port);
        let fixed = || tensor.shape.iter().copied().map(Some).collect();
        let shape = if port.shape.is_some() { shape } else { fixed() };
        let input = ModelInput { name, element: tensor.element, shape };
        Some((input, Value { shape: tensor.shape, elements }))
    };
    ports.iter().filter_map(input).collect()
}
