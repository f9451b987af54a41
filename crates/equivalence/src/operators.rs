//! What operators of ONNX and of ONNX Runtime do with the tensors they are given, as far as
//! weights are concerned.

use dyno_onnx::{Node, Tensor};

/// What an operator is called when it computes in full precision, on its own.
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

/// Operators that put their first input out in another shape or order.
pub const MOVING: [&str; 5] = ["Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten"];

/// Operators that put out some of what they are given, or more often, and compute nothing.
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

/// Operators that only say yes or no of numbers.
pub const COMPARING: [&str; 8] =
    ["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Shape"];

/// Whether an input says where or how many, and not what is computed with.
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

/// Codes that an operator reads by scales of its own, as numbers of its inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Reads {
    pub codes: usize,
    /// Their product is the scale; none if that comes later in the graph.
    pub scales: Vec<usize>,
    pub zero: Option<usize>,
    pub kind: Kind,
}

/// Which scale belongs to which code.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// One scale, or one for each slice along this dimension.
    Axis(i64),
    /// A scale for each slice along the first dimension, or along the last.
    FirstOrLast,
    /// A scale for each block along this dimension.
    Blocks { axis: i64, size: usize },
    /// A scale for each of so many slices in a row; then again.
    Slices { len: usize, inner: usize },
    /// Several numbers a byte, as `MatMulNBits` has them.
    Packed { rows: usize, columns: usize, block: usize, bits: usize },
}

impl Kind {
    /// Whether a tensor has the bytes for its codes.
    pub fn fits(self, codes: &Tensor) -> bool {
        let Self::Packed { rows, columns, block, bits } = self else { return true };
        let row = columns.div_ceil(block).checked_mul(block * bits / 8);
        let all = row.and_then(|row| row.checked_mul(rows));
        all.is_some_and(|all| all as u64 <= codes.bytes())
    }
}

/// Numbers of a block; engines take no more than some hundred.
const MOST_BLOCK: usize = 1 << 20;

/// What an operator reads so.
pub fn reads(node: &Node) -> Vec<Reads> {
    let one = |codes: usize, scale: usize, zero: usize, kind: Kind| Reads {
        codes,
        scales: vec![scale],
        zero: Some(zero),
        kind,
    };
    // Its scale is the product of those of the two that are multiplied.
    let bias = |codes: usize| Reads { codes, scales: vec![1, 4], zero: None, kind: Kind::Axis(0) };
    let later = |kind: Kind| Reads { codes: 1, scales: Vec::new(), zero: Some(3), kind };
    match node.op.as_str() {
        "MatMulInteger" => vec![later(Kind::Axis(-1))],
        "ConvInteger" => vec![later(Kind::Axis(0))],
        "QLinearConv" => vec![one(3, 4, 5, Kind::Axis(0)), bias(8)],
        "QLinearAdd" | "QLinearMul" => {
            vec![one(0, 1, 2, Kind::Axis(0)), one(3, 4, 5, Kind::Axis(0))]
        }
        "QLinearMatMul" => vec![one(0, 1, 2, Kind::Axis(-2)), one(3, 4, 5, Kind::Axis(-1))],
        "QGemm" => {
            let axis = if node.int("transB", 0) == 1 { 0 } else { 1 };
            vec![one(3, 4, 5, Kind::Axis(axis)), bias(6)]
        }
        "DynamicQuantizeMatMul" => vec![one(1, 2, 3, Kind::Axis(-1))],
        "MatMulIntegerToFloat" => vec![one(1, 3, 5, Kind::Axis(-1))],
        "QAttention" => vec![one(1, 4, 7, Kind::Axis(-1))],
        "DynamicQuantizeLSTM" => {
            vec![one(1, 8, 9, Kind::FirstOrLast), one(2, 10, 11, Kind::FirstOrLast)]
        }
        "GatherBlockQuantized" => {
            let size = usize::try_from(node.int("block_size", 128)).unwrap_or(0);
            let kind = Kind::Blocks { axis: node.int("quantize_axis", 1), size };
            (size > 0).then(|| one(0, 2, 3, kind)).into_iter().collect()
        }
        // Its fifth input gives columns to blocks in an order of its own.
        "MatMulNBits" if node.inputs.get(4).is_none_or(String::is_empty) => {
            let size = |name: &str, default| usize::try_from(node.int(name, default)).unwrap_or(0);
            let (rows, columns, block) = (size("N", 0), size("K", 0), size("block_size", 0));
            let bits = size("bits", 4);
            let kind = Kind::Packed { rows, columns, block, bits };
            let is_whole = rows > 0 && columns > 0 && block.is_multiple_of(8);
            let is_read = is_whole && matches!(bits, 2 | 4 | 8) && block <= MOST_BLOCK;
            is_read.then(|| one(1, 2, 3, kind)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Inputs that are scales or zero points of what an operator is given or puts out.
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
