//! Operators that combine others: those of ONNX Runtime's optimizer, and products of quantized numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::activation::{each, sigmoid};
use super::layout::transpose;
use super::quantize::through_dynamic_codes;
use super::{ANY, Operator, find, operator};
use crate::call::{Call, size_of};
use crate::fault::{Fault, fault};
use crate::model::{Attribute, Node};
use crate::tensor::{MAX_ELEMENTS, Tensor, Values, element_count};

const CONV: &[&str] = &[
    "activation",
    "activation_params",
    "auto_pad",
    "dilations",
    "group",
    "kernel_shape",
    "pads",
    "strides",
];
const QUANTIZED_CONV: &[&str] =
    &["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"];
const GEMM: &[&str] = &[
    "activation",
    "activation_alpha",
    "activation_beta",
    "activation_gamma",
    "alpha",
    "beta",
    "transA",
    "transB",
];
const MATRICES: &[&str] = &["alpha", "transA", "transB", "transBatchA", "transBatchB"];
const FEW_BITS: &[&str] = &["K", "N", "accuracy_level", "bits", "block_size"];
const SIMPLIFIED: &[&str] = &["axis", "epsilon", "stash_type"];
const POOL: &[&str] = &[
    "auto_pad",
    "ceil_mode",
    "channels_last",
    "count_include_pad",
    "kernel_shape",
    "pads",
    "strides",
];

