//! Graphs that are ready to run: steps, and the slots of their values.

use dyno_onnx::{Element, Model, Port};
use thiserror::Error;

use crate::load;
use crate::node::Operation;
use crate::operator::control::Scan;
use crate::session::RunError;
use crate::value::Value;

/// A model that is ready to run. [`Session`](crate::Session) runs it; sessions share its weights.
pub struct Graph {
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    pub(crate) main: Block,
    /// Number of values, including those of graphs inside nodes.
    pub(crate) slots: usize,
    pub(crate) constants: Vec<(usize, Value)>,
}

/// A graph, or a graph inside a node.
pub(crate) struct Block {
    pub steps: Vec<Step>,
    pub inputs: Vec<usize>,
    pub outputs: Vec<usize>,
    /// Type and dimensions of each output, if they are known. A dimension without a size is 0.
    pub types: Vec<Option<(Element, Vec<usize>)>>,
    /// Slots that are released at the end.
    pub frees: Vec<usize>,
}

/// A node.
pub(crate) struct Step {
    pub name: String,
    pub operator: String,
    pub inputs: Vec<Option<usize>>,
    pub outputs: Vec<Option<usize>>,
    pub work: Work,
    /// Slots that no later step reads.
    pub frees: Vec<usize>,
}

/// What a step does.
pub(crate) enum Work {
    Operation(Operation),
    /// `If`: the graphs for a true and a false condition.
    Branch(Box<[Block; 2]>),
    /// `Loop`.
    Loop(Box<Block>),
    Scan(Box<Scan>),
}

/// Why a model cannot run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GraphError {
    /// A node is malformed, or uses an operator, attribute or type that is not implemented.
    #[error("node '{node}' ({operator}, version {version} of its operator set): {reason}")]
    Node {
        /// Name of the node, or of its first output. Nodes inside nodes have the names of the outer
        /// nodes and graphs as prefix: `If_12/then_branch/LSTM_3`.
        node: String,
        /// Operator, with its domain unless that is the standard one.
        operator: String,
        /// Version of the operator set that the model uses.
        version: i64,
        /// Description of the problem.
        reason: String,
    },
    /// An input, an output or a constant cannot be used.
    #[error("value '{name}': {reason}")]
    Value {
        /// Name of the value.
        name: String,
        /// Description of the problem.
        reason: String,
    },
}

impl Graph {
    /// Reads a model: folds constants, packs weights, and loads external data.
    ///
    /// # Errors
    /// [`GraphError`] names the first node or value that cannot be used.
    pub fn new(model: &Model) -> Result<Self, GraphError> {
        load::graph(model)
    }

    /// Returns the inputs with the names, types and dimensions that the model declares.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// Returns the outputs with the names, types and dimensions that the model declares.
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// Returns whether a node is recurrent, in the graph or in a graph inside a node.
    pub fn is_recurrent(&self) -> bool {
        self.main.is_recurrent()
    }
}

impl Block {
    fn is_recurrent(&self) -> bool {
        let is_cell =
            |operator: &str| ["LSTM", "GRU", "RNN"].iter().any(|cell| operator.ends_with(cell));
        self.steps.iter().any(|step| match &step.work {
            Work::Operation(_) => is_cell(&step.operator),
            Work::Branch(blocks) => blocks.iter().any(Self::is_recurrent),
            Work::Loop(block) => block.is_recurrent(),
            Work::Scan(scan) => scan.body.is_recurrent(),
        })
    }
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Graph")
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .field("steps", &self.main.steps.len())
            .finish_non_exhaustive()
    }
}

impl Step {
    pub fn error(&self, reason: String) -> RunError {
        RunError::Node { node: self.name.clone(), operator: self.operator.clone(), reason }
    }
}
