//! Shape inference: types and shapes of all values of a graph, computed from those of its inputs.
//!
//! Integers that are computed from shapes, such as the target of a `Reshape`, are known, too.

pub(crate) mod bodies;
pub(crate) mod classical;
pub(crate) mod einsum;
mod layers;
mod moves;
mod picks;
pub(crate) mod quantized;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use dyno_tensors::Element;
use thiserror::Error;

use crate::graph::{Attribute, Model, Node, Port};
use crate::tensor::Tensor;

/// A dimension of a shape.
///
/// ```
/// use dyno_onnx::Dim;
///
/// let batch = Dim::symbol("N");
/// assert_eq!((batch.fixed(), batch.to_string()), (None, "N".to_owned()));
/// assert_eq!(Dim::from(64).fixed(), Some(64));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A known size.
    Fixed(usize),
    /// Name of a size that is known only at run time, such as the batch. `?` is a size without a name.
    Symbol(String),
}

impl Dim {
    /// Returns a symbolic dimension.
    pub fn symbol(name: &str) -> Self {
        Self::Symbol(name.into())
    }

    /// Returns the size, if it is known.
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

/// Known facts about a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    /// Type of the elements.
    pub element: Element,
    /// Dimensions.
    pub shape: Vec<Dim>,
    /// Elements, if they are known integers. Only few elements are computed, such as those of shapes.
    pub integers: Option<Vec<i64>>,
}

impl Fact {
    /// Returns the facts about a value with unknown elements.
    pub fn new(element: Element, shape: Vec<Dim>) -> Self {
        Self { element, shape, integers: None }
    }

    /// Returns the facts about a tensor.
    pub(crate) fn from_tensor(tensor: &Tensor) -> Self {
        let shape = tensor.shape.iter().map(|&n| Dim::Fixed(n)).collect();
        Self { element: tensor.element, shape, integers: tensor.integers() }
    }

    /// Returns the number of elements, if all dimensions are known.
    pub fn elements(&self) -> Option<u64> {
        let multiply = |product: u64, dim: &Dim| product.checked_mul(dim.fixed()? as u64);
        self.shape.iter().try_fold(1, multiply)
    }

    /// Returns facts with the type of this value and another shape.
    fn with_shape(&self, shape: Vec<Dim>) -> Self {
        Self::new(self.element, shape)
    }
}

/// Why the shapes of a node's outputs are unknown.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// The operator is not supported. Holds its name.
    #[error("operator {0} is not supported")]
    Operator(String),
    /// The shape or the elements of an input are unknown. Holds the index of the input.
    #[error("the shape of input {0} is unknown")]
    Unknown(usize),
    /// The operator does not take these inputs or attributes. Holds the whole message.
    #[error("{0}")]
    Misfit(String),
}

/// Facts about the outputs of a node.
type Facts = Result<Vec<Fact>, ShapeError>;

/// Returns [`ShapeError::Misfit`].
fn misfit<T>(reason: impl Into<String>) -> Result<T, ShapeError> {
    Err(ShapeError::Misfit(reason.into()))
}

/// Result of the shape inference of a graph.
#[derive(Debug, Clone, Default)]
pub struct InferredShapes {
    /// Facts by the names of values.
    pub facts: HashMap<String, Fact>,
    /// Indices of nodes whose outputs cannot be inferred, with the reasons.
    pub gaps: Vec<(usize, ShapeError)>,
}

/// Infers the shapes of all values of a model from those of its inputs. `bindings` has the sizes of
/// symbolic dimensions; all others remain symbols.
///
/// ```
/// use dyno_onnx::{Builder, Dim, Element, Weights, infer};
///
/// let mut net = Builder::new("net", Weights::seeded(1));
/// let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
/// let y = net.node("Transpose", &[&x], &[])?;
/// net.output("y", &y)?;
/// let shapes = infer(&net.finish(), &[("N".to_owned(), 8)].into());
/// assert_eq!(shapes.facts["y"].shape, [4.into(), 8.into()]);
/// assert!(shapes.gaps.is_empty());
/// # Ok::<(), dyno_onnx::BuildError>(())
/// ```
pub fn infer(model: &Model, bindings: &BTreeMap<String, usize>) -> InferredShapes {
    let bind = |dim: &Dim| match dim {
        Dim::Symbol(name) => bindings.get(name).map_or_else(|| dim.clone(), |&n| Dim::Fixed(n)),
        Dim::Fixed(_) => dim.clone(),
    };
    let declared = |port: &Port| {
        let shape = port.shape.as_ref()?.iter().map(bind).collect();
        Some((port.name.clone(), Fact::new(port.element?, shape)))
    };
    let tensors =
        model.tensors.iter().map(|tensor| (tensor.name.clone(), Fact::from_tensor(tensor)));
    let facts = model.inputs.iter().filter_map(declared).chain(tensors).collect();
    let declared = model.value_info.iter().chain(&model.outputs).filter_map(declared).collect();
    infer_nodes(&model.nodes, facts, &declared)
}

