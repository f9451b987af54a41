//! Cost of a model: parameters, operations, and a table of its layers.

mod macs;

use std::collections::{BTreeMap, HashMap, HashSet};

use dyno_tensors::Element;

use crate::graph::{Attribute, Model, Node};
use crate::shape::bodies::{body_runs, infer_body};
use crate::shape::{Dim, Fact, InferredShapes, ShapeError, all_bindings, infer};
use crate::tensor::Tensor;

/// Cost of one inference of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// Number of parameters: elements of floating-point and quantized tensors of at least one
    /// dimension, in all graphs of the model. The means and variances of batch normalizations are
    /// left out, because they are not trained, and so are the scales of resizes.
    pub parameters: u64,
    /// Nodes in the order of execution. A loop is replaced by the nodes of its body.
    pub layers: Vec<Layer>,
    /// Nodes whose cost is unknown. The sums do not include them.
    pub uncounted: Vec<UncountedNode>,
}

/// Cost of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Name of the node, or of its first output if it has none. A node inside a loop is named
    /// `loop/node`.
    pub name: String,
    /// Name of the operator.
    pub op: String,
    /// Shapes of the inputs, without weights.
    pub inputs: Vec<Vec<Dim>>,
    /// Shapes of the outputs.
    pub outputs: Vec<Vec<Dim>>,
    /// Number of executions per inference: more than one in a loop, and 0 if all inputs are
    /// constant, because engines compute such nodes when they load the model.
    pub runs: u64,
    /// Multiply-accumulates of one execution; 0 for operators that work element by element.
    pub macs: u64,
    /// Bytes of weights that one execution reads. A weight has its size in the file, even if another
    /// node transposes or converts it first. Of a lookup table, only the selected rows count. A
    /// weight that two nodes read counts for both.
    pub weight_bytes: u64,
    /// Bytes of inputs that one execution reads, without weights.
    pub input_bytes: u64,
    /// Bytes of outputs of one execution.
    pub output_bytes: u64,
}

/// A node whose cost is unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct UncountedNode {
    /// Name of the node, or of its first output if it has none. A node inside a loop is named
    /// `loop/node`.
    pub name: String,
    /// Name of the operator, after its domain unless that is the standard one.
    pub op: String,
    /// Why the cost is unknown.
    pub reason: ShapeError,
}

impl Cost {
    /// Returns the multiply-accumulates of one inference; saturates.
    pub fn macs(&self) -> u64 {
        let add =
            |sum: u64, layer: &Layer| sum.saturating_add(layer.macs.saturating_mul(layer.runs));
        self.layers.iter().fold(0, add)
    }

    /// Returns the operations of one inference: two per multiply-accumulate, as in publications.
    pub fn operations(&self) -> u64 {
        self.macs().saturating_mul(2)
    }
}

impl Layer {
    /// Returns the operations of one execution: two per multiply-accumulate.
    pub fn operations(&self) -> u64 {
        self.macs.saturating_mul(2)
    }

    /// Returns the bytes that one execution reads and writes: weights, inputs and outputs.
    pub fn bytes(&self) -> u64 {
        self.weight_bytes.saturating_add(self.input_bytes).saturating_add(self.output_bytes)
    }

    /// Returns the arithmetic intensity: operations per byte that is read or written, or 0 if there
    /// are no such bytes.
    pub fn operations_per_byte(&self) -> f64 {
        match self.bytes() {
            0 => 0.0,
            bytes => self.operations() as f64 / bytes as f64,
        }
    }
}

/// Returns the cost of a model at batch 1: every symbolic dimension is 1.
///
/// ```
/// use dyno_onnx::{Builder, Dim, Element, Fill, Weights, count};
///
/// let mut net = Builder::new("scores", Weights::seeded(1));
/// let x = net.input("x", Element::F32, &[Dim::symbol("N"), 64.into()]);
/// let w = net.weight("w", &[64, 10], Fill::he(64))?;
/// let y = net.node("MatMul", &[&x, &w], &[])?;
/// net.output("y", &y)?;
/// let cost = count(&net.finish());
/// assert_eq!((cost.parameters, cost.macs()), (640, 640));
/// assert_eq!(cost.layers[0].weight_bytes, 4 * 640);
/// # Ok::<(), dyno_onnx::BuildError>(())
/// ```
pub fn count(model: &Model) -> Cost {
    count_with(model, &BTreeMap::new())
}

