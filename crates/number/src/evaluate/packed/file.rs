//! A tuned model as one file: its graph, and its weights in the bits of their formats.
//!
//! The layout, version 1; numbers are little-endian:
//!
//! | from | bytes | what |
//! | --- | --- | --- |
//! | 0 | 8 | `DYNOPACK` |
//! | 8 | 4 | the version, 1 |
//! | 12 | 4 | H, the bytes of the head |
//! | 16 | 8 | the bytes of the whole file |
//! | 24 | H | the head, JSON: `source` (name and SHA-256 of the model's file), `formats` (a Number configuration file), `is_graph` (whether the model is done node by node, false where it is not said), `graph_bytes`, and `weights`, each with `tensor`, `object`, `shape`, `bits` and `bytes` |
//! | 24 + H | `graph_bytes` | the model without these weights, as ONNX has it |
//! | then | `bytes` of each | codes of a tensor in its order, the first in the lowest bits of the first byte; each tensor begins with a byte |
//! | at the end | 32 | the SHA-256 of all before |

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use dyno_onnx::{Constants, Model, Tensor, Values};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::super::graph::Weights;
use super::super::stage::Product;
use super::super::{names, read};
use super::{Packed, PackedError};
use crate::codec::Conversion;
use crate::config::Dictionary;
use crate::format::Format;
use crate::pack::{pack, packed_bytes, unpack};

const MAGIC: &[u8; 8] = b"DYNOPACK";
const VERSION: u32 = 1;
/// Before the head.
const FIXED: usize = 24;
/// The sum at the end.
const SUM: usize = 32;

/// What a file was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The model's file, without its folder.
    pub name: String,
    /// Of that file, in hexadecimal.
    pub sha256: String,
}

impl Source {
    /// Of a model's file with these bytes.
    #[must_use]
    pub fn of(path: &Path, bytes: &[u8]) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let digits = Sha256::digest(bytes);
        Self { name, sha256: digits.iter().map(|byte| format!("{byte:02x}")).collect() }
    }
}

/// Weights as they lie in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedTensor {
    /// What the model calls them.
    pub tensor: String,
    /// Whose format they have: `LAYER.weight`.
    pub object: String,
    /// As the model has it.
    pub shape: Vec<usize>,
    /// Of each.
    pub format: Format,
    /// In the order of the model, without a gap between them.
    pub codes: Vec<u8>,
}

impl PackedTensor {
    /// How many weights these are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }
}

/// A tuned model, to be handed over.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedFile {
    source: Source,
    formats: Dictionary,
    /// Whether it is done node by node.
    is_graph: bool,
    /// Without the weights that are packed.
    graph: Model,
    weights: Vec<PackedTensor>,
}

/// Why a file is no packed model that reads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileError {
    /// It does not begin as one.
    Other,
    /// It is of a version that is not known here.
    Version(u32),
    /// It ends too early or too late.
    Length {
        /// Bytes that it should have.
        expected: u64,
        /// Bytes that there are.
        found: u64,
    },
    /// Some of it is not as it was written.
    Altered,
    /// It was written by something else, and contradicts itself: how.
    Wrong(String),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other => {
                f.write_str("expected a packed model as `dyno tune pack` writes it, found something else")
            }
            Self::Version(found) => write!(
                f,
                "is a packed model of version {found}, and this Dyno reads version {VERSION}: pack the model \
                 again, or take the Dyno that packed it"
            ),
            Self::Length { expected, found } if found < expected => {
                write!(f, "is cut off: {found} of {expected} bytes are there; copy it again")
            }
            Self::Length { expected, found } => {
                write!(f, "has {found} bytes, and a packed model of {expected} at its beginning")
            }
            Self::Altered => f.write_str(
                "is damaged: its SHA-256 is not the one that it ends with; copy it again, or pack the model \
                 again",
            ),
            Self::Wrong(what) => write!(f, "is no packed model that makes sense: {what}"),
        }
    }
}

impl std::error::Error for FileError {}

#[derive(Serialize, Deserialize)]
struct Head {
    source: Source,
    formats: String,
    #[serde(default)]
    is_graph: bool,
    graph_bytes: usize,
    weights: Vec<Part>,
}

#[derive(Serialize, Deserialize)]
struct Part {
    tensor: String,
    object: String,
    shape: Vec<usize>,
    bits: u32,
    bytes: usize,
}

