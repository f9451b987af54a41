//! Operators: each reader turns a node into an operation.

mod activation;
mod broadcast;
pub(crate) mod control;
mod convolution;
mod einsum;
mod elementwise;
mod gather;
mod integer;
mod layout;
mod normalization;
mod pool;
mod product;
mod quantized;
mod recurrent;
mod reduce;
mod resize;
mod shape;
mod sliding;
mod sort;

use dyno_onnx::Node;

use crate::load;
use crate::node::{NodeReader, Operation};
use crate::value::Value;

/// Reads a node.
///
/// # Errors
/// The operator, an attribute or a form of it is not implemented, or the node is malformed.
pub(crate) fn read(reader: &NodeReader<'_>) -> Result<Operation, String> {
    let readers = [
        constant,
        activation::read,
        elementwise::read,
        layout::read,
        shape::read,
        gather::read,
        reduce::read,
        sort::read,
        normalization::read,
        product::read,
        convolution::read,
        pool::read,
        resize::read,
        quantized::read,
        recurrent::read,
    ];
    for read in readers {
        if let Some(operation) = read(reader)? {
            return Ok(operation);
        }
    }
    Err("this operator is not supported".into())
}

/// Returns whether the outputs depend on the inputs alone; holds for all operators so far.
pub(crate) fn is_pure(node: &Node) -> bool {
    !node.op.starts_with("Random") && node.op != "Multinomial" && node.op != "Bernoulli"
}

/// Returns the operator's name, with its domain unless that is the standard one.
fn name<'a>(reader: &NodeReader<'a>) -> (&'a str, &'a str) {
    (reader.node.domain.as_str(), reader.node.op.as_str())
}

fn constant(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    if name(reader) != ("", "Constant") {
        return Ok(None);
    }
    let value = load::constant(reader)?;
    one(move |_| Ok(value.clone()))
}

/// Returns an operation with one output.
fn one(
    operation: impl Fn(&mut crate::session::Frame<'_>) -> Result<Value, String> + Send + Sync + 'static,
) -> Result<Option<Operation>, String> {
    Ok(Some(Box::new(move |frame| Ok(vec![operation(frame)?]))))
}
