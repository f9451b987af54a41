//! What a graph is made of besides its weights.

use std::collections::BTreeMap;

use dyno_onnx::{Attribute, Dim, Model};

use super::weights::plain_operator;

/// What retraining rules ask to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    /// Layers with a matrix of weights.
    pub linear: usize,
    /// Others that must stay as they are, by operator.
    pub others: BTreeMap<String, usize>,
    /// Shapes of primary inputs and outputs, in ascending order.
    ports: Vec<Vec<Option<usize>>>,
}

/// Operators that may only be as many as they are in the reference. Those that are
/// fused, folded or only convert are not among them.
const KEPT: [&str; 14] = [
    "MaxPool",
    "AveragePool",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "LSTM",
    "GRU",
    "RNN",
    "Resize",
    "Upsample",
    "NonMaxSuppression",
    "RoiAlign",
    "InstanceNormalization",
    "DepthToSpace",
    "LRN",
];

/// Operators with a matrix of weights.
const LINEAR: [&str; 3] = ["Conv", "ConvTranspose", "MatMul"];

/// Of a model.
pub fn layers(model: &Model) -> Layers {
    let mut layers = Layers { linear: 0, others: BTreeMap::new(), ports: Vec::new() };
    for node in &model.nodes {
        let op = plain_operator(&node.op);
        if LINEAR.contains(&op) {
            layers.linear += 1;
        } else if KEPT.contains(&op) {
            *layers.others.entry(op.to_owned()).or_default() += 1;
        }
    }
    for port in model.inputs.iter().chain(&model.outputs) {
        let fixed = |dim: &Dim| match dim {
            Dim::Fixed(n) => Some(*n),
            Dim::Symbol(_) => None,
        };
        let shape = port.shape.as_deref().unwrap_or_default();
        layers.ports.push(shape.iter().map(fixed).collect());
    }
    layers.ports.sort();
    layers
}

impl Layers {
    /// Why these are not the layers of the reference, as retraining may leave them.
    pub fn unlike(&self, reference: &Self) -> Option<String> {
        if self.linear < reference.linear {
            let (own, theirs) = (self.linear, reference.linear);
            return Some(format!(
                "layers were removed: {own} with a matrix of weights, {theirs} in the reference"
            ));
        }
        let mut ops = self.others.keys().chain(reference.others.keys());
        let count = |layers: &Self, op: &String| layers.others.get(op).copied().unwrap_or(0);
        if let Some(op) = ops.find(|op| count(self, op) != count(reference, op)) {
            let (own, theirs) = (count(self, op), count(reference, op));
            return Some(format!("{own} {op} layers, {theirs} in the reference"));
        }
        let is_alike = |(own, theirs): (&Vec<Option<usize>>, &Vec<Option<usize>>)| {
            own.len() == theirs.len()
                && own
                    .iter()
                    .zip(theirs)
                    .all(|(own, theirs)| own.is_none() || theirs.is_none() || own == theirs)
        };
        let is_kept = self.ports.len() == reference.ports.len()
            && self.ports.iter().zip(&reference.ports).all(is_alike);
        (!is_kept).then(|| "primary inputs or outputs have other shapes".into())
    }
}

/// Nodes whose bodies are not kept when a file is read.
pub fn bodies(model: &Model) -> usize {
    let is_hidden = |(_, value): &(String, Attribute)| matches!(value, Attribute::Other);
    model.nodes.iter().filter(|node| node.attributes.iter().any(is_hidden)).count()
}

/// Beams of the searches in a graph: each with where it says so.
pub fn beams(model: &Model) -> Vec<(String, i64)> {
    const NAMES: [&str; 4] = ["num_beams", "beam_width", "beam_size", "beams"];
    let mut found = Vec::new();
    for node in &model.nodes {
        for (name, value) in &node.attributes {
            if let (true, Attribute::Int(beams)) = (NAMES.contains(&name.as_str()), value) {
                found.push((format!("{name} of {}", node.op), *beams));
            }
        }
        // Fourth input of the operators of ONNX Runtime.
        let is_search = matches!(node.op.as_str(), "BeamSearch" | "WhisperBeamSearch");
        let beams = node.inputs.get(3).filter(|_| is_search);
        let tensor = beams.and_then(|name| model.tensors.iter().find(|one| one.name == *name));
        if let Some([beams]) = tensor.and_then(dyno_onnx::Tensor::integers).as_deref() {
            found.push((format!("num_beams of {}", node.op), *beams));
        }
        if matches!(node.op.as_str(), "GreedySearch" | "Sampling") {
            found.push((node.op.clone(), 1));
        }
    }
    for tensor in model.tensors.iter().filter(|tensor| NAMES.contains(&tensor.name.as_str())) {
        let is_of_search = found.iter().any(|(place, _)| place.starts_with("num_beams of"));
        if let (false, Some([beams])) = (is_of_search, tensor.integers().as_deref()) {
            found.push((format!("tensor {}", tensor.name), *beams));
        }
    }
    found
}
