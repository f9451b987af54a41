//! The Open Inference Protocol (KServe's second version), in both directions and without
//! sockets: tensors, inference requests and answers, metadata. What they look like over HTTP
//! is in [`http`], over gRPC in [`grpc`](mod@grpc).
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

use bytes::Bytes;

pub use client::{Form, Oip};
pub use datatype::Datatype;
pub use samples::{Model, random_inputs};

/// Elements of one name, type and shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Its name in the model.
    pub name: String,
    /// Type of the elements.
    pub datatype: Datatype,
    /// Dimensions, the batch first where the model has one.
    pub shape: Vec<usize>,
    /// Elements row by row, little-endian; of [`Datatype::Bytes`] each has its length before
    /// it, as an unsigned number of 4 bytes.
    pub data: Bytes,
}

/// What a model is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InferRequest {
    /// The model; over HTTP it is part of the path.
    pub model_name: String,
    /// Its version; empty where the server chooses.
    pub model_version: String,
    /// Comes back in the answer; empty where there is none.
    pub id: String,
    /// Inputs.
    pub inputs: Vec<Tensor>,
    /// Outputs that are wanted; all where it is empty.
    pub outputs: Vec<RequestedOutput>,
    /// All outputs that say nothing else are wanted as bytes (HTTP only).
    pub wants_binary: bool,
}

/// An output that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedOutput {
    /// Its name.
    pub name: String,
    /// As bytes or as JSON; where it says neither, the request does (HTTP only).
    pub is_binary: Option<bool>,
}

/// What a model answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InferResponse {
    /// The model.
    pub model_name: String,
    /// Its version; may be empty.
    pub model_version: String,
    /// That of the request.
    pub id: String,
    /// Outputs.
    pub outputs: Vec<Tensor>,
}

/// What a server says of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelMetadata {
    /// The model.
    pub name: String,
    /// Its versions.
    pub versions: Vec<String>,
    /// What runs it, such as `onnxruntime_onnx`.
    pub platform: String,
    /// Inputs; some servers say none.
    pub inputs: Vec<TensorMetadata>,
    /// Outputs; some servers say none.
    pub outputs: Vec<TensorMetadata>,
}

/// What a server says of an input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorMetadata {
    /// Its name.
    pub name: String,
    /// As the server writes it; [`Datatype::named`] knows those of the protocol.
    pub datatype: String,
    /// Dimensions; -1 is one that each request chooses.
    pub shape: Vec<i64>,
}

/// What a server says of itself.
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
    /// Elements that the shape asks for; `None` where no machine could hold them.
    #[must_use]
    pub fn elements(&self) -> Option<usize> {
        elements_of(&self.shape)
    }
}

impl InferRequest {
    /// Whether this output is wanted as bytes, over HTTP.
    #[must_use]
    pub fn is_binary(&self, output: &str) -> bool {
        let asked = self.outputs.iter().find(|asked| asked.name == output);
        asked.and_then(|asked| asked.is_binary).unwrap_or(self.wants_binary)
    }
}

/// The product of dimensions.
fn elements_of(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |product, &dimension| product.checked_mul(dimension))
}