impl PackedFile {
    /// Packs the weights that have a format other than FLOAT(32); all others stay in the graph. So do tensors that
    /// are used in different formats or otherwise, and weights that the graph computes.
    ///
    /// # Errors
    /// As [`Packed::new`], or weights that lie in other files cannot be read.
    pub fn new(model: &Model, formats: &Dictionary, source: Source) -> Result<Self, PackedError> {
        // Whatever cannot be executed is not handed over.
        let is_graph = Packed::new(model, formats)?.is_graph();
        let (found, graph) = match is_graph {
            true => Weights::of(model, formats)?,
            false => (of_chain(model, formats)?, model.clone()),
        };
        let mut weights: Vec<PackedTensor> = Vec::new();
        for Weights { tensor, object, shape, values } in found {
            let format = formats.format(&object);
            let codes = format.encode_slice(&values, Conversion::default());
            let layer = object.strip_suffix(".weight").unwrap_or(&object).to_owned();
            let codes = codes.map_err(|cause| PackedError::Nan { layer, cause })?;
            let codes = pack(&codes, format.bits());
            weights.push(PackedTensor { tensor, object, shape, format, codes });
        }
        let graph = without(graph, &weights)?;
        Ok(Self { source, formats: formats.clone(), is_graph, graph, weights })
    }

    /// What it was made of.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Formats of all objects.
    #[must_use]
    pub fn formats(&self) -> &Dictionary {
        &self.formats
    }

    /// The weights that are packed.
    #[must_use]
    pub fn weights(&self) -> &[PackedTensor] {
        &self.weights
    }

    /// The network, ready to be executed: its scores are those of the model that was packed, to the last bit.
    ///
    /// # Errors
    /// As [`Packed::new`].
    pub fn network(&self) -> Result<Packed, PackedError> {
        let mut model = self.graph.clone();
        model.tensors.extend(self.weights.iter().map(|of| {
            let codes = unpack(&of.codes, of.format.bits(), of.count()).unwrap_or_default();
            Tensor::of_f32(&of.tensor, &of.shape, &of.format.decode_slice(&codes))
        }));
        // It may be a chain only since normalisations were made parts of convolutions.
        match self.is_graph {
            true => Packed::graph(&model, &self.formats),
            false => Packed::new(&model, &self.formats),
        }
    }

    /// The file.
    ///
    /// # Errors
    /// The graph cannot be written, or is larger than the layout allows: a sentence.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PackedError> {
        let graph = self.graph.to_bytes();
        let graph = graph.map_err(|error| PackedError::Model(error.to_string()))?;
        let part = |of: &PackedTensor| Part {
            tensor: of.tensor.clone(),
            object: of.object.clone(),
            shape: of.shape.clone(),
            bits: of.format.bits(),
            bytes: of.codes.len(),
        };
        let head = Head {
            source: self.source.clone(),
            formats: self.formats.to_string(),
            is_graph: self.is_graph,
            graph_bytes: graph.len(),
            weights: self.weights.iter().map(part).collect(),
        };
        let head =
            serde_json::to_vec(&head).map_err(|error| PackedError::Model(error.to_string()))?;
        let long = |_| PackedError::Model("has a head of more than 4 GiB".into());
        let head_bytes = u32::try_from(head.len()).map_err(long)?;
        let codes: usize = self.weights.iter().map(|of| of.codes.len()).sum();
        let whole = FIXED + head.len() + graph.len() + codes + SUM;
        let mut bytes = Vec::with_capacity(whole);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(head_bytes.to_le_bytes());
        bytes.extend((whole as u64).to_le_bytes());
        bytes.extend(head);
        bytes.extend(graph);
        self.weights.iter().for_each(|of| bytes.extend(&of.codes));
        let sum = Sha256::digest(&bytes);
        bytes.extend(sum);
        Ok(bytes)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FileError> {
        let head_bytes = fixed(bytes)?;
        let (body, sum) = bytes.split_at(bytes.len() - SUM);
        if Sha256::digest(body).as_slice() != sum {
            return Err(FileError::Altered);
        }
        let mut rest = Rest { bytes: &body[FIXED..] };
        let wrong = |what: &dyn fmt::Display| FileError::Wrong(what.to_string());
        let head = rest.take(head_bytes, "head")?;
        let head: Head =
            serde_json::from_slice(head).map_err(|error| wrong(&format!("its head: {error}")))?;
        let formats: Dictionary =
            head.formats.parse().map_err(|error| wrong(&format!("its formats: {error}")))?;
        let graph = rest.take(head.graph_bytes, "graph")?;
        let graph = Model::from_bytes(graph, Path::new("")).map_err(|error| wrong(&error))?;
        if let Some(path) = graph.files().first() {
            return Err(wrong(&format!("its graph asks for the file {}", path.display())));
        }
        let weights = head.weights.into_iter().map(|part| weights(part, &formats, &mut rest));
        let weights = weights.collect::<Result<Vec<_>, _>>()?;
        if !rest.bytes.is_empty() {
            return Err(wrong(&format!("{} bytes are left over", rest.bytes.len())));
        }
        let mut names: BTreeSet<&str> =
            graph.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        if let Some(twice) = weights.iter().find(|of| !names.insert(&of.tensor)) {
            return Err(wrong(&format!("it has {} twice", twice.tensor)));
        }
        Ok(Self { source: head.source, formats, is_graph: head.is_graph, graph, weights })
    }
}

