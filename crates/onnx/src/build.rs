//! Building a model node by node. The shape of every value is known as soon as
//! its node is there, and a node that fits nothing is an error at once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use dyno_tensors::Element;

use crate::graph::{Attribute, Body, Model, Node, Port};
use crate::shape::{Dim, Fact, ShapeError, of_node};
use crate::tensor::{Fill, Tensor, Values, seed_of};

/// The standard operators that graphs here are made of.
const OPERATORS: i64 = 17;
const IR_VERSION: i64 = 8;

/// A value of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name(String);

impl Name {
    /// A value left out, where an operator may do without.
    pub const NONE: Self = Self(String::new());

    /// What nodes call it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where weights come from.
#[derive(Debug, Clone)]
pub struct Weights {
    seed: u64,
    given: Option<BTreeMap<String, Tensor>>,
}

impl Weights {
    /// Random ones: the same seed and name give the same tensor.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { seed, given: None }
    }

    /// These, by name. One that is missing is an error.
    #[must_use]
    pub fn given(tensors: BTreeMap<String, Tensor>) -> Self {
        Self { seed: 0, given: Some(tensors) }
    }
}

/// Why a graph cannot be built.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum BuildError {
    /// An operator does not take these inputs.
    Shape {
        /// The node.
        node: String,
        /// What is wrong.
        why: ShapeError,
    },
    /// No weight of that name was given.
    Missing(String),
    /// A weight that was given has another shape.
    Weight {
        /// Which.
        name: String,
        /// The graph's.
        expected: Vec<usize>,
        /// The one given.
        found: Vec<usize>,
    },
    /// A name is taken.
    Twice(String),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape { node, why } => write!(f, "{node}: {why}"),
            Self::Missing(name) => write!(f, "the graph needs weight '{name}', which is not given"),
            Self::Weight { name, expected, found } => {
                write!(f, "weight '{name}' has shape {found:?}; the graph takes {expected:?}")
            }
            Self::Twice(name) => write!(f, "there are two values '{name}'"),
        }
    }
}

impl std::error::Error for BuildError {}

/// A graph being built.
#[derive(Debug)]
pub struct Builder {
    model: Model,
    weights: Weights,
    facts: HashMap<String, Fact>,
    /// Weights that were asked for.
    taken: HashSet<String>,
    constants: usize,
    /// Before the names of nodes and constants; those of a body differ from those
    /// around it.
    prefix: String,
}

impl Builder {
    /// An empty graph.
    #[must_use]
    pub fn new(name: &str, weights: Weights) -> Self {
        let model = Model {
            name: name.into(),
            producer: "dyno".into(),
            ir_version: IR_VERSION,
            operator_sets: vec![(String::new(), OPERATORS)],
            inputs: Vec::new(),
            outputs: Vec::new(),
            between: Vec::new(),
            nodes: Vec::new(),
            tensors: Vec::new(),
        };
        let (facts, taken) = (HashMap::new(), HashSet::new());
        Self { model, weights, facts, taken, constants: 0, prefix: String::new() }
    }

    /// An empty graph for a node of this one, such as the body of a loop. It may read
    /// all values that there are so far, and has no weights of its own.
    #[must_use]
    pub fn body(&self, name: &str) -> Self {
        let mut body = Self::new(name, Weights::given(BTreeMap::new()));
        body.facts.clone_from(&self.facts);
        body.prefix = format!("{}{name}_", self.prefix);
        body
    }

    /// The graph as a node takes it.
    #[must_use]
    pub fn finish_body(self) -> Body {
        let Model { name, inputs, outputs, between, nodes, tensors, .. } = self.model;
        Body { name, inputs, outputs, between, nodes, tensors }
    }

    /// Adds an input.
    pub fn input(&mut self, name: &str, element: Element, shape: &[Dim]) -> Name {
        self.facts.insert(name.into(), Fact::new(element, shape.to_vec()));
        let shape = Some(shape.to_vec());
        self.model.inputs.push(Port { name: name.into(), element: Some(element), shape });
        Name(name.into())
    }

    /// A weight: the one given under that name, or a seeded one.
    ///
    /// # Errors
    /// It is not given, has another shape, or is there already.
    pub fn weight(&mut self, name: &str, shape: &[usize], fill: Fill) -> Result<Name, BuildError> {
        let tensor = match &mut self.weights.given {
            None => Tensor {
                name: name.into(),
                element: Element::F32,
                shape: shape.to_vec(),
                values: Values::Filled(fill, seed_of(name, self.weights.seed)),
            },
            Some(given) => {
                let found = given.remove(name);
                let mut tensor = found.ok_or_else(|| BuildError::Missing(name.into()))?;
                if tensor.shape != shape {
                    let (expected, found) = (shape.to_vec(), tensor.shape);
                    return Err(BuildError::Weight { name: name.into(), expected, found });
                }
                name.clone_into(&mut tensor.name);
                tensor
            }
        };
        self.tensor(tensor)
    }

