//! Networks with packed weights, ready for execution.
//!
//! A [`PackedNetwork`] computes the same steps with the same kernels as a
//! [`ChainEvaluator`](super::ChainEvaluator) or a [`GraphEvaluator`](super::graph::GraphEvaluator),
//! without samples. Its answers are equal to theirs, bit by bit. Weights are stored as packed
//! codes, and widened once to what the kernels read: integers where the formats of a layer allow
//! it, `f32` elsewhere. Chains of layers run in the engine of chains, other models node by node.

mod chain;
mod file;

use std::collections::BTreeMap;
use std::path::Path as FilePath;
use std::sync::Arc;

use dyno_kernels::Isa;
use dyno_onnx::shape::{Dim, infer};
use dyno_onnx::{Element, Model, Port};
use thiserror::Error;

use self::chain::Chain;
pub use self::file::{PackedFile, PackedFileError, PackedSource, PackedTensor};
use super::EvaluateError;
use super::graph::PackedGraph;
use super::stage::{ProductPath, Scratch};
use crate::codec::{Conversion, NanError};
use crate::config::Dictionary;
use crate::descriptor::nearest;
use crate::format::Format;
use crate::pack::{pack, unpack};

/// A network in its formats.
///
/// ```
/// use dyno_number::Dictionary;
/// use dyno_number::evaluate::{PackedNetwork, TensorView, Workspace};
/// use dyno_onnx::{Builder, Dim, Element, Fill, Weights};
///
/// let mut net = Builder::new("small", Weights::seeded(1));
/// let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
/// let weight = net.weight("fc1.weight", &[4, 3], Fill::he(4))?;
/// let y = net.node("MatMul", &[&x, &weight], &[])?;
/// net.output("y", &y)?;
///
/// let formats: Dictionary = "fc1.weight FIXED 4 0\nfc1.input FIXED 8 0\n".parse()?;
/// let network = PackedNetwork::new(&net.finish(), &formats)?;
/// assert_eq!(network.packed_bytes(), 4 * 3 / 2);
/// let mut workspace = Workspace::default();
/// let input = TensorView { dims: &[1, 4], values: &[0.5; 4] };
/// let answer = network.run(&[input], &mut workspace)?;
/// assert_eq!(answer.dims, [1, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PackedNetwork {
    network: Network,
    layers: Vec<PackedLayer>,
    inputs: Vec<PackedPort>,
    output: PackedPort,
}

#[derive(Debug)]
enum Network {
    /// A chain of layers.
    Chain(Box<Chain>),
    /// Any other model.
    Graph(Box<PackedGraph>),
}

/// An input of a network, or its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedPort {
    /// Name in the model.
    pub name: String,
    /// Type of the elements as NumPy calls it, such as `float32`. Values are passed as `f32` in any
    /// case.
    pub element: &'static str,
    /// Dimensions, the samples first. `None` is chosen by each call.
    pub shape: Vec<Option<usize>>,
}

/// A layer with weights.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedLayer {
    /// Name of the layer. Its objects are `NAME.weight` and `NAME.input`.
    pub name: String,
    /// Format of the weights.
    pub weight: Format,
    /// Format of the activations.
    pub activation: Format,
    /// How its products are computed.
    pub path: ProductPath,
    /// Packed codes of the weights, in the order of the layer.
    pub codes: Vec<u8>,
    /// Number of weights.
    pub weights: usize,
    /// Bytes that kernels read instead of the codes: widened weights, padded with zeros to whole
    /// vectors of outputs.
    pub widened_bytes: usize,
    /// Products per sample; per row or step if a sample has any number of these.
    pub macs: usize,
}

/// Why a network cannot be executed in formats.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PackedError {
    /// The model's file cannot be read or written.
    #[error("{0}")]
    Model(String),
    /// The engine does not support the model.
    #[error("{0}")]
    Network(EvaluateError),
    /// The model does not have the objects of some formats: a sentence for each, with the nearest
    /// name.
    #[error("{}", .0.join("; "))]
    Unknown(Vec<String>),
    /// A weight is NaN, and its format has none.
    #[error("weights of {layer}: {cause}")]
    Nan {
        /// Name of the layer.
        layer: String,
        /// Format without NaN, and the index of the weight.
        cause: NanError,
    },
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PackedRunError {
    /// A value is NaN, and its format has none.
    #[error("{0}")]
    Nan(NanError),
    /// An input does not fit the model.
    #[error("expected {expected}, found {found}")]
    Input {
        /// What the model accepts.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A node cannot process these numbers, for example because a table has no row with an index.
    #[error("{op}{} {what}", super::in_parentheses(name))]
    Node {
        /// Operator of the node.
        op: String,
        /// Name of the node; may be empty.
        name: String,
        /// What is wrong, as the predicate of a sentence.
        what: String,
    },
}

/// An input or an answer: numbers in row-major order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TensorView<'a> {
    /// Dimensions, the samples first.
    pub dims: &'a [usize],
    /// One number per element. Integers of at most 24 bits are exact.
    pub values: &'a [f32],
}

