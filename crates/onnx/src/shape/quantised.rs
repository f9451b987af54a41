//! Shapes behind operators on quantised values, and behind those that ONNX
//! Runtime adds to the standard ones (`com.microsoft`).

use dyno_tensors::Element;

use super::{Dim, Fact, Facts, ShapeError, input, layers, misfit, written};
use crate::graph::Node;

/// Standard operators on quantised values; `None` for others.
pub fn standard(node: &Node, inputs: &[Option<&Fact>]) -> Option<Facts> {
    let of = |element: Element, facts: Facts| {
        facts.map(|facts| facts.into_iter().map(|fact| Fact { element, ..fact }).collect())
    };
    let at = |at: usize| input(inputs, at);
    // The type of a zero point is that of what comes out; without one it is bytes.
    let point = |at: usize| inputs.get(at).copied().flatten().map_or(Element::U8, |it| it.element);
    let same = |data: Result<&Fact, ShapeError>| data.map(|it| vec![it.like(it.shape.clone())]);
    Some(match node.op.as_str() {
        "QuantizeLinear" => of(point(2), same(at(0))),
        "DequantizeLinear" => at(1).and_then(|scale| of(scale.element, same(at(0)))),
        "DynamicQuantizeLinear" => at(0).map(|data| {
            let quantised = Fact::new(Element::U8, data.shape.clone());
            let (scale, zero) = (Fact::new(Element::F32, vec![]), Fact::new(Element::U8, vec![]));
            vec![quantised, scale, zero]
        }),
        "ConvInteger" => of(Element::I32, at(0).and_then(|x| layers::conv(node, x, at(1)?))),
        "QLinearConv" => of(point(7), at(0).and_then(|x| layers::conv(node, x, at(3)?))),
        "MatMulInteger" => of(Element::I32, at(0).and_then(|a| layers::matmul(a, at(1)?))),
        "QLinearMatMul" => of(point(7), at(0).and_then(|a| layers::matmul(a, at(3)?))),
        _ => return None,
    })
}

/// Operators of ONNX Runtime.
pub fn of_runtime(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let first = || input(inputs, 0);
    match node.op.as_str() {
        "Gelu"
        | "FastGelu"
        | "QuickGelu"
        | "BiasGelu"
        | "SkipLayerNormalization"
        | "SimplifiedLayerNormalization"
        | "SkipSimplifiedLayerNormalization"
        | "RotaryEmbedding"
        | "QLinearSigmoid"
        | "QLinearLeakyRelu" => first().map(|data| vec![data.like(data.shape.clone())]),
        "QLinearAdd" | "QLinearMul" => {
            let shape = super::moves::broadcast(&first()?.shape, &input(inputs, 3)?.shape)?;
            Ok(vec![first()?.like(shape)])
        }
        "FusedMatMul" => {
            let is_turned = |name: &str| node.int(name, 0) == 1;
            let a = turned(first()?, is_turned("transA"));
            layers::matmul(&a, &turned(input(inputs, 1)?, is_turned("transB")))
        }
        "FusedConv" => layers::conv(node, first()?, input(inputs, 1)?),
        "FusedGemm" => layers::gemm(node, inputs),
        "DynamicQuantizeMatMul" => layers::matmul(first()?, input(inputs, 1)?),
        "MatMulIntegerToFloat" => {
            let element = input(inputs, 2)?.element;
            let facts = layers::matmul(first()?, input(inputs, 1)?)?;
            Ok(facts.into_iter().map(|fact| Fact { element, ..fact }).collect())
        }
        "MatMulNBits" => narrow(node, first()?),
        "Attention" | "MultiHeadAttention" => attention(node, inputs),
        other => Err(ShapeError::Operator(format!("{}.{other}", node.domain))),
    }
}

/// With its last two dimensions swapped.
fn turned(fact: &Fact, is_turned: bool) -> Fact {
    let mut shape = fact.shape.clone();
    let rank = shape.len();
    if is_turned && rank > 1 {
        shape.swap(rank - 1, rank - 2);
    }
    fact.like(shape)
}

/// Weights of a few bits: the attributes say how many rows and columns.
fn narrow(node: &Node, data: &Fact) -> Facts {
    let size = |name: &str| usize::try_from(node.int(name, 0)).unwrap_or(0);
    match data.shape.split_last() {
        Some((inner, before)) if *inner == Dim::Fixed(size("K")) => {
            let mut shape = before.to_vec();
            shape.push(size("N").into());
            Ok(vec![data.like(shape)])
        }
        _ => misfit(format!("{} by {} rows", written(&data.shape), size("K"))),
    }
}

/// Sizes of an attention of ONNX Runtime.
pub struct Attention {
    /// Sequences at once.
    pub batch: Dim,
    /// Tokens that ask.
    pub asking: Dim,
    /// Tokens that are asked, with those of a cache.
    pub asked: Dim,
    /// Numbers of all queries of a token.
    pub queries: usize,
    /// Numbers of all values of a token.
    pub values: usize,
    /// Numbers that come in to be projected, or none.
    pub projected: Option<usize>,
}

/// Reads the sizes of a node; caches that other nodes fill while it runs are not known.
///
/// # Errors
/// The node does not take its inputs.
pub fn sizes(node: &Node, inputs: &[Option<&Fact>]) -> Result<Attention, ShapeError> {
    let three = |at: usize| match &input(inputs, at)?.shape[..] {
        [batch, tokens, width] => match width.fixed() {
            Some(width) => Ok((batch.clone(), tokens.clone(), width)),
            None => Err(ShapeError::Unknown(at)),
        },
        shape => misfit(format!("{} of {}", node.op, written(shape))),
    };
    let (batch, asking, width) = three(0)?;
    let given = |at: usize| inputs.get(at).copied().flatten();
    match node.op.as_str() {
        "Attention" => {
            if given(4).is_some() {
                return misfit("an attention over a cache");
            }
            let all = input(inputs, 1)?.shape.get(1).and_then(Dim::fixed);
            let (queries, values) = match (node.ints("qkv_hidden_sizes"), all) {
                (Some(&[queries, _, values]), _) => (queries as usize, values as usize),
                (None, Some(all)) => (all / 3, all / 3),
                _ => return Err(ShapeError::Unknown(1)),
            };
            let asked = asking.clone();
            Ok(Attention { batch, asking, asked, queries, values, projected: Some(width) })
        }
        _ => {
            if given(6).is_some() {
                return misfit("an attention over a cache");
            }
            let (asked, values) = match (given(1), given(2)) {
                (Some(_), Some(_)) => (three(1)?.1, three(2)?.2),
                _ => return misfit("queries, keys and values in one tensor"),
            };
            Ok(Attention { batch, asking, asked, queries: width, values, projected: None })
        }
    }
}

fn attention(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let sizes = sizes(node, inputs)?;
    let shape = vec![sizes.batch, sizes.asking, sizes.values.into()];
    Ok(vec![input(inputs, 0)?.like(shape)])
}
