//! Contents of a graph besides its weights.

use std::collections::BTreeMap;

use dyno_onnx::{Attribute, Dim, Model, Tensor};

use super::flow::Flow;
use super::operators::plain_operator;

/// Contents that the retraining rules require to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    /// Number of layers with a matrix of weights.
    pub linear: usize,
    /// Numbers of other layers that must be kept, by operator.
    pub others: BTreeMap<String, usize>,
    /// Shapes of primary inputs and outputs, in ascending order.
    ports: Vec<Vec<Option<usize>>>,
}

/// Operators whose number must be that of the reference. Operators that may be fused or folded, or
/// that only convert, are not listed.
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

/// Returns the layers of a model; `flow` has the part of its graph that leads to an output.
pub fn layers(model: &Model, flow: &Flow<'_>) -> Layers {
    let mut layers = Layers { linear: 0, others: BTreeMap::new(), ports: Vec::new() };
    for step in &flow.steps {
        let op = plain_operator(step.op);
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
    /// Returns why these are not the layers of the reference, as far as retraining must keep them.
    pub fn unlike(&self, reference: &Self) -> Option<String> {
        if self.linear < reference.linear {
            let own = self.linear;
            let theirs = reference.linear;
            return Some(format!(
                "layers were removed: {own} with a matrix of weights, {theirs} in the reference"
            ));
        }
        let mut ops = self.others.keys().chain(reference.others.keys());
        let count = |layers: &Self, op: &String| layers.others.get(op).copied().unwrap_or(0);
        if let Some(op) = ops.find(|op| count(self, op) != count(reference, op)) {
            let own = count(self, op);
            let theirs = count(reference, op);
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
        (!is_kept).then(|| "primary inputs or outputs have different shapes".into())
    }
}

/// Returns the number of beams of the first search in a graph, if the graph specifies it.
pub fn beams(flow: &Flow<'_>) -> Option<i64> {
    const NAMES: [&str; 4] = ["num_beams", "beam_width", "beam_size", "beams"];
    let number = |tensor: &Tensor| match tensor.integers().as_deref() {
        Some([number]) => Some(*number),
        _ => None,
    };
    let of_step = flow.steps.iter().find_map(|step| {
        let attribute = step.node.attributes.iter().find_map(|(name, value)| match value {
            Attribute::Int(beams) if NAMES.contains(&name.as_str()) => Some(*beams),
            _ => None,
        });
        // The fourth input of ONNX Runtime's search operators.
        let is_search = matches!(step.op, "BeamSearch" | "WhisperBeamSearch");
        let input = step.inputs.get(3).filter(|_| is_search);
        let fed = input.and_then(|name| flow.tensors.get(name)).and_then(|one| number(one));
        let is_greedy = matches!(step.op, "GreedySearch" | "Sampling");
        attribute.or(fed).or(is_greedy.then_some(1))
    });
    let named = |name: &&str| flow.tensors.get(*name).and_then(|one| number(one));
    of_step.or_else(|| NAMES.iter().find_map(named))
}