/// Memory of a thread that executes networks. It holds the answer of the last call.
#[derive(Debug, Default)]
pub struct Workspace {
    scratch: Scratch,
    from: Vec<f32>,
    to: Vec<f32>,
    dims: Vec<usize>,
    scores: Vec<f32>,
    answer: Arc<Vec<f32>>,
}

impl PackedNetwork {
    /// Reads an ONNX file and packs its weights.
    ///
    /// # Errors
    /// The file cannot be read, the engine does not support the model, or the model does not have
    /// the objects of `formats`.
    pub fn read(path: &FilePath, formats: &Dictionary) -> Result<Self, PackedError> {
        let model = Model::read(path).map_err(|error| PackedError::Model(error.to_string()))?;
        Self::new(&model, formats)
    }

    /// Packs the weights of a model. Objects without an entry in `formats` are FLOAT(32). The first
    /// output of the model is its answer.
    ///
    /// # Errors
    /// The engine does not support the model, or the model does not have the objects of `formats`.
    pub fn new(model: &Model, formats: &Dictionary) -> Result<Self, PackedError> {
        match Self::chain(model, formats) {
            Err(PackedError::Network(_)) => Self::graph(model, formats),
            // In the engine of graphs, layers that share weights are one object.
            Err(unknown @ PackedError::Unknown(_)) => {
                Self::graph(model, formats).map_err(|_| unknown)
            }
            found => found,
        }
    }

    fn chain(model: &Model, formats: &Dictionary) -> Result<Self, PackedError> {
        let (chain, layers) = Chain::new(model, formats)?;
        let (mut inputs, mut output) = ports(model);
        // Chains accept any number of samples, whatever the file declares.
        for port in inputs.iter_mut().chain([&mut output]) {
            port.shape.iter_mut().take(1).for_each(|samples| *samples = None);
        }
        output.shape = [None].into_iter().chain(chain.answer().iter().copied().map(Some)).collect();
        Ok(Self { network: Network::Chain(Box::new(chain)), layers, inputs, output })
    }

    /// Packs a model for execution node by node, even if it is a chain.
    fn graph(model: &Model, formats: &Dictionary) -> Result<Self, PackedError> {
        let (graph, layers) = PackedGraph::new(model, formats)?;
        let (inputs, output) = ports(model);
        Ok(Self { network: Network::Graph(Box::new(graph)), layers, inputs, output })
    }

    /// Returns whether it is executed node by node.
    fn is_graph(&self) -> bool {
        matches!(self.network, Network::Graph(_))
    }

    /// Multiplies with the given instruction set instead of the best one.
    #[must_use]
    pub fn with_isa(mut self, isa: Isa) -> Self {
        match &mut self.network {
            Network::Chain(chain) => chain.set_isa(isa),
            Network::Graph(graph) => graph.set_isa(isa),
        }
        self
    }

    /// Returns the layers with weights in order.
    pub fn layers(&self) -> &[PackedLayer] {
        &self.layers
    }

    /// Returns the inputs of the model.
    pub fn inputs(&self) -> &[PackedPort] {
        &self.inputs
    }

    /// Returns the output of the model.
    pub fn output(&self) -> &PackedPort {
        &self.output
    }

