//! Reads the steps of a graph, and the weights that have formats, from a model.

mod layers;
mod nodes;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dyno_onnx::shape::{InferredShapes, infer};
use dyno_onnx::{Constants, Element, Model, Node};

use super::super::EvaluateError;
use super::super::attributes::{stem, unique_name, unsupported};
use super::step::Op;
use super::target::Target;
use super::tensor::Tensor;
use crate::network::LayerKind;

/// A node with its inputs and outputs.
#[derive(Debug)]
pub(super) struct Step {
    pub op: Op,
    /// Operator and name of the node, for messages.
    pub node: (String, String),
    /// Indices of values; `None` if an input is left out.
    pub inputs: Vec<Option<usize>>,
    pub outputs: Vec<Option<usize>>,
    /// Targets whose weights it uses.
    pub targets: Vec<usize>,
}

/// A model as a list of steps.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub steps: Vec<Step>,
    pub targets: Vec<Target>,
    pub constants: Vec<(usize, Tensor)>,
    pub inputs: Vec<usize>,
    pub output: usize,
    /// Number of values.
    pub values: usize,
    /// Range of each value that is the result of arithmetic on whole numbers, by its index.
    pub whole: HashMap<usize, (f32, f32)>,
    pub uses: Vec<WeightUse>,
    pub folds: Vec<Fold>,
}

/// An input of a node that consists of a target's weights.
#[derive(Debug)]
pub(super) struct WeightUse {
    /// Index of the node in the model.
    pub node: usize,
    pub input: usize,
    pub target: usize,
    /// Constant of the model that holds the weights, perhaps in another order.
    pub tensor: String,
}

/// A batch normalization that was folded into the convolution before it.
#[derive(Debug)]
pub(super) struct Fold {
    /// Indices of both nodes in the model.
    pub convolution: usize,
    pub normal: usize,
    /// Bias of the convolution, including the normalization.
    pub bias: Vec<f32>,
}

/// Largest whole number up to which `f32` represents all whole numbers: 2^24.
const LARGEST_WHOLE: f32 = 16_777_216.0;

/// Operators that compute with whole numbers as well. Their results are exact in `f32` within the range
/// of their type and up to 2^24; beyond, ONNX wraps or needs more digits.
const ARITHMETIC: [&str; 10] =
    ["Add", "Sub", "Mul", "Div", "Pow", "Neg", "Abs", "Sum", "CumSum", "ReduceSum"];

/// Operators of recurrent layers.
const RECURRENT: [&str; 3] = ["LSTM", "GRU", "RNN"];

/// Operators whose output has the numbers of their first input, each once.
pub(super) const MOVES: [&str; 5] = ["Transpose", "Identity", "Reshape", "Squeeze", "Unsqueeze"];

impl Steps {
    /// Returns the targets on which the answer depends. Another output may depend on further ones.
    pub fn used_targets(&self) -> BTreeSet<usize> {
        self.steps.iter().flat_map(|step| step.targets.iter().copied()).collect()
    }

    /// Returns whether the samples of a call share the scale of an activation, so that an answer
    /// depends on the other samples of its call.
    pub fn shares_scales(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.op, Op::DynamicQuantize))
    }
}

/// Reads the steps of a model on which its first output depends.
pub(super) fn steps(model: &Model) -> Result<Steps, EvaluateError> {
    read(model, |_| ())
}

/// Reads steps without the weights of products. Those of at most one layer are in memory, except for
/// recurrent layers, whose products are compared with those of later ones.
pub(super) fn outline(model: &Model) -> Result<Steps, EvaluateError> {
    read(model, Target::drop_weights)
}

/// Reads steps, and calls `shorten` for each target of a node that is not recurrent as soon as the node
/// was read.
fn read(model: &Model, shorten: impl Fn(&mut Target)) -> Result<Steps, EvaluateError> {
    let inferred = infer(model, &BTreeMap::new());
    let users = model.nodes.iter().flat_map(|node| &node.inputs);
    let users = users.chain(model.outputs.iter().map(|port| &port.name));
    let mut uses = HashMap::new();
    users.for_each(|name| *uses.entry(name.as_str()).or_insert(0) += 1);
    let makers = model
        .nodes
        .iter()
        .flat_map(|node| node.outputs.iter().map(move |output| (output.as_str(), node)));
    let mut reader = Reader {
        constants: Constants::new(model),
        inferred,
        uses,
        makers: makers.collect(),
        values: HashMap::new(),
        known: HashMap::new(),
        names: BTreeSet::new(),
        done: BTreeSet::new(),
        model,
        found: Steps::default(),
    };
    for port in &model.inputs {
        let value = reader.value(&port.name);
        reader.found.inputs.push(value);
    }
    for (node, is_needed) in model.nodes.iter().zip(needed(model)) {
        let known = reader.found.uses.len();
        // Other outputs may depend on nodes that the engine does not support.
        if let Err(problem) = reader.node(node)
            && is_needed
        {
            return Err(reader.unloaded(node).unwrap_or(problem));
        }
        if !RECURRENT.contains(&node.op.as_str()) {
            let Steps { uses, targets, .. } = &mut reader.found;
            uses[known..].iter().for_each(|used| shorten(&mut targets[used.target]));
        }
    }
    let output = model.outputs.first().and_then(|port| reader.values.get(port.name.as_str()));
    let missing = || EvaluateError::Model("expected an output that depends on an input".into());
    reader.found.output = *output.ok_or_else(missing)?;
    Ok(pruned(reader.found))
}

