//! Builder of models, node by node.
//!
//! The builder infers the shapes of a node's outputs when the node is added, and rejects a node
//! that does not take its inputs.

use std::collections::{BTreeMap, HashMap, HashSet};

use dyno_tensors::Element;
use thiserror::Error;

use crate::graph::{Attribute, Body, Model, Node, Port};
use crate::shape::{Dim, Fact, ShapeError, infer_node};
use crate::tensor::{Fill, Tensor, Values, seed_of};

/// Version of the standard operators in models that are built.
const OPSET_VERSION: i64 = 17;
/// Version of the file format of models that are built.
const IR_VERSION: i64 = 8;

/// Name of a value in a graph that is built.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name(String);

impl Name {
    /// Placeholder for an optional input that is absent.
    pub const NONE: Self = Self(String::new());

    /// Returns the name that nodes use.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Source of the weights of a model that is built.
///
/// ```
/// use dyno_onnx::{Builder, Fill, Tensor, Weights};
///
/// let tensors = [("w".to_owned(), Tensor::from_f32("w", &[2], &[0.5, -2.0]))];
/// let mut net = Builder::new("net", Weights::from_tensors(tensors.into()));
/// net.weight("w", &[2], Fill::Constant(0.0))?;
/// assert_eq!(net.finish().tensors[0].floats(), Some(vec![0.5, -2.0]));
///
/// let mut net = Builder::new("net", Weights::from_tensors([].into()));
/// let error = net.weight("w", &[2], Fill::Constant(0.0)).unwrap_err();
/// assert_eq!(error.to_string(), "the graph needs weight 'w', which is missing");
/// # Ok::<(), dyno_onnx::BuildError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Weights {
    seed: u64,
    /// Remaining tensors by name; `None` for generated weights.
    tensors: Option<BTreeMap<String, Tensor>>,
}

impl Weights {
    /// Returns a source that generates weights. The elements of a weight depend only on the seed and
    /// the name of the weight.
    pub fn seeded(seed: u64) -> Self {
        Self { seed, tensors: None }
    }

    /// Returns a source of these tensors, by name. A weight that is not among them is an error.
    pub fn from_tensors(tensors: BTreeMap<String, Tensor>) -> Self {
        Self { seed: 0, tensors: Some(tensors) }
    }
}

/// Why a graph cannot be built.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// An operator does not take these inputs.
    #[error("{node}: {reason}")]
    Shape {
        /// Name of the node.
        node: String,
        /// Error of the shape inference.
        reason: ShapeError,
    },
    /// The source has no weight of this name, or the graph has no such value.
    #[error("the graph needs weight '{0}', which is missing")]
    Missing(String),
    /// A weight of the source has another shape than the graph expects.
    #[error("weight '{name}' has shape {found:?}; the graph expects {expected:?}")]
    Weight {
        /// Name of the weight.
        name: String,
        /// Shape in the graph.
        expected: Vec<usize>,
        /// Shape of the source's tensor.
        found: Vec<usize>,
    },
    /// Two values have this name.
    #[error("two values have the name '{0}'")]
    DuplicateName(String),
}

/// A model, or the body of a node, that is under construction.
///
/// ```
/// use dyno_onnx::{Builder, Dim, Element, Weights};
///
/// let mut net = Builder::new("net", Weights::seeded(1));
/// let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
/// let y = net.node("Transpose", &[&x], &[("perm", [1, 0].into())])?;
/// assert_eq!(net.shape(&y), [4.into(), Dim::symbol("N")]);
/// net.output("y", &y)?;
/// assert_eq!(net.finish().outputs[0].name, "y");
/// # Ok::<(), dyno_onnx::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    model: Model,
    weights: Weights,
    /// Known facts by the names of values.
    facts: HashMap<String, Fact>,
    /// Names of the tensors.
    tensor_names: HashSet<String>,
    /// Number of constants that the builder has named.
    constants: usize,
    /// Prefix of the names of nodes and constants. It makes those of a body differ from those of the
    /// graph around it.
    prefix: String,
}

impl Builder {
    /// Returns an empty graph.
    pub fn new(name: &str, weights: Weights) -> Self {
        let model = Model {
            name: name.into(),
            producer: "dyno".into(),
            ir_version: IR_VERSION,
            operator_sets: vec![(String::new(), OPSET_VERSION)],
            inputs: Vec::new(),
            outputs: Vec::new(),
            value_info: Vec::new(),
            nodes: Vec::new(),
            tensors: Vec::new(),
        };
        Self {
            model,
            weights,
            facts: HashMap::new(),
            tensor_names: HashSet::new(),
            constants: 0,
            prefix: String::new(),
        }
    }

    /// Returns an empty graph for a node of this one, such as the body of a loop. It can read all
    /// values that exist so far. It has no source of weights.
    ///
    /// ```
    /// use dyno_onnx::{Attribute, Builder, Element, Weights};
    ///
    /// let mut net = Builder::new("net", Weights::seeded(1));
    /// let x = net.input("x", Element::F32, &[4.into()]);
    /// let is_negative = net.input("is_negative", Element::Bool, &[]);
    /// let branch = |net: &Builder, op: &str| {
    ///     let mut body = net.body(op);
    ///     let y = body.node(op, &[&x], &[])?;
    ///     body.output(&format!("{op}_y"), &y)?;
    ///     Ok::<_, dyno_onnx::BuildError>(Attribute::from(body.finish_body()))
    /// };
    /// let (negative, same) = (branch(&net, "Neg")?, branch(&net, "Identity")?);
    /// let branches = [("then_branch", negative), ("else_branch", same)];
    /// let y = net.node("If", &[&is_negative], &branches)?;
    /// assert_eq!(net.shape(&y), [4.into()]);
    /// # Ok::<(), dyno_onnx::BuildError>(())
    /// ```
    #[must_use]
    pub fn body(&self, name: &str) -> Self {
        let mut body = Self::new(name, Weights::from_tensors(BTreeMap::new()));
        body.facts.clone_from(&self.facts);
        body.prefix = format!("{}{name}_", self.prefix);
        body
    }

