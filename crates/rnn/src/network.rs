//! Networks: graphs of recurrent layers, attention, dense layers and more.
//!
//! A [`Network`] is a list of nodes, each of which produces one tensor of a known maximum size. A
//! [`NetworkEngine`] compiles it into programs that run on one team; its calls allocate no memory.
//! [`oracle`] computes the same outputs in `f64`, node by node from the definitions.
//!
//! ```
//! use dyno_rnn::machine::Machine;
//! use dyno_rnn::network::{DenseLayer, NetworkEngine, Feed, Network, Node, Setup};
//! use dyno_rnn::{Activation, Isa, Precision, Team};
//!
//! let mut network = Network::default();
//! let words = network.add("words", Node::Ids { steps: 5, batch: 2 })?;
//! let table = vec![0.5; 10 * 3].into();
//! let vectors = network.add("vectors", Node::Embedding { ids: words, table, width: 3 })?;
//! let most = network.add("most", Node::MaxPool { input: vectors })?;
//! let (weights, bias) = (vec![1.0; 3], vec![0.25]);
//! let dense = DenseLayer { inputs: 3, weights, bias, activation: Activation::Relu };
//! let score = network.add("score", Node::Dense { input: most, dense: dense.into() })?;
//!
//! let (isa, mut team) = (Isa::best(), Team::with_workers(2));
//! let setup = Setup::new(Precision::F32, isa, Machine::detect(isa));
//! let mut engine = NetworkEngine::new(&network, &setup, &mut team)?;
//! // Two texts, of three words and of one: step by step, the rows of a step together.
//! let feed = Feed::Ids { ids: &[7, 2, 1, 0, 9, 0], lengths: &[3, 1] };
//! engine.run(&mut team, &[feed])?;
//! assert_eq!(engine.tensor(score), [1.75, 1.75]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attention;
mod dense;
mod engine;
pub mod oracle;
mod recurrent;
mod shared;
mod times;
mod view;

use std::ops::Range;
use std::sync::Arc;

use dyno_kernels::Activation;
use thiserror::Error;

use crate::layer::Layer;

pub use engine::{CallError, Feed, NetworkEngine, NetworkEngineError, Setup};
pub use recurrent::StackSchedule;
pub use times::NodeTimes;

/// Identifier of the tensor that a node produces: `steps` x `batch` x `width` numbers, row by row
/// within a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorId(usize);

/// Maximum size of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorShape {
    /// Input that determines the number of steps of each row; `None` if each row is a single
    /// vector.
    pub source: Option<TensorId>,
    /// Maximum steps.
    pub steps: usize,
    /// Rows of the batch.
    pub batch: usize,
    /// Numbers per row and step; 0 for an input of ids.
    pub width: usize,
}

impl TensorShape {
    /// Shape with a single vector for each row.
    fn vectors(self) -> Self {
        Self { source: None, steps: 1, ..self }
    }
}

/// A dense layer: `activation(W x + b)` for each row and step.
#[derive(Clone, Debug, PartialEq)]
pub struct DenseLayer {
    /// Length of x.
    pub inputs: usize,
    /// W: outputs x inputs, row-major.
    pub weights: Vec<f32>,
    /// b: one number per output.
    pub bias: Vec<f32>,
    /// Activation of the sums.
    pub activation: Activation,
}

impl DenseLayer {
    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.bias.len()
    }
}

/// A highway layer: `t g + (1 - t) x` with `t = gate(x)` and `g = candidate(x)` (Srivastava, Greff
/// and Schmidhuber, 2015).
#[derive(Clone, Debug, PartialEq)]
pub struct HighwayLayer {
    /// Gate; its activation must be [`Activation::Sigmoid`].
    pub gate: DenseLayer,
    /// Candidate that the gate admits.
    pub candidate: DenseLayer,
}

/// Score that compares a key with a query. A bilinear score (Luong, Pham and Manning, 2015) is
/// [`Score::Dot`] after a [`Node::Dense`] of the query.
#[derive(Clone, Debug, PartialEq)]
pub enum Score {
    /// Dot product of query and key.
    Dot,
    /// `v tanh(query + key)` (Bahdanau, Cho and Bengio, 2015). A [`Node::Dense`] projects queries
    /// and keys before; keys once for all queries.
    Additive(Vec<f32>),
}

/// Steps over which weights sum to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Steps of each row.
    Row,
    /// Steps of all rows together.
    All,
}