pub(super) const OPERATORS: &[Operator] = &[
    operator("com.microsoft.FusedConv", 1, 4, CONV, |call| {
        let own = own(call, &["activation", "activation_params"]);
        let sum = step(call, "Conv", &[0, 1, 2].map(|at| call.optional(at)), own)?;
        let sum = match call.optional(3) {
            Some(other) => step(call, "Add", &[Some(&sum), Some(other)], none())?,
            None => sum,
        };
        activated(call, sum)
    }),
    operator("com.microsoft.FusedGemm", 1, 3, GEMM, |call| {
        let own = own(call, &GEMM[..4]);
        activated(call, step(call, "Gemm", &[0, 1, 2].map(|at| call.optional(at)), own)?)
    }),
    operator("com.microsoft.BiasGelu", 1, 2, &[], |call| gelu(call, "none")),
    operator("com.microsoft.FastGelu", 1, 2, &[], |call| gelu(call, "tanh")),
    operator("com.microsoft.Gelu", 1, 1, &[], |call| gelu(call, "none")),
    operator("com.microsoft.QuickGelu", 1, 1, &["alpha"], |call| {
        let alpha = call.float("alpha", 1.702)?;
        each(call, |x| x * sigmoid(alpha * x))
    }),
    operator("com.microsoft.FusedMatMul", 1, 2, MATRICES, turned_product),
    operator("com.microsoft.DequantizeLinear", 1, 3, &["axis"], |call| {
        let inputs = [0, 1, 2].map(|at| call.optional(at));
        Ok(vec![step(call, "DequantizeLinear", &inputs, own(call, &[]))?])
    }),
    operator("com.microsoft.QuantizeLinear", 1, 3, &["axis"], |call| {
        let inputs = [0, 1, 2].map(|at| call.optional(at));
        Ok(vec![step(call, "QuantizeLinear", &inputs, own(call, &[]))?])
    }),
    operator("com.microsoft.SkipLayerNormalization", 1, 5, &["epsilon"], |call| {
        normalized_sum(call, "LayerNormalization", &[2, 3], 4)
    }),
    operator("com.microsoft.SkipSimplifiedLayerNormalization", 1, 4, &["epsilon"], |call| {
        normalized_sum(call, "RMSNormalization", &[2], 3)
    }),
    operator("SimplifiedLayerNormalization", 1, 2, SIMPLIFIED, |call| {
        let inputs = [0, 1].map(|at| call.optional(at));
        Ok(vec![step(call, "RMSNormalization", &inputs, own(call, &[]))?])
    }),
    operator("com.microsoft.QLinearAdd", 1, 8, &[], |call| combined(call, "Add")),
    operator("com.microsoft.QLinearMul", 1, 8, &[], |call| combined(call, "Mul")),
    operator("com.microsoft.QLinearSigmoid", 1, 5, &[], |call| mapped(call, "Sigmoid")),
    operator("com.microsoft.QLinearLeakyRelu", 1, 5, &["alpha"], |call| mapped(call, "LeakyRelu")),
    operator("com.microsoft.QLinearAveragePool", 1, 5, POOL, |call| mapped(call, "AveragePool")),
    operator("com.microsoft.QLinearGlobalAveragePool", 1, 5, &["channels_last"], |call| {
        mapped(call, "GlobalAveragePool")
    }),
    operator("com.microsoft.QLinearSoftmax", 1, 5, &["axis", "opset"], |call| {
        if (call.integer("opset", 13)? < 13) != (standard(call) < 13) {
            return fault("attribute \"opset\" is not the model's");
        }
        let axis = with("axis", Attribute::Integer(call.integer("axis", -1)?));
        let shares = step(call, "Softmax", &[Some(&numbers(call, 0, 1)?)], axis)?;
        codes(call, &shares, 3)
    }),
    operator("com.microsoft.QLinearConcat", 1, ANY, &["axis"], |call| {
        let parts = (2..call.inputs.len()).step_by(3).map(|at| numbers(call, at, 1));
        let parts: Vec<Tensor> = parts.collect::<Result<_, _>>()?;
        let inputs: Vec<Option<&Tensor>> = parts.iter().map(Some).collect();
        let joined = step(call, "Concat", &inputs, own(call, &[]))?;
        codes(call, &joined, 0)
    }),
    operator("com.microsoft.QGemm", 1, 9, &["alpha", "transA", "transB"], quantized_gemm),
    operator("com.microsoft.MatMulIntegerToFloat", 1, 7, &[], |call| {
        let inputs = |at: [usize; 3]| at.map(|at| call.optional(at));
        let a = step(call, "DequantizeLinear", &inputs([0, 2, 4]), along(-2))?;
        let b = step(call, "DequantizeLinear", &inputs([1, 3, 5]), along(-1))?;
        product(call, &a, &b, 6)
    }),
    operator("com.microsoft.DynamicQuantizeMatMul", 1, 5, &[], |call| {
        let a = call.input(0)?;
        let values = through_dynamic_codes(a.as_floats()?);
        let a = Tensor::of_floats(a.element(), a.shape(), values)?;
        product(call, &a, &numbers(call, 1, -1)?, 4)
    }),
    operator("com.microsoft.MatMulNBits", 1, 6, FEW_BITS, |call| {
        product(call, call.input(0)?, &weights_of_few_bits(call)?, 5)
    }),
    operator("QLinearMatMul", 10, 8, &[], |call| {
        let (a, b) = (numbers(call, 0, -2)?, numbers(call, 3, -1)?);
        let found = step(call, "MatMul", &[Some(&a), Some(&b)], none())?;
        codes(call, &found, 6)
    }),
    operator("QLinearConv", 10, 9, QUANTIZED_CONV, |call| {
        let (x, w) = (numbers(call, 0, 1)?, numbers(call, 3, 0)?);
        let bias = bias(call, 8, [1, 4])?;
        let sums = step(call, "Conv", &[Some(&x), Some(&w), bias.as_ref()], own(call, &[]))?;
        codes(call, &sums, 6)
    }),
];

type Attributes = BTreeMap<String, Attribute>;

fn none() -> Attributes {
    BTreeMap::new()
}

fn with(name: &str, value: Attribute) -> Attributes {
    BTreeMap::from([(name.to_owned(), value)])
}

fn along(axis: i64) -> Attributes {
    with("axis", Attribute::Integer(axis))
}