/// Looks at what stands before the head; returns how long that is.
fn fixed(bytes: &[u8]) -> Result<usize, FileError> {
    let number = |at: usize| {
        let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
        four.map(u32::from_le_bytes)
    };
    if !bytes.starts_with(MAGIC) {
        return Err(FileError::Other);
    }
    let found = bytes.len() as u64;
    let cut = FileError::Length { expected: (FIXED + SUM) as u64, found };
    let Some(version) = number(8) else { return Err(cut) };
    if version != VERSION {
        return Err(FileError::Version(version));
    }
    let (Some(head), Some(low), Some(high)) = (number(12), number(16), number(20)) else {
        return Err(cut);
    };
    let expected = u64::from(low) | u64::from(high) << 32;
    if bytes.len() < FIXED + SUM {
        return Err(cut);
    }
    if expected != found {
        return Err(FileError::Length { expected, found });
    }
    Ok(head as usize)
}

/// What is not read yet.
struct Rest<'a> {
    bytes: &'a [u8],
}

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8], FileError> {
        let Some((taken, rest)) = self.bytes.split_at_checked(count) else {
            let found = self.bytes.len();
            return Err(FileError::Wrong(format!("its {what} has {count} bytes of {found}")));
        };
        self.bytes = rest;
        Ok(taken)
    }
}

fn weights(
    part: Part,
    formats: &Dictionary,
    rest: &mut Rest<'_>,
) -> Result<PackedTensor, FileError> {
    let Part { tensor, object, shape, bits, bytes } = part;
    let wrong = |what: String| Err(FileError::Wrong(format!("{tensor}: {what}")));
    let Some(format) = formats.find(&object) else {
        return wrong(format!("its formats have no {object}"));
    };
    if format.bits() != bits {
        return wrong(format!("has {bits} bits, and {object} is {format}"));
    }
    let count = shape.iter().try_fold(1_usize, |count, n| count.checked_mul(*n));
    match count {
        Some(count) if packed_bytes(count, bits) == bytes => {}
        _ => return wrong(format!("{bytes} bytes are not {shape:?} codes of {bits} bits")),
    }
    let codes = rest.take(bytes, &tensor)?.to_vec();
    Ok(PackedTensor { tensor, object, shape, format, codes })
}

/// The weights of a chain that have a format.
fn of_chain(model: &Model, formats: &Dictionary) -> Result<Vec<Weights>, PackedError> {
    let stages = read::stages(model).map_err(PackedError::Network)?;
    let constants = Constants::new(model);
    let products: Vec<_> = stages.iter().filter_map(|stage| stage.product.as_ref()).collect();
    let mut found: Vec<Weights> = Vec::new();
    for product in &products {
        let [object, _] = names(product);
        let format = formats.format(&object);
        let is_other = |other: &&&Product| {
            other.tensor == product.tensor && formats.format(&names(other)[0]) != format
        };
        let is_known = found.iter().any(|known| known.tensor == product.tensor);
        if format == Format::F32 || is_known || products.iter().any(|of| is_other(&of)) {
            continue;
        }
        let Some(tensor) = constants.get(&product.tensor) else { continue };
        let Some(values) = tensor.floats() else { continue };
        let (tensor, shape) = (product.tensor.clone(), tensor.shape);
        found.push(Weights { tensor, object, shape, values });
    }
    Ok(found)
}

/// The model without these weights, and without what only they were made of.
fn without(mut graph: Model, weights: &[PackedTensor]) -> Result<Model, PackedError> {
    let is_packed = |name: &str| weights.iter().any(|of| of.tensor == name);
    graph.nodes.retain(|node| !node.outputs.iter().any(|output| is_packed(output)));
    graph.tensors.retain(|tensor| !is_packed(&tensor.name));
    // Bodies of nodes use what lies around them by name: nothing else is left out then.
    if graph.nodes.iter().all(|node| node.bodies().next().is_none()) {
        let mut used: BTreeSet<String> =
            graph.outputs.iter().map(|port| port.name.clone()).collect();
        let mut kept = Vec::new();
        for node in graph.nodes.into_iter().rev() {
            if node.outputs.iter().any(|output| used.contains(output)) {
                used.extend(node.inputs.iter().cloned());
                kept.push(node);
            }
        }
        kept.reverse();
        graph.nodes = kept;
        graph.tensors.retain(|tensor| used.contains(&tensor.name));
    }
    for tensor in &mut graph.tensors {
        if matches!(tensor.values, Values::External { .. }) {
            tensor.load().map_err(|error| PackedError::Model(error.to_string()))?;
        }
    }
    Ok(graph)
}
