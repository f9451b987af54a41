//! What a model costs: parameters, operations, and a table of its layers.

mod macs;

use std::collections::{BTreeMap, HashMap, HashSet};

use dyno_tensors::Element;

use crate::graph::{Attribute, Model, Node};
use crate::shape::bodies::{inside, runs};
use crate::shape::{Dim, Fact, Inferred, ShapeError, infer};
use crate::tensor::Tensor;

/// What a model costs for one input.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// Numbers in its weights: floating-point or quantised tensors of at least
    /// one dimension, without the means and variances of batch normalisations,
    /// which are measured and not learned, and the factors of resizes. Those of
    /// graphs inside nodes are among them.
    pub parameters: u64,
    /// Its nodes, in order; those of the body of a loop stand in its place.
    pub layers: Vec<Layer>,
    /// Nodes of which nothing can be said; the sums leave them out.
    pub uncounted: Vec<Uncounted>,
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Its name, or that of its first output; behind that of the loop it is in.
    pub name: String,
    /// Its operator.
    pub op: String,
    /// Of what comes in, without weights.
    pub inputs: Vec<Vec<Dim>>,
    /// Of what comes out.
    pub outputs: Vec<Vec<Dim>>,
    /// How often it runs for one input: more than once in a loop, and never where all
    /// that it reads is constant: an engine does that once when it loads the model.
    pub times: u64,
    /// Multiplications of which each result is added to another, each time; those
    /// of operators that work element by element are none.
    pub macs: u64,
    /// Of the weights that it reads each time, as they lie in the file, also where a node
    /// before turned or widened them; a weight that two nodes share is in both. Of a
    /// table, the rows that are picked.
    pub weight_bytes: u64,
    /// Of what goes in each time, without weights.
    pub input_bytes: u64,
    /// Of what comes out each time.
    pub output_bytes: u64,
}

/// A node of which nothing can be said.
#[derive(Debug, Clone, PartialEq)]
pub struct Uncounted {
    /// Its name, or that of its first output; behind that of the node it is in.
    pub name: String,
    /// Its operator.
    pub op: String,
    /// Why not.
    pub why: ShapeError,
}

impl Cost {
    /// Multiply-accumulates; saturates.
    #[must_use]
    pub fn macs(&self) -> u64 {
        let add =
            |sum: u64, layer: &Layer| sum.saturating_add(layer.macs.saturating_mul(layer.times));
        self.layers.iter().fold(0, add)
    }

    /// Two for each multiply-accumulate, as papers count them.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.macs().saturating_mul(2)
    }
}

impl Layer {
    /// Two for each multiply-accumulate, each time.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.macs.saturating_mul(2)
    }

    /// Of all that is read and written each time: weights, inputs and outputs.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.weight_bytes.saturating_add(self.input_bytes).saturating_add(self.output_bytes)
    }

    /// Arithmetic intensity: operations for each byte that is read or written; 0 where
    /// there is none.
    #[must_use]
    pub fn operations_per_byte(&self) -> f64 {
        match self.bytes() {
            0 => 0.0,
            bytes => self.operations() as f64 / bytes as f64,
        }
    }
}

/// Counts a model at batch 1: every dimension without a number is 1.
#[must_use]
pub fn count(model: &Model) -> Cost {
    count_with(model, &BTreeMap::new())
}

/// Counts a model with numbers for the names of its inputs' dimensions, such as a
/// batch; every other dimension without a number is 1.
#[must_use]
pub fn count_with(model: &Model, bind: &BTreeMap<String, usize>) -> Cost {
    let symbols = model.inputs.iter().filter_map(|port| port.shape.as_ref()).flatten();
    let one = |dim: &Dim| match dim {
        Dim::Symbol(name) => Some((name.clone(), 1)),
        Dim::Fixed(_) => None,
    };
    let mut all: BTreeMap<String, usize> = symbols.filter_map(one).collect();
    all.extend(bind.iter().map(|(name, &n)| (name.clone(), n)));
    let found = infer(model, &all);
    let (nodes, tensors) = (model.nodes.as_slice(), model.tensors.as_slice());
    let mut cost =
        Cost { parameters: parameters(nodes, tensors), layers: vec![], uncounted: vec![] };
    let held = held(nodes, tensors).map(|(name, tensor)| (name, tensor.bytes())).collect();
    cost.add(nodes, &found, Place { path: "", times: 1, held });
    cost
}