/// Returns the attributes of the node, without those of these names. Such nodes have no other types.
fn own(call: &Call<'_>, but: &[&str]) -> Attributes {
    let copy = |value: &Attribute| {
        Some(match value {
            Attribute::Float(number) => Attribute::Float(*number),
            Attribute::Integer(number) => Attribute::Integer(*number),
            Attribute::Integers(numbers) => Attribute::Integers(numbers.clone()),
            Attribute::Text(text) => Attribute::Text(text.clone()),
            _ => return None,
        })
    };
    let all = call.node.attributes.iter().filter(|(name, _)| !but.contains(&name.as_str()));
    all.filter_map(|(name, value)| Some((name.clone(), copy(value)?))).collect()
}

/// Returns the version of the standard operators.
fn standard(call: &Call<'_>) -> i64 {
    call.node.standard.unwrap_or(13)
}

/// Computes the first output of an operator of the standard.
fn step(
    call: &Call<'_>,
    name: &str,
    inputs: &[Option<&Tensor>],
    attributes: Attributes,
) -> Result<Tensor, Fault> {
    let node = Node {
        name: call.node.name.clone(),
        operator: name.to_owned(),
        domain: String::new(),
        opset: None,
        standard: call.node.standard,
        inputs: Vec::new(),
        outputs: vec!["output".to_owned()],
        attributes,
        body: None,
    };
    let inputs = inputs.iter().map(|input| input.map(|tensor| Arc::new(tensor.clone()))).collect();
    // Operators on codes have scales of channels in all versions.
    let is_of_codes = matches!(name, "DequantizeLinear" | "QuantizeLinear");
    let opset = standard(call).max(if is_of_codes { 13 } else { 0 });
    let (scope, setting) = (call.scope, call.setting);
    let inner = Call { node: &node, opset, inputs, scope, setting };
    let outputs = match find(name) {
        Some(operator) => (operator.compute)(&inner)?,
        None => Vec::new(),
    };
    match outputs.into_iter().next() {
        Some(output) => Ok(output),
        None => fault(format!("{name} has no output")),
    }
}

/// Returns the numbers of the codes in an input. Their scale and zero point are the next two inputs.
fn numbers(call: &Call<'_>, at: usize, axis: i64) -> Result<Tensor, Fault> {
    let inputs = [at, at + 1, at + 2].map(|at| call.optional(at));
    step(call, "DequantizeLinear", &inputs, along(axis))
}

/// Returns the codes of numbers. Their scale is the input `at`, and their zero point the next one. Only
/// matrix products may have several of them: one for each row.
fn codes(call: &Call<'_>, value: &Tensor, at: usize) -> Result<Vec<Tensor>, Fault> {
    let inputs = [Some(value), Some(call.input(at)?), Some(call.input(at + 1)?)];
    Ok(vec![step(call, "QuantizeLinear", &inputs, along(-2))?])
}

fn combined(call: &Call<'_>, name: &str) -> Result<Vec<Tensor>, Fault> {
    let (a, b) = (numbers(call, 0, 1)?, numbers(call, 3, 1)?);
    let found = step(call, name, &[Some(&a), Some(&b)], none())?;
    codes(call, &found, 6)
}

fn mapped(call: &Call<'_>, name: &str) -> Result<Vec<Tensor>, Fault> {
    if call.flag("channels_last", false)? {
        return fault("channels_last=1 is not supported");
    }
    let x = numbers(call, 0, 1)?;
    let found = step(call, name, &[Some(&x)], own(call, &["channels_last"]))?;
    codes(call, &found, 3)
}

