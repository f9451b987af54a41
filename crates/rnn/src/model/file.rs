//! Models from files.

use std::collections::HashMap;
use std::path::Path;

use dyno_kernels::Activation;
use dyno_onnx::Node;

use super::{Model, ModelError};
use crate::import::{
    self, Array, ImportError, ImportedLayer, InitialState, KerasLayer, Safetensors,
};
use crate::layer::{Cell, Layer};

/// Reads the layers of a file, or the named one.
pub(super) fn open(path: &Path, named: Option<&str>) -> Result<Model, ModelError> {
    let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
    let text = path.display().to_string();
    let name = named.map_or(text.clone(), |layer| format!("{text}#{layer}"));
    let (layers, left_out) = match ending.to_str() {
        Some("onnx") => read_onnx(path, named)?,
        Some("safetensors") => (read_safetensors(path, named)?, None),
        _ => return Err(ModelError::Format(path.to_owned())),
    };
    Ok(Model { left_out, ..Model::from_layers(name, layers)? })
}

fn read_onnx(path: &Path, named: Option<&str>) -> Result<(Vec<Layer>, Option<String>), ModelError> {
    let model = dyno_onnx::Model::read(path)
        .map_err(|why| ModelError::Unreadable { path: path.to_owned(), why: why.to_string() })?;
    let failed = |error| ModelError::Import { path: path.to_owned(), error };
    let mut found = import::layers(&model).map_err(failed)?;
    if found.is_empty() {
        return Err(ModelError::Empty(path.to_owned()));
    }
    let names: Vec<String> = found.iter().map(|layer| layer.name.clone()).collect();
    if let Some(name) = named {
        let Some(at) = found.iter().position(|layer| layer.name == name) else {
            let path = path.to_owned();
            let name = name.to_owned();
            return Err(ModelError::Unknown { path, name, layers: names });
        };
        found = vec![found.swap_remove(at)];
    }
    let mut makers = HashMap::new();
    let mut others = 0;
    gather(&model.nodes, &mut makers, &mut others);
    if !found.windows(2).all(|pair| follows(&pair[0], &pair[1], &makers)) {
        return Err(ModelError::Several { path: path.to_owned(), layers: names });
    }
    let is_given = |initial: &InitialState| *initial != InitialState::Zeros;
    let begins = found.iter().any(|layer| layer.initial.iter().any(is_given));
    let mut left_out = Vec::new();
    if others > 0 {
        left_out.push(format!("Of {} the recurrent layers alone are run.", path.display()));
    }
    if begins {
        left_out
            .push("Every sequence begins with states of zeros, whatever the file gives.".into());
    }
    let layers = found.into_iter().map(|found| found.layer).collect();
    Ok((layers, (!left_out.is_empty()).then(|| left_out.join(" "))))
}

/// Operators that move numbers without changing them.
const MOVES: [&str; 8] =
    ["Transpose", "Squeeze", "Unsqueeze", "Reshape", "Identity", "Dropout", "Cast", "Flatten"];

/// Collects the node that computes each value, and counts nodes that are neither recurrent, nor
/// constants, nor in [`MOVES`].
fn gather<'a>(nodes: &'a [Node], makers: &mut HashMap<&'a str, &'a Node>, others: &mut usize) {
    for node in nodes {
        let is_known = ["LSTM", "GRU", "RNN", "DynamicQuantizeLSTM", "Constant", "Shape"];
        *others += usize::from(
            !is_known.contains(&node.op.as_str()) && !MOVES.contains(&node.op.as_str()),
        );
        for output in &node.outputs {
            makers.insert(output, node);
        }
        for (_, body) in node.bodies() {
            gather(&body.nodes, makers, others);
        }
    }
}

/// Whether a layer takes the outputs of another one, possibly moved.
fn follows(one: &ImportedLayer, next: &ImportedLayer, makers: &HashMap<&str, &Node>) -> bool {
    let mut value = next.input.as_str();
    // A valid graph has no cycles, but a corrupt file may.
    for _ in 0..makers.len() {
        if !value.is_empty() && value == one.outputs[0] {
            return true;
        }
        let Some(node) = makers.get(value) else { return false };
        if !MOVES.contains(&node.op.as_str()) {
            return false;
        }
        value = node.inputs.first().map_or("", String::as_str);
    }
    !value.is_empty() && value == one.outputs[0]
}