/// Returns the sizes of all symbolic dimensions of a model's inputs: those of `bindings`, and 1 for
/// all others.
pub(crate) fn all_bindings(
    model: &Model,
    bindings: &BTreeMap<String, usize>,
) -> BTreeMap<String, usize> {
    let dims = model.inputs.iter().filter_map(|port| port.shape.as_ref()).flatten();
    let default = |dim: &Dim| match dim {
        Dim::Symbol(name) => Some((name.clone(), 1)),
        Dim::Fixed(_) => None,
    };
    let mut all: BTreeMap<String, usize> = dims.filter_map(default).collect();
    all.extend(bindings.iter().map(|(name, n)| (name.clone(), *n)));
    all
}

/// Infers the shapes of the nodes' outputs from `facts` about other values. Outputs that cannot be
/// inferred have the types and shapes that the file has `declared`.
fn infer_nodes(
    nodes: &[Node],
    facts: HashMap<String, Fact>,
    declared: &HashMap<String, Fact>,
) -> InferredShapes {
    let mut shapes = InferredShapes { facts, gaps: Vec::new() };
    for (at, node) in nodes.iter().enumerate() {
        let inputs: Vec<_> = node.inputs.iter().map(|name| shapes.facts.get(name)).collect();
        match infer_node(node, &inputs, &shapes.facts) {
            Ok(facts) => {
                let named = node.outputs.iter().cloned().zip(facts);
                shapes.facts.extend(named.filter(|(name, _)| !name.is_empty()));
            }
            Err(reason) => {
                let known = node.outputs.iter().filter_map(|name| declared.get_key_value(name));
                shapes.facts.extend(known.map(|(name, fact)| (name.clone(), fact.clone())));
                shapes.gaps.push((at, reason));
            }
        }
    }
    shapes
}

/// Operators whose output has the type and shape of their first input.
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
    "RMSNormalization",
    "SimplifiedLayerNormalization",
    "MeanVarianceNormalization",
    "Gelu",
    "HardSwish",
    "HardSigmoid",
    "Softplus",
    "Elu",
    "Selu",
    "Sin",
    "Cos",
    "Not",
    "BitwiseNot",
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
    "RotaryEmbedding",
];

/// Infers the shapes of a node's outputs. `inputs` has `None` for inputs that are absent or unknown.
/// Graphs inside the node also read the values of `outer`.
///
/// # Errors
/// [`ShapeError`].
pub fn infer_node(node: &Node, inputs: &[Option<&Fact>], outer: &HashMap<String, Fact>) -> Facts {
    match (node.domain.as_str(), node.op.as_str()) {
        ("", "Loop" | "Scan") => bodies::infer_loop(node, inputs, outer),
        ("", "If") => bodies::infer_branch(node, outer),
        ("", _) => infer_standard(node, inputs),
        ("com.microsoft", _) => quantized::infer_runtime(node, inputs),
        (classical::DOMAIN, _) => classical::infer(node, inputs),
        (domain, op) => Err(ShapeError::Operator(format!("{domain}.{op}"))),
    }
}

