//! A network whose weights are held in the bits of their formats, ready to be executed.
//!
//! It is what an [`Evaluator`](super::Evaluator) or a [`Graph`](super::graph::Graph) evaluates, without its
//! samples: the same steps by the same kernels, so that its answers are theirs to the last bit. Weights are held
//! as packed codes, and widened once to what the kernels read: bytes where a layer's two formats allow it, `f32`
//! elsewhere. A chain of layers is done by the engine of chains; what is none, node by node.

mod chain;
mod file;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path as FilePath;
use std::sync::Arc;

use dyno_kernels::Isa;
use dyno_onnx::shape::{Dim, infer};
use dyno_onnx::{Element, Model, Port};

use self::chain::Chain;
pub use self::file::{FileError, PackedFile, PackedTensor, Source};
use super::EvaluateError;
use super::graph::Held;
use super::stage::{Path, Scratch};
use crate::codec::{Conversion, NanError};
use crate::config::Dictionary;
use crate::descriptor::nearest;
use crate::format::Format;
use crate::pack::{pack, unpack};

/// A network in its formats.
#[derive(Debug)]
pub struct Packed {
    network: Network,
    layers: Vec<PackedLayer>,
    inputs: Vec<PackedPort>,
    output: PackedPort,
}

#[derive(Debug)]
enum Network {
    /// Layers one after the other, which are done together.
    Chain(Box<Chain>),
    /// Anything else.
    Graph(Box<Held>),
}

/// An input of a network, or its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedPort {
    /// As the model has it.
    pub name: String,
    /// Of its elements, as NumPy calls it: `float32`. Here they are all `f32`.
    pub element: &'static str,
    /// Dimensions, that of samples first; `None` is one that each call chooses.
    pub shape: Vec<Option<usize>>,
}

/// A layer with weights.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedLayer {
    /// Of the layer: its objects are `NAME.weight` and `NAME.input`.
    pub name: String,
    /// Of its weights.
    pub weight: Format,
    /// Of what it multiplies them by.
    pub activation: Format,
    /// How its products are made, and why.
    pub path: Path,
    /// Codes of its weights, in the order in which the layer has them, without a gap between them.
    pub codes: Vec<u8>,
    /// How many weights these are.
    pub weights: usize,
    /// Bytes that are read instead of the codes: widened, with zeros to whole vectors of outputs.
    pub widened_bytes: usize,
    /// Products of a sample; of a row or a step, where samples have any number of those.
    pub macs: usize,
}

/// Why a network cannot be executed in formats.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PackedError {
    /// The file is no model that reads.
    Model(String),
    /// The engine cannot do the model.
    Network(EvaluateError),
    /// Formats are given to objects that the model has not: a sentence each, with the nearest name.
    Unknown(Vec<String>),
    /// A weight is NaN, and its format has none.
    Nan {
        /// Of which layer.
        layer: String,
        /// Which format, and where.
        cause: NanError,
    },
}

impl fmt::Display for PackedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(what) => f.write_str(what),
            Self::Network(error) => error.fmt(f),
            Self::Unknown(sentences) => f.write_str(&sentences.join("; ")),
            Self::Nan { layer, cause } => write!(f, "weights of {layer}: {cause}"),
        }
    }
}

impl std::error::Error for PackedError {}

/// Why there is no answer to a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RunError {
    /// A value is NaN, and its format has none.
    Nan(NanError),
    /// An input is not as the model has it.
    Input {
        /// What the model takes.
        expected: String,
        /// What there is.
        found: String,
    },
    /// A node cannot do it with these numbers, such as a table that has no row of a number.
    Node {
        /// The operator.
        op: String,
        /// Of the node; may be empty.
        name: String,
        /// What it does.
        what: String,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nan(error) => error.fmt(f),
            Self::Input { expected, found } => write!(f, "expected {expected}, found {found}"),
            Self::Node { op, name, what } if name.is_empty() => write!(f, "{op} {what}"),
            Self::Node { op, name, what } => write!(f, "{op} ({name}) {what}"),
        }
    }
}

impl std::error::Error for RunError {}

/// Numbers in row-major order, of an input or of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View<'a> {
    /// Samples first.
    pub dims: &'a [usize],
    /// A number for each place. Whole numbers of 24 bits at most are exact.
    pub values: &'a [f32],
}

/// Memory of a thread that executes networks; what it holds is of the last call.
#[derive(Debug, Default)]
pub struct Workspace {
    scratch: Scratch,
    from: Vec<f32>,
    to: Vec<f32>,
    dims: Vec<usize>,
    scores: Vec<f32>,
    answer: Arc<Vec<f32>>,
}

impl Packed {
    /// Reads an ONNX file.
    ///
    /// # Errors
    /// The file does not read, the engine cannot do it, or it has not the objects of `formats`.
    pub fn read(path: &FilePath, formats: &Dictionary) -> Result<Self, PackedError> {
        let model = Model::read(path).map_err(|error| PackedError::Model(error.to_string()))?;
        Self::new(&model, formats)
    }

    /// A model whose objects have these formats, and FLOAT(32) where they have none. Its first output is its
    /// answer.
    ///
    /// # Errors
    /// The engine cannot do the model, or it has not the objects of `formats`.
    pub fn new(model: &Model, formats: &Dictionary) -> Result<Self, PackedError> {
        match Self::chain(model, formats) {
            Err(PackedError::Network(_)) => Self::graph(model, formats),
            // Layers that share weights are one object to the engine of graphs.
            Err(unknown @ PackedError::Unknown(_)) => {
                Self::graph(model, formats).map_err(|_| unknown)
            }
            found => found,
        }
    }

