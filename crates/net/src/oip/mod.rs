//! The Open Inference Protocol (version 2 of KServe's), in both directions and without sockets:
//! tensors, inference requests and answers, metadata. Module [`http`] has their form over HTTP,
//! module [`grpc`](mod@grpc) that over gRPC.
//!
//! Source: the protocol's specification ("Open Inference Protocol", KServe), its extension for
//! binary tensors, and `open_inference_grpc.proto`.

mod client;
mod datatype;
mod elements;
pub mod grpc;
pub mod http;
mod json;
pub mod messages;
mod samples;
mod sequence;
mod strings;

use bytes::Bytes;

use crate::trouble::{Kind, Trouble};

pub use client::{Form, Oip};
pub use datatype::Datatype;
pub(crate) use elements::with_quoted_numbers;
pub use samples::{Model, Samples, random_inputs};
pub use sequence::{PlayedSequences, SequenceId, SequenceStep};
pub use strings::StringInput;

/// Elements of one name, type and shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Its name in the model.
    pub name: String,
    /// Type of the elements.
    pub datatype: Datatype,
    /// Dimensions, the batch first where the model has one.
    pub shape: Vec<usize>,
    /// Elements row by row, little-endian; each element of [`Datatype::Bytes`] has its length
    /// before it, as an unsigned number of 4 bytes.
    pub data: Bytes,
}

/// Inference request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InferRequest {
    /// The model; over HTTP it is part of the path.
    pub model_name: String,
    /// Its version; empty if the server chooses.
    pub model_version: String,
    /// Identifier, copied to the answer; may be empty.
    pub id: String,
    /// Inputs.
    pub inputs: Vec<Tensor>,
    /// Requested outputs; empty means all.
    pub outputs: Vec<RequestedOutput>,
    /// Whether outputs default to binary form (HTTP only).
    pub wants_binary: bool,
    /// The sequence to which the request belongs, if any.
    pub sequence: Option<SequenceStep>,
}

/// A requested output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedOutput {
    /// Its name.
    pub name: String,
    /// Binary form or JSON; `None` uses the default of the request (HTTP only).
    pub is_binary: Option<bool>,
}

/// Inference answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InferResponse {
    /// The model.
    pub model_name: String,
    /// Its version; may be empty.
    pub model_version: String,
    /// Identifier of the request.
    pub id: String,
    /// Outputs.
    pub outputs: Vec<Tensor>,
}

/// Metadata of a model from its server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelMetadata {
    /// The model.
    pub name: String,
    /// Its versions.
    pub versions: Vec<String>,
    /// Runtime of the model, such as `onnxruntime_onnx`.
    pub platform: String,
    /// Inputs; some servers do not list them.
    pub inputs: Vec<TensorMetadata>,
    /// Outputs; some servers do not list them.
    pub outputs: Vec<TensorMetadata>,
}

/// Metadata of an input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorMetadata {
    /// Its name.
    pub name: String,
    /// Name of the type as written by the server; [`Datatype::named`] knows those of the protocol.
    pub datatype: String,
    /// Dimensions; -1 means that each request chooses it.
    pub shape: Vec<i64>,
    /// Whether a request may leave the input out.
    pub is_optional: bool,
}

/// Metadata of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerMetadata {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Names of extensions, such as `binary_tensor_data`.
    pub extensions: Vec<String>,
}

impl Tensor {
    /// Returns the number of elements of the shape; `None` if no machine could hold them.
    pub fn elements(&self) -> Option<usize> {
        elements_of(&self.shape)
    }
}

impl InferRequest {
    /// Returns whether this output is requested in binary form over HTTP.
    pub fn is_binary(&self, output: &str) -> bool {
        let asked = self.outputs.iter().find(|asked| asked.name == output);
        asked.and_then(|asked| asked.is_binary).unwrap_or(self.wants_binary)
    }
}

/// Maximum number of dimensions of a tensor, as in NumPy. Messages about a tensor list all of them.
const MOST_DIMENSIONS: usize = 64;

/// Returns the shape of a tensor whose message states these dimensions.
///
/// # Errors
/// A negative dimension, or more than [`MOST_DIMENSIONS`].
fn shape_of(name: &str, dimensions: &[i64]) -> Result<Vec<usize>, Trouble> {
    let wrong = |what: String| Trouble::new(Kind::Malformed, format!("tensor '{name}' has {what}"));
    if dimensions.len() > MOST_DIMENSIONS {
        let found = dimensions.len();
        return Err(wrong(format!("{found} dimensions; expected at most {MOST_DIMENSIONS}")));
    }
    let sizes = dimensions.iter().map(|&dimension| {
        usize::try_from(dimension).map_err(|_| wrong(format!("a dimension of {dimension}")))
    });
    sizes.collect()
}

/// Returns the product of dimensions; `None` on overflow.
fn elements_of(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |product, &dimension| product.checked_mul(dimension))
}