/// Suffix of the first weights of a PyTorch module.
const PYTORCH: &str = "weight_ih_l0";
/// Suffix of the recurrent weights of a Keras layer.
const KERAS: &str = "recurrent_kernel";

fn read_safetensors(path: &Path, named: Option<&str>) -> Result<Vec<Layer>, ModelError> {
    let bytes = std::fs::read(path)
        .map_err(|why| ModelError::Unreadable { path: path.to_owned(), why: why.to_string() })?;
    let failed = |error| ModelError::Import { path: path.to_owned(), error };
    let file = Safetensors::new(&bytes).map_err(failed)?;
    let names = file.names();
    let prefixes = |ending: &str| -> Vec<&str> {
        let own = names.iter().filter_map(|name| name.strip_suffix(ending));
        // The layers of `Bidirectional` are read with their forward half.
        own.filter(|prefix| !prefix.contains("backward")).collect()
    };
    let pytorch = prefixes(PYTORCH);
    let keras = prefixes(KERAS);
    let all: Vec<&str> = [&pytorch[..], &keras].concat();
    let prefix = match (named, &all[..]) {
        (_, []) => return Err(ModelError::Empty(path.to_owned())),
        (None, [only]) => *only,
        (None, several) => {
            let layers = several.iter().map(|name| (*name).to_owned()).collect();
            return Err(ModelError::Several { path: path.to_owned(), layers });
        }
        (Some(name), several) => match several.iter().find(|prefix| **prefix == name) {
            Some(prefix) => prefix,
            None => {
                let layers = several.iter().map(|name| (*name).to_owned()).collect();
                let path = path.to_owned();
                let name = name.to_owned();
                return Err(ModelError::Unknown { path, name, layers });
            }
        },
    };
    let array = |name: &str| file.array(name);
    if pytorch.contains(&prefix) {
        let cell = pytorch_cell(prefix, &array).map_err(failed)?;
        return import::pytorch(cell, prefix, &array).map_err(failed);
    }
    keras_layer(prefix, &array).map(|layer| vec![layer]).map_err(failed)
}

/// Returns the cell with `gates` gates.
fn cell(gates: usize, name: &str, found: &Array) -> Result<Cell, ImportError> {
    match gates {
        4 => Ok(Cell::Lstm),
        3 => Ok(Cell::Gru),
        1 => Ok(Cell::Rnn(Activation::Tanh)),
        _ => Err(ImportError::Shape {
            name: name.to_owned(),
            expected: "one, three or four times as many rows as units".to_owned(),
            found: format!("{:?}", found.shape),
        }),
    }
}

fn pytorch_cell(prefix: &str, array: &dyn Fn(&str) -> Option<Array>) -> Result<Cell, ImportError> {
    if array(&format!("{prefix}weight_hr_l0")).is_some() {
        return Ok(Cell::Lstm);
    }
    let name = format!("{prefix}weight_hh_l0");
    let state = array(&name).ok_or_else(|| ImportError::Missing(name.clone()))?;
    let gates = match state.shape[..] {
        [rows, units] if units > 0 && rows % units == 0 => rows / units,
        _ => 0,
    };
    cell(gates, &name, &state)
}

fn keras_layer(prefix: &str, array: &dyn Fn(&str) -> Option<Array>) -> Result<Layer, ImportError> {
    let name = format!("{prefix}{KERAS}");
    let state = array(&name).ok_or_else(|| ImportError::Missing(name.clone()))?;
    let gates = match state.shape[..] {
        [units, columns] if units > 0 && columns % units == 0 => columns / units,
        _ => 0,
    };
    let bias = array(&format!("{prefix}bias"));
    let other = prefix.replace("forward", "backward");
    let prefixes = [prefix, &other];
    let is_both = other != prefix && array(&format!("{other}{KERAS}")).is_some();
    let layer = KerasLayer {
        cell: cell(gates, &name, &state)?,
        activations: None,
        // Only a GRU that resets after the product has two rows of biases.
        reset_after: bias.is_none_or(|bias| bias.shape.len() == 2),
        prefixes: &prefixes[..if is_both { 2 } else { 1 }],
    };
    import::keras(&layer, array)
}