    /// Returns the graph as an attribute of a node holds it.
    #[must_use]
    pub fn finish_body(self) -> Body {
        let Model { name, inputs, outputs, value_info, nodes, tensors, .. } = self.model;
        Body { name, inputs, outputs, value_info, nodes, tensors }
    }

    /// Adds an input, and returns its name.
    pub fn input(&mut self, name: &str, element: Element, shape: &[Dim]) -> Name {
        self.facts.insert(name.into(), Fact::new(element, shape.to_vec()));
        let shape = Some(shape.to_vec());
        self.model.inputs.push(Port { name: name.into(), element: Some(element), shape });
        Name(name.into())
    }

    /// Adds a weight from the source of weights, and returns its name. `fill` is the distribution of a
    /// generated weight.
    ///
    /// # Errors
    /// The source does not have the weight or has it with another shape, or the name is in use.
    pub fn weight(&mut self, name: &str, shape: &[usize], fill: Fill) -> Result<Name, BuildError> {
        let tensor = match &mut self.weights.tensors {
            None => Tensor {
                name: name.into(),
                element: Element::F32,
                shape: shape.to_vec(),
                values: Values::Filled(fill, seed_of(name, self.weights.seed)),
            },
            Some(tensors) => {
                let found = tensors.remove(name);
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

    /// Adds a constant that does not come from the source of weights, and returns its name.
    ///
    /// # Errors
    /// [`BuildError::DuplicateName`].
    pub fn tensor(&mut self, tensor: Tensor) -> Result<Name, BuildError> {
        let name = tensor.name.clone();
        if !self.tensor_names.insert(name.clone()) || self.facts.contains_key(&name) {
            return Err(BuildError::DuplicateName(name));
        }
        self.facts.insert(name.clone(), Fact::from_tensor(&tensor));
        self.model.tensors.push(tensor);
        Ok(Name(name))
    }

    /// Adds integers as a constant of one dimension, such as a shape, and returns its name.
    pub fn integers(&mut self, values: &[i64]) -> Name {
        let tensor = Tensor::from_i64(self.new_constant_name(), &[values.len()], values);
        self.add_constant(tensor)
    }

    /// Adds numbers as a constant of one dimension, and returns its name.
    pub fn numbers(&mut self, values: &[f32]) -> Name {
        let tensor = Tensor::from_f32(self.new_constant_name(), &[values.len()], values);
        self.add_constant(tensor)
    }

    /// Adds a number as a constant without dimensions, and returns its name.
    pub fn number(&mut self, value: f32) -> Name {
        let tensor = Tensor::from_f32(self.new_constant_name(), &[], &[value]);
        self.add_constant(tensor)
    }

    fn new_constant_name(&mut self) -> String {
        self.constants += 1;
        format!("{}constant_{}", self.prefix, self.constants)
    }

    fn add_constant(&mut self, tensor: Tensor) -> Name {
        self.tensor(tensor).expect("the number in a constant's name is unique")
    }

    /// Adds a node with one output, and returns the name of the output.
    ///
    /// # Errors
    /// [`BuildError::Shape`] if the operator does not take these inputs.
    pub fn node(
        &mut self,
        op: &str,
        inputs: &[&Name],
        attributes: &[(&str, Attribute)],
    ) -> Result<Name, BuildError> {
        let [output] = self.nodes(op, inputs, attributes)?;
        Ok(output)
    }

    /// Adds a node with several outputs, and returns the names of the outputs.
    ///
    /// # Errors
    /// [`BuildError::Shape`] if the operator does not take these inputs.
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
        let found = infer_node(&node, &facts, &self.facts)
            .map_err(|reason| BuildError::Shape { node: name, reason })?;
        for (output, fact) in outputs.iter().zip(found) {
            self.facts.insert(output.clone(), fact);
        }
        self.model.nodes.push(node);
        Ok(outputs.map(Name))
    }

    /// Returns the shape of a value. The shape of [`Name::NONE`] is empty.
    pub fn shape(&self, value: &Name) -> &[Dim] {
        self.facts.get(&value.0).map_or(&[], |fact| &fact.shape)
    }

    /// Makes a value an output with a new name.
    ///
    /// # Errors
    /// [`BuildError::DuplicateName`], or [`BuildError::Missing`] if there is no such value.
    pub fn output(&mut self, name: &str, value: &Name) -> Result<(), BuildError> {
        let fact = self.facts.get(&value.0).cloned();
        let fact = fact.ok_or_else(|| BuildError::Missing(value.0.clone()))?;
        if self.facts.contains_key(name) {
            return Err(BuildError::DuplicateName(name.into()));
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

    /// Returns the model.
    #[must_use]
    pub fn finish(self) -> Model {
        self.model
    }
}
