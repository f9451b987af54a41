//! Networks: recurrent layers and what stands between them, as a list of nodes over tensors.
//!
//! A [`Network`] is written down once: each node makes one tensor, whose greatest size is known. An
//! [`Engine`] makes programs of it, which all run on one team; a call takes no memory. [`oracle`] computes
//! the same in `f64`, node by node, as the definitions say.
//!
//! ```
//! use dyno_rnn::machine::Machine;
//! use dyno_rnn::network::{Dense, Engine, Feed, Network, Node, Setup};
//! use dyno_rnn::{Activation, Isa, Precision, Team};
//!
//! let mut network = Network::default();
//! let words = network.add("words", Node::Ids { steps: 5, batch: 2 })?;
//! let table = vec![0.5; 10 * 3].into();
//! let vectors = network.add("vectors", Node::Embedding { ids: words, table, width: 3 })?;
//! let most = network.add("most", Node::MaxPool { input: vectors })?;
//! let (weights, bias) = (vec![1.0; 3], vec![0.25]);
//! let dense = Dense { inputs: 3, weights, bias, activation: Activation::Relu };
//! let score = network.add("score", Node::Dense { input: most, dense: dense.into() })?;
//!
//! let (isa, mut team) = (Isa::best(), Team::of(2));
//! let setup = Setup::new(Precision::F32, isa, Machine::detect(isa));
//! let mut engine = Engine::new(&network, &setup, &mut team)?;
//! // Two texts, of three words and of one: step after step, rows together.
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

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use dyno_kernels::Activation;

use crate::layer::Layer;

pub use engine::{CallError, Engine, EngineError, Feed, Setup};
pub use recurrent::Stacked;
pub use times::Times;

/// What a node makes: `steps` x `batch` x `width` numbers, those of a step's row together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tensor(usize);

/// How large a tensor may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The input that says how many steps each row has; none where a row is one vector.
    pub source: Option<Tensor>,
    /// The most steps.
    pub steps: usize,
    /// Rows.
    pub batch: usize,
    /// Numbers of a row's step; 0 of an input of ids.
    pub width: usize,
}

impl Shape {
    /// One vector for each row.
    fn vectors(self) -> Self {
        Self { source: None, steps: 1, ..self }
    }
}

/// `activation(W x + b)` of each row's step.
#[derive(Clone, Debug, PartialEq)]
pub struct Dense {
    /// Numbers of x.
    pub inputs: usize,
    /// W: outputs x inputs, row-major.
    pub weights: Vec<f32>,
    /// b: one for each output.
    pub bias: Vec<f32>,
    /// What is done to the sums.
    pub activation: Activation,
}

impl Dense {
    /// How many there are.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.bias.len()
    }
}

/// `t g + (1 - t) x` with `t = gate(x)` and `g = candidate(x)` (Srivastava, Greff and Schmidhuber, 2015).
#[derive(Clone, Debug, PartialEq)]
pub struct Highway {
    /// The gate; its activation is [`Activation::Sigmoid`].
    pub gate: Dense,
    /// What it lets in.
    pub candidate: Dense,
}

/// How much a key has to do with a query. A bilinear score (Luong, Pham and Manning, 2015) is
/// [`Score::Dot`] behind a [`Node::Dense`] of the query.
#[derive(Clone, Debug, PartialEq)]
pub enum Score {
    /// The product of both.
    Dot,
    /// `v tanh(query + key)` (Bahdanau, Cho and Bengio, 2015). Both are projected before by a
    /// [`Node::Dense`] each: the keys once for all queries.
    Additive(Vec<f32>),
}

/// What adds up to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The steps of each row.
    Row,
    /// The steps of all rows.
    All,
}