/// Infers the outputs of a standard operator without graphs inside.
fn infer_standard(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let first = || input(inputs, 0);
    match node.op.as_str() {
        "Identity" => Ok(vec![first()?.clone()]),
        op if KEEP_SHAPE.contains(&op) => {
            let data = first()?;
            Ok(vec![data.with_shape(data.shape.clone())])
        }
        "Add" | "Sub" | "Mul" | "Div" | "Pow" | "Min" | "Max" | "Mod" | "Sum" | "BitwiseAnd"
        | "BitwiseOr" | "BitwiseXor" | "BitShift" => moves::arithmetic(node, inputs),
        "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "And" | "Or" | "Xor" => {
            let shape = moves::broadcast_all(inputs)?;
            Ok(vec![Fact::new(Element::Bool, shape)])
        }
        "Where" => {
            let shape = moves::broadcast_all(inputs)?;
            Ok(vec![input(inputs, 1)?.with_shape(shape)])
        }
        "Cast" => moves::cast(node, first()?),
        "Constant" => match node.attribute("value") {
            Some(Attribute::Tensor(tensor)) => Ok(vec![Fact::from_tensor(tensor)]),
            _ => misfit("a Constant has a tensor as its 'value'"),
        },
        "ConstantOfShape" => moves::constant_of_shape(node, first()?),
        "Shape" => moves::shape_of(node, first()?),
        "Reshape" => moves::reshape(node, first()?, input(inputs, 1)?),
        "Flatten" => moves::flatten(node, first()?),
        "Transpose" => moves::transpose(node, first()?),
        "Squeeze" | "Unsqueeze" => moves::squeeze(node, inputs),
        "Concat" => moves::concat(node, inputs),
        "Split" => moves::split(node, inputs),
        "Slice" => moves::slice(node, inputs),
        "Gather" => moves::gather(node, first()?, input(inputs, 1)?),
        "Expand" => moves::expand(first()?, input(inputs, 1)?),
        "Pad" => moves::pad(node, inputs),
        "ReduceMean" | "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceProd" | "ArgMax"
        | "ReduceL1" | "ReduceL2" | "ReduceLogSum" | "ReduceLogSumExp" | "ReduceSumSquare"
        | "ArgMin" => moves::reduce(node, inputs),
        _ => picks::infer(node, inputs).unwrap_or_else(|| infer_layer(node, inputs)),
    }
}

/// Infers the outputs of a standard operator that multiplies by weights or slides a window.
fn infer_layer(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let first = || input(inputs, 0);
    match node.op.as_str() {
        "Resize" | "Upsample" => layers::resize(inputs),
        "Conv" => layers::conv(node, first()?, input(inputs, 1)?),
        "ConvTranspose" => layers::conv_transpose(node, first()?, input(inputs, 1)?),
        "AveragePool" | "LpPool" => layers::pool(node, first()?),
        "MaxPool" => layers::max_pool(node, first()?),
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" => layers::global_pool(first()?),
        "Gemm" => layers::gemm(node, inputs),
        "MatMul" => layers::matmul(first()?, input(inputs, 1)?),
        "LSTM" | "GRU" | "RNN" => layers::recurrent(node, first()?, input(inputs, 2)?),
        "Einsum" => einsum::infer(node, inputs),
        other => {
            let unknown = || Err(ShapeError::Operator(other.into()));
            quantized::infer_standard(node, inputs).unwrap_or_else(unknown)
        }
    }
}

/// Returns the facts about an input.
///
/// # Errors
/// [`ShapeError::Unknown`].
fn input<'a>(inputs: &[Option<&'a Fact>], at: usize) -> Result<&'a Fact, ShapeError> {
    inputs.get(at).copied().flatten().ok_or(ShapeError::Unknown(at))
}

/// Returns the facts about an optional input; `None` if the node does not have it.
///
/// # Errors
/// [`ShapeError::Unknown`] if the node has the input, but its shape is unknown.
fn optional<'a>(
    node: &Node,
    inputs: &[Option<&'a Fact>],
    at: usize,
) -> Result<Option<&'a Fact>, ShapeError> {
    match node.inputs.get(at).filter(|name| !name.is_empty()) {
        Some(_) => input(inputs, at).map(Some),
        None => Ok(None),
    }
}

/// Returns the index of an axis, which may also be the rank. A negative axis counts from the end.
///
/// # Errors
/// [`ShapeError::Misfit`] if the axis is out of range.
fn axis(axis: i64, rank: usize) -> Result<usize, ShapeError> {
    let index = if axis < 0 { axis + rank as i64 } else { axis };
    match usize::try_from(index) {
        Ok(at) if at <= rank => Ok(at),
        _ => misfit(format!("axis {axis} of a value of {rank} dimensions")),
    }
}

/// Returns a shape as text, such as `[N, 3]`.
fn format_shape(shape: &[Dim]) -> String {
    let dims: Vec<String> = shape.iter().map(Dim::to_string).collect();
    format!("[{}]", dims.join(", "))
}