/// A node, which computes a tensor from other tensors. After the last step of a row, the numbers of
/// a tensor are undefined and no node reads them.
#[derive(Clone, Debug)]
pub enum Node {
    /// Input of word ids, with a length for each row, or one id for each row.
    Ids {
        /// Maximum steps.
        steps: usize,
        /// Rows of the batch.
        batch: usize,
    },
    /// Input of vectors, with a length for each row, or one vector for each row.
    Numbers {
        /// Maximum steps.
        steps: usize,
        /// Rows of the batch.
        batch: usize,
        /// Numbers of each vector.
        width: usize,
    },
    /// Looks up rows of a table.
    Embedding {
        /// Ids to look up.
        ids: TensorId,
        /// Table: words x width.
        table: Arc<[f32]>,
        /// Numbers in a row of the table.
        width: usize,
    },
    /// Recurrent layers, each over the outputs of the one before.
    Recurrent {
        /// Input of the first layer.
        input: TensorId,
        /// Layers from the first to the last.
        layers: Vec<Arc<Layer>>,
    },
    /// Final states of the last recurrent layer: forward after the last step of a row, backward
    /// after the first.
    Last {
        /// Tensor of a [`Node::Recurrent`].
        input: TensorId,
    },
    /// Dense layer.
    Dense {
        /// Input of the layer.
        input: TensorId,
        /// Weights of the layer.
        dense: Arc<DenseLayer>,
    },
    /// Highway layer.
    Highway {
        /// Input of the layer.
        input: TensorId,
        /// Weights of the layer.
        highway: Arc<HighwayLayer>,
    },
    /// Maximum of each number over the steps of a row; zeros for a row without steps.
    MaxPool {
        /// Input.
        input: TensorId,
    },
    /// Score of each key against the query of its row, one number per step.
    Match {
        /// One vector per row, or one vector for all rows.
        query: TensorId,
        /// One key per step.
        keys: TensorId,
        /// Score of a key.
        score: Score,
    },
    /// Softmax over steps.
    Softmax {
        /// One number per step.
        input: TensorId,
        /// Steps that sum to one.
        over: Scope,
    },
    /// Weighted sum of the values of each row.
    Mix {
        /// One weight per step.
        weights: TensorId,
        /// One vector per step.
        values: TensorId,
    },
    /// Attention: for each query of a row, the sum of the row's values weighted by the softmax of
    /// their scores.
    Attention {
        /// One query per step.
        queries: TensorId,
        /// One key per step of the source.
        keys: TensorId,
        /// One value per step of the source.
        values: TensorId,
        /// Score of a key.
        score: Score,
    },
    /// Attention sum of Kadlec and others (2016): the first occurrence of a word gets the weights
    /// of all its occurrences, later ones get zero.
    Pointer {
        /// One weight per step.
        weights: TensorId,
        /// Word ids of these steps.
        ids: TensorId,
        /// Whether equal words of different rows count as one.
        over: Scope,
    },
    /// Bidirectional attention as in BiDAF (Seo and others, 2017), with the score `w [h; u; h *
    /// u]`. The output is `[h; u~; h * u~; h * h~]` for each step of the context.
    Trilinear {
        /// Context h.
        context: TensorId,
        /// Query u.
        query: TensorId,
        /// Weights w, three per number of h.
        weights: Arc<[f32]>,
    },
    /// Cosine of two vectors, one number per row.
    Cosine {
        /// One vector per row, or one vector for all rows.
        query: TensorId,
        /// One vector per row.
        others: TensorId,
    },
    /// Concatenation of tensors. Single vectors are repeated at each step.
    Join {
        /// Tensors in the order of the output.
        parts: Vec<TensorId>,
    },
    /// Elementwise product. A single vector of a row is multiplied with each of its steps.
    Times {
        /// First factor.
        input: TensorId,
        /// Second factor: with the steps of the first, or single vectors.
        by: TensorId,
    },
    /// Selects rows of the batch as single vectors.
    Rows {
        /// Single vectors.
        input: TensorId,
        /// Rows to select.
        rows: Range<usize>,
    },
}

/// Error of a node that does not fit its input tensors.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("node {node}: expected {expected} {what}, found {found}")]
pub struct NetworkError {
    /// Name of the node.
    pub node: String,
    /// Description of the count.
    pub what: &'static str,
    /// Expected count.
    pub expected: usize,
    /// Count found.
    pub found: usize,
}

/// A network: nodes in the order in which they run.
#[derive(Clone, Debug, Default)]
pub struct Network {
    nodes: Vec<(String, Node)>,
    shapes: Vec<TensorShape>,
}

