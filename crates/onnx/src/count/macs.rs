//! Multiply-accumulates of a node.

use crate::graph::Node;
use crate::shape::classical::DOMAIN;
use crate::shape::einsum::parse_equation;
use crate::shape::quantized::attention_sizes;
use crate::shape::{Dim, Fact, ShapeError};

type Macs = Result<u64, ShapeError>;

fn misfit(reason: &str) -> ShapeError {
    ShapeError::Misfit(reason.into())
}

/// Returns the product of sizes.
///
/// # Errors
/// A size is unknown, or the product exceeds 64 bits.
fn product(sizes: impl IntoIterator<Item = Option<u64>>) -> Macs {
    sizes
        .into_iter()
        .try_fold(1_u64, |product, size| product.checked_mul(size?))
        .ok_or_else(|| misfit("a size depends on data or exceeds 64 bits"))
}

fn elements(fact: &Fact, at: usize) -> Macs {
    fact.elements().ok_or(ShapeError::Unknown(at))
}

fn dim(fact: &Fact, at: usize) -> Option<u64> {
    fact.shape.get(at).and_then(Dim::fixed).map(|n| n as u64)
}

/// Returns the multiply-accumulates of a node with these inputs and outputs.
///
/// # Errors
/// A size depends on data, or the algorithm of the operator is not defined.
pub fn count(node: &Node, inputs: &[Option<Fact>], outputs: &[Option<Fact>]) -> Macs {
    let fact = |facts: &[Option<Fact>], at: usize| {
        facts.get(at).cloned().flatten().ok_or(ShapeError::Unknown(at))
    };
    let output = || fact(outputs, 0);
    // Each output is a sum over the inputs of its group and the positions of the kernel.
    let conv = |weights: usize| {
        let weights = fact(inputs, weights)?;
        let per_output = elements(&weights, 1)?.checked_div(dim(&weights, 0).unwrap_or(0));
        product([per_output, output()?.elements()])
    };
    // Each output is a sum over the last dimension of the first input.
    let matmul = || {
        let a = fact(inputs, 0)?;
        let inner = a.shape.len().checked_sub(1).and_then(|last| dim(&a, last));
        product([inner, output()?.elements()])
    };
    match (node.domain.as_str(), node.op.as_str()) {
        ("", "Conv" | "ConvInteger") | ("com.microsoft", "FusedConv") => conv(1),
        ("", "QLinearConv") => conv(3),
        // Each input contributes to the outputs of its group at each position of the kernel.
        ("", "ConvTranspose") => {
            let weights = fact(inputs, 1)?;
            let per_input = elements(&weights, 1)?.checked_div(dim(&weights, 0).unwrap_or(0));
            product([per_input, fact(inputs, 0)?.elements()])
        }
        ("", "Gemm") | ("com.microsoft", "FusedGemm" | "QGemm") => {
            let a = fact(inputs, 0)?;
            let inner = dim(&a, usize::from(node.int("transA", 0) == 0));
            product([inner, output()?.elements()])
        }
        ("", "MatMul" | "MatMulInteger" | "QLinearMatMul")
        | ("com.microsoft", "DynamicQuantizeMatMul" | "MatMulIntegerToFloat" | "MatMulNBits") => {
            matmul()
        }
        ("com.microsoft", "FusedMatMul") => {
            let a = fact(inputs, 0)?;
            let from_end = if node.int("transA", 0) == 1 { 2 } else { 1 };
            let inner = a.shape.len().checked_sub(from_end).and_then(|at| dim(&a, at));
            product([inner, output()?.elements()])
        }
        // Each step of a sequence multiplies by all weights of inputs and states once.
        ("", "LSTM" | "GRU" | "RNN") => {
            let (data, w, r) = (fact(inputs, 0)?, fact(inputs, 1)?, fact(inputs, 2)?);
            let weights = elements(&w, 1)?.checked_add(elements(&r, 2)?);
            product([dim(&data, 0), dim(&data, 1), weights])
        }
        ("", "Einsum") => einsum(node, inputs),
        ("com.microsoft", "Attention" | "MultiHeadAttention") => attention(node, inputs),
        // The work depends on the trees and vectors in the attributes.
        (DOMAIN, op) => Err(ShapeError::Operator(format!("{DOMAIN}.{op}"))),
        _ => Ok(0),
    }
}

/// Returns the multiply-accumulates of an `Einsum`: the product of all dimensions for two operands. With
/// more operands they depend on the order of the multiplications.
fn einsum(node: &Node, inputs: &[Option<Fact>]) -> Macs {
    let inputs: Vec<_> = inputs.iter().map(Option::as_ref).collect();
    let equation = parse_equation(node, &inputs)?;
    match equation.operands {
        1 => Ok(0),
        2 => product(equation.dims.values().map(|dim| dim.fixed().map(|n| n as u64))),
        _ => Err(misfit("more than two operands: the operations depend on their order")),
    }
}

/// Returns the multiply-accumulates of an attention: the projections, if the node has them, the
/// products of queries and keys, and the weighted sums of values.
fn attention(node: &Node, inputs: &[Option<Fact>]) -> Macs {
    let inputs: Vec<_> = inputs.iter().map(Option::as_ref).collect();
    let sizes = attention_sizes(node, &inputs)?;
    let known = |dim: &Dim| dim.fixed().map(|n| n as u64);
    let (batch, queries, keys) =
        (known(&sizes.batch), known(&sizes.query_tokens), known(&sizes.key_tokens));
    let widths = (sizes.query_width as u64).checked_add(sizes.value_width as u64);
    let products = product([batch, queries, keys, widths])?;
    let Some(width) = sizes.input_width else { return Ok(products) };
    // Queries and keys have the same width.
    let projected = widths.and_then(|widths| widths.checked_add(sizes.query_width as u64));
    let projections = product([batch, queries, Some(width as u64), projected])?;
    products.checked_add(projections).ok_or_else(|| misfit("the count exceeds 64 bits"))
}
