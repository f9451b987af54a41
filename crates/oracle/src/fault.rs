//! Errors: inside of an operator, and of the oracle.

use std::path::PathBuf;

use thiserror::Error;

/// Why a model was not computed.
#[derive(Debug, Error)]
pub enum OracleError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Reason given by the operating system.
        source: std::io::Error,
    },
    /// The bytes are no ONNX model.
    #[error("not an ONNX model: {0}")]
    Malformed(String),
    /// A tensor or an input of the caller is wrong.
    #[error("{0}")]
    Input(String),
    /// A node cannot be computed.
    #[error("node {node:?} ({operator}): {reason}")]
    Node {
        /// Name of the node, or of its first output if it has none.
        node: String,
        /// Operator, with its domain unless that is the standard's.
        operator: String,
        /// What is wrong, or not supported.
        reason: String,
    },
    /// The model takes more than the limit. This is no defect of the model.
    #[error("not verified: the model takes more than {limit} multiplications")]
    TooLarge {
        /// Limit on multiplications.
        limit: u64,
    },
}

/// Why an operator cannot be computed; the evaluator adds the node.
#[derive(Debug)]
pub(crate) enum Fault {
    Reason(String),
    /// A fault that already names its node, or the limit.
    Inner(Box<OracleError>),
}

impl From<Fault> for OracleError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Reason(reason) => OracleError::Input(reason),
            Fault::Inner(error) => *error,
        }
    }
}

impl From<OracleError> for Fault {
    fn from(error: OracleError) -> Self {
        Fault::Inner(Box::new(error))
    }
}

/// Returns an error with this reason.
pub(crate) fn fault<T>(reason: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Reason(reason.into()))
}
