//! Operators of ONNX and of ONNX Runtime, as far as weights are concerned.

use dyno_onnx::{Node, Tensor};

/// Returns the name of the full-precision, unfused form of an operator.
pub fn plain_operator(op: &str) -> &str {
    match op {
        "QLinearConv" | "ConvInteger" | "FusedConv" | "NhwcConv" | "NhwcFusedConv" => "Conv",
        "Gemm"
        | "QLinearMatMul"
        | "MatMulInteger"
        | "QGemm"
        | "FusedMatMul"
        | "FusedGemm"
        | "MatMulIntegerToFloat"
        | "DynamicQuantizeMatMul"
        | "MatMulNBits" => "MatMul",
        "QLinearAdd" => "Add",
        "QLinearMul" => "Mul",
        "QLinearAveragePool" => "AveragePool",
        "QLinearGlobalAveragePool" => "GlobalAveragePool",
        "QLinearSoftmax" => "Softmax",
        "DynamicQuantizeLSTM" => "LSTM",
        "GatherBlockQuantized" => "Gather",
        other => other,
    }
}

/// Operators that output their first input in another shape or order.
pub const MOVING: [&str; 5] = ["Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten"];

/// Operators that output parts or repetitions of their inputs and compute nothing.
pub const PICKING: [&str; 16] = [
    "Slice",
    "Concat",
    "Split",
    "Expand",
    "Tile",
    "Pad",
    "Gather",
    "GatherElements",
    "GatherND",
    "If",
    "Loop",
    "Scan",
    "SequenceMap",
    "SequenceConstruct",
    "Optional",
    "Size",
];

/// Operators that only test numbers.
pub const COMPARING: [&str; 8] =
    ["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Shape"];

/// Whether an input is an index or a count rather than an operand.
pub fn is_place(op: &str, input: usize) -> bool {
    match op {
        "Gather" | "GatherElements" | "GatherND" | "ScatterND" | "ScatterElements" => input == 1,
        "Slice" | "Reshape" | "Expand" | "Unsqueeze" | "Squeeze" | "Tile" | "Split" | "TopK"
        | "CumSum" | "Trilu" | "Resize" | "Upsample" | "Dropout" | "OneHot" => input > 0,
        "Pad" => input == 1 || input == 3,
        "ConstantOfShape" | "If" => input == 0,
        "Loop" => input < 2,
        "Range" => true,
        "NonMaxSuppression" => input > 1,
        _ => op.starts_with("Reduce") && input > 0,
    }
}

/// Codes that an operator reads with its own scales; numbers are indices of inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeInput {
    pub codes: usize,
    /// Inputs whose product is the scale; empty if the scale comes later in the graph.
    pub scales: Vec<usize>,
    pub zero: Option<usize>,
    pub kind: ScaleKind,
}

/// Assignment of scales to codes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ScaleKind {
    /// One scale, or one per slice along this dimension.
    Axis(i64),
    /// One scale per slice along the first dimension, or along the last.
    FirstOrLast,
    /// One scale per block along this dimension.
    Blocks { axis: i64, size: usize },
    /// One scale for each of `len` consecutive slices of `inner` elements, repeated.
    Slices { len: usize, inner: usize },
    /// Several numbers per byte, as in `MatMulNBits`.
    Packed { rows: usize, columns: usize, block: usize, bits: usize },
}

impl ScaleKind {
    /// Whether a tensor has enough bytes for its codes.
    pub fn fits(self, codes: &Tensor) -> bool {
        let Self::Packed { rows, columns, block, bits } = self else { return true };
        let row = columns.div_ceil(block).checked_mul(block * bits / 8);
        let all = row.and_then(|row| row.checked_mul(rows));
        all.is_some_and(|all| all as u64 <= codes.bytes())
    }
}

/// Maximum numbers in a block; engines support a few hundred.
const MOST_BLOCK: usize = 1 << 20;

