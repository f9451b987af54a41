//! Attributes of nodes, for the readers of chains and of graphs.

pub(super) use dyno_onnx::products::{name_of, stem, unique_name};
use dyno_onnx::{Attribute, Node};

use super::EvaluateError;
use super::pool::Pool;
use super::stage::{PostOp, Shape, Sliding};

pub(super) fn float(node: &Node, name: &str, default: f32) -> f32 {
    match node.attribute(name) {
        Some(Attribute::Float(number)) => *number,
        _ => default,
    }
}

pub(super) fn unsupported(node: &Node, what: &str) -> EvaluateError {
    EvaluateError::Node { op: node.op.clone(), name: node.name.clone(), what: what.to_owned() }
}

/// Returns the bounds of a `Clip` in old files. Newer files have them as inputs.
pub(super) fn bounds(node: &Node) -> [f32; 2] {
    [float(node, "min", f32::MIN), float(node, "max", f32::MAX)]
}

/// Returns whether a product is scaled or transposes its input.
pub(super) fn is_scaled(node: &Node) -> bool {
    let is_one = |name| float(node, name, 1.0) == 1.0;
    node.int("transA", 0) != 0 || !is_one("alpha") || !is_one("beta")
}

/// Returns the distances of a kernel's taps in rows and columns; 0 if they are invalid.
pub(super) fn dilations(node: &Node) -> [usize; 2] {
    let size = |by: &i64| usize::try_from(*by).unwrap_or(0);
    match node.ints("dilations") {
        None => [1, 1],
        Some([columns]) => [1, size(columns)],
        Some([rows, columns, ..]) => [size(rows), size(columns)],
        Some([]) => [0, 0],
    }
}

/// Returns the strides and pads of a node; `kernel` is the reach of its kernel.
///
/// # Errors
/// Strides or pads are invalid.
pub(super) fn sliding(
    node: &Node,
    kernel: [usize; 2],
    input: Shape,
) -> Result<Sliding, EvaluateError> {
    let wrong = || unsupported(node, "has strides or pads that make no sense");
    let sizes = |name: &str, default: usize| match node.ints(name) {
        None => Ok(vec![default; 4]),
        Some(given) => given.iter().map(|n| usize::try_from(*n).map_err(|_| wrong())).collect(),
    };
    let strides = sizes("strides", 1)?;
    let pads = sizes("pads", 0)?;
    let strides = match strides[..] {
        [columns] => [1, columns],
        [rows, columns, ..] => [rows, columns],
        [] => return Err(wrong()),
    };
    let pads = match pads[..] {
        [left, right] => [0, left, 0, right],
        [top, left, bottom, right] => [top, left, bottom, right],
        _ => return Err(wrong()),
    };
    if strides.contains(&0) || kernel.contains(&0) {
        return Err(wrong());
    }
    let same = |axis: usize, size: usize, low: bool| {
        let covered = size.saturating_sub(1) / strides[axis] * strides[axis];
        let all = covered.saturating_add(kernel[axis]).saturating_sub(size);
        let less = all / 2;
        if low { [all - less, less] } else { [less, all - less] }
    };
    let pads = match node.text("auto_pad") {
        way @ ("SAME_UPPER" | "SAME_LOWER") => {
            let is_low = way == "SAME_LOWER";
            let (rows, columns) = (same(0, input.height, is_low), same(1, input.width, is_low));
            [rows[0], columns[0], rows[1], columns[1]]
        }
        "VALID" => [0; 4],
        _ => pads,
    };
    Ok(Sliding { kernel, strides, pads })
}

/// Returns the pool that a node describes, and the shape of its output.
///
/// # Errors
/// The node has attributes that are not supported, or its kernel does not fit.
pub(super) fn pool(node: &Node, input: Shape) -> Result<(PostOp, Shape), EvaluateError> {
    let not = |what: &str| Err(unsupported(node, what));
    if dilations(node) != [1, 1] {
        return not("has dilations");
    }
    if node.outputs.iter().skip(1).any(|name| !name.is_empty()) {
        return not("gives places as well");
    }
    let sliding = if node.op.starts_with("Global") {
        let kernel = [input.height, input.width];
        Sliding { kernel, strides: [1, 1], pads: [0; 4] }
    } else {
        let size = |n: &i64| usize::try_from(*n).unwrap_or(0);
        let kernel = match node.ints("kernel_shape") {
            Some([rows, columns]) => [size(rows), size(columns)],
            Some([columns]) => [1, size(columns)],
            _ => return not("is not of one or two dimensions"),
        };
        sliding(node, kernel, input)?
    };
    let size = match node.int("ceil_mode", 0) {
        0 => sliding.over(input),
        _ => sliding.over_all(input),
    };
    let Some([height, width]) = size else { return not("has a kernel that does not fit") };
    let output = Shape { height, width, channels: input.channels };
    let pool = Pool { sliding, input, output };
    let counts_padding = node.int("count_include_pad", 0) != 0;
    let after = match node.op.as_str() {
        "MaxPool" | "GlobalMaxPool" => PostOp::MaxPool(pool),
        _ => PostOp::AveragePool { pool, counts_padding },
    };
    Ok((after, output))
}