/// What makes a tensor of others. Where a row has ended, a tensor's numbers are nothing to rely on, and
/// no node looks at them.
#[derive(Clone, Debug)]
pub enum Node {
    /// An input: numbers of words, with the length of each row, or one for each row.
    Ids {
        /// The most.
        steps: usize,
        /// Rows.
        batch: usize,
    },
    /// An input: vectors, with the length of each row, or one for each row.
    Numbers {
        /// The most.
        steps: usize,
        /// Rows.
        batch: usize,
        /// Numbers of each vector.
        width: usize,
    },
    /// Rows of a table.
    Embedding {
        /// Which.
        ids: Tensor,
        /// Words x width.
        table: Arc<[f32]>,
        /// Numbers of a row.
        width: usize,
    },
    /// Recurrent layers, each over the outputs of the one before.
    Recurrent {
        /// What the first reads.
        input: Tensor,
        /// From the first to the last.
        layers: Vec<Arc<Layer>>,
    },
    /// States of the last of recurrent layers when they have read a row: forward after its last step,
    /// backward after its first.
    Last {
        /// A tensor of [`Node::Recurrent`].
        input: Tensor,
    },
    /// A layer of sums.
    Dense {
        /// What it reads.
        input: Tensor,
        /// Its weights.
        dense: Arc<Dense>,
    },
    /// A highway layer.
    Highway {
        /// What it reads and carries.
        input: Tensor,
        /// Its weights.
        highway: Arc<Highway>,
    },
    /// The greatest of each number over a row's steps; zeros of a row without steps.
    MaxPool {
        /// Of what.
        input: Tensor,
    },
    /// A score of each key for the row's query, one number a step.
    Match {
        /// One vector a row, or one for all.
        query: Tensor,
        /// A key for each step.
        keys: Tensor,
        /// How they are compared.
        score: Score,
    },
    /// Exponentials of single numbers, divided by their sum.
    Softmax {
        /// One number a step.
        input: Tensor,
        /// Which add up to one.
        over: Over,
    },
    /// The sum of a row's values, each times its weight.
    Mix {
        /// One number a step.
        weights: Tensor,
        /// A vector for each of these steps.
        values: Tensor,
    },
    /// For each of a row's queries the sum of its values, weighted by the softmax of scores.
    Attention {
        /// A vector for each step.
        queries: Tensor,
        /// Vectors for the steps of the source.
        keys: Tensor,
        /// Vectors for the same steps.
        values: Tensor,
        /// How they are compared.
        score: Score,
    },
    /// The attention sum of Kadlec and others (2016): where a word stands for the first time, the weights of
    /// all of its places together; elsewhere zeros.
    Pointer {
        /// One number a step.
        weights: Tensor,
        /// The words of these steps.
        ids: Tensor,
        /// Whether a word of one row is that of another.
        over: Over,
    },
    /// Attention in both directions as in BiDAF (Seo and others, 2017), with the score
    /// `w [h; u; h * u]`: `[h; u~; h * u~; h * h~]` for each step of the context.
    Trilinear {
        /// h.
        context: Tensor,
        /// u.
        query: Tensor,
        /// w: three for each number of h.
        weights: Arc<[f32]>,
    },
    /// The cosine of two vectors, one number a row.
    Cosine {
        /// One vector a row, or one for all.
        query: Tensor,
        /// One vector a row.
        others: Tensor,
    },
    /// Tensors behind one another. Single vectors stand at each step.
    Join {
        /// In this order.
        parts: Vec<Tensor>,
    },
    /// Number by number. A single vector of a row is multiplied with each of its steps.
    Times {
        /// This.
        input: Tensor,
        /// And this.
        by: Tensor,
    },
    /// Some rows of the batch, as single vectors.
    Rows {
        /// Single vectors.
        input: Tensor,
        /// Which.
        rows: Range<usize>,
    },
}

/// A node that does not fit the tensors that it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkError {
    /// Its name.
    pub node: String,
    /// Of what there is too much or too little.
    pub what: &'static str,
    /// How many there should be.
    pub expected: usize,
    /// How many there are.
    pub found: usize,
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, what, expected, found } = self;
        write!(f, "node {node}: expected {expected} {what}, found {found}")
    }
}

impl std::error::Error for NetworkError {}

/// Nodes in the order in which they run.
#[derive(Clone, Debug, Default)]
pub struct Network {
    nodes: Vec<(String, Node)>,
    shapes: Vec<Shape>,
}

