//! A graph whose weights are held as codes of their formats, and the tensors of a model that may lie so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dyno_kernels::Isa;
use dyno_onnx::{Constants, Model, Tensor as Constant};

use super::super::packed::{PackedError, PackedLayer, RunError, known, widened};
use super::super::stage::{Layout, Path, Ready, Reason, Scratch};
use super::read::{self, Fold, MOVES, Step, Steps, Taken};
use super::step::{Op, Trouble};
use super::target::{Context, Prepared, Target};
use super::tensor::Tensor;
use crate::config::Dictionary;
use crate::format::Format;

/// A graph in its formats. It does what [`Graph`](super::Graph) does with the same steps, without samples.
#[derive(Debug)]
pub(in super::super) struct Held {
    steps: Steps,
    prepared: Vec<Prepared>,
}

impl Held {
    /// A model whose objects have these formats, and FLOAT(32) where they have none; with its layers.
    ///
    /// # Errors
    /// The engine cannot do the model, or it has not the objects of `formats`.
    pub fn new(
        model: &Model,
        formats: &Dictionary,
    ) -> Result<(Self, Vec<PackedLayer>), PackedError> {
        let mut steps = read::steps(model).map_err(PackedError::Network)?;
        known(formats, &steps.targets.iter().flat_map(Target::names).collect::<Vec<_>>())?;
        let grouped: BTreeMap<usize, usize> = steps.steps.iter().filter_map(grouped).collect();
        let (mut prepared, mut layers) = (Vec::new(), Vec::new());
        for (at, target) in steps.targets.iter_mut().enumerate() {
            let [weight, activation] = target.names().map(|name| formats.format(&name));
            let (made, mut layer) = held(target, weight, activation)
                .map_err(|cause| PackedError::Nan { layer: target.name.clone(), cause })?;
            if let Some(pixels) = grouped.get(&at) {
                layer.path = Path::F32(Reason::Grouped);
                layer.macs = layer.weights * pixels;
            }
            prepared.push(made);
            layers.push(layer);
        }
        Ok((Self { steps, prepared }, layers))
    }

    /// With the instructions of another set, where it multiplies by weights.
    pub fn on(&mut self, isa: Isa) {
        self.prepared.iter_mut().for_each(|prepared| prepared.on(isa));
    }

    /// The dimensions and the numbers of the answer to inputs in the order of the model.
    ///
    /// # Errors
    /// What does not fit, or a NaN that a format has not.
    pub fn run(
        &self,
        inputs: Vec<(Vec<usize>, Vec<f32>)>,
        scratch: &mut Scratch,
    ) -> Result<(Vec<usize>, Arc<Vec<f32>>), RunError> {
        let inputs = inputs.into_iter().map(|(dims, values)| Tensor::new(dims, values));
        let values = self.steps.begin(inputs);
        let targets = &self.steps.targets;
        let mut context = Context { targets, prepared: &self.prepared, scratch, seen: None };
        let answer = self.steps.answer(values, &mut context, &mut |_, _| ());
        let answer = answer.map_err(|(at, why)| {
            let (op, name) = self.steps.steps[at].node.clone();
            match why {
                Trouble::Nan(error) => RunError::Nan(error),
                Trouble::Misfit(what) => RunError::Node { op, name, what },
            }
        })?;
        Ok((answer.dims, answer.values))
    }
}

/// The target of a convolution in groups, and the pixels that it gives.
fn grouped(step: &Step) -> Option<(usize, usize)> {
    match &step.op {
        Op::Grouped { target, of } => Some((*target, of.output.pixels())),
        _ => None,
    }
}

/// A target's weights as codes, and what is read of them; the target keeps neither.
fn held(
    target: &mut Target,
    weight: Format,
    activation: Format,
) -> Result<(Prepared, PackedLayer), crate::codec::NanError> {
    let numbers = std::mem::take(&mut target.weights);
    let (codes, plain) = widened(weight, &numbers)?;
    let (mut ready, mut path) = (Vec::new(), None);
    let (mut widened_bytes, mut macs) = (0, 0);
    for stage in &mut target.stages {
        let product = stage.product.as_mut().expect("stages of targets have products");
        let layout = Layout::new(product, stage.input, [weight, activation]);
        // The same numbers, in the order in which this product has them.
        let (_, numbers) = widened(weight, &std::mem::take(&mut product.weights))?;
        macs += numbers.len() * product.output.pixels();
        let weights = layout.ordered(product.output.channels, numbers);
        widened_bytes += weights.bytes();
        // The slowest tells of all.
        path = match (path, layout.path()) {
            (Some(slow @ Path::F32(_)), _) | (Some(slow @ Path::Int16), Path::Bytes) => Some(slow),
            (_, path) => Some(path),
        };
        ready.push(Ready { layout, weights: Arc::new(weights), isa: Isa::best() });
    }
    let plain = if ready.is_empty() { plain } else { Vec::new() };
    let layer = PackedLayer {
        name: target.name.clone(),
        weight,
        activation,
        path: path.unwrap_or(Path::F32(Reason::Read)),
        codes,
        weights: numbers.len(),
        widened_bytes: widened_bytes + size_of_val(&plain[..]),
        macs,
    };
    Ok((Prepared::of(ready, plain, activation), layer))
}