/// Weights and other constants by their names: a file may hold them in nodes as well.
fn held<'a>(
    nodes: &'a [Node],
    tensors: &'a [Tensor],
) -> impl Iterator<Item = (&'a str, &'a Tensor)> {
    let of_node = |node: &'a Node| match (node.op.as_str(), node.attribute("value")) {
        ("Constant", Some(Attribute::Tensor(tensor))) => {
            node.outputs.first().map(|name| (name.as_str(), tensor))
        }
        _ => None,
    };
    let named = tensors.iter().map(|tensor| (tensor.name.as_str(), tensor));
    named.chain(nodes.iter().filter_map(of_node))
}

fn parameters(nodes: &[Node], tensors: &[Tensor]) -> u64 {
    let is_weight = |element: Element| !matches!(element, Element::I64 | Element::Bool);
    let no_weights = nodes.iter().flat_map(|node| match node.op.as_str() {
        "BatchNormalization" => &node.inputs[node.inputs.len().min(3)..],
        "Resize" | "Upsample" => &node.inputs[node.inputs.len().min(1)..],
        _ => &[],
    });
    let no_weights: HashSet<&str> = no_weights.map(String::as_str).collect();
    let weights = held(nodes, tensors).filter(|(name, one)| {
        is_weight(one.element) && !one.shape.is_empty() && !no_weights.contains(name)
    });
    let bodies = nodes.iter().flat_map(Node::bodies);
    let inner = bodies.map(|(_, body)| parameters(&body.nodes, &body.tensors));
    weights.map(|(_, one)| one.elements()).chain(inner).fold(0, u64::saturating_add)
}

/// Where nodes are.
struct Place<'a> {
    /// Names of the nodes around, each with a slash behind.
    path: &'a str,
    /// How often they run.
    times: u64,
    /// Bytes of weights, and of what follows from them alone, by their names.
    held: HashMap<&'a str, u64>,
}

impl<'a> Place<'a> {
    /// Bytes of the file behind a node that reads nothing else, or `None`.
    fn constant(&self, node: &Node) -> Option<u64> {
        let is_random = node.op.starts_with("Random") || node.op == "Multinomial";
        if is_random || node.inputs.iter().all(String::is_empty) {
            return match node.attribute("value") {
                Some(Attribute::Tensor(tensor)) if node.op == "Constant" => Some(tensor.bytes()),
                _ => None,
            };
        }
        let given = node.inputs.iter().filter(|name| !name.is_empty());
        given.map(|name| self.held.get(name.as_str()).copied()).sum()
    }
}

