//! Graphs with packed weights, and the tensors of a model that can be packed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dyno_kernels::Isa;
use dyno_onnx::{Constants, Model, Tensor as Constant, in_floats};

use super::super::LayerNames;
use super::super::packed::{PackedError, PackedLayer, PackedRunError, known, widened};
use super::super::stage::{FloatReason, Layout, PreparedProduct, ProductPath, Scratch};
use super::read::{self, Fold, MOVES, Step, Steps, WeightUse};
use super::step::{Op, StepError};
use super::target::{Context, PreparedGraph, Target};
use super::tensor::Tensor;
use crate::config::Dictionary;
use crate::format::Format;

/// A graph in its formats. It computes the steps of a [`GraphEvaluator`](super::GraphEvaluator),
/// without samples.
#[derive(Debug)]
pub(in super::super) struct PackedGraph {
    steps: Steps,
    prepared: Vec<PreparedGraph>,
}

impl PackedGraph {
    /// Packs the weights of a model and returns the graph with its layers. Objects without an entry
    /// in `formats` are FLOAT(32).
    ///
    /// # Errors
    /// The engine does not support the model, or the model does not have the objects of `formats`.
    pub fn new(
        model: &Model,
        formats: &Dictionary,
    ) -> Result<(Self, Vec<PackedLayer>), PackedError> {
        let mut steps = read::steps(&in_floats(model)).map_err(PackedError::Network)?;
        let names: Vec<String> = steps.targets.iter().flat_map(Target::names).collect();
        let resolved = LayerNames::resolve(model, formats, &names);
        let formats = &*resolved;
        known(formats, &names)?;
        let grouped: BTreeMap<usize, usize> = steps.steps.iter().filter_map(grouped).collect();
        let mut prepared = Vec::new();
        let mut layers = Vec::new();
        for (at, target) in steps.targets.iter_mut().enumerate() {
            let [weight, activation] = target.names().map(|name| formats.format(&name));
            let (made, mut layer) = pack_target(target, weight, activation)
                .map_err(|cause| PackedError::Nan { layer: target.name.clone(), cause })?;
            if let Some(pixels) = grouped.get(&at) {
                layer.path = ProductPath::F32(FloatReason::Grouped);
                layer.macs = layer.weights * pixels;
            }
            prepared.push(made);
            layers.push(layer);
        }
        Ok((Self { steps, prepared }, layers))
    }

    /// Multiplies with the given instruction set.
    pub fn set_isa(&mut self, isa: Isa) {
        self.prepared.iter_mut().for_each(|prepared| prepared.set_isa(isa));
    }

    /// Computes the answer to inputs in the order of the model, and returns its dimensions and
    /// numbers.
    ///
    /// # Errors
    /// An input does not fit, or a value is NaN and its format has none.
    pub fn run(
        &self,
        inputs: Vec<(Vec<usize>, Vec<f32>)>,
        scratch: &mut Scratch,
    ) -> Result<(Vec<usize>, Arc<Vec<f32>>), PackedRunError> {
        let inputs = inputs.into_iter().map(|(dims, values)| Tensor::new(dims, values));
        let values = self.steps.begin(inputs);
        let targets = &self.steps.targets;
        let mut context = Context { targets, prepared: &self.prepared, scratch, stats: None };
        let answer = self.steps.answer(values, &mut context, &mut |_, _| ());
        let answer = answer.map_err(|(at, why)| {
            let (op, name) = self.steps.steps[at].node.clone();
            match why {
                StepError::Nan(error) => PackedRunError::Nan(error),
                other => PackedRunError::Node { op, name, what: super::message(&other) },
            }
        })?;
        Ok((answer.dims, answer.values))
    }
}

/// Returns the target of a grouped convolution, and the number of pixels of its output.
fn grouped(step: &Step) -> Option<(usize, usize)> {
    match &step.op {
        Op::Grouped { target, convolution } => Some((*target, convolution.output.pixels())),
        _ => None,
    }
}

/// Packs the weights of a target and prepares what the kernels read. The target keeps no weights.
fn pack_target(
    target: &mut Target,
    weight: Format,
    activation: Format,
) -> Result<(PreparedGraph, PackedLayer), crate::codec::NanError> {
    let numbers = std::mem::take(&mut target.weights);
    let (codes, plain) = widened(weight, &numbers)?;
    let mut ready = Vec::new();
    let mut path = None;
    let mut widened_bytes = 0;
    let mut macs = 0;
    for stage in &mut target.stages {
        let product = stage.product.as_mut().expect("stages of targets have products");
        let layout = Layout::new(product, stage.input, [weight, activation]);
        // The weights once more, in the order of this product.
        let (_, numbers) = widened(weight, &std::mem::take(&mut product.weights))?;
        macs += numbers.len() * product.output.pixels();
        let weights = layout.ordered(product.output.channels, numbers);
        widened_bytes += weights.bytes();
        // The slowest product determines the path of the layer.
        path = match (path, layout.path()) {
            (Some(slow @ ProductPath::F32(_)), _)
            | (Some(slow @ ProductPath::Int16), ProductPath::Bytes) => Some(slow),
            (_, path) => Some(path),
        };
        ready.push(PreparedProduct { layout, weights: Arc::new(weights), isa: Isa::best() });
    }
    let plain = if ready.is_empty() { plain } else { Vec::new() };
    let layer = PackedLayer {
        name: target.name.clone(),
        weight,
        activation,
        path: path.unwrap_or(ProductPath::F32(FloatReason::Read)),
        codes,
        weights: numbers.len(),
        widened_bytes: widened_bytes + size_of_val(&plain[..]),
        macs,
    };
    Ok((PreparedGraph::new(ready, plain, activation), layer))
}

