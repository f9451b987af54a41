//! What a model costs: parameters, operations, and a table of its layers.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::graph::{Model, Node};
use crate::shape::{Dim, Fact, ShapeError, infer};
use crate::tensor::Element;

/// What a model costs for one input, at batch 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// Numbers in its weights: floating-point or quantised tensors of at least
    /// one dimension, without the means and variances of batch normalisations,
    /// which are measured and not learned, and the factors of resizes.
    pub parameters: u64,
    /// Its nodes, in order.
    pub layers: Vec<Layer>,
    /// Nodes of which nothing can be said; the sums leave them out.
    pub uncounted: Vec<Uncounted>,
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Its name, or that of its first output.
    pub name: String,
    /// Its operator.
    pub op: String,
    /// Of what comes in, without weights.
    pub inputs: Vec<Vec<Dim>>,
    /// Of what comes out.
    pub outputs: Vec<Vec<Dim>>,
    /// Multiplications of which each result is added to another; those of
    /// operators that work element by element are none.
    pub macs: u64,
    /// Of the weights that it reads; a weight that two nodes share is in both.
    pub weight_bytes: u64,
    /// Of what goes in and comes out, without weights.
    pub activation_bytes: u64,
}

/// A node of which nothing can be said.
#[derive(Debug, Clone, PartialEq)]
pub struct Uncounted {
    /// Its name, or that of its first output.
    pub name: String,
    /// Its operator.
    pub op: String,
    /// Why not.
    pub why: ShapeError,
}

impl Cost {
    /// Multiply-accumulates.
    #[must_use]
    pub fn macs(&self) -> u64 {
        self.layers.iter().map(|layer| layer.macs).sum()
    }

    /// Two for each multiply-accumulate, as papers count them.
    #[must_use]
    pub fn operations(&self) -> u64 {
        2 * self.macs()
    }
}

/// Counts a model at batch 1: every dimension without a number is 1.
#[must_use]
pub fn count(model: &Model) -> Cost {
    let symbols = model.inputs.iter().filter_map(|port| port.shape.as_ref()).flatten();
    let bind: BTreeMap<String, usize> = symbols
        .filter_map(|dim| match dim {
            Dim::Symbol(name) => Some((name.clone(), 1)),
            Dim::Fixed(_) => None,
        })
        .collect();
    let found = infer(model, &bind);
    let is_weight = |element: Element| !matches!(element, Element::I64 | Element::Bool);
    let held: HashSet<&str> = model.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let no_weights = model.nodes.iter().flat_map(|node| match node.op.as_str() {
        "BatchNormalization" => &node.inputs[node.inputs.len().min(3)..],
        "Resize" | "Upsample" => &node.inputs[node.inputs.len().min(1)..],
        _ => &[],
    });
    let no_weights: HashSet<&String> = no_weights.collect();
    let weights = model.tensors.iter().filter(|one| {
        is_weight(one.element) && !one.shape.is_empty() && !no_weights.contains(&one.name)
    });
    let mut cost = Cost {
        parameters: weights.map(crate::tensor::Tensor::elements).sum(),
        layers: Vec::new(),
        uncounted: Vec::new(),
    };
    let mut gaps: HashMap<usize, ShapeError> = found.gaps.into_iter().collect();
    for (at, node) in model.nodes.iter().enumerate() {
        let facts = |names: &[String]| -> Vec<Option<&Fact>> {
            names.iter().map(|name| found.facts.get(name)).collect()
        };
        let (inputs, outputs) = (facts(&node.inputs), facts(&node.outputs));
        let name = [&node.name].into_iter().chain(&node.outputs).find(|name| !name.is_empty());
        let (name, op) = (name.cloned().unwrap_or_default(), node.op.clone());
        let counted = match gaps.remove(&at) {
            Some(why) => Err(why),
            None => macs(node, &inputs, &outputs),
        };
        let macs = match counted {
            Ok(macs) => macs,
            Err(why) => {
                cost.uncounted.push(Uncounted { name, op, why });
                continue;
            }
        };
        let size = |fact: &&Fact| fact.elements().unwrap_or(0) * fact.element.bytes() as u64;
        let is_held = |name: &String| held.contains(name.as_str());
        let named =
            || node.inputs.iter().zip(&inputs).filter_map(|(name, one)| Some((name, (*one)?)));
        let fed: Vec<&Fact> =
            named().filter(|(name, _)| !is_held(name)).map(|(_, fact)| fact).collect();
        let outputs: Vec<&Fact> = outputs.iter().flatten().copied().collect();
        let shapes = |facts: &[&Fact]| facts.iter().map(|fact| fact.shape.clone()).collect();
        cost.layers.push(Layer {
            name,
            op,
            inputs: shapes(&fed),
            outputs: shapes(&outputs),
            macs,
            weight_bytes: named().filter(|(name, _)| is_held(name)).map(|(_, f)| size(&f)).sum(),
            activation_bytes: fed.iter().chain(&outputs).map(size).sum(),
        });
    }
    cost
}

/// Multiply-accumulates of a node whose shapes are known.
fn macs(
    node: &Node,
    inputs: &[Option<&Fact>],
    outputs: &[Option<&Fact>],
) -> Result<u64, ShapeError> {
    let fact = |facts: &[Option<&Fact>], at: usize| {
        facts.get(at).copied().flatten().cloned().ok_or(ShapeError::Unknown(at))
    };
    let elements = |fact: &Fact, at: usize| fact.elements().ok_or(ShapeError::Unknown(at));
    let dim = |fact: &Fact, at: usize| {
        fact.shape.get(at).and_then(Dim::fixed).map(|n| n as u64).ok_or(ShapeError::Unknown(at))
    };
    let macs = match node.op.as_str() {
        // Each output sums over the inputs of its group times the kernel.
        "Conv" => {
            let weights = fact(inputs, 1)?;
            let each = elements(&weights, 1)?.checked_div(dim(&weights, 0)?);
            each.and_then(|each| each.checked_mul(fact(outputs, 0).ok()?.elements()?))
        }
        // Each input goes to the outputs of its group times the kernel.
        "ConvTranspose" => {
            let weights = fact(inputs, 1)?;
            let each = elements(&weights, 1)?.checked_div(dim(&weights, 0)?);
            each.and_then(|each| each.checked_mul(fact(inputs, 0).ok()?.elements()?))
        }
        "Gemm" => {
            let a = fact(inputs, 0)?;
            let inner = dim(&a, usize::from(node.int("transA", 0) == 0))?;
            elements(&fact(outputs, 0)?, 0)?.checked_mul(inner)
        }
        "MatMul" => {
            let a = fact(inputs, 0)?;
            let inner = dim(&a, a.shape.len().saturating_sub(1))?;
            elements(&fact(outputs, 0)?, 0)?.checked_mul(inner)
        }
        // Each step of each direction reads its weights of inputs and of states once.
        "LSTM" | "GRU" | "RNN" => {
            let (data, w, r) = (fact(inputs, 0)?, fact(inputs, 1)?, fact(inputs, 2)?);
            let steps = dim(&data, 0)?.checked_mul(dim(&data, 1)?);
            steps.and_then(|n| n.checked_mul(w.elements()?.checked_add(r.elements()?)?))
        }
        _ => Some(0),
    };
    macs.ok_or_else(|| ShapeError::Misfit("more operations than 64 bits count".into()))
}