/// Mismatch: description, expected count, count found.
type Misfit = (&'static str, usize, usize);

fn same(what: &'static str, expected: usize, found: usize) -> Result<(), Misfit> {
    if expected == found { Ok(()) } else { Err((what, expected, found)) }
}

impl Network {
    /// Adds a node and returns its tensor.
    ///
    /// # Errors
    /// The node does not fit its inputs.
    ///
    /// # Panics
    /// The node reads a tensor of another network.
    pub fn add(&mut self, name: &str, node: Node) -> Result<TensorId, NetworkError> {
        let shape = self.shape_of(&node).map_err(|(what, expected, found)| NetworkError {
            node: name.to_owned(),
            what,
            expected,
            found,
        })?;
        self.nodes.push((name.to_owned(), node));
        self.shapes.push(shape);
        Ok(TensorId(self.shapes.len() - 1))
    }

    /// Names and nodes in the order in which they run.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(name, node)| (name.as_str(), node))
    }

    /// Returns the tensor of the last node with this name.
    pub fn named(&self, name: &str) -> Option<TensorId> {
        self.nodes.iter().rposition(|(own, _)| own == name).map(TensorId)
    }

    /// Maximum size of a tensor.
    pub fn shape(&self, tensor: TensorId) -> TensorShape {
        self.shapes[tensor.0]
    }

    /// Inputs in the order in which calls supply them.
    fn inputs(&self) -> impl Iterator<Item = (TensorId, TensorShape)> {
        let is_input = |node: &Node| matches!(node, Node::Ids { .. } | Node::Numbers { .. });
        let all = self.nodes.iter().zip(&self.shapes).enumerate();
        all.filter(move |(_, ((_, node), _))| is_input(node))
            .map(|(index, (_, shape))| (TensorId(index), *shape))
    }

    /// Returns the shape of a node's tensor.
    fn shape_of(&self, node: &Node) -> Result<TensorShape, Misfit> {
        let shape = |tensor: &TensorId| self.shapes[tensor.0];
        let own = TensorId(self.shapes.len());
        match node {
            Node::Ids { steps, batch } => input(own, *steps, *batch, 0),
            Node::Numbers { steps, batch, width } => {
                same("numbers or more", 1, (*width).min(1))?;
                input(own, *steps, *batch, *width)
            }
            Node::Embedding { ids, table, width } => {
                same("ids to look up", 0, shape(ids).width)?;
                same("numbers or more of a row", 1, (*width).min(1))?;
                same("numbers in whole rows", table.len() / width * width, table.len())?;
                Ok(TensorShape { width: *width, ..shape(ids) })
            }
            Node::Recurrent { input, layers } => self.recurrent(shape(input), layers),
            Node::Last { input } => {
                let is_recurrent = matches!(self.nodes[input.0].1, Node::Recurrent { .. });
                same("recurrent layers", 1, usize::from(is_recurrent))?;
                Ok(shape(input).vectors())
            }
            Node::Dense { input, dense } => {
                fits(dense, shape(input).width)?;
                Ok(TensorShape { width: dense.outputs(), ..shape(input) })
            }
            Node::Highway { input, highway } => {
                let HighwayLayer { gate, candidate } = &**highway;
                let width = shape(input).width;
                for dense in [gate, candidate] {
                    fits(dense, width)?;
                    same("outputs", width, dense.outputs())?;
                }
                let is_gate = usize::from(gate.activation == Activation::Sigmoid);
                same("logistic functions at the gate", 1, is_gate)?;
                Ok(shape(input))
            }
            Node::MaxPool { input } => {
                same("numbers or more", 1, shape(input).width.min(1))?;
                Ok(shape(input).vectors())
            }
            Node::Join { parts } => self.joined(parts),
            Node::Times { input, by } => {
                same("numbers", shape(input).width, shape(by).width)?;
                self.beside(shape(input), *by)?;
                Ok(shape(input))
            }
            Node::Rows { input, rows } => {
                same("steps", 1, shape(input).steps)?;
                same("rows", rows.end.min(shape(input).batch), rows.end)?;
                same("rows or more", 1, rows.len().min(1))?;
                Ok(TensorShape { batch: rows.len(), ..shape(input) }.vectors())
            }
            _ => self.attention(node),
        }
    }

    fn recurrent(&self, input: TensorShape, layers: &[Arc<Layer>]) -> Result<TensorShape, Misfit> {
        same("layers or more", 1, layers.len().min(1))?;
        let mut width = input.width;
        for layer in layers {
            same("inputs of a layer", width, layer.inputs())?;
            width = layer.outputs();
        }
        Ok(TensorShape { width, ..input })
    }

    fn joined(&self, parts: &[TensorId]) -> Result<TensorShape, Misfit> {
        same("parts or more", 1, parts.len().min(1))?;
        let shapes = || parts.iter().map(|part| self.shapes[part.0]);
        let longest = shapes().find(|shape| shape.source.is_some());
        let longest = longest.or(shapes().next()).ok_or(("parts", 1, 0))?;
        for part in parts {
            same("numbers or more of a part", 1, self.shapes[part.0].width.min(1))?;
            self.beside(longest, *part)?;
        }
        Ok(TensorShape { width: shapes().map(|shape| shape.width).sum(), ..longest })
    }

    /// Checks that a tensor has the rows and steps of `shape`, or a single vector per row.
    fn beside(&self, shape: TensorShape, other: TensorId) -> Result<(), Misfit> {
        let other = self.shapes[other.0];
        same("rows", shape.batch, other.batch)?;
        let is_same = other.source == shape.source || other.source.is_none();
        same("sources of steps", 1, usize::from(is_same))
    }

    fn attention(&self, node: &Node) -> Result<TensorShape, Misfit> {
        let shape = |tensor: &TensorId| self.shapes[tensor.0];
        match node {
            Node::Match { query, keys, score } => {
                same("steps of a query", 1, shape(query).steps)?;
                same("rows of queries", shape(keys).batch, one_for_all(shape(query), shape(keys)))?;
                compared(score, shape(query).width, shape(keys).width)?;
                Ok(TensorShape { width: 1, ..shape(keys) })
            }
            Node::Softmax { input, .. } => {
                same("numbers of a step", 1, shape(input).width)?;
                Ok(shape(input))
            }
            Node::Mix { weights, values } => {
                same("numbers of a step", 1, shape(weights).width)?;
                self.alike(*weights, *values)?;
                Ok(shape(values).vectors())
            }
            Node::Attention { queries, keys, values, score } => {
                same("rows of queries", shape(keys).batch, shape(queries).batch)?;
                compared(score, shape(queries).width, shape(keys).width)?;
                self.alike(*keys, *values)?;
                Ok(TensorShape { width: shape(values).width, ..shape(queries) })
            }
            Node::Pointer { weights, ids, .. } => {
                same("numbers of a step", 1, shape(weights).width)?;
                same("ids", 0, shape(ids).width)?;
                self.alike(*weights, *ids)?;
                Ok(shape(weights))
            }
            Node::Trilinear { context, query, weights } => {
                let width = shape(context).width;
                same("rows of queries", shape(context).batch, shape(query).batch)?;
                same("numbers of a query", width, shape(query).width)?;
                same("weights", 3 * width, weights.len())?;
                Ok(TensorShape { width: 4 * width, ..shape(context) })
            }
            Node::Cosine { query, others } => {
                same("steps of a query", 1, shape(query).steps)?;
                same("steps of what it is compared with", 1, shape(others).steps)?;
                same(
                    "rows of queries",
                    shape(others).batch,
                    one_for_all(shape(query), shape(others)),
                )?;
                same("numbers of a query", shape(others).width, shape(query).width)?;
                Ok(TensorShape { width: 1, ..shape(others) }.vectors())
            }
            // `shape_of` has taken all others.
            _ => Err(("nodes of attention", 1, 0)),
        }
    }

    /// Checks that two tensors have the same rows and steps.
    fn alike(&self, one: TensorId, other: TensorId) -> Result<(), Misfit> {
        let one = self.shapes[one.0];
        let other = self.shapes[other.0];
        same("rows", one.batch, other.batch)?;
        same("sources of steps", 1, usize::from(one.source == other.source))
    }
}

/// Shape of an input; an input of one step has single vectors.
fn input(own: TensorId, steps: usize, batch: usize, width: usize) -> Result<TensorShape, Misfit> {
    same("steps or more", 1, steps.min(1))?;
    same("rows or more", 1, batch.min(1))?;
    Ok(TensorShape { source: (steps > 1).then_some(own), steps, batch, width })
}

/// Rows of queries; a single query is repeated for all keys.
fn one_for_all(query: TensorShape, keys: TensorShape) -> usize {
    if query.batch == 1 { keys.batch } else { query.batch }
}

fn compared(score: &Score, query: usize, key: usize) -> Result<(), Misfit> {
    same("numbers of a key", query, key)?;
    match score {
        Score::Dot => Ok(()),
        Score::Additive(v) => same("numbers of v", key, v.len()),
    }
}

fn fits(dense: &DenseLayer, inputs: usize) -> Result<(), Misfit> {
    same("inputs", inputs, dense.inputs)?;
    same("inputs or more", 1, inputs.min(1))?;
    same("outputs or more", 1, dense.outputs().min(1))?;
    same("weights", dense.outputs() * inputs, dense.weights.len())
}
