//! Shapes of all values of a graph, from those of its inputs.

pub(crate) mod bodies;
pub(crate) mod einsum;
mod layers;
mod moves;
mod picks;
pub(crate) mod quantised;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use dyno_tensors::Element;

use crate::graph::{Attribute, Model, Node};
use crate::tensor::Tensor;

/// A dimension.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Dim {
    /// So many.
    Fixed(usize),
    /// Known when the model is fed, such as the batch.
    Symbol(String),
}

impl Dim {
    /// A dimension with a name.
    #[must_use]
    pub fn symbol(name: &str) -> Self {
        Self::Symbol(name.into())
    }

    /// The number, if it is known.
    #[must_use]
    pub fn fixed(&self) -> Option<usize> {
        match self {
            Self::Fixed(n) => Some(*n),
            Self::Symbol(_) => None,
        }
    }
}

impl From<usize> for Dim {
    fn from(n: usize) -> Self {
        Self::Fixed(n)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(n) => n.fmt(f),
            Self::Symbol(name) => name.fmt(f),
        }
    }
}

/// What is known of a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    /// Type of its elements.
    pub element: Element,
    /// Its dimensions.
    pub shape: Vec<Dim>,
    /// Its elements, where they are few whole numbers that follow from shapes.
    pub integers: Option<Vec<i64>>,
}

impl Fact {
    /// Of a value of which only the type and the shape are known.
    #[must_use]
    pub fn new(element: Element, shape: Vec<Dim>) -> Self {
        Self { element, shape, integers: None }
    }

    /// Of a tensor.
    #[must_use]
    pub fn of(tensor: &Tensor) -> Self {
        let shape = tensor.shape.iter().map(|&n| Dim::Fixed(n)).collect();
        Self { element: tensor.element, shape, integers: tensor.integers() }
    }

    /// Number of elements, if all dimensions are known.
    #[must_use]
    pub fn elements(&self) -> Option<u64> {
        let multiply = |product: u64, dim: &Dim| product.checked_mul(dim.fixed()? as u64);
        self.shape.iter().try_fold(1, multiply)
    }

    fn like(&self, shape: Vec<Dim>) -> Self {
        Self::new(self.element, shape)
    }
}

