//! A tuned model as one file: its graph, and its weights in the bits of their formats.
//!
//! Layout of version 1, with little-endian numbers:
//!
//! | from | bytes | what |
//! | --- | --- | --- |
//! | 0 | 8 | `DYNOPACK` |
//! | 8 | 4 | the version, 1 |
//! | 12 | 4 | H, the bytes of the head |
//! | 16 | 8 | the bytes of the whole file |
//! | 24 | H | the head, JSON: `source` (name and SHA-256 of the model's file), `formats` (a Number configuration file), `is_graph` (whether the model runs node by node; default false), `graph_bytes`, and `weights`, each with `tensor`, `object`, `shape`, `bits` and `bytes` |
//! | 24 + H | `graph_bytes` | the model without these weights, in ONNX |
//! | then | `bytes` of each | codes of a tensor in its order, the first in the lowest bits of the first byte; each tensor begins at a byte |
//! | at the end | 32 | the SHA-256 of all bytes before |

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use dyno_onnx::{Constants, Model, Tensor, Values, in_floats};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::super::graph::PackableTensor;
use super::super::stage::Product;
use super::super::{LayerNames, graph, names, read};
use super::{PackedError, PackedNetwork};
use crate::codec::Conversion;
use crate::config::Dictionary;
use crate::format::Format;
use crate::pack::{pack, packed_bytes, unpack};

const MAGIC: &[u8; 8] = b"DYNOPACK";
const VERSION: u32 = 1;
/// Bytes before the head.
const FIXED: usize = 24;
/// Bytes of the checksum at the end.
const SUM: usize = 32;

/// The model from which a file was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedSource {
    /// Name of the model's file, without its folder.
    pub name: String,
    /// SHA-256 of the model's file, in hexadecimal. If weights are in files beside it, the SHA-256 of
    /// the list of the files with their SHA-256s.
    pub sha256: String,
}

impl PackedSource {
    /// Describes the model's file `path` with the content `bytes`.
    pub fn new(path: &Path, bytes: &[u8]) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let digits = Sha256::digest(bytes);
        Self { name, sha256: digits.iter().map(|byte| format!("{byte:02x}")).collect() }
    }
}

/// Packed weights of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedTensor {
    /// Name of the tensor in the model.
    pub tensor: String,
    /// Object whose format the weights have: `LAYER.weight`.
    pub object: String,
    /// Shape in the model.
    pub shape: Vec<usize>,
    /// Format of each weight.
    pub format: Format,
    /// Packed codes, in the order of the tensor.
    pub codes: Vec<u8>,
}

impl PackedTensor {
    /// Returns the number of weights.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }
}

/// A tuned model that can be written to one file.
///
/// ```
/// use std::path::Path;
///
/// use dyno_number::Dictionary;
/// use dyno_number::evaluate::{PackedFile, PackedSource};
/// use dyno_onnx::{Builder, Dim, Element, Fill, Weights};
///
/// let mut net = Builder::new("small", Weights::seeded(1));
/// let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
/// let weight = net.weight("fc1.weight", &[4, 3], Fill::he(4))?;
/// let y = net.node("MatMul", &[&x, &weight], &[])?;
/// net.output("y", &y)?;
///
/// let formats: Dictionary = "fc1.weight FIXED 4 0\n".parse()?;
/// let source = PackedSource::new(Path::new("small.onnx"), b"bytes of the file");
/// let file = PackedFile::new(&net.finish(), &formats, source)?;
/// assert_eq!(file.weights()[0].codes.len(), 4 * 3 / 2);
/// assert_eq!(PackedFile::from_bytes(&file.to_bytes()?)?, file);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PackedFile {
    source: PackedSource,
    formats: Dictionary,
    /// Whether it is executed node by node.
    is_graph: bool,
    /// Model without the packed weights.
    graph: Model,
    weights: Vec<PackedTensor>,
}

/// Why a file is not a readable packed model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PackedFileError {
    /// The file does not begin like a packed model.
    #[error("expected a packed model as `dyno tune pack` writes it, found something else")]
    Other,
    /// The version is not supported.
    #[error(
        "is a packed model of version {0}, and this Dyno reads version {VERSION}: pack the model \
         again, or take the Dyno that packed it"
    )]
    Version(u32),
    /// The file is too short or too long.
    #[error("{}", length_text(*expected, *found))]
    Length {
        /// Expected number of bytes.
        expected: u64,
        /// Number of bytes of the file.
        found: u64,
    },
    /// The checksum does not match the content.
    #[error(
        "is damaged: its SHA-256 is not the one that it ends with; copy it again, or pack the \
         model again"
    )]
    Altered,
    /// The content is inconsistent, as this sentence describes.
    #[error("is no packed model that makes sense: {0}")]
    Wrong(String),
}

