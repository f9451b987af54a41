//! Matrix products of a model: its layers as accelerators and tuners model them.
//!
//! A layer is `groups` products of matrices of `m` x `cin_g rs` and `cin_g rs` x `cout_g` numbers.
//! `m` is the number of positions of the output, and `rs` that of the kernel.
//!
//! Source: the layer description of MAESTRO.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::quantized::outline_in_floats;
use crate::shape::all_bindings;
use crate::{Constants, Fact, Model, Node, infer};

/// Type of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerType {
    /// A convolution.
    Convolution,
    /// A convolution of several groups of channels.
    Grouped,
    /// A convolution with one input channel per group.
    Depthwise,
    /// A product of activations and weights.
    FullyConnected,
    /// A product of two activations.
    Activations,
    /// A lookup of rows in a table of weights.
    Gather,
}

impl LayerType {
    /// All types.
    pub const ALL: [Self; 6] = [
        Self::Convolution,
        Self::Grouped,
        Self::Depthwise,
        Self::FullyConnected,
        Self::Activations,
        Self::Gather,
    ];

    /// Returns the name in tables of layers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Convolution => "conv",
            Self::Grouped => "gconv",
            Self::Depthwise => "dwconv",
            Self::FullyConnected => "fc",
            Self::Activations => "matmul_act",
            Self::Gather => "gather",
        }
    }
}

/// A layer. Sizes are counts of numbers, because their widths in bits are chosen elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// Name of the layer, which is unique in the model; see [`name_of`].
    pub name: String,
    /// Index of its node in the model [in floats](crate::in_floats).
    pub node: usize,
    /// Type of the layer.
    pub kind: LayerType,
    /// Number of independent products.
    pub groups: u64,
    /// Number of positions of the output.
    pub m: u64,
    /// Input channels of a group; 0 for a lookup.
    pub cin_g: u64,
    /// Number of positions of the kernel.
    pub rs: u64,
    /// Output channels of a group; 0 for a lookup.
    pub cout_g: u64,
    /// Multiply-accumulates.
    pub macs: u64,
    /// Number of weights that are read.
    pub weights: u64,
    /// Number of inputs; for a lookup, of indices.
    pub inputs: u64,
    /// Number of outputs.
    pub outputs: u64,
    /// Indices of the products that the inputs come from, through any other nodes in between, and whose
    /// outputs no earlier product reads. All values that meet in such a node count; mere sizes do not.
    pub origins: Vec<usize>,
}

/// Products of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Products {
    /// Products in the order of execution.
    pub rows: Vec<Product>,
    /// Nodes whose products have no row. Each text has the operator, the name and the reason.
    pub left_out: Vec<String>,
}

/// Returns the products of a model. `bindings` has the sizes of symbolic dimensions; all others are 1.
/// Products of a quantized model are those of the model [in floats](crate::in_floats). Weights are not
/// loaded.
///
/// ```
/// use dyno_onnx::products::{LayerType, products};
/// use dyno_onnx::{Builder, Dim, Element, Fill, Weights};
///
/// let mut net = Builder::new("scores", Weights::seeded(1));
/// let x = net.input("x", Element::F32, &[Dim::symbol("N"), 64.into()]);
/// let w = net.weight("fc.weight", &[64, 10], Fill::he(64))?;
/// let y = net.node("MatMul", &[&x, &w], &[])?;
/// net.output("y", &y)?;
/// let model = net.finish();
///
/// let layers = products(&model, &[("N".to_owned(), 8)].into());
/// let layer = &layers.rows[0];
/// assert_eq!((&*layer.name, layer.kind), ("fc", LayerType::FullyConnected));
/// assert_eq!((layer.m, layer.cin_g, layer.cout_g), (8, 64, 10));
/// # Ok::<(), dyno_onnx::BuildError>(())
/// ```
pub fn products(model: &Model, bindings: &BTreeMap<String, usize>) -> Products {
    let model = &*outline_in_floats(model);
    let mut reader = Reader {
        facts: infer(model, &all_bindings(model, bindings)).facts,
        constants: Constants::new(model),
        names: BTreeSet::new(),
        unread: HashMap::new(),
        products: Products::default(),
    };
    model.nodes.iter().enumerate().for_each(|(at, node)| reader.node(at, node));
    reader.products
}