/// Returns the cost of a model. `bindings` has the sizes of symbolic dimensions of the inputs, such as
/// the batch; all others are 1.
///
/// ```
/// use dyno_onnx::{Builder, Dim, Element, Fill, Weights, count_with};
///
/// let mut net = Builder::new("scores", Weights::seeded(1));
/// let x = net.input("x", Element::F32, &[Dim::symbol("N"), 64.into()]);
/// let w = net.weight("w", &[64, 10], Fill::he(64))?;
/// let y = net.node("MatMul", &[&x, &w], &[])?;
/// net.output("y", &y)?;
/// let cost = count_with(&net.finish(), &[("N".to_owned(), 8)].into());
/// assert_eq!((cost.parameters, cost.macs()), (640, 8 * 640));
/// # Ok::<(), dyno_onnx::BuildError>(())
/// ```
pub fn count_with(model: &Model, bindings: &BTreeMap<String, usize>) -> Cost {
    let shapes = infer(model, &all_bindings(model, bindings));
    let (nodes, tensors) = (model.nodes.as_slice(), model.tensors.as_slice());
    let mut cost =
        Cost { parameters: parameters(nodes, tensors), layers: vec![], uncounted: vec![] };
    cost.add(nodes, &shapes, Scope { path: "", runs: 1, weights: weight_bytes(nodes, tensors) });
    cost
}

/// Returns weights and other constants by their names. A file may have them as tensors of the graph or
/// as nodes.
fn constants<'a>(
    nodes: &'a [Node],
    tensors: &'a [Tensor],
) -> impl Iterator<Item = (&'a str, &'a Tensor)> {
    let constant = |node: &'a Node| match (node.op.as_str(), node.attribute("value")) {
        ("Constant", Some(Attribute::Tensor(tensor))) => {
            node.outputs.first().map(|name| (name.as_str(), tensor))
        }
        _ => None,
    };
    let named = tensors.iter().map(|tensor| (tensor.name.as_str(), tensor));
    named.chain(nodes.iter().filter_map(constant))
}

/// Returns the bytes of weights and other constants by their names.
fn weight_bytes<'a>(nodes: &'a [Node], tensors: &'a [Tensor]) -> HashMap<&'a str, u64> {
    constants(nodes, tensors).map(|(name, tensor)| (name, tensor.bytes())).collect()
}

/// Returns the number of parameters of a graph and of the graphs inside it.
fn parameters(nodes: &[Node], tensors: &[Tensor]) -> u64 {
    let is_weight = |element: Element| !matches!(element, Element::I64 | Element::Bool);
    let excluded = nodes.iter().flat_map(|node| match node.op.as_str() {
        "BatchNormalization" => &node.inputs[node.inputs.len().min(3)..],
        "Resize" | "Upsample" => &node.inputs[node.inputs.len().min(1)..],
        _ => &[],
    });
    let excluded: HashSet<&str> = excluded.map(String::as_str).collect();
    let weights = constants(nodes, tensors).filter(|(name, tensor)| {
        is_weight(tensor.element) && !tensor.shape.is_empty() && !excluded.contains(name)
    });
    let bodies = nodes.iter().flat_map(Node::bodies);
    let inner = bodies.map(|(_, body)| parameters(&body.nodes, &body.tensors));
    weights.map(|(_, tensor)| tensor.elements()).chain(inner).fold(0, u64::saturating_add)
}

/// A graph whose nodes are counted.
struct Scope<'a> {
    /// Names of the nodes around the graph, each followed by a slash.
    path: &'a str,
    /// Number of executions per inference.
    runs: u64,
    /// Bytes of weights by their names. A value that is computed from weights alone has the bytes of
    /// these weights.
    weights: HashMap<&'a str, u64>,
}

impl<'a> Scope<'a> {
    /// Returns the bytes of weights from which alone a node's outputs are computed, or `None` if the
    /// node has other inputs.
    fn constant_bytes(&self, node: &Node) -> Option<u64> {
        let is_random = node.op.starts_with("Random") || node.op == "Multinomial";
        if is_random || node.inputs.iter().all(String::is_empty) {
            return match node.attribute("value") {
                Some(Attribute::Tensor(tensor)) if node.op == "Constant" => Some(tensor.bytes()),
                _ => None,
            };
        }
        let inputs = node.inputs.iter().filter(|name| !name.is_empty());
        inputs.map(|name| self.weights.get(name.as_str()).copied()).sum()
    }
}

