//! Operators: each reader turns a node into an operation.

mod activation;
mod attention;
mod bits;
mod boxes;
mod broadcast;
mod cast;
mod classical;
mod columns;
pub(crate) mod control;
mod convolution;
mod direct;
mod einsum;
mod elementwise;
mod fourier;
mod gather;
mod grid;
mod integer;
mod layout;
mod normalization;
mod pool;
mod product;
mod quantized;
mod recurrent;
mod reduce;
mod regions;
mod resize;
mod shape;
mod sliding;
mod sort;

use dyno_onnx::{Element, Node};

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
        bits::read,
        attention::read,
        boxes::read,
        fourier::read,
        grid::read,
        columns::read,
        classical::read,
        convolution::read,
        pool::read,
        regions::read,
        resize::read,
        quantized::read,
        recurrent::read,
    ];
    check_types(reader)?;
    for read in readers {
        if let Some(operation) = read(reader)? {
            return Ok(operation);
        }
    }
    Err("this operator is not supported".into())
}

/// Operators of the standard whose inputs all have one type.
const SINGLE_TYPE: &[&str] = &[
    "Add",
    "Clip",
    "Concat",
    "Conv",
    "ConvTranspose",
    "Div",
    "Einsum",
    "Equal",
    "Gemm",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "MatMul",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "PRelu",
    "Sub",
    "Sum",
];

/// Operators of the standard that are computed in `f32` alone.
const SINGLE_PRECISION: &[&str] = &[
    "Attention",
    "AveragePool",
    "BatchNormalization",
    "Col2Im",
    "Conv",
    "ConvTranspose",
    "DFT",
    "Erf",
    "GRU",
    "GlobalAveragePool",
    "GlobalLpPool",
    "GlobalMaxPool",
    "GridSample",
    "GroupNormalization",
    "Hardmax",
    "InstanceNormalization",
    "LRN",
    "LSTM",
    "LayerNormalization",
    "LogSoftmax",
    "LpNormalization",
    "LpPool",
    "MaxPool",
    "Mean",
    "MeanVarianceNormalization",
    "RMSNormalization",
    "RNN",
    "RoiAlign",
    "STFT",
    "Softmax",
];

/// Checks that an operator supports inputs of float64, and that it does not combine inputs of 16 bits with
/// those of another type: all of them are `f32` in the run.
fn check_types(reader: &NodeReader<'_>) -> Result<(), String> {
    let (domain, operator) = name(reader);
    if domain.is_empty() && SINGLE_PRECISION.contains(&operator) {
        expect_single_precision(reader)?;
    }
    if !domain.is_empty() || !SINGLE_TYPE.contains(&operator) {
        return Ok(());
    }
    let known: Vec<Element> =
        (0..reader.node.inputs.len()).filter_map(|at| reader.element(at)).collect();
    let is_short = |element: &&Element| matches!(element, Element::F16 | Element::BF16);
    let Some(short) = known.iter().find(is_short) else { return Ok(()) };
    match known.iter().find(|other| *other != short) {
        Some(other) => Err(format!("expected inputs of one type, found {short} and {other}")),
        None => Ok(()),
    }
}

/// Checks that the first input is not of float64, for an operator that is computed in `f32`.
fn expect_single_precision(reader: &NodeReader<'_>) -> Result<(), String> {
    if reader.element(0) == Some(Element::F64) {
        return Err("elements of type float64 are not supported by this operator".into());
    }
    Ok(())
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