/// Endings of weights' names that layers' names lack.
const ENDINGS: [&str; 6] = [".weight", "_weight", ".W", "_W", "_w", ".kernel"];

/// Returns the unique name of a layer: that of its weight without an ending such as `.weight`, of its
/// node, or of its operator. `names` has the names in use, and receives the new one.
///
/// ```
/// use dyno_onnx::products::name_of;
/// use dyno_onnx::Node;
/// use std::collections::BTreeSet;
///
/// let node = Node {
///     name: String::new(),
///     op: "Conv".into(),
///     domain: String::new(),
///     inputs: vec!["x".into(), "stem.weight".into()],
///     outputs: vec!["y".into()],
///     attributes: Vec::new(),
/// };
/// let mut names = BTreeSet::new();
/// assert_eq!(name_of(&node, "stem.weight", &mut names), "stem");
/// assert_eq!(name_of(&node, "w", &mut names), "Conv");
/// assert_eq!(name_of(&node, "w", &mut names), "Conv_2");
/// ```
#[must_use]
pub fn name_of(node: &Node, weight: &str, names: &mut BTreeSet<String>) -> String {
    let node_name = Some(node.name.as_str()).filter(|name| !name.is_empty());
    unique_name(stem(weight).or(node_name).unwrap_or(&node.op), names)
}

/// Returns a weight's name without its ending, or `None` if it has no known ending.
///
/// ```
/// use dyno_onnx::products::stem;
///
/// assert_eq!(stem("conv1.weight"), Some("conv1"));
/// assert_eq!(stem("conv1"), None);
/// ```
pub fn stem(weight: &str) -> Option<&str> {
    ENDINGS.iter().find_map(|end| weight.strip_suffix(*end))
}

/// Returns a unique name of at least one character, without white space, that does not begin like a
/// comment (`#` or `//`). `names` has the names in use, and receives the new one.
///
/// ```
/// use dyno_onnx::products::unique_name;
/// use std::collections::BTreeSet;
///
/// let mut names = BTreeSet::new();
/// assert_eq!(unique_name("my layer", &mut names), "my_layer");
/// assert_eq!(unique_name("my layer", &mut names), "my_layer_1");
/// assert_eq!(unique_name("//fc", &mut names), "_//fc");
/// names.insert("my_layer_4".into());
/// assert_eq!(unique_name("my layer", &mut names), "my_layer_5");
/// ```
#[must_use]
pub fn unique_name(name: &str, names: &mut BTreeSet<String>) -> String {
    let mut name = name.replace(char::is_whitespace, "_");
    if name.is_empty() || name.starts_with('#') || name.starts_with("//") {
        name.insert(0, '_');
    }
    let numbered = (names.len()..).map(|count| format!("{name}_{count}"));
    let mut all = std::iter::once(name.clone()).chain(numbered);
    let unique = all.find(|name| !names.contains(name)).expect("the numbers do not end");
    names.insert(unique.clone());
    unique
}

const UNKNOWN_SIZES: &str = "has sizes that depend on data";
const TOO_LARGE: &str = "has sizes that exceed 64 bits";

struct Reader<'a> {
    facts: HashMap<String, Fact>,
    constants: Constants<'a>,
    /// Names of the products.
    names: BTreeSet<String>,
    /// Values that no product has read, directly or through other nodes.
    unread: HashMap<&'a str, ValueSource<'a>>,
    products: Products,
}

/// Source of a value.
#[derive(Clone, Copy)]
enum ValueSource<'a> {
    /// Index of a product.
    Product(usize),
    /// A node that is no product.
    Node(&'a Node),
}

/// Sizes of a product.
#[derive(Clone, Copy)]
struct Sizes {
    kind: LayerType,
    groups: u64,
    m: u64,
    cin_g: u64,
    rs: u64,
    cout_g: u64,
    /// Number of weights that are read.
    weights: u64,
    /// Index of the node's input that holds the weights.
    weight_input: usize,
}

/// Sizes of a product, or the reason why they cannot be computed.
type SizesResult = Result<Sizes, String>;

/// Returns the product of sizes, or `None` if it exceeds 64 bits.
fn checked_product<'s>(sizes: impl IntoIterator<Item = &'s u64>) -> Option<u64> {
    sizes.into_iter().try_fold(1_u64, |product, size| product.checked_mul(*size))
}

