//! Shape inference of operators on quantized values, and of the operators of ONNX Runtime (domain
//! `com.microsoft`).

use dyno_tensors::Element;

use super::{Dim, Fact, Facts, ShapeError, format_shape, input, layers, misfit};
use crate::graph::Node;

/// Infers the outputs of a standard operator on quantized values, or returns `None` for others.
pub fn infer_standard(node: &Node, inputs: &[Option<&Fact>]) -> Option<Facts> {
    let with_element = |element: Element, facts: Facts| {
        facts.map(|facts| facts.into_iter().map(|fact| Fact { element, ..fact }).collect())
    };
    let at = |at: usize| input(inputs, at);
    // The output has the type of the zero point, which is uint8 by default.
    let zero_point_type =
        |at: usize| inputs.get(at).copied().flatten().map_or(Element::U8, |fact| fact.element);
    let same_shape = |data: Result<&Fact, ShapeError>| {
        data.map(|fact| vec![fact.with_shape(fact.shape.clone())])
    };
    Some(match node.op.as_str() {
        "QuantizeLinear" => {
            let element = node.stated_codes().unwrap_or_else(|| zero_point_type(2));
            with_element(element, same_shape(at(0)))
        }
        "DequantizeLinear" => {
            at(1).and_then(|scale| with_element(scale.element, same_shape(at(0))))
        }
        "DynamicQuantizeLinear" => at(0).map(|data| {
            let quantized = Fact::new(Element::U8, data.shape.clone());
            let (scale, zero) = (Fact::new(Element::F32, vec![]), Fact::new(Element::U8, vec![]));
            vec![quantized, scale, zero]
        }),
        "ConvInteger" => {
            with_element(Element::I32, at(0).and_then(|x| layers::conv(node, x, at(1)?)))
        }
        "QLinearConv" => {
            with_element(zero_point_type(7), at(0).and_then(|x| layers::conv(node, x, at(3)?)))
        }
        "MatMulInteger" => {
            with_element(Element::I32, at(0).and_then(|a| layers::matmul(a, at(1)?)))
        }
        "QLinearMatMul" => {
            with_element(zero_point_type(7), at(0).and_then(|a| layers::matmul(a, at(3)?)))
        }
        _ => return None,
    })
}

/// Infers the outputs of an operator of ONNX Runtime.
pub fn infer_runtime(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
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
        | "QLinearSoftmax"
        | "QLinearLeakyRelu" => first().map(|data| vec![data.with_shape(data.shape.clone())]),
        "QLinearAdd" | "QLinearMul" => {
            let shape = super::moves::broadcast(&first()?.shape, &input(inputs, 3)?.shape)?;
            Ok(vec![first()?.with_shape(shape)])
        }
        "QLinearConcat" => {
            let parts: Vec<Option<&Fact>> = inputs.iter().copied().skip(2).step_by(3).collect();
            super::moves::concat(node, &parts)
        }
        "QLinearAveragePool" if node.int("channels_last", 0) == 0 => layers::pool(node, first()?),
        "QLinearGlobalAveragePool" if node.int("channels_last", 0) == 0 => {
            layers::global_pool(first()?)
        }
        "QGemm" => {
            let zero = super::optional(node, inputs, 8)?;
            let element = zero.map_or(Element::F32, |zero| zero.element);
            let facts =
                layers::gemm(node, &[0, 3, 6].map(|at: usize| inputs.get(at).copied().flatten()))?;
            Ok(facts.into_iter().map(|fact| Fact { element, ..fact }).collect())
        }
        "FusedMatMul" => {
            let operand = |fact: &Fact, attribute: &str| {
                if node.int(attribute, 0) == 1 { transpose(fact) } else { fact.clone() }
            };
            let a = operand(first()?, "transA");
            layers::matmul(&a, &operand(input(inputs, 1)?, "transB"))
        }
        "FusedConv" => layers::conv(node, first()?, input(inputs, 1)?),
        "FusedGemm" => layers::gemm(node, inputs),
        "DynamicQuantizeMatMul" => layers::matmul(first()?, input(inputs, 1)?),
        "MatMulIntegerToFloat" => {
            let element = input(inputs, 2)?.element;
            let facts = layers::matmul(first()?, input(inputs, 1)?)?;
            Ok(facts.into_iter().map(|fact| Fact { element, ..fact }).collect())
        }
        "MatMulNBits" => matmul_n_bits(node, first()?),
        "Attention" | "MultiHeadAttention" => attention(node, inputs),
        other => Err(ShapeError::Operator(format!("{}.{other}", node.domain))),
    }
}

