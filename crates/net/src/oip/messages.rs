//! Messages of the service `inference.GRPCInferenceService`; field numbers are those of
//! `open_inference_grpc.proto`. Parameters are read over.

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

/// Path of `Check` of gRPC's own health service, which orchestrators ask (`health.proto`).
pub const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";

/// Answer of [`HEALTH_CHECK`].
#[derive(Clone, PartialEq, Message)]
pub struct HealthCheckResponse {
    /// 1: it serves; 2: it does not.
    #[prost(int32, tag = "1")]
    pub status: i32,
}

/// Asks whether the server lives, whether it is ready, or what it is.
#[derive(Clone, PartialEq, Message)]
pub struct Empty {}

/// Answer of `ServerLive`, `ServerReady` and `ModelReady`.
#[derive(Clone, PartialEq, Message)]
pub struct Flag {
    /// Whether it is so.
    #[prost(bool, tag = "1")]
    pub is_so: bool,
}

/// Asks whether a model is ready, or what it is.
#[derive(Clone, PartialEq, Message)]
pub struct ModelName {
    /// The model.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version, or nothing.
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
    /// What it can beyond the protocol.
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
    /// What runs it.
    #[prost(string, tag = "3")]
    pub platform: String,
    /// Inputs.
    #[prost(message, repeated, tag = "4")]
    pub inputs: Vec<TensorMetadataMessage>,
    /// Outputs.
    #[prost(message, repeated, tag = "5")]
    pub outputs: Vec<TensorMetadataMessage>,
}

/// What is said of an input or output.
#[derive(Clone, PartialEq, Message)]
pub struct TensorMetadataMessage {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Type of the elements.
    #[prost(string, tag = "2")]
    pub datatype: String,
    /// Dimensions; -1 is one that each request chooses.
    #[prost(int64, repeated, tag = "3")]
    pub shape: Vec<i64>,
}

/// What a model is asked.
#[derive(Clone, PartialEq, Message)]
pub struct ModelInferRequest {
    /// The model.
    #[prost(string, tag = "1")]
    pub model_name: String,
    /// Its version, or nothing.
    #[prost(string, tag = "2")]
    pub model_version: String,
    /// Comes back in the answer.
    #[prost(string, tag = "3")]
    pub id: String,
    /// Inputs.
    #[prost(message, repeated, tag = "5")]
    pub inputs: Vec<TensorMessage>,
    /// Outputs that are wanted; all where it is empty.
    #[prost(message, repeated, tag = "6")]
    pub outputs: Vec<RequestedOutputMessage>,
    /// Elements of the inputs in their order, where these have no contents.
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub raw_input_contents: Vec<Bytes>,
}

/// An output that is wanted.
#[derive(Clone, PartialEq, Message)]
pub struct RequestedOutputMessage {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// What a model answers.
#[derive(Clone, PartialEq, Message)]
pub struct ModelInferResponse {
    /// The model.
    #[prost(string, tag = "1")]
    pub model_name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub model_version: String,
    /// That of the request.
    #[prost(string, tag = "3")]
    pub id: String,
    /// Outputs.
    #[prost(message, repeated, tag = "5")]
    pub outputs: Vec<TensorMessage>,
    /// Elements of the outputs in their order, where these have no contents.
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
    /// Elements, where they are not among the raw contents.
    #[prost(message, optional, tag = "5")]
    pub contents: Option<TensorContents>,
}

/// Elements by their type. There is no list for FP16 and BF16: these are always raw.
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

/// One answer of `ModelStreamInfer`, as Triton has it.
#[derive(Clone, PartialEq, Message)]
pub struct ModelStreamInferResponse {
    /// Why there is none; empty where there is one.
    #[prost(string, tag = "1")]
    pub error_message: String,
    /// The answer.
    #[prost(message, optional, tag = "2")]
    pub infer_response: Option<ModelInferResponse>,
}