/// What does not fit: of what, expected, found.
type Misfit = (&'static str, usize, usize);

fn same(what: &'static str, expected: usize, found: usize) -> Result<(), Misfit> {
    if expected == found { Ok(()) } else { Err((what, expected, found)) }
}

impl Network {
    /// Adds a node and gives the tensor that it makes.
    ///
    /// # Errors
    /// The node does not fit what it reads.
    ///
    /// # Panics
    /// It reads a tensor of another network.
    pub fn add(&mut self, name: &str, node: Node) -> Result<Tensor, NetworkError> {
        let shape = self.made(&node).map_err(|(what, expected, found)| NetworkError {
            node: name.to_owned(),
            what,
            expected,
            found,
        })?;
        self.nodes.push((name.to_owned(), node));
        self.shapes.push(shape);
        Ok(Tensor(self.shapes.len() - 1))
    }

    /// Names and nodes.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(name, node)| (name.as_str(), node))
    }

    /// The tensor of the node of this name; of several the last.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Tensor> {
        self.nodes.iter().rposition(|(own, _)| own == name).map(Tensor)
    }

    /// How large a tensor may be.
    #[must_use]
    pub fn shape(&self, of: Tensor) -> Shape {
        self.shapes[of.0]
    }

    /// Inputs, in the order in which calls give them.
    fn inputs(&self) -> impl Iterator<Item = (Tensor, Shape)> {
        let is_input = |node: &Node| matches!(node, Node::Ids { .. } | Node::Numbers { .. });
        let all = self.nodes.iter().zip(&self.shapes).enumerate();
        all.filter(move |(_, ((_, node), _))| is_input(node))
            .map(|(index, (_, shape))| (Tensor(index), *shape))
    }

    /// The shape of what a node makes.
    fn made(&self, node: &Node) -> Result<Shape, Misfit> {
        let of = |tensor: &Tensor| self.shapes[tensor.0];
        let own = Tensor(self.shapes.len());
        match node {
            Node::Ids { steps, batch } => input(own, *steps, *batch, 0),
            Node::Numbers { steps, batch, width } => {
                same("numbers or more", 1, (*width).min(1))?;
                input(own, *steps, *batch, *width)
            }
            Node::Embedding { ids, table, width } => {
                same("ids to look up", 0, of(ids).width)?;
                same("numbers or more of a row", 1, (*width).min(1))?;
                same("numbers in whole rows", table.len() / width * width, table.len())?;
                Ok(Shape { width: *width, ..of(ids) })
            }
            Node::Recurrent { input, layers } => self.recurrent(of(input), layers),
            Node::Last { input } => {
                let is_recurrent = matches!(self.nodes[input.0].1, Node::Recurrent { .. });
                same("recurrent layers", 1, usize::from(is_recurrent))?;
                Ok(of(input).vectors())
            }
            Node::Dense { input, dense } => {
                fits(dense, of(input).width)?;
                Ok(Shape { width: dense.outputs(), ..of(input) })
            }
            Node::Highway { input, highway } => {
                let Highway { gate, candidate } = &**highway;
                let width = of(input).width;
                for dense in [gate, candidate] {
                    fits(dense, width)?;
                    same("outputs", width, dense.outputs())?;
                }
                let is_gate = usize::from(gate.activation == Activation::Sigmoid);
                same("logistic functions at the gate", 1, is_gate)?;
                Ok(of(input))
            }
            Node::MaxPool { input } => {
                same("numbers or more", 1, of(input).width.min(1))?;
                Ok(of(input).vectors())
            }
            Node::Join { parts } => self.joined(parts),
            Node::Times { input, by } => {
                same("numbers", of(input).width, of(by).width)?;
                self.beside(of(input), *by)?;
                Ok(of(input))
            }
            Node::Rows { input, rows } => {
                same("steps", 1, of(input).steps)?;
                same("rows", rows.end.min(of(input).batch), rows.end)?;
                same("rows or more", 1, rows.len().min(1))?;
                Ok(Shape { batch: rows.len(), ..of(input) }.vectors())
            }
            _ => self.attention(node),
        }
    }

    fn recurrent(&self, input: Shape, layers: &[Arc<Layer>]) -> Result<Shape, Misfit> {
        same("layers or more", 1, layers.len().min(1))?;
        let mut width = input.width;
        for layer in layers {
            same("inputs of a layer", width, layer.inputs())?;
            width = layer.outputs();
        }
        Ok(Shape { width, ..input })
    }

    fn joined(&self, parts: &[Tensor]) -> Result<Shape, Misfit> {
        same("parts or more", 1, parts.len().min(1))?;
        let shapes = || parts.iter().map(|part| self.shapes[part.0]);
        let longest = shapes().find(|shape| shape.source.is_some());
        let longest = longest.or(shapes().next()).ok_or(("parts", 1, 0))?;
        for part in parts {
            same("numbers or more of a part", 1, self.shapes[part.0].width.min(1))?;
            self.beside(longest, *part)?;
        }
        Ok(Shape { width: shapes().map(|shape| shape.width).sum(), ..longest })
    }

    /// Whether a tensor has the steps and rows of another, or one step for all of them.
    fn beside(&self, of: Shape, other: Tensor) -> Result<(), Misfit> {
        let other = self.shapes[other.0];
        same("rows", of.batch, other.batch)?;
        let is_same = other.source == of.source || other.source.is_none();
        same("sources of steps", 1, usize::from(is_same))
    }

    fn attention(&self, node: &Node) -> Result<Shape, Misfit> {
        let of = |tensor: &Tensor| self.shapes[tensor.0];
        match node {
            Node::Match { query, keys, score } => {
                same("steps of a query", 1, of(query).steps)?;
                same("rows of queries", of(keys).batch, one_for_all(of(query), of(keys)))?;
                compared(score, of(query).width, of(keys).width)?;
                Ok(Shape { width: 1, ..of(keys) })
            }
            Node::Softmax { input, .. } => {
                same("numbers of a step", 1, of(input).width)?;
                Ok(of(input))
            }
            Node::Mix { weights, values } => {
                same("numbers of a step", 1, of(weights).width)?;
                self.alike(*weights, *values)?;
                Ok(of(values).vectors())
            }
            Node::Attention { queries, keys, values, score } => {
                same("rows of queries", of(keys).batch, of(queries).batch)?;
                compared(score, of(queries).width, of(keys).width)?;
                self.alike(*keys, *values)?;
                Ok(Shape { width: of(values).width, ..of(queries) })
            }
            Node::Pointer { weights, ids, .. } => {
                same("numbers of a step", 1, of(weights).width)?;
                same("ids", 0, of(ids).width)?;
                self.alike(*weights, *ids)?;
                Ok(of(weights))
            }
            Node::Trilinear { context, query, weights } => {
                let width = of(context).width;
                same("rows of queries", of(context).batch, of(query).batch)?;
                same("numbers of a query", width, of(query).width)?;
                same("weights", 3 * width, weights.len())?;
                Ok(Shape { width: 4 * width, ..of(context) })
            }
            Node::Cosine { query, others } => {
                same("steps of a query", 1, of(query).steps)?;
                same("steps of what it is compared with", 1, of(others).steps)?;
                same("rows of queries", of(others).batch, one_for_all(of(query), of(others)))?;
                same("numbers of a query", of(others).width, of(query).width)?;
                Ok(Shape { width: 1, ..of(others) }.vectors())
            }
            // `made` has taken all others.
            _ => Err(("nodes of attention", 1, 0)),
        }
    }

    /// Whether two tensors have the same rows and steps.
    fn alike(&self, one: Tensor, other: Tensor) -> Result<(), Misfit> {
        let (one, other) = (self.shapes[one.0], self.shapes[other.0]);
        same("rows", one.batch, other.batch)?;
        same("sources of steps", 1, usize::from(one.source == other.source))
    }
}

/// The shape of an input; of one step it is single vectors.
fn input(own: Tensor, steps: usize, batch: usize, width: usize) -> Result<Shape, Misfit> {
    same("steps or more", 1, steps.min(1))?;
    same("rows or more", 1, batch.min(1))?;
    Ok(Shape { source: (steps > 1).then_some(own), steps, batch, width })
}

/// Rows of queries, as many as there are keys where one is for all.
fn one_for_all(query: Shape, keys: Shape) -> usize {
    if query.batch == 1 { keys.batch } else { query.batch }
}

fn compared(score: &Score, query: usize, key: usize) -> Result<(), Misfit> {
    same("numbers of a key", query, key)?;
    match score {
        Score::Dot => Ok(()),
        Score::Additive(v) => same("numbers of v", key, v.len()),
    }
}

fn fits(dense: &Dense, inputs: usize) -> Result<(), Misfit> {
    same("inputs", inputs, dense.inputs)?;
    same("inputs or more", 1, inputs.min(1))?;
    same("outputs or more", 1, dense.outputs().min(1))?;
    same("weights", dense.outputs() * inputs, dense.weights.len())
}