    /// Returns the bytes of the packed weights of all layers.
    pub fn packed_bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.codes.len()).sum()
    }

    /// Computes the answers to some samples from all inputs in the order of the model.
    ///
    /// # Errors
    /// Inputs do not fit, or a value is NaN and its format has none.
    pub fn run<'w>(
        &self,
        inputs: &[TensorView<'_>],
        workspace: &'w mut Workspace,
    ) -> Result<TensorView<'w>, PackedRunError> {
        self.check(inputs)?;
        let Workspace { scratch, from, to, dims, scores, answer } = workspace;
        match &self.network {
            Network::Chain(chain) => {
                let TensorView { values, .. } = inputs[0];
                chain.run(values, scratch, [from, to], scores).map_err(PackedRunError::Nan)?;
                dims.clear();
                dims.push(values.len() / chain.input().len());
                dims.extend(chain.answer());
                Ok(TensorView { dims, values: scores })
            }
            Network::Graph(graph) => {
                let owned = |of: &TensorView<'_>| (of.dims.to_vec(), of.values.to_vec());
                (*dims, *answer) = graph.run(inputs.iter().map(owned).collect(), scratch)?;
                Ok(TensorView { dims, values: answer })
            }
        }
    }

    /// Checks inputs against the declarations of the model; the number of samples may differ.
    fn check(&self, inputs: &[TensorView<'_>]) -> Result<(), PackedRunError> {
        if inputs.len() != self.inputs.len() {
            let names: Vec<&str> = self.inputs.iter().map(|port| port.name.as_str()).collect();
            let expected = format!("inputs {}", names.join(", "));
            return Err(PackedRunError::Input {
                expected,
                found: format!("{} of them", inputs.len()),
            });
        }
        for (port, TensorView { dims, values }) in self.inputs.iter().zip(inputs) {
            let count = dims.iter().try_fold(1_usize, |count, n| count.checked_mul(*n));
            let fits = port.shape.len() == dims.len()
                && port.shape.iter().zip(*dims).skip(1).all(|(dim, n)| dim.is_none_or(|m| m == *n));
            // A file may leave the shape open.
            let fits = fits || port.shape.is_empty();
            if !fits || values.is_empty() || count != Some(values.len()) {
                let dim = |dim: &Option<usize>| dim.map_or("?".into(), |n| n.to_string());
                let shape: Vec<String> = port.shape.iter().map(dim).collect();
                return Err(PackedRunError::Input {
                    expected: format!("{} of shape [{}]", port.name, shape.join(", ")),
                    found: format!("{} numbers of shape {dims:?}", values.len()),
                });
            }
        }
        Ok(())
    }
}

/// Returns the inputs and the output of a model, as far as its file declares them.
fn ports(model: &Model) -> (Vec<PackedPort>, PackedPort) {
    let fixed = |shape: &[Dim]| shape.iter().map(Dim::fixed).collect();
    let packed_port = |port: &Port| PackedPort {
        name: port.name.clone(),
        element: port.element.unwrap_or(Element::F32).name(),
        shape: port.shape.as_deref().map(fixed).unwrap_or_default(),
    };
    let inputs = model.inputs.iter().map(packed_port).collect();
    let last = model.outputs.first();
    let mut output = last.map_or_else(
        || PackedPort { name: String::new(), element: Element::F32.name(), shape: Vec::new() },
        packed_port,
    );
    let open = last.filter(|port| port.shape.is_none() || port.element.is_none());
    let inferred = open.and_then(|port| infer(model, &BTreeMap::new()).facts.remove(&port.name));
    if let (Some(port), Some(fact)) = (open, inferred) {
        output.element = port.element.unwrap_or(fact.element).name();
        if port.shape.is_none() {
            output.shape = fixed(&fact.shape);
        }
    }
    (inputs, output)
}

/// Rejects formats of objects that a model does not have.
pub(super) fn known(formats: &Dictionary, objects: &[String]) -> Result<(), PackedError> {
    let unknown = formats.iter().filter(|(object, _)| objects.iter().all(|known| known != object));
    let unknown: Vec<String> = unknown
        .map(|(object, _)| {
            let near = nearest(object, objects.iter().map(String::as_str));
            format!("there is no object `{object}`{near}")
        })
        .collect();
    if unknown.is_empty() { Ok(()) } else { Err(PackedError::Unknown(unknown)) }
}

/// Encodes numbers, and returns their packed codes with the values of these codes.
///
/// # Errors
/// A number is NaN, and the format has none.
pub(super) fn widened(format: Format, numbers: &[f32]) -> Result<(Vec<u8>, Vec<f32>), NanError> {
    let codes = format.encode_slice(numbers, Conversion::default())?;
    let codes = pack(&codes, format.bits());
    let read = unpack(&codes, format.bits(), numbers.len()).unwrap_or_default();
    let widened = format.decode_slice(&read);
    Ok((codes, widened))
}
