//! Messages of the service `inference.GRPCInferenceService`; field numbers are those of
//! `open_inference_grpc.proto`. Parameters other than those of sequences are ignored.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

/// Path of `ModelInfer`.
pub const MODEL_INFER: &str = "/inference.GRPCInferenceService/ModelInfer";
/// Path of `ModelStreamInfer`.
pub const MODEL_STREAM_INFER: &str = "/inference.GRPCInferenceService/ModelStreamInfer";
/// Path of `ServerLive`.
pub const SERVER_LIVE: &str = "/inference.GRPCInferenceService/ServerLive";
/// Path of `ServerReady`.
pub const SERVER_READY: &str = "/inference.GRPCInferenceService/ServerReady";
/// Path of `ModelReady`.
pub const MODEL_READY: &str = "/inference.GRPCInferenceService/ModelReady";
/// Path of `ServerMetadata`.
pub const SERVER_METADATA: &str = "/inference.GRPCInferenceService/ServerMetadata";
/// Path of `ModelMetadata`.
pub const MODEL_METADATA: &str = "/inference.GRPCInferenceService/ModelMetadata";

/// Path of `Check` of gRPC's own health service, which orchestrators call (`health.proto`).
pub const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";

/// Answer of [`HEALTH_CHECK`].
#[derive(Clone, PartialEq, Message)]
pub struct HealthCheckResponse {
    /// 1: serving; 2: not serving.
    #[prost(int32, tag = "1")]
    pub status: i32,
}

/// Request of `ServerLive`, `ServerReady` and `ServerMetadata`.
#[derive(Clone, PartialEq, Message)]
pub struct Empty {}

/// Answer of `ServerLive`, `ServerReady` and `ModelReady`.
#[derive(Clone, PartialEq, Message)]
pub struct Flag {
    /// Whether it is live or ready.
    #[prost(bool, tag = "1")]
    pub is_so: bool,
}

/// Request of `ModelReady` and `ModelMetadata`.
#[derive(Clone, PartialEq, Message)]
pub struct ModelName {
    /// The model.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version; may be empty.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// Answer of `ServerMetadata`.
#[derive(Clone, PartialEq, Message)]
pub struct ServerMetadataResponse {
    /// The server.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Supported extensions.
    #[prost(string, repeated, tag = "3")]
    pub extensions: Vec<String>,
}

/// Answer of `ModelMetadata`.
#[derive(Clone, PartialEq, Message)]
pub struct ModelMetadataResponse {
    /// The model.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its versions.
    #[prost(string, repeated, tag = "2")]
    pub versions: Vec<String>,
    /// Runtime of the model.
    #[prost(string, tag = "3")]
    pub platform: String,
    /// Inputs.
    #[prost(message, repeated, tag = "4")]
    pub inputs: Vec<TensorMetadataMessage>,
    /// Outputs.
    #[prost(message, repeated, tag = "5")]
    pub outputs: Vec<TensorMetadataMessage>,
}

/// Metadata of an input or output.
#[derive(Clone, PartialEq, Message)]
pub struct TensorMetadataMessage {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Type of the elements.
    #[prost(string, tag = "2")]
    pub datatype: String,
    /// Dimensions; -1 means that each request chooses it.
    #[prost(int64, repeated, tag = "3")]
    pub shape: Vec<i64>,
}

/// Inference request.
#[derive(Clone, PartialEq, Message)]
pub struct ModelInferRequest {
    /// The model.
    #[prost(string, tag = "1")]
    pub model_name: String,
    /// Its version; may be empty.
    #[prost(string, tag = "2")]
    pub model_version: String,
    /// Identifier, copied to the answer.
    #[prost(string, tag = "3")]
    pub id: String,
    /// Parameters by name.
    #[prost(btree_map = "string, message", tag = "4")]
    pub parameters: BTreeMap<String, ParameterMessage>,
    /// Inputs.
    #[prost(message, repeated, tag = "5")]
    pub inputs: Vec<TensorMessage>,
    /// Requested outputs; empty means all.
    #[prost(message, repeated, tag = "6")]
    pub outputs: Vec<RequestedOutputMessage>,
    /// Elements of the inputs in order, if these have no contents.
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub raw_input_contents: Vec<Bytes>,
}

/// Parameter of a request.
#[derive(Clone, PartialEq, Message)]
pub struct ParameterMessage {
    /// Its value.
    #[prost(oneof = "ParameterChoice", tags = "1, 2, 3, 4, 5")]
    pub choice: Option<ParameterChoice>,
}

/// Value of a parameter.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum ParameterChoice {
    /// Truth value.
    #[prost(bool, tag = "1")]
    Bool(bool),
    /// Signed number.
    #[prost(int64, tag = "2")]
    Int64(i64),
    /// Text.
    #[prost(string, tag = "3")]
    String(String),
    /// Floating-point number.
    #[prost(double, tag = "4")]
    Double(f64),
    /// Unsigned number.
    #[prost(uint64, tag = "5")]
    Uint64(u64),
}

/// A requested output.
#[derive(Clone, PartialEq, Message)]
pub struct RequestedOutputMessage {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Inference answer.
#[derive(Clone, PartialEq, Message)]
pub struct ModelInferResponse {
    /// The model.
    #[prost(string, tag = "1")]
    pub model_name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub model_version: String,
    /// Identifier of the request.
    #[prost(string, tag = "3")]
    pub id: String,
    /// Outputs.
    #[prost(message, repeated, tag = "5")]
    pub outputs: Vec<TensorMessage>,
    /// Elements of the outputs in order, if these have no contents.
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub raw_output_contents: Vec<Bytes>,
}

/// An input or an output.
#[derive(Clone, PartialEq, Message)]
pub struct TensorMessage {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Type of the elements.
    #[prost(string, tag = "2")]
    pub datatype: String,
    /// Dimensions.
    #[prost(int64, repeated, tag = "3")]
    pub shape: Vec<i64>,
    /// Elements, unless they are among the raw contents.
    #[prost(message, optional, tag = "5")]
    pub contents: Option<TensorContents>,
}

/// Elements by their type. FP16 and BF16 have no list and are always raw.
#[derive(Clone, PartialEq, Message)]
pub struct TensorContents {
    /// BOOL.
    #[prost(bool, repeated, tag = "1")]
    pub bools: Vec<bool>,
    /// INT8, INT16, INT32.
    #[prost(int32, repeated, tag = "2")]
    pub ints: Vec<i32>,
    /// INT64.
    #[prost(int64, repeated, tag = "3")]
    pub longs: Vec<i64>,
    /// UINT8, UINT16, UINT32.
    #[prost(uint32, repeated, tag = "4")]
    pub unsigned_ints: Vec<u32>,
    /// UINT64.
    #[prost(uint64, repeated, tag = "5")]
    pub unsigned_longs: Vec<u64>,
    /// FP32.
    #[prost(float, repeated, tag = "6")]
    pub floats: Vec<f32>,
    /// FP64.
    #[prost(double, repeated, tag = "7")]
    pub doubles: Vec<f64>,
    /// BYTES.
    #[prost(bytes = "bytes", repeated, tag = "8")]
    pub strings: Vec<Bytes>,
}

/// One answer of Triton's `ModelStreamInfer`.
#[derive(Clone, PartialEq, Message)]
pub struct ModelStreamInferResponse {
    /// Error message; empty if there is an answer.
    #[prost(string, tag = "1")]
    pub error_message: String,
    /// The answer.
    #[prost(message, optional, tag = "2")]
    pub infer_response: Option<ModelInferResponse>,
}