/// Returns for each node whether the first output depends on it.
fn needed(model: &Model) -> Vec<bool> {
    let mut names: BTreeSet<&str> =
        model.outputs.first().map(|port| port.name.as_str()).into_iter().collect();
    let mut found = vec![false; model.nodes.len()];
    for (node, is_needed) in model.nodes.iter().zip(&mut found).rev() {
        *is_needed = node.outputs.iter().any(|output| names.contains(output.as_str()));
        if *is_needed {
            let inputs = node.inputs.iter().filter(|input| !input.is_empty());
            names.extend(inputs.map(String::as_str));
        }
    }
    found
}

/// Removes steps on which the output does not depend.
fn pruned(mut found: Steps) -> Steps {
    let mut is_needed = vec![false; found.values];
    is_needed[found.output] = true;
    let mut needed = Vec::new();
    for step in found.steps.into_iter().rev() {
        if step.outputs.iter().flatten().any(|value| is_needed[*value]) {
            step.inputs.iter().flatten().for_each(|value| is_needed[*value] = true);
            needed.push(step);
        }
    }
    needed.reverse();
    found.steps = needed;
    found
}

/// State of reading a model.
struct Reader<'a> {
    constants: Constants<'a>,
    inferred: InferredShapes,
    /// Number of uses of each value, including the graph's outputs.
    uses: HashMap<&'a str, usize>,
    makers: HashMap<&'a str, &'a Node>,
    /// Indices of values by name.
    values: HashMap<&'a str, usize>,
    /// Targets by the tensor of their weights and by their kind of use.
    known: HashMap<(String, &'static str), usize>,
    names: BTreeSet<String>,
    /// Outputs of nodes that were folded into others.
    done: BTreeSet<&'a str>,
    model: &'a Model,
    found: Steps,
}

impl<'a> Reader<'a> {
    fn value(&mut self, name: &'a str) -> usize {
        if let Some(known) = self.values.get(name) {
            return *known;
        }
        let value = self.unnamed();
        self.values.insert(name, value);
        value
    }

    /// Creates a value that has no name in the model.
    fn unnamed(&mut self) -> usize {
        self.found.values += 1;
        self.found.values - 1
    }

    fn node(&mut self, node: &'a Node) -> Result<(), EvaluateError> {
        let is_known = |output: &String| {
            output.is_empty() || self.done.contains(output.as_str()) || self.is_constant(output)
        };
        if node.outputs.iter().all(is_known) {
            return Ok(());
        }
        match node.domain.as_str() {
            "" | "ai.onnx" | "com.microsoft" => {
                let found = self.step(node);
                found.map_err(|error| self.other_floats(node).unwrap_or(error))
            }
            _ => Err(unsupported(node, "is not supported by the built-in engine")),
        }
    }

    /// Returns the error of a node that reads constants of another type than float32, if there are any.
    fn other_floats(&self, node: &Node) -> Option<EvaluateError> {
        node.inputs.iter().find_map(|name| {
            let element = self.constants.get(name)?.element;
            let is_other = matches!(element, Element::F16 | Element::BF16 | Element::F64);
            let what = || {
                format!("reads {name} as {element}, and the built-in engine computes in float32")
            };
            is_other.then(|| unsupported(node, &what()))
        })
    }

    /// Returns whether a value does not depend on any input, and is not produced by a step.
    fn is_constant(&self, name: &str) -> bool {
        !self.values.contains_key(name) && self.constants.get(name).is_some()
    }

    fn floats(&self, name: &str) -> Option<(Vec<usize>, Vec<f32>)> {
        let tensor = self.constants.get(name)?;
        let values = tensor.floats()?;
        Some((tensor.shape, values))
    }

    /// Returns the error of an input of a node that cannot be loaded from another file, if there is one.
    fn unloaded(&self, node: &Node) -> Option<EvaluateError> {
        node.inputs.iter().find_map(|name| {
            let why = self.constants.get(name).is_none().then(|| self.constants.failure())??;
            let reads = format!("node {} ({}) reads {name}", node.name, node.op);
            Some(EvaluateError::Tensor(format!("{reads}, which cannot be loaded: {why}")))
        })
    }

