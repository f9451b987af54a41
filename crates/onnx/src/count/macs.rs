//! Multiply-accumulates of one node.

use crate::graph::Node;
use crate::shape::einsum::equation;
use crate::shape::quantised::sizes;
use crate::shape::{Dim, Fact, ShapeError};

type Macs = Result<u64, ShapeError>;

fn misfit(why: &str) -> ShapeError {
    ShapeError::Misfit(why.into())
}

/// A product of sizes that are known.
fn product(sizes: impl IntoIterator<Item = Option<u64>>) -> Macs {
    sizes
        .into_iter()
        .try_fold(1_u64, |all, size| all.checked_mul(size?))
        .ok_or_else(|| misfit("a size that depends on data, or more than 64 bits count"))
}

fn elements(fact: &Fact, at: usize) -> Macs {
    fact.elements().ok_or(ShapeError::Unknown(at))
}

fn dim(fact: &Fact, at: usize) -> Option<u64> {
    fact.shape.get(at).and_then(Dim::fixed).map(|n| n as u64)
}

/// Of a node whose shapes are known.
///
/// # Errors
/// A size depends on data, or nobody knows how the operator goes about it.
pub fn of(node: &Node, inputs: &[Option<Fact>], outputs: &[Option<Fact>]) -> Macs {
    let fact = |facts: &[Option<Fact>], at: usize| {
        facts.get(at).cloned().flatten().ok_or(ShapeError::Unknown(at))
    };
    let output = || fact(outputs, 0);
    // Each output sums over the inputs of its group times the kernel.
    let conv = |weights: usize| {
        let weights = fact(inputs, weights)?;
        let each = elements(&weights, 1)?.checked_div(dim(&weights, 0).unwrap_or(0));
        product([each, output()?.elements()])
    };
    // Each output sums over the last dimension of the first input.
    let matmul = || {
        let a = fact(inputs, 0)?;
        let inner = a.shape.len().checked_sub(1).and_then(|last| dim(&a, last));
        product([inner, output()?.elements()])
    };
    match (node.domain.as_str(), node.op.as_str()) {
        ("", "Conv" | "ConvInteger") | ("com.microsoft", "FusedConv") => conv(1),
        ("", "QLinearConv") => conv(3),
        // Each input goes to the outputs of its group times the kernel.
        ("", "ConvTranspose") => {
            let weights = fact(inputs, 1)?;
            let each = elements(&weights, 1)?.checked_div(dim(&weights, 0).unwrap_or(0));
            product([each, fact(inputs, 0)?.elements()])
        }
        ("", "Gemm") | ("com.microsoft", "FusedGemm") => {
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
            let back = if node.int("transA", 0) == 1 { 2 } else { 1 };
            let inner = a.shape.len().checked_sub(back).and_then(|last| dim(&a, last));
            product([inner, output()?.elements()])
        }
        // Each step of each direction reads its weights of inputs and of states once.
        ("", "LSTM" | "GRU" | "RNN") => {
            let (data, w, r) = (fact(inputs, 0)?, fact(inputs, 1)?, fact(inputs, 2)?);
            let weights = elements(&w, 1)?.checked_add(elements(&r, 2)?);
            product([dim(&data, 0), dim(&data, 1), weights])
        }
        ("", "Einsum") => einsum(node, inputs),
        ("com.microsoft", "Attention" | "MultiHeadAttention") => attention(node, inputs),
        _ => Ok(0),
    }
}

/// All letters once, where two operands meet. With more of them it depends on the order.
fn einsum(node: &Node, inputs: &[Option<Fact>]) -> Macs {
    let inputs: Vec<_> = inputs.iter().map(Option::as_ref).collect();
    let equation = equation(node, &inputs)?;
    match equation.operands {
        1 => Ok(0),
        2 => product(equation.dims.values().map(|dim| dim.fixed().map(|n| n as u64))),
        _ => Err(misfit("more than two operands: the operations depend on their order")),
    }
}

/// Projections, if the node has them, products of queries and keys, and sums of values.
fn attention(node: &Node, inputs: &[Option<Fact>]) -> Macs {
    let inputs: Vec<_> = inputs.iter().map(Option::as_ref).collect();
    let sizes = sizes(node, &inputs)?;
    let known = |dim: &Dim| dim.fixed().map(|n| n as u64);
    let (batch, asking, asked) = (known(&sizes.batch), known(&sizes.asking), known(&sizes.asked));
    let widths = (sizes.queries as u64).checked_add(sizes.values as u64);
    let products = product([batch, asking, asked, widths])?;
    let Some(width) = sizes.projected else { return Ok(products) };
    let all = widths.and_then(|widths| widths.checked_add(sizes.queries as u64));
    let projections = product([batch, asking, Some(width as u64), all])?;
    products.checked_add(projections).ok_or_else(|| misfit("more than 64 bits count"))
}
