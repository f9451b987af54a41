//! A model as a list of nodes.

use std::collections::BTreeSet;
use std::path::Path;

use dyno_tensors::Element;

use crate::shape::Dim;
use crate::tensor::{Tensor, Values, code_of};

/// A model.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Of the graph.
    pub name: String,
    /// Who wrote it.
    pub producer: String,
    /// Version of the file format.
    pub ir_version: i64,
    /// Sets of operators, with their versions; the standard one has no name.
    pub operator_sets: Vec<(String, i64)>,
    /// What is fed; without the tensors that files of old list here as well.
    pub inputs: Vec<Port>,
    /// What comes out.
    pub outputs: Vec<Port>,
    /// What a file says of values in between.
    pub between: Vec<Port>,
    /// In an order in which they can be executed.
    pub nodes: Vec<Node>,
    /// Weights and other constants.
    pub tensors: Vec<Tensor>,
}

/// An input or output.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// What nodes call it.
    pub name: String,
    /// Of its elements; `None` is one that tensors here cannot have.
    pub element: Option<Element>,
    /// `None` is unknown.
    pub shape: Option<Vec<Dim>>,
}

/// An operator at work.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// May be empty.
    pub name: String,
    /// The operator.
    pub op: String,
    /// The operator's set; empty is the standard one.
    pub domain: String,
    /// Empty are those left out.
    pub inputs: Vec<String>,
    /// Empty are those left out.
    pub outputs: Vec<String>,
    /// By name.
    pub attributes: Vec<(String, Attribute)>,
}

/// A choice of a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f32),
    /// A word.
    Text(String),
    /// Whole numbers.
    Ints(Vec<i64>),
    /// Numbers.
    Floats(Vec<f32>),
    /// Words.
    Texts(Vec<String>),
    /// A tensor.
    Tensor(Tensor),
    /// The body of a loop, or a branch.
    Body(Box<Body>),
    /// Anything else, such as several bodies or a sparse tensor; it is not kept.
    Other,
}

/// A graph inside a node. Its nodes read values of the graphs around it by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Body {
    /// Of the graph.
    pub name: String,
    /// What the node hands in.
    pub inputs: Vec<Port>,
    /// What the node gets back.
    pub outputs: Vec<Port>,
    /// What a file says of values in between.
    pub between: Vec<Port>,
    /// In an order in which they can be executed.
    pub nodes: Vec<Node>,
    /// Weights and other constants.
    pub tensors: Vec<Tensor>,
}

impl Model {
    /// Files beside the model's that hold tensors of it, each once, in the order of their
    /// names.
    #[must_use]
    pub fn files(&self) -> BTreeSet<&Path> {
        let mut files = BTreeSet::new();
        gather(&self.tensors, &self.nodes, &mut files);
        files
    }
}

fn gather<'a>(tensors: &'a [Tensor], nodes: &'a [Node], files: &mut BTreeSet<&'a Path>) {
    let held = nodes.iter().flat_map(|node| &node.attributes).filter_map(|(_, of)| match of {
        Attribute::Tensor(tensor) => Some(tensor),
        _ => None,
    });
    files.extend(tensors.iter().chain(held).filter_map(|tensor| match &tensor.values {
        Values::External { path, .. } => Some(path.as_path()),
        _ => None,
    }));
    for (_, body) in nodes.iter().flat_map(Node::bodies) {
        gather(&body.tensors, &body.nodes, files);
    }
}

impl Node {
    /// Graphs that the node holds, with the names of the attributes that they are.
    pub fn bodies(&self) -> impl Iterator<Item = (&str, &Body)> {
        self.attributes.iter().filter_map(|(name, value)| match value {
            Attribute::Body(body) => Some((name.as_str(), &**body)),
            _ => None,
        })
    }

    /// A whole number, or `default` where it is not said.
    #[must_use]
    pub fn int(&self, name: &str, default: i64) -> i64 {
        match self.attribute(name) {
            Some(Attribute::Int(value)) => *value,
            _ => default,
        }
    }

    /// Whole numbers, if they are said.
    #[must_use]
    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attribute(name) {
            Some(Attribute::Ints(values)) => Some(values),
            _ => None,
        }
    }

    /// A word, or the empty one.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        match self.attribute(name) {
            Some(Attribute::Text(text)) => text,
            _ => "",
        }
    }

    /// An attribute by its name.
    #[must_use]
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
    /// Returns the number of a type, as `Cast` takes it.
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