/// A tensor of a model whose numbers can lie as codes.
#[derive(Debug)]
pub(in super::super) struct Weights {
    pub tensor: String,
    /// Whose format they have.
    pub object: String,
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
}

impl Weights {
    /// The tensors of a model that are weights of objects of one format and nothing else, and the model in which
    /// they are that: a batch normalisation is part of the convolution whose weights it changes.
    ///
    /// # Errors
    /// The engine cannot do the model.
    pub fn of(model: &Model, formats: &Dictionary) -> Result<(Vec<Self>, Model), PackedError> {
        let steps = read::steps(model).map_err(PackedError::Network)?;
        let constants = Constants::new(model);
        let tensors: BTreeSet<&str> =
            steps.taken.iter().map(|taken| taken.tensor.as_str()).collect();
        let (mut found, mut folded) = (Vec::new(), Vec::new());
        for tensor in tensors {
            let Some(constant) = model.tensors.iter().find(|of| of.name == tensor) else {
                continue;
            };
            let Some(taken) = takers(model, &steps, tensor) else { continue };
            let object = |taken: &&Taken| steps.targets[taken.target].names()[0].clone();
            let object_formats: BTreeSet<String> =
                taken.iter().map(|of| formats.format(&object(of)).to_string()).collect();
            let format = formats.format(&object(&taken[0]));
            if object_formats.len() > 1 || format == Format::F32 {
                continue;
            }
            let fold = steps
                .folds
                .iter()
                .find(|fold| taken.iter().any(|of| of.node == fold.convolution && of.input == 1));
            let values = match fold {
                None => constants.get(tensor).and_then(|of| of.floats()),
                Some(fold) => {
                    let is_alone = taken.len() == 1 && is_last(model, fold);
                    let weights = &steps.targets[taken[0].target].weights;
                    let values = is_alone.then(|| weights.clone());
                    folded.extend(values.is_some().then_some((fold, tensor)));
                    values
                }
            };
            let Some(values) = values else { continue };
            let (tensor, shape) = (tensor.to_owned(), constant.shape.clone());
            found.push(Self { tensor, object: object(&taken[0]), shape, values });
        }
        Ok((found, without_folds(model, &folded)))
    }
}

/// All who take the numbers of a tensor, perhaps turned on their way; none if anybody does who is no target.
fn takers<'a>(model: &Model, steps: &'a Steps, tensor: &str) -> Option<Vec<&'a Taken>> {
    let mut found = Vec::new();
    let mut names = vec![tensor];
    while let Some(name) = names.pop() {
        if model.outputs.iter().any(|port| port.name == name) {
            return None;
        }
        for (node, of) in model.nodes.iter().enumerate() {
            for (input, _) in of.inputs.iter().enumerate().filter(|(_, input)| *input == name) {
                let taken = steps.taken.iter().find(|of| of.node == node && of.input == input);
                match taken {
                    Some(taken) if taken.tensor == tensor => found.push(taken),
                    None if input == 0 && MOVES.contains(&of.op.as_str()) => {
                        names.extend(of.outputs.first().map(String::as_str));
                    }
                    _ => return None,
                }
            }
        }
    }
    (!found.is_empty()).then_some(found)
}

/// Whether no other normalisation follows, which would become a part of the convolution when this one is gone.
fn is_last(model: &Model, fold: &Fold) -> bool {
    let output = model.nodes[fold.normal].outputs.first();
    model.nodes.iter().all(|node| {
        node.op != "BatchNormalization" || node.inputs.first() != output || output.is_none()
    })
}

/// The model with these normalisations in the biases of their convolutions; their weights are to be replaced.
fn without_folds(model: &Model, folded: &[(&Fold, &str)]) -> Model {
    let mut graph = model.clone();
    let names = |graph: &Model| -> BTreeSet<String> {
        let values = graph.nodes.iter().flat_map(|node| &node.outputs);
        values.chain(graph.tensors.iter().map(|tensor| &tensor.name)).cloned().collect()
    };
    let mut taken = names(&graph);
    for (fold, tensor) in folded {
        let mut name = format!("{tensor}.folded");
        while !taken.insert(name.clone()) {
            name.push('_');
        }
        graph.tensors.push(Constant::of_f32(&name, &[fold.bias.len()], &fold.bias));
        let output = graph.nodes[fold.normal].outputs[0].clone();
        let node = &mut graph.nodes[fold.convolution];
        node.inputs.truncate(2);
        node.inputs.push(name);
        node.outputs = vec![output];
    }
    let gone: BTreeSet<usize> = folded.iter().map(|(fold, _)| fold.normal).collect();
    let mut at = 0..;
    graph.nodes.retain(|_| !gone.contains(&at.next().expect("it has no end")));
    graph
}