fn length_text(expected: u64, found: u64) -> String {
    if found < expected {
        format!("is cut off: {found} of {expected} bytes are there; copy it again")
    } else {
        format!("has {found} bytes, and a packed model of {expected} at its beginning")
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    source: PackedSource,
    formats: String,
    #[serde(default)]
    is_graph: bool,
    graph_bytes: usize,
    weights: Vec<WeightEntry>,
}

#[derive(Serialize, Deserialize)]
struct WeightEntry {
    tensor: String,
    object: String,
    shape: Vec<usize>,
    bits: u32,
    bytes: usize,
}

impl PackedFile {
    /// Packs the weights that have a format other than FLOAT(32). All other tensors stay in the
    /// graph, including those that are used in several formats or not only as weights, and weights
    /// that the graph computes.
    ///
    /// # Errors
    /// The engine does not support the model, the model does not have the objects of `formats`, or
    /// weights in external files cannot be read.
    pub fn new(
        model: &Model,
        formats: &Dictionary,
        source: PackedSource,
    ) -> Result<Self, PackedError> {
        let model = &*in_floats(model);
        // Only models that can be executed are packed.
        let is_graph = PackedNetwork::new(model, formats)?.is_graph();
        let resolved = if is_graph { by_weights(model, formats)? } else { Cow::Borrowed(formats) };
        let formats = &*resolved;
        let (found, graph) = if is_graph {
            PackableTensor::from_model(model, formats)?
        } else {
            (chain_tensors(model, formats)?, model.clone())
        };
        let mut weights: Vec<PackedTensor> = Vec::new();
        for PackableTensor { tensor, object, shape, values } in found {
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

    /// Returns the model from which it was made.
    pub fn source(&self) -> &PackedSource {
        &self.source
    }

    /// Returns the formats of all objects.
    pub fn formats(&self) -> &Dictionary {
        &self.formats
    }

    /// Returns the packed weights.
    pub fn weights(&self) -> &[PackedTensor] {
        &self.weights
    }

    /// Returns the network, ready for execution. Its scores are equal to those of the model that
    /// was packed, bit by bit.
    ///
    /// # Errors
    /// As for [`PackedNetwork::new`].
    pub fn network(&self) -> Result<PackedNetwork, PackedError> {
        let mut model = self.graph.clone();
        model.tensors.extend(self.weights.iter().map(|tensor| {
            let codes =
                unpack(&tensor.codes, tensor.format.bits(), tensor.count()).unwrap_or_default();
            Tensor::from_f32(&tensor.tensor, &tensor.shape, &tensor.format.decode_slice(&codes))
        }));
        // A model may have become a chain only because normalizations were folded into
        // convolutions.
        if self.is_graph {
            PackedNetwork::graph(&model, &self.formats)
        } else {
            PackedNetwork::new(&model, &self.formats)
        }
    }

    /// Returns the content of the file.
    ///
    /// # Errors
    /// The graph cannot be written, or exceeds the limits of the layout.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PackedError> {
        let graph = self.graph.to_bytes();
        let graph = graph.map_err(|error| PackedError::Model(error.to_string()))?;
        let part = |tensor: &PackedTensor| WeightEntry {
            tensor: tensor.tensor.clone(),
            object: tensor.object.clone(),
            shape: tensor.shape.clone(),
            bits: tensor.format.bits(),
            bytes: tensor.codes.len(),
        };
        let head = Header {
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
        let codes: usize = self.weights.iter().map(|tensor| tensor.codes.len()).sum();
        let whole = FIXED + head.len() + graph.len() + codes + SUM;
        let mut bytes = Vec::with_capacity(whole);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(head_bytes.to_le_bytes());
        bytes.extend((whole as u64).to_le_bytes());
        bytes.extend(head);
        bytes.extend(graph);
        self.weights.iter().for_each(|tensor| bytes.extend(&tensor.codes));
        let sum = Sha256::digest(&bytes);
        bytes.extend(sum);
        Ok(bytes)
    }

    /// Reads the content of a file.
    ///
    /// # Errors
    /// The content is not a valid packed model; see [`PackedFileError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PackedFileError> {
        let head_bytes = fixed(bytes)?;
        let (body, sum) = bytes.split_at(bytes.len() - SUM);
        if Sha256::digest(body).as_slice() != sum {
            return Err(PackedFileError::Altered);
        }
        let mut rest = Cursor { bytes: &body[FIXED..] };
        let wrong = |what: &dyn fmt::Display| PackedFileError::Wrong(what.to_string());
        let head = rest.take(head_bytes, "head")?;
        let head: Header =
            serde_json::from_slice(head).map_err(|error| wrong(&format!("its head: {error}")))?;
        let formats: Dictionary =
            head.formats.parse().map_err(|error| wrong(&format!("its formats: {error}")))?;
        let graph = rest.take(head.graph_bytes, "graph")?;
        let graph = Model::from_bytes(graph, Path::new("")).map_err(|error| wrong(&error))?;
        if let Some(path) = graph.external_files().first() {
            return Err(wrong(&format!("its graph asks for the file {}", path.display())));
        }
        let weights = head.weights.into_iter().map(|part| weights(part, &formats, &mut rest));
        let weights = weights.collect::<Result<Vec<_>, _>>()?;
        if !rest.bytes.is_empty() {
            return Err(wrong(&format!("{} bytes are left over", rest.bytes.len())));
        }
        let mut names: BTreeSet<&str> =
            graph.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        if let Some(twice) = weights.iter().find(|tensor| !names.insert(&tensor.tensor)) {
            return Err(wrong(&format!("it has {} twice", twice.tensor)));
        }
        Ok(Self { source: head.source, formats, is_graph: head.is_graph, graph, weights })
    }
}

/// Checks what precedes the head, and returns the length of the head.
fn fixed(bytes: &[u8]) -> Result<usize, PackedFileError> {
    let number = |at: usize| {
        let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
        four.map(u32::from_le_bytes)
    };
    if !bytes.starts_with(MAGIC) {
        return Err(PackedFileError::Other);
    }
    let found = bytes.len() as u64;
    let cut = PackedFileError::Length { expected: (FIXED + SUM) as u64, found };
    let Some(version) = number(8) else { return Err(cut) };
    if version != VERSION {
        return Err(PackedFileError::Version(version));
    }
    let (Some(head), Some(low), Some(high)) = (number(12), number(16), number(20)) else {
        return Err(cut);
    };
    let expected = u64::from(low) | u64::from(high) << 32;
    if bytes.len() < FIXED + SUM {
        return Err(cut);
    }
    if expected != found {
        return Err(PackedFileError::Length { expected, found });
    }
    Ok(head as usize)
}

/// The part that was not read yet.
struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8], PackedFileError> {
        let Some((taken, rest)) = self.bytes.split_at_checked(count) else {
            let found = self.bytes.len();
            return Err(PackedFileError::Wrong(format!("its {what} has {count} bytes of {found}")));
        };
        self.bytes = rest;
        Ok(taken)
    }
}

