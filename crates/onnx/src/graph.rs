//! Models as lists of nodes, and the parts of a node.

use std::collections::BTreeSet;
use std::path::Path;

use dyno_tensors::Element;

use crate::shape::Dim;
use crate::tensor::{Tensor, Values, code_of};

/// A model: a graph and its metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Name of the graph.
    pub name: String,
    /// Program that wrote the file.
    pub producer: String,
    /// Version of the file format (`ir_version`).
    pub ir_version: i64,
    /// Domains of operators, with their versions. The standard domain is empty.
    pub operator_sets: Vec<(String, i64)>,
    /// Inputs, without the initializers that old files also list as inputs.
    pub inputs: Vec<Port>,
    /// Outputs.
    pub outputs: Vec<Port>,
    /// Types and shapes that the file declares for intermediate values.
    pub value_info: Vec<Port>,
    /// Nodes in an order in which they can be executed.
    pub nodes: Vec<Node>,
    /// Weights and other constants.
    pub tensors: Vec<Tensor>,
}

/// A value with its declared type and shape, such as an input of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// Name of the value.
    pub name: String,
    /// Type of the elements; `None` if the file declares none, or one that [`Element`] lacks.
    pub element: Option<Element>,
    /// Dimensions; `None` if the file declares none.
    pub shape: Option<Vec<Dim>>,
}

/// A node of a graph: an operator with its inputs, outputs and attributes.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Name of the node; may be empty.
    pub name: String,
    /// Name of the operator.
    pub op: String,
    /// Domain of the operator; the standard domain is empty.
    pub domain: String,
    /// Names of the input values; empty for an optional input that is absent.
    pub inputs: Vec<String>,
    /// Names of the output values; empty for an output that is not used.
    pub outputs: Vec<String>,
    /// Attributes with their names.
    pub attributes: Vec<(String, Attribute)>,
}

/// Value of a node's attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f32),
    /// A string.
    Text(String),
    /// Integers.
    Ints(Vec<i64>),
    /// Floating-point numbers.
    Floats(Vec<f32>),
    /// Strings.
    Texts(Vec<String>),
    /// A tensor.
    Tensor(Tensor),
    /// The body of a loop, or a branch.
    Body(Box<Body>),
    /// A value of any other kind, such as a list of graphs. The reader drops it.
    Other,
}

/// A graph inside a node. Its nodes read values of the graphs around it by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Body {
    /// Name of the graph.
    pub name: String,
    /// Values that the node passes to the graph.
    pub inputs: Vec<Port>,
    /// Values that the graph returns to the node.
    pub outputs: Vec<Port>,
    /// Types and shapes that the file declares for intermediate values.
    pub value_info: Vec<Port>,
    /// Nodes in an order in which they can be executed.
    pub nodes: Vec<Node>,
    /// Weights and other constants.
    pub tensors: Vec<Tensor>,
}

impl Model {
    /// Returns the files next to the model that hold its external tensors, sorted, each once.
    ///
    /// ```
    /// use dyno_onnx::{Builder, Tensor, Values, Weights};
    /// use std::path::Path;
    ///
    /// let mut net = Builder::new("net", Weights::seeded(1));
    /// let values = Values::External { path: "net.onnx.data".into(), offset: 0, length: 4 };
    /// net.tensor(Tensor { values, ..Tensor::from_f32("w", &[1], &[]) })?;
    /// let model = net.finish();
    /// assert!(model.external_files().into_iter().eq([Path::new("net.onnx.data")]));
    /// # Ok::<(), dyno_onnx::BuildError>(())
    /// ```
    pub fn external_files(&self) -> BTreeSet<&Path> {
        let mut files = BTreeSet::new();
        collect_files(&self.tensors, &self.nodes, &mut files);
        files
    }
}

impl Model {
    /// Removes nodes whose outputs nothing reads, and then such tensors.
    pub fn remove_unused(&mut self) {
        let mut used: BTreeSet<String> =
            self.outputs.iter().map(|port| port.name.clone()).collect();
        let mut nodes = std::mem::take(&mut self.nodes);
        nodes.reverse();
        nodes.retain(|node| {
            let is_used = node.outputs.iter().any(|output| used.contains(output));
            if is_used {
                collect_reads(&node.inputs, node, &mut used);
            }
            is_used
        });
        nodes.reverse();
        self.nodes = nodes;
        self.tensors.retain(|tensor| used.contains(&tensor.name));
    }
}

/// Collects the values that a node and the graphs inside it read.
fn collect_reads(inputs: &[String], node: &Node, used: &mut BTreeSet<String>) {
    used.extend(inputs.iter().cloned());
    for (_, body) in node.bodies() {
        used.extend(body.outputs.iter().map(|port| port.name.clone()));
        body.nodes.iter().for_each(|inner| collect_reads(&inner.inputs, inner, used));
    }
}

/// Collects the external files of tensors, of attributes of nodes, and of the graphs inside nodes.
fn collect_files<'a>(tensors: &'a [Tensor], nodes: &'a [Node], files: &mut BTreeSet<&'a Path>) {
    let attributes = nodes.iter().flat_map(|node| &node.attributes);
    let constants = attributes.filter_map(|(_, value)| match value {
        Attribute::Tensor(tensor) => Some(tensor),
        _ => None,
    });
    files.extend(tensors.iter().chain(constants).filter_map(|tensor| match &tensor.values {
        Values::External { path, .. } => Some(path.as_path()),
        _ => None,
    }));
    for (_, body) in nodes.iter().flat_map(Node::bodies) {
        collect_files(&body.tensors, &body.nodes, files);
    }
}

impl Node {
    /// Returns the graphs inside the node, each with the name of its attribute.
    pub fn bodies(&self) -> impl Iterator<Item = (&str, &Body)> {
        self.attributes.iter().filter_map(|(name, value)| match value {
            Attribute::Body(body) => Some((name.as_str(), &**body)),
            _ => None,
        })
    }

    /// Returns an integer attribute, or `default` if the node has none of that name.
    pub fn int(&self, name: &str, default: i64) -> i64 {
        match self.attribute(name) {
            Some(Attribute::Int(value)) => *value,
            _ => default,
        }
    }

    /// Returns an attribute that is a list of integers.
    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attribute(name) {
            Some(Attribute::Ints(values)) => Some(values),
            _ => None,
        }
    }

    /// Returns a string attribute, or the empty string if the node has none of that name.
    pub fn text(&self, name: &str) -> &str {
        match self.attribute(name) {
            Some(Attribute::Text(text)) => text,
            _ => "",
        }
    }

    /// Returns an attribute by its name.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

macro_rules! from {
    ($($type:ty => $variant:ident),*) => {
        $(impl From<$type> for Attribute {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}
impl From<Element> for Attribute {
    /// Returns the number of a type in `TensorProto.DataType`, which `Cast` takes.
    fn from(element: Element) -> Self {
        Self::Int(code_of(element).into())
    }
}

impl From<Body> for Attribute {
    fn from(body: Body) -> Self {
        Self::Body(Box::new(body))
    }
}

from!(i64 => Int, f32 => Float, &str => Text, Vec<i64> => Ints, &[i64] => Ints, Tensor => Tensor);

impl<const N: usize> From<[i64; N]> for Attribute {
    fn from(values: [i64; N]) -> Self {
        Self::Ints(values.into())
    }
}