/// Normalizes the sum of two inputs and a bias by an operator of the standard, which takes `parameters`.
/// Returns the sum, too, if the graph names it.
fn normalized_sum(
    call: &Call<'_>,
    name: &str,
    parameters: &[usize],
    bias: usize,
) -> Result<Vec<Tensor>, Fault> {
    let mut sum = step(call, "Add", &[call.optional(0), call.optional(1)], none())?;
    if let Some(bias) = call.optional(bias) {
        sum = step(call, "Add", &[Some(&sum), Some(bias)], none())?;
    }
    let mut inputs = vec![Some(&sum)];
    inputs.extend(parameters.iter().map(|at| call.optional(*at)));
    // The default is less than that of the standard.
    let epsilon = with("epsilon", Attribute::Float(call.float("epsilon", 1e-12)?));
    let normalized = step(call, name, &inputs, epsilon)?;
    if !call.wants(3) {
        return Ok(vec![normalized]);
    }
    if call.wants(1) || call.wants(2) {
        return fault("outputs 1 and 2 are not supported");
    }
    Ok(vec![normalized, sum.clone(), sum.clone(), sum])
}

/// Multiplies matrices that may be transposed before, and their product by a number.
fn turned_product(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    if call.flag("transBatchA", false)? || call.flag("transBatchB", false)? {
        return fault("transposed batches are not supported");
    }
    let turned = |at: usize, flag: &str| {
        let input = call.input(at)?;
        let mut order: Vec<usize> = (0..input.rank()).collect();
        if call.flag(flag, false)? {
            let Some(row) = input.rank().checked_sub(2) else {
                return fault("expected a matrix");
            };
            order.swap(row, row + 1);
        }
        transpose(input, &order)
    };
    let (a, b) = (turned(0, "transA")?, turned(1, "transB")?);
    let found = step(call, "MatMul", &[Some(&a), Some(&b)], none())?;
    let alpha = Tensor::of_floats(found.element(), &[], vec![call.float("alpha", 1.0)?])?;
    Ok(vec![step(call, "Mul", &[Some(&found), Some(&alpha)], none())?])
}

fn gelu(call: &Call<'_>, approximate: &str) -> Result<Vec<Tensor>, Fault> {
    let form = || with("approximate", Attribute::Text(approximate.to_owned()));
    let Some(bias) = call.optional(1) else {
        return Ok(vec![step(call, "Gelu", &[Some(call.input(0)?)], form())?]);
    };
    let sum = step(call, "Add", &[Some(call.input(0)?), Some(bias)], none())?;
    Ok(vec![step(call, "Gelu", &[Some(&sum)], form())?])
}

/// Applies the activation that the node names.
fn activated(call: &Call<'_>, value: Tensor) -> Result<Vec<Tensor>, Fault> {
    let listed = match call.node.attributes.get("activation_params") {
        Some(Attribute::Floats(numbers)) => numbers.clone(),
        _ => Vec::new(),
    };
    let parameter = |number: usize, name: &str| match listed.get(number) {
        Some(listed) => Ok(Some(*listed)),
        None => call.optional_float(name),
    };
    let first = parameter(0, "activation_alpha")?;
    let second = parameter(1, "activation_beta")?;
    let name = call.text("activation", "")?;
    let output = match name.as_str() {
        "" => value,
        "Relu" | "Sigmoid" | "Softplus" | "Softsign" | "Tanh" => {
            step(call, &name, &[Some(&value)], none())?
        }
        "Elu" | "HardSigmoid" | "LeakyRelu" | "ThresholdedRelu" => {
            let given = [("alpha", first), ("beta", second)].into_iter();
            let given = given.filter_map(|(name, number)| {
                number.map(|number| (name.to_owned(), Attribute::Float(number)))
            });
            step(call, &name, &[Some(&value)], given.collect())?
        }
        "Clip" => {
            let (Some(least), Some(most)) = (first, second) else {
                return fault("Clip needs two limits");
            };
            let values = value.as_floats()?.iter();
            let limited = |number: &f64| {
                if number.is_nan() { *number } else { number.max(least).min(most) }
            };
            Tensor::of_floats(value.element(), value.shape(), values.map(limited).collect())?
        }
        other => return fault(format!("activation {other:?} is not supported")),
    };
    Ok(vec![output])
}