impl<'a> Reader<'a> {
    /// Adds the product of the node at index `at`, if it has one.
    fn node(&mut self, at: usize, node: &'a Node) {
        let sizes = match node.op.as_str() {
            "Conv" => Some(self.convolution(node)),
            "Gemm" | "MatMul" => Some(self.product(node)),
            "Gather" if self.is_constant(node, 0) && !self.is_constant(node, 1) => {
                self.gather(node).map(Ok)
            }
            "LSTM" | "GRU" | "RNN" | "ConvTranspose" | "Einsum" | "Attention" | "ConvInteger"
            | "MatMulInteger" | "QLinearConv" | "QLinearMatMul" | "DeformConv" | "Loop"
            | "Scan" | "If" => Some(Err("is not supported in layer tables".to_owned())),
            // What an operator of another domain does with a matrix of weights is not known here.
            _ if !["", "ai.onnx"].contains(&node.domain.as_str()) && self.has_matrix(node) => {
                Some(Err(format!("of domain {} is not supported in layer tables", node.domain)))
            }
            _ => None,
        };
        let row = sizes.map(|sizes| sizes.and_then(|sizes| self.row(at, node, sizes)));
        let source = match row {
            Some(Ok(row)) => {
                self.products.rows.push(row);
                ValueSource::Product(self.products.rows.len() - 1)
            }
            Some(Err(reason)) => {
                let name =
                    [&node.name].into_iter().chain(&node.outputs).find(|name| !name.is_empty());
                let name = name.map_or("", String::as_str);
                self.products.left_out.push(format!("{} {name} {reason}", node.op));
                return;
            }
            None => ValueSource::Node(node),
        };
        let outputs = node.outputs.iter().filter(|name| !name.is_empty());
        self.unread.extend(outputs.map(|name| (name.as_str(), source)));
    }