impl Cost {
    fn add<'a>(&mut self, nodes: &'a [Node], found: &Inferred, mut place: Place<'a>) {
        let mut gaps: HashMap<usize, ShapeError> = found.gaps.iter().cloned().collect();
        for (at, node) in nodes.iter().enumerate() {
            let gap = gaps.remove(&at);
            if node.bodies().next().is_some() {
                self.add_bodies(node, found, &place, gap);
                continue;
            }
            let constant = place.constant(node);
            if let Some(bytes) = constant {
                let outputs = node.outputs.iter().filter(|name| !name.is_empty());
                place.held.extend(outputs.map(|name| (name.as_str(), bytes)));
            }
            let facts = |names: &[String]| -> Vec<Option<Fact>> {
                names.iter().map(|name| found.facts.get(name).cloned()).collect()
            };
            let (inputs, outputs) = (facts(&node.inputs), facts(&node.outputs));
            let counted = match gap {
                Some(why) => Err(why),
                None => macs::of(node, &inputs, &outputs),
            };
            match counted {
                Ok(macs) => {
                    let mut layer = layer(node, &place, &inputs, &outputs, macs);
                    if constant.is_some() {
                        layer.times = 0;
                    }
                    self.layers.push(layer);
                }
                Err(why) => self.leave_out(node, &place, why),
            }
        }
    }

    fn leave_out(&mut self, node: &Node, place: &Place<'_>, why: ShapeError) {
        let op = if node.domain.is_empty() {
            node.op.clone()
        } else {
            format!("{}.{}", node.domain, node.op)
        };
        self.uncounted.push(Uncounted { name: named(node, place), op, why });
    }

    /// A loop whose runs are known counts as its body so many times. Of any other node
    /// with graphs of its own it is unknown what runs.
    fn add_bodies(
        &mut self,
        node: &Node,
        found: &Inferred,
        place: &Place<'_>,
        gap: Option<ShapeError>,
    ) {
        let inputs: Vec<_> = node.inputs.iter().map(|name| found.facts.get(name)).collect();
        let unknown = |why: &str| ShapeError::Misfit(why.into());
        match runs(node, &inputs) {
            Ok(Some(runs)) => {
                let Some(times) = runs.times.and_then(|times| times.checked_mul(place.times))
                else {
                    let why = unknown("how often it runs depends on data");
                    return self.leave_out(node, place, why);
                };
                let body = inside(runs.body, &runs.handed, &found.facts);
                let path = format!("{}/", named(node, place));
                let inner = self::held(&runs.body.nodes, &runs.body.tensors);
                let inner = inner.map(|(name, tensor)| (name, tensor.bytes()));
                let outer = place.held.iter().map(|(name, bytes)| (*name, *bytes));
                let held = outer.chain(inner).collect();
                self.add(&runs.body.nodes, &body, Place { path: &path, times, held });
                if let Some(why) = gap {
                    self.leave_out(node, place, why);
                }
            }
            Ok(None) => self.leave_out(
                node,
                place,
                gap.unwrap_or_else(|| unknown("which of its graphs runs depends on data")),
            ),
            Err(why) => self.leave_out(node, place, why),
        }
    }
}

fn named(node: &Node, place: &Place<'_>) -> String {
    let name = [&node.name].into_iter().chain(&node.outputs).find(|name| !name.is_empty());
    format!("{}{}", place.path, name.map_or("", String::as_str))
}

fn layer(
    node: &Node,
    place: &Place<'_>,
    inputs: &[Option<Fact>],
    outputs: &[Option<Fact>],
    macs: u64,
) -> Layer {
    let size = |fact: &Fact| fact.element.bytes_of(fact.elements().unwrap_or(0));
    let known =
        node.inputs.iter().zip(inputs).filter_map(|(name, one)| Some((name, one.as_ref()?)));
    let (weights, fed): (Vec<_>, Vec<_>) =
        known.partition(|(name, _)| place.held.contains_key(name.as_str()));
    let outputs: Vec<&Fact> = outputs.iter().flatten().collect();
    // A constant is computed by nobody.
    let computed = if node.op == "Constant" { &[][..] } else { &outputs[..] };
    let output_bytes = computed.iter().map(|fact| size(fact)).fold(0, u64::saturating_add);
    let picks = matches!(node.op.as_str(), "Gather" | "GatherND" | "GatherElements");
    let read = |(name, _): &(&String, &Fact)| {
        let all = place.held[name.as_str()];
        match node.inputs.first() {
            Some(table) if picks && table == *name => all.min(output_bytes),
            _ => all,
        }
    };
    Layer {
        name: named(node, place),
        op: node.op.clone(),
        inputs: fed.iter().map(|(_, fact)| fact.shape.clone()).collect(),
        outputs: outputs.iter().map(|fact| fact.shape.clone()).collect(),
        times: place.times,
        macs,
        weight_bytes: weights.iter().map(read).fold(0, u64::saturating_add),
        input_bytes: fed.iter().map(|(_, fact)| size(fact)).fold(0, u64::saturating_add),
        output_bytes,
    }
}