    fn chain(model: &Model, formats: &Dictionary) -> Result<Self, PackedError> {
        let (chain, layers) = Chain::new(model, formats)?;
        let (mut inputs, mut output) = ports(model);
        // One after the other, whatever number of samples the file says.
        for port in inputs.iter_mut().chain([&mut output]) {
            port.shape.iter_mut().take(1).for_each(|samples| *samples = None);
        }
        output.shape = vec![None, Some(chain.outputs())];
        Ok(Self { network: Network::Chain(Box::new(chain)), layers, inputs, output })
    }

    /// Node by node, even if it is a chain.
    fn graph(model: &Model, formats: &Dictionary) -> Result<Self, PackedError> {
        let (held, layers) = Held::new(model, formats)?;
        let (inputs, output) = ports(model);
        Ok(Self { network: Network::Graph(Box::new(held)), layers, inputs, output })
    }

    /// Whether it is done node by node.
    fn is_graph(&self) -> bool {
        matches!(self.network, Network::Graph(_))
    }

    /// The same with the instructions of another set where it multiplies by weights.
    #[must_use]
    pub fn on(mut self, isa: Isa) -> Self {
        match &mut self.network {
            Network::Chain(chain) => chain.on(isa),
            Network::Graph(held) => held.on(isa),
        }
        self
    }

    /// The layers with weights, in order.
    #[must_use]
    pub fn layers(&self) -> &[PackedLayer] {
        &self.layers
    }

    /// What the model is fed.
    #[must_use]
    pub fn inputs(&self) -> &[PackedPort] {
        &self.inputs
    }

    /// What it answers.
    #[must_use]
    pub fn output(&self) -> &PackedPort {
        &self.output
    }

    /// Bytes of the packed weights of all layers.
    #[must_use]
    pub fn packed_bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.codes.len()).sum()
    }

    /// The answers to some samples, from all inputs in the order of the model.
    ///
    /// # Errors
    /// Inputs do not fit, or a value is NaN, and its format has none.
    pub fn run<'w>(
        &self,
        inputs: &[View<'_>],
        workspace: &'w mut Workspace,
    ) -> Result<View<'w>, RunError> {
        self.check(inputs)?;
        let Workspace { scratch, from, to, dims, scores, answer } = workspace;
        match &self.network {
            Network::Chain(chain) => {
                let View { values, .. } = inputs[0];
                chain.run(values, scratch, [from, to], scores).map_err(RunError::Nan)?;
                dims.clear();
                dims.extend([values.len() / chain.input().len(), chain.outputs()]);
                Ok(View { dims, values: scores })
            }
            Network::Graph(held) => {
                let owned = |of: &View<'_>| (of.dims.to_vec(), of.values.to_vec());
                (*dims, *answer) = held.run(inputs.iter().map(owned).collect(), scratch)?;
                Ok(View { dims, values: answer })
            }
        }
    }

    /// Looks whether inputs are as the model declares them, whatever number of samples it says.
    fn check(&self, inputs: &[View<'_>]) -> Result<(), RunError> {
        if inputs.len() != self.inputs.len() {
            let names: Vec<&str> = self.inputs.iter().map(|port| port.name.as_str()).collect();
            let expected = format!("inputs {}", names.join(", "));
            return Err(RunError::Input { expected, found: format!("{} of them", inputs.len()) });
        }
        for (port, View { dims, values }) in self.inputs.iter().zip(inputs) {
            let count = dims.iter().try_fold(1_usize, |count, n| count.checked_mul(*n));
            let fits = port.shape.len() == dims.len()
                && port.shape.iter().zip(*dims).skip(1).all(|(dim, n)| dim.is_none_or(|m| m == *n));
            // A file may leave the shape open.
            let fits = fits || port.shape.is_empty();
            if !fits || values.is_empty() || count != Some(values.len()) {
                let dim = |dim: &Option<usize>| dim.map_or("?".into(), |n| n.to_string());
                let shape: Vec<String> = port.shape.iter().map(dim).collect();
                return Err(RunError::Input {
                    expected: format!("{} of shape [{}]", port.name, shape.join(", ")),
                    found: format!("{} numbers of shape {dims:?}", values.len()),
                });
            }
        }
        Ok(())
    }
}

/// What a model is fed and what it answers, as far as its file tells.
fn ports(model: &Model) -> (Vec<PackedPort>, PackedPort) {
    let fixed = |shape: &[Dim]| shape.iter().map(Dim::fixed).collect();
    let of = |port: &Port| PackedPort {
        name: port.name.clone(),
        element: port.element.unwrap_or(Element::F32).name(),
        shape: port.shape.as_deref().map(fixed).unwrap_or_default(),
    };
    let inputs = model.inputs.iter().map(of).collect();
    let last = model.outputs.first();
    let mut output = last.map_or_else(
        || PackedPort { name: String::new(), element: Element::F32.name(), shape: Vec::new() },
        of,
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

/// Refuses formats of objects that a model has not.
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

/// Numbers as packed codes of a format, and what these codes are: made of them, not of the numbers.
///
/// # Errors
/// One is NaN, and the format has none.
pub(super) fn widened(format: Format, numbers: &[f32]) -> Result<(Vec<u8>, Vec<f32>), NanError> {
    let codes = format.encode_slice(numbers, Conversion::default())?;
    let codes = pack(&codes, format.bits());
    let read = unpack(&codes, format.bits(), numbers.len()).unwrap_or_default();
    let widened = format.decode_slice(&read);
    Ok((codes, widened))
}