/// Why a node has no shape.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeError {
    /// The operator is not among those that are known here.
    Operator(String),
    /// Nothing is known of an input.
    Unknown(usize),
    /// Inputs or attributes that the operator does not take.
    Misfit(String),
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator(op) => write!(f, "operator {op} is not known"),
            Self::Unknown(at) => write!(f, "the shape of input {at} is not known"),
            Self::Misfit(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for ShapeError {}

type Facts = Result<Vec<Fact>, ShapeError>;

fn misfit<T>(why: impl Into<String>) -> Result<T, ShapeError> {
    Err(ShapeError::Misfit(why.into()))
}

/// What is known of a model's values.
#[derive(Debug, Clone, Default)]
pub struct Inferred {
    /// By the value's name.
    pub facts: HashMap<String, Fact>,
    /// Nodes whose outputs are not known: position, reason.
    pub gaps: Vec<(usize, ShapeError)>,
}

/// What follows for all values from the shapes of the inputs. Symbols that
/// `bind` has are those numbers.
#[must_use]
pub fn infer(model: &Model, bind: &BTreeMap<String, usize>) -> Inferred {
    let bound = |dim: &Dim| match dim {
        Dim::Symbol(name) => bind.get(name).map_or_else(|| dim.clone(), |&n| Dim::Fixed(n)),
        Dim::Fixed(_) => dim.clone(),
    };
    let declared = |port: &crate::graph::Port| {
        let shape = port.shape.as_ref()?.iter().map(bound).collect();
        Some((port.name.clone(), Fact::new(port.element?, shape)))
    };
    let tensors = model.tensors.iter().map(|tensor| (tensor.name.clone(), Fact::of(tensor)));
    let facts = model.inputs.iter().filter_map(declared).chain(tensors).collect();
    let said = model.between.iter().chain(&model.outputs).filter_map(declared).collect();
    run_of(&model.nodes, facts, &said)
}

/// What follows for all values of some nodes from what is known before them. What the
/// file has `said` helps where nothing can be inferred.
fn run_of(nodes: &[Node], facts: HashMap<String, Fact>, said: &HashMap<String, Fact>) -> Inferred {
    let mut found = Inferred { facts, gaps: Vec::new() };
    for (at, node) in nodes.iter().enumerate() {
        let inputs: Vec<_> = node.inputs.iter().map(|name| found.facts.get(name)).collect();
        match of_node(node, &inputs, &found.facts) {
            Ok(facts) => {
                let named = node.outputs.iter().cloned().zip(facts);
                found.facts.extend(named.filter(|(name, _)| !name.is_empty()));
            }
            Err(why) => {
                let known = node.outputs.iter().filter_map(|name| said.get_key_value(name));
                found.facts.extend(known.map(|(name, fact)| (name.clone(), fact.clone())));
                found.gaps.push((at, why));
            }
        }
    }
    found
}

/// Operators whose output is like their first input.
const KEEP_SHAPE: &[&str] = &[
    "Relu",
    "LeakyRelu",
    "PRelu",
    "Clip",
    "Sigmoid",
    "Tanh",
    "Erf",
    "Exp",
    "Log",
    "Sqrt",
    "Neg",
    "Abs",
    "Floor",
    "Ceil",
    "Round",
    "Reciprocal",
    "Softmax",
    "LogSoftmax",
    "BatchNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "Gelu",
    "HardSwish",
    "HardSigmoid",
    "Softplus",
    "Elu",
    "Selu",
    "Sin",
    "Cos",
    "Not",
    "CumSum",
    "LpNormalization",
    "GroupNormalization",
    "Mish",
    "LRN",
    "Dropout",
    "Sign",
    "Softsign",
    "Celu",
    "Trilu",
    "ScatterND",
    "ScatterElements",
];

/// What follows for the outputs of one node. An input left out is `None`; graphs inside
/// the node read values of `outer` as well.
///
/// # Errors
/// The operator is not known, or does not take the inputs.
pub fn of_node(node: &Node, inputs: &[Option<&Fact>], outer: &HashMap<String, Fact>) -> Facts {
    match (node.domain.as_str(), node.op.as_str()) {
        ("", "Loop" | "Scan") => bodies::looped(node, inputs, outer),
        ("", "If") => bodies::branched(node, outer),
        ("", _) => of_standard(node, inputs),
        ("com.microsoft", _) => quantised::of_runtime(node, inputs),
        (domain, op) => Err(ShapeError::Operator(format!("{domain}.{op}"))),
    }
}

/// Standard operators without graphs of their own.
fn of_standard(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let first = || input(inputs, 0);
    match node.op.as_str() {
        "Identity" => Ok(vec![first()?.clone()]),
        op if KEEP_SHAPE.contains(&op) => {
            let data = first()?;
            Ok(vec![data.like(data.shape.clone())])
        }
        "Add" | "Sub" | "Mul" | "Div" | "Pow" | "Min" | "Max" | "Mod" | "Sum" => {
            moves::arithmetic(node, inputs)
        }
        "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "And" | "Or" | "Xor" => {
            let shape = moves::broadcast_all(inputs)?;
            Ok(vec![Fact::new(Element::Bool, shape)])
        }
        "Where" => {
            let shape = moves::broadcast_all(inputs)?;
            Ok(vec![input(inputs, 1)?.like(shape)])
        }
        "Cast" => moves::cast(node, first()?),
        "Constant" => match node.attribute("value") {
            Some(Attribute::Tensor(tensor)) => Ok(vec![Fact::of(tensor)]),
            _ => misfit("a Constant has a tensor as its 'value'"),
        },
        "ConstantOfShape" => moves::constant_of_shape(node, first()?),
        "Shape" => moves::shape_of(first()?),
        "Reshape" => moves::reshape(node, first()?, input(inputs, 1)?),
        "Flatten" => moves::flatten(node, first()?),
        "Transpose" => moves::transpose(node, first()?),
        "Squeeze" | "Unsqueeze" => moves::squeeze(node, inputs),
        "Concat" => moves::concat(node, inputs),
        "Split" => moves::split(node, inputs),
        "Slice" => moves::slice(inputs),
        "Gather" => moves::gather(node, first()?, input(inputs, 1)?),
        "Expand" => moves::expand(first()?, input(inputs, 1)?),
        "Pad" => moves::pad(node, inputs),
        "ReduceMean" | "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceProd" | "ArgMax"
        | "ReduceL1" | "ReduceL2" | "ReduceLogSumExp" | "ReduceSumSquare" | "ArgMin" => {
            moves::reduce(node, inputs)
        }
        _ => picks::of(node, inputs).unwrap_or_else(|| of_layer(node, inputs)),
    }
}

/// Layers that multiply weights, and windows.
fn of_layer(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let first = || input(inputs, 0);
    match node.op.as_str() {
        "Resize" | "Upsample" => layers::resize(inputs),
        "Conv" => layers::conv(node, first()?, input(inputs, 1)?),
        "ConvTranspose" => layers::conv_transpose(node, first()?, input(inputs, 1)?),
        "MaxPool" | "AveragePool" => layers::pool(node, first()?),
        "GlobalAveragePool" | "GlobalMaxPool" => {
            let fact = first()?;
            let flat = |(at, dim): (usize, &Dim)| if at < 2 { dim.clone() } else { 1.into() };
            Ok(vec![fact.like(fact.shape.iter().enumerate().map(flat).collect())])
        }
        "Gemm" => layers::gemm(node, inputs),
        "MatMul" => layers::matmul(first()?, input(inputs, 1)?),
        "LSTM" | "GRU" | "RNN" => layers::recurrent(node, first()?, input(inputs, 2)?),
        "Einsum" => einsum::einsum(node, inputs),
        other => {
            let unknown = || Err(ShapeError::Operator(other.into()));
            quantised::standard(node, inputs).unwrap_or_else(unknown)
        }
    }
}

fn input<'a>(inputs: &[Option<&'a Fact>], at: usize) -> Result<&'a Fact, ShapeError> {
    inputs.get(at).copied().flatten().ok_or(ShapeError::Unknown(at))
}

/// An axis counted from the end where it is negative.
fn axis(axis: i64, rank: usize) -> Result<usize, ShapeError> {
    let from_start = if axis < 0 { axis + rank as i64 } else { axis };
    match usize::try_from(from_start) {
        Ok(at) if at <= rank => Ok(at),
        _ => misfit(format!("axis {axis} of a value of {rank} dimensions")),
    }
}

fn written(shape: &[Dim]) -> String {
    let dims: Vec<String> = shape.iter().map(Dim::to_string).collect();
    format!("[{}]", dims.join(", "))
}