/// A tensor of a model whose numbers can be packed.
#[derive(Debug)]
pub(in super::super) struct PackableTensor {
    pub tensor: String,
    /// Object whose format the weights have.
    pub object: String,
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
}

impl PackableTensor {
    /// Returns the tensors of a model that are used only as weights, and in one format other than
    /// FLOAT(32). Also returns the model that uses them: batch normalizations are folded into the
    /// convolutions whose weights they scale.
    ///
    /// # Errors
    /// The engine does not support the model.
    pub fn from_model(
        model: &Model,
        formats: &Dictionary,
    ) -> Result<(Vec<Self>, Model), PackedError> {
        let model = &*in_floats(model);
        let steps = read::steps(model).map_err(PackedError::Network)?;
        let constants = Constants::new(model);
        let tensors: BTreeSet<&str> = steps.uses.iter().map(|uses| uses.tensor.as_str()).collect();
        let mut found = Vec::new();
        let mut folded = Vec::new();
        for tensor in tensors {
            let Some(constant) = model.tensors.iter().find(|constant| constant.name == tensor)
            else {
                continue;
            };
            let Some(uses) = takers(model, &steps, tensor) else { continue };
            let object = |uses: &&WeightUse| steps.targets[uses.target].names()[0].clone();
            let object_formats: BTreeSet<String> = uses
                .iter()
                .map(|weight_use| formats.format(&object(weight_use)).to_string())
                .collect();
            let format = formats.format(&object(&uses[0]));
            if object_formats.len() > 1 || format == Format::F32 {
                continue;
            }
            let fold = steps.folds.iter().find(|fold| {
                uses.iter()
                    .any(|weight_use| weight_use.node == fold.convolution && weight_use.input == 1)
            });
            let values = match fold {
                None => constants.get(tensor).and_then(|constant| constant.floats()),
                Some(fold) => {
                    let is_alone = uses.len() == 1 && is_last(model, fold);
                    let weights = &steps.targets[uses[0].target].weights;
                    let values = is_alone.then(|| weights.clone());
                    folded.extend(values.is_some().then_some((fold, tensor)));
                    values
                }
            };
            let Some(values) = values else { continue };
            let tensor = tensor.to_owned();
            let shape = constant.shape.clone();
            found.push(Self { tensor, object: object(&uses[0]), shape, values });
        }
        Ok((found, without_folds(model, &folded)))
    }
}

/// Returns all uses of a tensor as weights, directly or after a reordering; `None` if it is also
/// used otherwise.
fn takers<'a>(model: &Model, steps: &'a Steps, tensor: &str) -> Option<Vec<&'a WeightUse>> {
    let mut found = Vec::new();
    let mut names = vec![tensor];
    while let Some(name) = names.pop() {
        if model.outputs.iter().any(|port| port.name == name) {
            return None;
        }
        for (at, node) in model.nodes.iter().enumerate() {
            for (input, _) in node.inputs.iter().enumerate().filter(|(_, input)| *input == name) {
                let uses = steps
                    .uses
                    .iter()
                    .find(|weight_use| weight_use.node == at && weight_use.input == input);
                match uses {
                    Some(uses) if uses.tensor == tensor => found.push(uses),
                    None if input == 0 && MOVES.contains(&node.op.as_str()) => {
                        names.extend(node.outputs.first().map(String::as_str));
                    }
                    _ => return None,
                }
            }
        }
    }
    (!found.is_empty()).then_some(found)
}

/// Returns whether no other normalization follows. Once this one is folded, the next one would be
/// folded as well.
fn is_last(model: &Model, fold: &Fold) -> bool {
    let output = model.nodes[fold.normal].outputs.first();
    model.nodes.iter().all(|node| {
        node.op != "BatchNormalization" || node.inputs.first() != output || output.is_none()
    })
}

/// Returns the model in which these normalizations are part of the biases of their convolutions.
/// The weights must be replaced separately.
fn without_folds(model: &Model, folded: &[(&Fold, &str)]) -> Model {
    let mut graph = model.clone();
    let names = |graph: &Model| -> BTreeSet<String> {
        let values = graph.nodes.iter().flat_map(|node| &node.outputs);
        values.chain(graph.tensors.iter().map(|tensor| &tensor.name)).cloned().collect()
    };
    let mut uses = names(&graph);
    for (fold, tensor) in folded {
        let mut name = format!("{tensor}.folded");
        while !uses.insert(name.clone()) {
            name.push('_');
        }
        graph.tensors.push(Constant::from_f32(&name, &[fold.bias.len()], &fold.bias));
        let output = graph.nodes[fold.normal].outputs[0].clone();
        let node = &mut graph.nodes[fold.convolution];
        node.inputs.truncate(2);
        node.inputs.push(name);
        node.outputs = vec![output];
    }
    let removed: BTreeSet<usize> = folded.iter().map(|(fold, _)| fold.normal).collect();
    let mut at = 0..;
    graph.nodes.retain(|_| !removed.contains(&at.next().expect("it has no end")));
    graph
}
