//! Models as read from a file: graphs of nodes with decoded tensors.

mod order;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use prost::Message;

use crate::element::Element;
use crate::evaluate::{self, Evaluation};
use crate::fault::{Fault, OracleError, fault};
use crate::function::{self, Context, standard_domain};
use crate::proto::{AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto};
use crate::stored;
use crate::tensor::Tensor;

/// Multiplications of a run unless the caller sets a limit: a few minutes.
const DEFAULT_LIMIT: u64 = 20_000_000_000;

/// Size of one dimension of an input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dimension {
    /// A number.
    Fixed(usize),
    /// A name for a number that the caller chooses.
    Named(String),
    /// Not stated.
    Unknown,
}

/// An input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Name.
    pub name: String,
    /// Type of the elements; `None` where the model does not state it.
    pub element: Option<Element>,
    /// Shape; `None` where the model does not state the rank.
    pub shape: Option<Vec<Dimension>>,
}

/// A model that can be computed.
#[derive(Debug)]
pub struct Model {
    graph: Graph,
    limit: u64,
}

#[derive(Debug)]
pub(crate) struct Graph {
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
    pub constants: Vec<(String, Arc<Tensor>)>,
    pub nodes: Vec<Node>,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub name: String,
    /// Operator; operators of other domains have the domain and a dot before.
    pub operator: String,
    pub domain: String,
    /// Version of the operators of the domain.
    pub opset: Option<i64>,
    /// Version of the operators of the standard.
    pub standard: Option<i64>,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    pub attributes: BTreeMap<String, Attribute>,
    /// Graph of the function that the node calls.
    pub body: Option<Graph>,
}

#[derive(Debug)]
pub(crate) enum Attribute {
    Float(f64),
    Integer(i64),
    Text(String),
    Tensor(Arc<Tensor>),
    Graph(Graph),
    Floats(Vec<f64>),
    Integers(Vec<i64>),
    Texts(Vec<String>),
}

impl Model {
    /// Reads a model and its external data, which must be regular files inside the model's folder.
    ///
    /// # Errors
    /// A file cannot be read, the bytes are no model, or the model has parts that are not supported.
    pub fn read(path: &Path) -> Result<Model, OracleError> {
        let bytes =
            fs::read(path).map_err(|source| OracleError::File { path: path.into(), source })?;
        let folder = path
            .parent()
            .map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
        Model::parse(&bytes, folder)
    }

    /// Reads a model of bytes, without external data.
    ///
    /// # Errors
    /// As [`Model::read`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Model, OracleError> {
        Model::parse(bytes, None)
    }

    fn parse(bytes: &[u8], folder: Option<&Path>) -> Result<Model, OracleError> {
        let malformed = |reason: &str| OracleError::Malformed(reason.to_owned());
        let proto = ModelProto::decode(bytes).map_err(|error| malformed(&error.to_string()))?;
        let Some(graph) = &proto.graph else { return Err(malformed("it has no graph")) };
        let left = function::bytes_of_calls();
        let context = Context::new(folder, &proto.functions, &proto.opset_import, &left)?;
        match context.opset("") {
            None if graph.node.iter().any(|node| standard_domain(&node.domain).is_empty()) => {
                return Err(malformed("it imports no opset of the standard"));
            }
            Some(opset) => function::check_opset(opset)?,
            None => {}
        }
        let graph = Graph::parse(graph, context)?;
        Ok(Model { graph, limit: DEFAULT_LIMIT })
    }

    /// Sets the most multiplications, and elements moved, that a run may take. Without it the limit is
    /// 20 billion.
    #[must_use]
    pub fn with_limit(mut self, multiplications: u64) -> Model {
        self.limit = multiplications;
        self
    }

    /// Returns the inputs that the caller must give: those without a default value.
    pub fn inputs(&self) -> impl Iterator<Item = &Port> {
        self.graph.inputs.iter().filter(|port| self.graph.constant(&port.name).is_none())
    }

    /// Returns the outputs in the order of [`Model::run`].
    pub fn outputs(&self) -> &[Port] {
        &self.graph.outputs
    }

    /// Computes all outputs, with their names.
    ///
    /// # Errors
    /// An input is missing, unknown, or of another type or shape than the model states; a node cannot
    /// be computed; or the run exceeds the limit.
    pub fn run(&self, inputs: &[(&str, Tensor)]) -> Result<Vec<(String, Tensor)>, OracleError> {
        Ok(self.evaluate(inputs)?.outputs)
    }

    /// Computes all outputs as [`Model::run`] does, and whether a number exceeds its type.
    ///
    /// # Errors
    /// As [`Model::run`].
    pub fn evaluate(&self, inputs: &[(&str, Tensor)]) -> Result<Evaluation, OracleError> {
        evaluate::run(&self.graph, self.limit, inputs)
    }
}