/// Returns a bias of integers as numbers, in steps of the product of two scales.
fn bias(call: &Call<'_>, at: usize, scales: [usize; 2]) -> Result<Option<Tensor>, Fault> {
    let Some(bias) = call.optional(at) else { return Ok(None) };
    let scale = step(call, "Mul", &scales.map(|at| call.optional(at)), none())?;
    step(call, "DequantizeLinear", &[Some(bias), Some(&scale)], along(-1)).map(Some)
}

fn quantized_gemm(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let columns = i64::from(!call.flag("transB", false)?);
    let (a, b) = (numbers(call, 0, 1)?, numbers(call, 3, columns)?);
    let bias = bias(call, 6, [1, 4])?;
    let mut attributes = own(call, &[]);
    attributes.insert("beta".to_owned(), Attribute::Float(call.float("alpha", 1.0)?));
    let found = step(call, "Gemm", &[Some(&a), Some(&b), bias.as_ref()], attributes)?;
    if call.optional(7).is_some() { codes(call, &found, 7) } else { Ok(vec![found]) }
}

/// Returns K x N weights that a `MatMulNBits` stores column by column. A column has blocks of
/// `block_size` weights with one scale and zero point each, and the weights of a block fill bytes from
/// their lowest bits on. So do the zero points of a column, unless they are numbers.
fn weights_of_few_bits(call: &Call<'_>) -> Result<Tensor, Fault> {
    let size = |name: &str, default: i64| size_of(call.integer(name, default)?);
    let [k, n, bits, block] =
        [size("K", 0)?, size("N", 0)?, size("bits", 4)?, size("block_size", 0)?];
    let has_bytes = matches!(bits, 2 | 4 | 8)
        && (1..=MAX_ELEMENTS).contains(&block)
        && (block * bits).is_multiple_of(8);
    if k == 0 || !has_bytes {
        return fault(format!("{bits} bits in blocks of {block} for {k} rows"));
    }
    if call.optional(4).is_some() {
        return fault("g_idx is not supported");
    }
    let (codes, scales) = (call.input(1)?.as_integers()?, call.input(2)?.as_floats()?);
    let blocks = k.div_ceil(block);
    let bytes = block * bits / 8;
    if codes.len() != element_count(&[n, blocks, bytes])? || scales.len() != n * blocks {
        let found = (codes.len(), scales.len());
        return fault(format!("{found:?} bytes and scales for {n} columns of {blocks} blocks"));
    }
    let part =
        |all: &[i64], at: usize| all[at * bits / 8] >> (at * bits % 8) & ((1_i64 << bits) - 1);
    let zero_row = (blocks * bits).div_ceil(8);
    let zero = |column: usize, at: usize| match call.optional(3).map(Tensor::values) {
        None => Some((1_i64 << (bits - 1)) as f64),
        Some(Values::Floats(zeros)) => zeros.get(column * blocks + at).copied(),
        Some(Values::Integers(zeros)) => {
            zeros.get(column * zero_row..(column + 1) * zero_row).map(|row| part(row, at) as f64)
        }
    };
    call.spend_shape(&[k, n])?;
    let mut weights = Vec::with_capacity(k * n);
    for row in 0..k {
        for column in 0..n {
            let at = column * blocks + row / block;
            let code = part(&codes[at * bytes..(at + 1) * bytes], row % block) as f64;
            let Some(zero) = zero(column, row / block) else { return fault("too few zero points") };
            weights.push((code - zero) * scales[at]);
        }
    }
    Tensor::of_floats(call.input(0)?.element(), &[k, n], weights)
}

/// Returns the product of two matrices, plus an optional bias.
fn product(call: &Call<'_>, a: &Tensor, b: &Tensor, bias: usize) -> Result<Vec<Tensor>, Fault> {
    let found = step(call, "MatMul", &[Some(a), Some(b)], none())?;
    match call.optional(bias) {
        Some(bias) => Ok(vec![step(call, "Add", &[Some(&found), Some(bias)], none())?]),
        None => Ok(vec![found]),
    }
}