/// Returns the codes that an operator reads with its own scales.
pub fn code_inputs(node: &Node) -> Vec<CodeInput> {
    let one = |codes: usize, scale: usize, zero: usize, kind: ScaleKind| CodeInput {
        codes,
        scales: vec![scale],
        zero: Some(zero),
        kind,
    };
    // The scale of a bias is the product of the scales of both factors.
    let bias = |codes: usize| CodeInput {
        codes,
        scales: vec![1, 4],
        zero: None,
        kind: ScaleKind::Axis(0),
    };
    let later = |kind: ScaleKind| CodeInput { codes: 1, scales: Vec::new(), zero: Some(3), kind };
    match node.op.as_str() {
        "MatMulInteger" => vec![later(ScaleKind::Axis(-1))],
        "ConvInteger" => vec![later(ScaleKind::Axis(0))],
        "QLinearConv" => vec![one(3, 4, 5, ScaleKind::Axis(0)), bias(8)],
        "QLinearAdd" | "QLinearMul" => {
            vec![one(0, 1, 2, ScaleKind::Axis(0)), one(3, 4, 5, ScaleKind::Axis(0))]
        }
        "QLinearMatMul" => {
            vec![one(0, 1, 2, ScaleKind::Axis(-2)), one(3, 4, 5, ScaleKind::Axis(-1))]
        }
        "QGemm" => {
            let axis = if node.int("transB", 0) == 1 { 0 } else { 1 };
            vec![one(3, 4, 5, ScaleKind::Axis(axis)), bias(6)]
        }
        "DynamicQuantizeMatMul" => vec![one(1, 2, 3, ScaleKind::Axis(-1))],
        "MatMulIntegerToFloat" => vec![one(1, 3, 5, ScaleKind::Axis(-1))],
        "QAttention" => vec![one(1, 4, 7, ScaleKind::Axis(-1))],
        "DynamicQuantizeLSTM" => {
            vec![one(1, 8, 9, ScaleKind::FirstOrLast), one(2, 10, 11, ScaleKind::FirstOrLast)]
        }
        "GatherBlockQuantized" => {
            let size = usize::try_from(node.int("block_size", 128)).unwrap_or(0);
            let kind = ScaleKind::Blocks { axis: node.int("quantize_axis", 1), size };
            (size > 0).then(|| one(0, 2, 3, kind)).into_iter().collect()
        }
        // The fifth input assigns columns to blocks in an arbitrary order.
        "MatMulNBits" if node.inputs.get(4).is_none_or(String::is_empty) => {
            let size = |name: &str, default| usize::try_from(node.int(name, default)).unwrap_or(0);
            let rows = size("N", 0);
            let columns = size("K", 0);
            let block = size("block_size", 0);
            let bits = size("bits", 4);
            let kind = ScaleKind::Packed { rows, columns, block, bits };
            let is_whole = rows > 0 && columns > 0 && block.is_multiple_of(8);
            let is_read = is_whole && matches!(bits, 2 | 4 | 8) && block <= MOST_BLOCK;
            is_read.then(|| one(1, 2, 3, kind)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Inputs that are scales or zero points of an operator's data inputs or outputs.
pub fn scales_of_activations(op: &str) -> &'static [usize] {
    match op {
        "QuantizeLinear" | "DequantizeLinear" => &[1, 2],
        "QLinearConv" | "QLinearMatMul" | "QLinearAdd" | "QLinearMul" => &[1, 2, 4, 5, 6, 7],
        "QGemm" => &[1, 2, 4, 5, 7, 8],
        "MatMulInteger" | "ConvInteger" => &[2, 3],
        "MatMulIntegerToFloat" => &[2, 3, 4, 5],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_no_weights_and_data_is() {
        assert!(is_place("Gather", 1) && !is_place("Gather", 0));
        assert!(is_place("Slice", 3) && !is_place("Slice", 0));
        assert!(is_place("ReduceMean", 1) && !is_place("MatMul", 1));
        assert!(!is_place("Pad", 2), "what is padded with is a number");
    }
}