impl Graph {
    fn parse(proto: &GraphProto, context: Context<'_>) -> Result<Graph, OracleError> {
        let wrong = |name: &str, reason: Fault| {
            OracleError::Input(format!("constant {name:?}: {}", OracleError::from(reason)))
        };
        let mut constants = Vec::new();
        for tensor in &proto.initializer {
            let value = stored::read(tensor, context.folder);
            let value = value.map_err(|reason| wrong(&tensor.name, reason))?;
            constants.push((tensor.name.clone(), Arc::new(value)));
        }
        for tensor in &proto.sparse_initializer {
            let name = tensor.values.as_ref().map_or("", |values| values.name.as_str());
            let value = stored::read_sparse(tensor, context.folder);
            let value = value.map_err(|reason| wrong(name, reason))?;
            constants.push((name.to_owned(), Arc::new(value)));
        }
        let nodes: Result<Vec<Node>, _> =
            proto.node.iter().map(|node| Node::parse(node, context)).collect();
        let ports = |ports: &[ValueInfoProto]| ports.iter().map(Port::parse).collect();
        Ok(Graph {
            inputs: ports(&proto.input),
            outputs: ports(&proto.output),
            constants,
            nodes: order::sort(nodes?),
        })
    }

    pub fn constant(&self, name: &str) -> Option<&Arc<Tensor>> {
        self.constants.iter().find(|(own, _)| own == name).map(|(_, tensor)| tensor)
    }
}

impl Port {
    fn parse(proto: &ValueInfoProto) -> Port {
        let tensor = proto.r#type.as_ref().and_then(|of| of.tensor_type.as_ref());
        let element = tensor.and_then(|tensor| Element::from_code(tensor.elem_type.into()));
        let shape = tensor.and_then(|tensor| tensor.shape.as_ref()).map(|shape| {
            let dimension = |value: Option<i64>, name: Option<&String>| match (value, name) {
                (Some(size), _) if size >= 0 => {
                    usize::try_from(size).map_or(Dimension::Unknown, Dimension::Fixed)
                }
                (_, Some(name)) if !name.is_empty() => Dimension::Named(name.clone()),
                _ => Dimension::Unknown,
            };
            shape.dim.iter().map(|dim| dimension(dim.dim_value, dim.dim_param.as_ref())).collect()
        });
        Port { name: proto.name.clone(), element, shape }
    }
}

impl Node {
    fn parse(proto: &NodeProto, context: Context<'_>) -> Result<Node, OracleError> {
        let domain = standard_domain(&proto.domain).to_owned();
        let named = [&proto.name].into_iter().chain(&proto.output).find(|name| !name.is_empty());
        let operator = if domain.is_empty() {
            proto.op_type.clone()
        } else {
            format!("{domain}.{}", proto.op_type)
        };
        let mut node = Node {
            name: named.cloned().unwrap_or_default(),
            operator,
            opset: context.opset(&domain),
            standard: context.opset(""),
            domain,
            inputs: proto.input.clone(),
            outputs: proto.output.clone(),
            attributes: BTreeMap::new(),
            body: None,
        };
        if let Some((body, inner)) = context.body(proto)? {
            node.body = Some(Graph::parse(&body, inner)?);
            return Ok(node);
        }
        for attribute in &proto.attribute {
            let value = Attribute::parse(attribute, context).map_err(|fault| match fault {
                Fault::Reason(reason) => {
                    node.error(format!("attribute {:?}: {reason}", attribute.name))
                }
                Fault::Inner(error) => *error,
            })?;
            if node.attributes.insert(attribute.name.clone(), value).is_some() {
                return Err(node.error(format!("attribute {:?} appears twice", attribute.name)));
            }
        }
        Ok(node)
    }

    /// Returns an error of this node.
    pub fn error(&self, reason: String) -> OracleError {
        OracleError::Node { node: self.name.clone(), operator: self.operator.clone(), reason }
    }
}

impl Attribute {
    fn parse(proto: &AttributeProto, context: Context<'_>) -> Result<Attribute, Fault> {
        let text = |bytes: &[u8]| match str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => fault("expected UTF-8"),
        };
        Ok(match proto.kind {
            1 => Attribute::Float(proto.f.into()),
            2 => Attribute::Integer(proto.i),
            3 => Attribute::Text(text(&proto.s)?),
            4 => match &proto.t {
                Some(tensor) => Attribute::Tensor(Arc::new(stored::read(tensor, context.folder)?)),
                None => return fault("expected a tensor"),
            },
            5 => match &proto.g {
                Some(graph) => Attribute::Graph(Graph::parse(graph, context)?),
                None => return fault("expected a graph"),
            },
            6 => Attribute::Floats(proto.floats.iter().map(|value| f64::from(*value)).collect()),
            7 => Attribute::Integers(proto.ints.clone()),
            8 => {
                let texts: Result<_, _> = proto.strings.iter().map(|bytes| text(bytes)).collect();
                Attribute::Texts(texts?)
            }
            11 => match &proto.sparse_tensor {
                Some(tensor) => {
                    Attribute::Tensor(Arc::new(stored::read_sparse(tensor, context.folder)?))
                }
                None => return fault("expected a sparse tensor"),
            },
            kind => return fault(format!("values of kind {kind} are not supported")),
        })
    }
}