impl Cost {
    /// Adds the nodes of a graph.
    fn add<'a>(&mut self, nodes: &'a [Node], shapes: &InferredShapes, mut scope: Scope<'a>) {
        let mut gaps: HashMap<usize, ShapeError> = shapes.gaps.iter().cloned().collect();
        for (at, node) in nodes.iter().enumerate() {
            let gap = gaps.remove(&at);
            if node.bodies().next().is_some() {
                self.add_bodies(node, shapes, &scope, gap);
                continue;
            }
            let constant = scope.constant_bytes(node);
            if let Some(bytes) = constant {
                let outputs = node.outputs.iter().filter(|name| !name.is_empty());
                scope.weights.extend(outputs.map(|name| (name.as_str(), bytes)));
            }
            let facts = |names: &[String]| -> Vec<Option<Fact>> {
                names.iter().map(|name| shapes.facts.get(name).cloned()).collect()
            };
            let (inputs, outputs) = (facts(&node.inputs), facts(&node.outputs));
            let macs = match gap {
                Some(reason) => Err(reason),
                None => macs::count(node, &inputs, &outputs),
            };
            match macs {
                Ok(macs) => {
                    let mut layer = layer(node, &scope, &inputs, &outputs, macs);
                    if constant.is_some() {
                        layer.runs = 0;
                    }
                    self.layers.push(layer);
                }
                Err(reason) => self.leave_out(node, &scope, reason),
            }
        }
    }

    /// Adds a node whose cost is unknown.
    fn leave_out(&mut self, node: &Node, scope: &Scope<'_>, reason: ShapeError) {
        let op = if node.domain.is_empty() {
            node.op.clone()
        } else {
            format!("{}.{}", node.domain, node.op)
        };
        self.uncounted.push(UncountedNode { name: path_of(node, scope), op, reason });
    }

    /// Adds a node with graphs inside. A loop with a known number of iterations costs that many
    /// executions of its body. For any other node it is unknown which graph runs.
    fn add_bodies(
        &mut self,
        node: &Node,
        shapes: &InferredShapes,
        scope: &Scope<'_>,
        gap: Option<ShapeError>,
    ) {
        let inputs: Vec<_> = node.inputs.iter().map(|name| shapes.facts.get(name)).collect();
        let unknown = |reason: &str| ShapeError::Misfit(reason.into());
        match body_runs(node, &inputs) {
            Ok(Some(body_runs)) => {
                let runs = body_runs.count.and_then(|count| count.checked_mul(scope.runs));
                let Some(runs) = runs else {
                    let reason = unknown("how often it runs depends on data");
                    return self.leave_out(node, scope, reason);
                };
                let body = body_runs.body;
                let inner_shapes = infer_body(body, &body_runs.inputs, &shapes.facts);
                let path = format!("{}/", path_of(node, scope));
                let mut weights = scope.weights.clone();
                weights.extend(weight_bytes(&body.nodes, &body.tensors));
                self.add(&body.nodes, &inner_shapes, Scope { path: &path, runs, weights });
                if let Some(reason) = gap {
                    self.leave_out(node, scope, reason);
                }
            }
            Ok(None) => self.leave_out(
                node,
                scope,
                gap.unwrap_or_else(|| unknown("which of its graphs runs depends on data")),
            ),
            Err(reason) => self.leave_out(node, scope, reason),
        }
    }
}

/// Returns the name of a node or of its first output, after the names of the nodes around it.
fn path_of(node: &Node, scope: &Scope<'_>) -> String {
    let name = [&node.name].into_iter().chain(&node.outputs).find(|name| !name.is_empty());
    format!("{}{}", scope.path, name.map_or("", String::as_str))
}

/// Returns the cost of a node with known shapes and multiply-accumulates.
fn layer(
    node: &Node,
    scope: &Scope<'_>,
    inputs: &[Option<Fact>],
    outputs: &[Option<Fact>],
    macs: u64,
) -> Layer {
    let size = |fact: &Fact| fact.element.bytes_of(fact.elements().unwrap_or(0));
    let known =
        node.inputs.iter().zip(inputs).filter_map(|(name, fact)| Some((name, fact.as_ref()?)));
    let (weights, activations): (Vec<_>, Vec<_>) =
        known.partition(|(name, _)| scope.weights.contains_key(name.as_str()));
    let outputs: Vec<&Fact> = outputs.iter().flatten().collect();
    // Constants are not computed.
    let computed = if node.op == "Constant" { &[][..] } else { &outputs[..] };
    let output_bytes = computed.iter().map(|fact| size(fact)).fold(0, u64::saturating_add);
    let is_lookup = matches!(node.op.as_str(), "Gather" | "GatherND" | "GatherElements");
    let read = |(name, _): &(&String, &Fact)| {
        let all = scope.weights[name.as_str()];
        match node.inputs.first() {
            Some(table) if is_lookup && table == *name => all.min(output_bytes),
            _ => all,
        }
    };
    Layer {
        name: path_of(node, scope),
        op: node.op.clone(),
        inputs: activations.iter().map(|(_, fact)| fact.shape.clone()).collect(),
        outputs: outputs.iter().map(|fact| fact.shape.clone()).collect(),
        runs: scope.runs,
        macs,
        weight_bytes: weights.iter().map(read).fold(0, u64::saturating_add),
        input_bytes: activations.iter().map(|(_, fact)| size(fact)).fold(0, u64::saturating_add),
        output_bytes,
    }
}