    /// Names of given weights that the graph has not asked for.
    pub fn unused(&self) -> impl Iterator<Item = &str> {
        self.weights.given.iter().flat_map(BTreeMap::keys).map(String::as_str)
    }

    /// A constant that is no weight.
    ///
    /// # Errors
    /// Its name is taken.
    pub fn tensor(&mut self, tensor: Tensor) -> Result<Name, BuildError> {
        let name = tensor.name.clone();
        if !self.taken.insert(name.clone()) || self.facts.contains_key(&name) {
            return Err(BuildError::Twice(name));
        }
        self.facts.insert(name.clone(), Fact::of(&tensor));
        self.model.tensors.push(tensor);
        Ok(Name(name))
    }

    /// Whole numbers as a constant of one dimension, such as a shape.
    pub fn integers(&mut self, values: &[i64]) -> Name {
        let tensor = Tensor::of_i64(self.constant(), &[values.len()], values);
        self.add(tensor)
    }

    /// Numbers as a constant of one dimension.
    pub fn numbers(&mut self, values: &[f32]) -> Name {
        let tensor = Tensor::of_f32(self.constant(), &[values.len()], values);
        self.add(tensor)
    }

    /// A number as a constant without dimensions.
    pub fn number(&mut self, value: f32) -> Name {
        let tensor = Tensor::of_f32(self.constant(), &[], &[value]);
        self.add(tensor)
    }

    fn constant(&mut self) -> String {
        self.constants += 1;
        format!("{}constant_{}", self.prefix, self.constants)
    }

    fn add(&mut self, tensor: Tensor) -> Name {
        self.tensor(tensor).expect("names of constants are counted")
    }

    /// Adds a node with one output.
    ///
    /// # Errors
    /// The operator does not take these inputs.
    pub fn node(
        &mut self,
        op: &str,
        inputs: &[&Name],
        attributes: &[(&str, Attribute)],
    ) -> Result<Name, BuildError> {
        let [output] = self.nodes(op, inputs, attributes)?;
        Ok(output)
    }

    /// Adds a node with several outputs.
    ///
    /// # Errors
    /// As [`Builder::node`].
    pub fn nodes<const N: usize>(
        &mut self,
        op: &str,
        inputs: &[&Name],
        attributes: &[(&str, Attribute)],
    ) -> Result<[Name; N], BuildError> {
        let name = format!("{}{op}_{}", self.prefix, self.model.nodes.len());
        let output = |i| if N == 1 { name.clone() } else { format!("{name}_{i}") };
        let outputs: [String; N] = std::array::from_fn(output);
        let node = Node {
            name: name.clone(),
            op: op.into(),
            domain: String::new(),
            inputs: inputs.iter().map(|input| input.0.clone()).collect(),
            outputs: outputs.to_vec(),
            attributes: attributes.iter().map(|(k, v)| ((*k).into(), v.clone())).collect(),
        };
        let facts: Vec<_> = inputs.iter().map(|input| self.facts.get(&input.0)).collect();
        let found = of_node(&node, &facts, &self.facts)
            .map_err(|why| BuildError::Shape { node: name, why })?;
        for (output, fact) in outputs.iter().zip(found) {
            self.facts.insert(output.clone(), fact);
        }
        self.model.nodes.push(node);
        Ok(outputs.map(Name))
    }

    /// Shape of a value; that of an absent one is empty.
    #[must_use]
    pub fn shape(&self, value: &Name) -> &[Dim] {
        self.facts.get(&value.0).map_or(&[], |fact| &fact.shape)
    }

    /// Makes a value an output under a name of its own.
    ///
    /// # Errors
    /// The name is taken.
    pub fn output(&mut self, name: &str, value: &Name) -> Result<(), BuildError> {
        let fact = self.facts.get(&value.0).cloned();
        let fact = fact.ok_or_else(|| BuildError::Missing(value.0.clone()))?;
        if self.facts.contains_key(name) {
            return Err(BuildError::Twice(name.into()));
        }
        self.model.nodes.push(Node {
            name: format!("output_{name}"),
            op: "Identity".into(),
            domain: String::new(),
            inputs: vec![value.0.clone()],
            outputs: vec![name.into()],
            attributes: Vec::new(),
        });
        let (element, shape) = (Some(fact.element), Some(fact.shape.clone()));
        self.model.outputs.push(Port { name: name.into(), element, shape });
        self.facts.insert(name.into(), fact);
        Ok(())
    }

    /// The model.
    #[must_use]
    pub fn finish(self) -> Model {
        self.model
    }
}