    /// Returns the indices of the products that these values come from and that no product has read. They
    /// count as read from now on, so that each value is visited once.
    fn read_origins(&mut self, names: &[&'a String]) -> Vec<usize> {
        let mut found = Vec::new();
        let mut left: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        while let Some(name) = left.pop() {
            match self.unread.remove(name) {
                Some(ValueSource::Product(origin)) => found.push(origin),
                // Sizes do not depend on the numbers.
                Some(ValueSource::Node(node)) if ["Shape", "Size"].contains(&node.op.as_str()) => {}
                Some(ValueSource::Node(node)) => {
                    left.extend(node.inputs.iter().map(String::as_str));
                }
                None => {}
            }
        }
        found.sort_unstable();
        found
    }

    fn is_constant(&self, node: &Node, at: usize) -> bool {
        node.inputs.get(at).is_some_and(|name| self.constants.contains(name))
    }

    /// Returns whether an input of the node is a constant of at least two dimensions.
    fn has_matrix(&self, node: &Node) -> bool {
        let is_matrix = |at: usize| {
            self.is_constant(node, at)
                && self.facts.get(&node.inputs[at]).is_some_and(|fact| fact.shape.len() > 1)
        };
        (0..node.inputs.len()).any(is_matrix)
    }

    /// Returns the dimensions of a value, if all are known.
    fn shape(&self, name: Option<&String>) -> Option<Vec<u64>> {
        let fact = self.facts.get(name?)?;
        fact.shape.iter().map(|dim| dim.fixed().map(|n| n as u64)).collect()
    }

    /// Returns the number of elements of a value, or 0 if it is unknown.
    fn count(&self, name: Option<&String>) -> u64 {
        self.shape(name).and_then(|shape| checked_product(&shape)).unwrap_or(0)
    }

    fn convolution(&self, node: &Node) -> SizesResult {
        let (Some(weights), Some(output)) =
            (self.shape(node.inputs.get(1)), self.shape(node.outputs.first()))
        else {
            return Err(UNKNOWN_SIZES.into());
        };
        let groups = u64::try_from(node.int("group", 1)).unwrap_or(1).max(1);
        let [cout, cin_g, ref kernel @ ..] = weights[..] else {
            return Err("has weights with fewer than two dimensions".into());
        };
        let kind = match (groups, cin_g) {
            (1, _) => LayerType::Convolution,
            (_, 1) => LayerType::Depthwise,
            _ => LayerType::Grouped,
        };
        // Positions are all dimensions except the channels.
        let positions = output.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, n)| n);
        let (m, rs, count) =
            (checked_product(positions), checked_product(kernel), checked_product(&weights));
        let (Some(m), Some(rs), Some(count)) = (m, rs, count) else {
            return Err(TOO_LARGE.into());
        };
        let cout_g = cout / groups;
        Ok(Sizes { kind, groups, m, cin_g, rs, cout_g, weights: count, weight_input: 1 })
    }

    /// Returns the sizes of a product of two matrices, or of batches of matrices.
    fn product(&self, node: &Node) -> SizesResult {
        let (Some(a), Some(b), Some(output)) = (
            self.shape(node.inputs.first()),
            self.shape(node.inputs.get(1)),
            self.shape(node.outputs.first()),
        ) else {
            return Err(UNKNOWN_SIZES.into());
        };
        let constant = [1, 0].into_iter().find(|at| self.is_constant(node, *at));
        let is_transposed = node.op == "Gemm" && node.int("transA", 0) != 0;
        let inner = if is_transposed { a.first() } else { a.last() };
        let (Some(inner), [rest @ .., cout]) = (inner.copied(), &output[..]) else {
            return Err("is not a product of matrices".into());
        };
        let row = rest.last().copied().unwrap_or(1);
        // Weights of two dimensions or more have a matrix for each group. A vector has one output.
        let (kind, stack, cout, weights) = match constant {
            Some(at) => {
                let weights = if at == 1 { &b } else { &a };
                // The product of weights and a vector on their right has no columns.
                let channels = if at == 1 || b.len() < 2 { *cout } else { row };
                let stack = &weights[..weights.len().saturating_sub(2)];
                let channels = if weights.len() < 2 { 1 } else { channels };
                (LayerType::FullyConnected, stack, channels, checked_product(weights))
            }
            // Each matrix of a batch is a group.
            None => {
                let stack = &rest[..rest.len().saturating_sub(1)];
                (LayerType::Activations, stack, *cout, Some(0))
            }
        };
        let (Some(groups), Some(outputs), Some(weights)) =
            (checked_product(stack), checked_product(&output), weights)
        else {
            return Err(TOO_LARGE.into());
        };
        let m = outputs / groups.saturating_mul(cout).max(1);
        let weight_input = constant.unwrap_or(1);
        Ok(Sizes { kind, groups, m, cin_g: inner, rs: 1, cout_g: cout, weights, weight_input })
    }

    fn gather(&self, node: &Node) -> Option<Sizes> {
        let m = self.count(node.inputs.get(1));
        // A table of one dimension, such as the sizes of a shape, holds no weights.
        let has_weights = self.shape(node.inputs.first()).is_some_and(|shape| shape.len() > 1);
        has_weights.then(|| Sizes {
            kind: LayerType::Gather,
            groups: 1,
            m,
            cin_g: 0,
            rs: 1,
            cout_g: 0,
            weights: self.count(node.outputs.first()),
            weight_input: 0,
        })
    }

    fn row(&mut self, at: usize, node: &'a Node, sizes: Sizes) -> Result<Product, String> {
        let Sizes { kind, groups, m, cin_g, rs, cout_g, weights, weight_input } = sizes;
        let macs = checked_product(&[groups, m, cin_g, rs, cout_g]).ok_or(TOO_LARGE)?;
        let weight = node.inputs.get(weight_input).map_or("", String::as_str);
        let name = name_of(node, weight, &mut self.names);
        let activations = node.inputs.iter().enumerate().filter(|(at, _)| match kind {
            LayerType::Gather => *at == 1,
            LayerType::Activations => *at < 2,
            _ => *at < 2 && *at != weight_input,
        });
        let activations: Vec<&'a String> = activations.map(|(_, name)| name).collect();
        let origins = self.read_origins(&activations);
        let sizes = activations.iter().map(|name| self.count(Some(name)));
        let inputs = sizes.fold(0, u64::saturating_add);
        let outputs = self.count(node.outputs.first());
        Ok(Product {
            name,
            node: at,
            kind,
            groups,
            m,
            cin_g,
            rs,
            cout_g,
            macs,
            weights,
            inputs,
            outputs,
            origins,
        })
    }
}