/// Returns a value with its last two dimensions swapped.
fn transpose(fact: &Fact) -> Fact {
    let mut shape = fact.shape.clone();
    let rank = shape.len();
    if rank > 1 {
        shape.swap(rank - 1, rank - 2);
    }
    fact.with_shape(shape)
}

/// Infers the output of a `MatMulNBits`, whose attributes have the rows and columns of the weights.
fn matmul_n_bits(node: &Node, data: &Fact) -> Facts {
    let size = |name: &str| usize::try_from(node.int(name, 0)).unwrap_or(0);
    match data.shape.split_last() {
        Some((inner, outer)) if *inner == Dim::Fixed(size("K")) => {
            let mut shape = outer.to_vec();
            shape.push(size("N").into());
            Ok(vec![data.with_shape(shape)])
        }
        _ => misfit(format!("{} by {} rows", format_shape(&data.shape), size("K"))),
    }
}

/// Sizes of an attention operator of ONNX Runtime.
pub struct AttentionSizes {
    /// Number of sequences.
    pub batch: Dim,
    /// Number of tokens with queries.
    pub query_tokens: Dim,
    /// Number of tokens with keys and values.
    pub key_tokens: Dim,
    /// Elements of the queries of all heads per token.
    pub query_width: usize,
    /// Elements of the values of all heads per token.
    pub value_width: usize,
    /// Elements per token of the input that the operator projects; `None` if it does not project.
    pub input_width: Option<usize>,
}

/// Returns the sizes of an attention.
///
/// # Errors
/// The node does not take its inputs, or has a cache, whose size is known only at run time.
pub fn attention_sizes(
    node: &Node,
    inputs: &[Option<&Fact>],
) -> Result<AttentionSizes, ShapeError> {
    let sizes_of = |at: usize| match &input(inputs, at)?.shape[..] {
        [batch, tokens, width] => match width.fixed() {
            Some(width) => Ok((batch.clone(), tokens.clone(), width)),
            None => Err(ShapeError::Unknown(at)),
        },
        shape => misfit(format!("{} of {}", node.op, format_shape(shape))),
    };
    let (batch, query_tokens, width) = sizes_of(0)?;
    let optional = |at: usize| inputs.get(at).copied().flatten();
    match node.op.as_str() {
        "Attention" => {
            if optional(4).is_some() {
                return misfit("an attention over a cache");
            }
            let all = input(inputs, 1)?.shape.get(1).and_then(Dim::fixed);
            let (query_width, value_width) = match (node.ints("qkv_hidden_sizes"), all) {
                (Some(&[queries, _, values]), _) => (queries as usize, values as usize),
                (None, Some(all)) => (all / 3, all / 3),
                _ => return Err(ShapeError::Unknown(1)),
            };
            Ok(AttentionSizes {
                batch,
                key_tokens: query_tokens.clone(),
                query_tokens,
                query_width,
                value_width,
                input_width: Some(width),
            })
        }
        _ => {
            if optional(6).is_some() {
                return misfit("an attention over a cache");
            }
            let (key_tokens, value_width) = match (optional(1), optional(2)) {
                (Some(_), Some(_)) => (sizes_of(1)?.1, sizes_of(2)?.2),
                _ => return misfit("queries, keys and values in one tensor"),
            };
            Ok(AttentionSizes {
                batch,
                query_tokens,
                key_tokens,
                query_width: width,
                value_width,
                input_width: None,
            })
        }
    }
}

fn attention(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let sizes = attention_sizes(node, inputs)?;
    let shape = vec![sizes.batch, sizes.query_tokens, sizes.value_width.into()];
    Ok(vec![input(inputs, 0)?.with_shape(shape)])
}
