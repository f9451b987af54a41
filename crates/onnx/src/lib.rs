//! ONNX graphs: read, built, written, their shapes and what they cost.
//!
//! Nothing is executed here; engines are in `dyno-sut`.
#![forbid(unsafe_code)]