    /// Returns the value that a step reads: the output of a step, an input, or a constant.
    fn operand(&mut self, node: &'a Node, at: usize) -> Result<Option<usize>, EvaluateError> {
        let Some(name) = node.inputs.get(at).filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        if let Some(known) = self.values.get(name.as_str()) {
            return Ok(Some(*known));
        }
        let wrong = || {
            let what = format!("reads {name}, which is neither computed nor a small constant");
            unsupported(node, &what)
        };
        let Some(tensor) = self.constants.get(name) else {
            return Err(wrong());
        };
        let values = match tensor.element {
            Element::F32 => tensor.floats(),
            _ => tensor.integers().map(|all| all.into_iter().map(|n| n as f32).collect()),
        };
        let values =
            values.filter(|all| all.len() as u64 == tensor.elements()).ok_or_else(wrong)?;
        let value = self.value(name);
        self.found.constants.push((value, Tensor::new(tensor.shape, values)));
        Ok(Some(value))
    }

    fn operands(&mut self, node: &'a Node) -> Result<Vec<Option<usize>>, EvaluateError> {
        (0..node.inputs.len()).map(|at| self.operand(node, at)).collect()
    }

    /// Adds a step with these inputs and the outputs of the node.
    fn push(&mut self, node: &'a Node, op: Op, inputs: Vec<Option<usize>>, targets: Vec<usize>) {
        let outputs = node.outputs.iter();
        let outputs: Vec<Option<usize>> =
            outputs.map(|name| (!name.is_empty()).then(|| self.value(name))).collect();
        if ARITHMETIC.contains(&node.op.as_str()) {
            let named = node.outputs.iter().zip(&outputs);
            let ranges = named.filter_map(|(name, value)| Some(((*value)?, self.range(name)?)));
            let ranges: Vec<_> = ranges.collect();
            self.found.whole.extend(ranges);
        }
        let node = (node.op.clone(), node.name.clone());
        self.found.steps.push(Step { op, node, inputs, outputs, targets });
    }

    /// Adds a step whose inputs are all values.
    fn plain(&mut self, node: &'a Node, op: Op) -> Result<(), EvaluateError> {
        let inputs = self.operands(node)?;
        self.push(node, op, inputs, Vec::new());
        Ok(())
    }

    /// Returns the sizes of a value after the first axis, if all are known.
    fn sizes(&self, name: &str) -> Option<Vec<usize>> {
        let fact = self.inferred.facts.get(name)?;
        fact.shape.iter().skip(1).map(|dim| dim.fixed().filter(|n| *n > 0)).collect()
    }

    /// Returns the range of the whole numbers of a value; `None` if it is of another type.
    fn range(&self, name: &str) -> Option<(f32, f32)> {
        Some(match self.inferred.facts.get(name)?.element {
            Element::U8 => (0.0, 255.0),
            Element::I8 => (-128.0, 127.0),
            Element::U16 => (0.0, 65_535.0),
            Element::I16 => (-32_768.0, 32_767.0),
            Element::U32 | Element::U64 => (0.0, LARGEST_WHOLE),
            Element::I32 | Element::I64 => (-LARGEST_WHOLE, LARGEST_WHOLE),
            _ => return None,
        })
    }

    fn is_whole(&self, name: &str) -> bool {
        let element = self.inferred.facts.get(name).map(|fact| fact.element);
        matches!(element, Some(Element::I64 | Element::I32 | Element::U8 | Element::I8))
    }

    /// Returns the tensor from which a constant is made, for example by a transposition.
    fn origin(&self, name: &'a str) -> &'a str {
        let mut name = name;
        let mut left = self.model.nodes.len();
        while left > 0
            && let Some(node) = self.makers.get(name)
        {
            match node.inputs.first() {
                Some(first) if MOVES.contains(&node.op.as_str()) => name = first,
                _ => break,
            }
            left -= 1;
        }
        name
    }

    /// Returns the target of weights that are used in the way `way`; creates it if necessary.
    fn target(
        &mut self,
        node: &'a Node,
        at: usize,
        way: &'static str,
        kind: LayerKind,
        weights: &[f32],
    ) -> usize {
        let origin = self.origin(node.inputs.get(at).map_or("", String::as_str));
        let key = (origin.to_owned(), way);
        let target = match self.known.get(&key) {
            Some(known) => *known,
            None => {
                let is_tensor = self.model.tensors.iter().any(|tensor| tensor.name == origin);
                let own = Some(node.name.as_str()).filter(|name| !name.is_empty());
                let name = stem(origin).or(is_tensor.then_some(origin)).or(own).unwrap_or(&node.op);
                let name = unique_name(name, &mut self.names);
                let weights = weights.to_vec();
                self.found.targets.push(Target { name, kind, weights, stages: Vec::new() });
                let target = self.found.targets.len() - 1;
                self.known.insert(key, target);
                target
            }
        };
        let node = self.place(node);
        let tensor = origin.to_owned();
        self.found.uses.push(WeightUse { node, input: at, target, tensor });
        target
    }

    /// Returns the index of a node in the model.
    fn place(&self, node: &Node) -> usize {
        let place = self.model.nodes.iter().position(|other| std::ptr::eq(other, node));
        place.expect("nodes are the model's")
    }
}