fn weights(
    part: WeightEntry,
    formats: &Dictionary,
    rest: &mut Cursor<'_>,
) -> Result<PackedTensor, PackedFileError> {
    let WeightEntry { tensor, object, shape, bits, bytes } = part;
    let wrong = |what: String| Err(PackedFileError::Wrong(format!("{tensor}: {what}")));
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

/// Returns the weights of a chain that have a format.
fn chain_tensors(model: &Model, formats: &Dictionary) -> Result<Vec<PackableTensor>, PackedError> {
    let (stages, _) = read::stages(model).map_err(PackedError::Network)?;
    let constants = Constants::new(model);
    let products: Vec<_> = stages.iter().filter_map(|stage| stage.product.as_ref()).collect();
    let mut found: Vec<PackableTensor> = Vec::new();
    for product in &products {
        let [object, _] = names(product);
        let format = formats.format(&object);
        let is_other = |other: &&&Product| {
            other.tensor == product.tensor && formats.format(&names(other)[0]) != format
        };
        let is_known = found.iter().any(|known| known.tensor == product.tensor);
        if format == Format::F32 || is_known || products.iter().any(|tensor| is_other(&tensor)) {
            continue;
        }
        let Some(tensor) = constants.get(&product.tensor) else { continue };
        let Some(values) = tensor.floats() else { continue };
        let shape = tensor.shape;
        let tensor = product.tensor.clone();
        found.push(PackableTensor { tensor, object, shape, values });
    }
    Ok(found)
}

/// Returns formats by the names of layers in the engine of graphs.
fn by_weights<'f>(
    model: &Model,
    formats: &'f Dictionary,
) -> Result<Cow<'f, Dictionary>, PackedError> {
    let (layers, _) = graph::names(model).map_err(PackedError::Network)?;
    let objects: Vec<String> = layers
        .iter()
        .flat_map(|layer| [format!("{layer}.weight"), format!("{layer}.input")])
        .collect();
    Ok(LayerNames::resolve(model, formats, &objects))
}

/// Returns the model without the packed weights, and without nodes that only these needed.
fn without(mut graph: Model, weights: &[PackedTensor]) -> Result<Model, PackedError> {
    let is_packed = |name: &str| weights.iter().any(|tensor| tensor.tensor == name);
    graph.nodes.retain(|node| !node.outputs.iter().any(|output| is_packed(output)));
    graph.tensors.retain(|tensor| !is_packed(&tensor.name));
    // Bodies of nodes refer to outer values by name. With such nodes, nothing else is removed.
    if graph.nodes.iter().all(|node| node.bodies().next().is_none()) {
        let mut used: BTreeSet<String> =
            graph.outputs.iter().map(|port| port.name.clone()).collect();
        let mut needed = Vec::new();
        for node in graph.nodes.into_iter().rev() {
            if node.outputs.iter().any(|output| used.contains(output)) {
                used.extend(node.inputs.iter().cloned());
                needed.push(node);
            }
        }
        needed.reverse();
        graph.nodes = needed;
        graph.tensors.retain(|tensor| used.contains(&tensor.name));
    }
    for tensor in &mut graph.tensors {
        if matches!(tensor.values, Values::External { .. }) {
            tensor.load().map_err(|error| PackedError::Model(error.to_string()))?;
        }
    }
    Ok(graph)
}
