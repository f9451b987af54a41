//! Functions of operators, in terms of the simplest operators: a fused operator is described by the
//! operators that it replaces.

use dyno_onnx::{Attribute, Element};

use super::NumberRole;
use crate::flow::Step;
use crate::operators::plain_operator;

/// An operation on numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// A function, which changes the result each time it is applied.
    Function(String),
    /// Arithmetic, which can be arranged differently; only its presence counts.
    Arithmetic(&'static str),
    /// A vector of weights of the reference, by its position there.
    Vector(usize),
}

impl Operation {
    pub fn is_counted(&self) -> bool {
        matches!(self, Self::Function(_))
    }
}

/// Operations that mark the left and right operands of a product of two data matrices: queries and
/// keys.
pub const SIDES: [Operation; 2] =
    [Operation::Arithmetic("place on the left"), Operation::Arithmetic("place on the right")];

/// Families of operators with a matrix of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Convolution,
    Product,
    Recurrent,
    Attention,
    None,
}

/// Returns the family of an operator by its plain name.
pub fn family(op: &str) -> Family {
    match op {
        "Conv" | "ConvTranspose" => Family::Convolution,
        "MatMul" | "Einsum" | "TransposeMatMul" | "FusedMatMulActivation" => Family::Product,
        "LSTM" | "GRU" | "RNN" => Family::Recurrent,
        "Attention" | "PackedAttention" => Family::Attention,
        _ => Family::None,
    }
}

/// Factors closer to 1, and addends closer to 0, only protect a division.
const LEAST_NUMBER: f64 = 1e-3;

/// An input that is not data.
pub struct Input {
    pub number: Option<f64>,
    /// Element type, for a tensor.
    pub element: Option<Element>,
}

/// A step with the facts about its inputs.
pub struct StepContext<'a> {
    pub step: &'a Step<'a>,
    /// Data inputs, with the operators that computed them.
    pub by: &'a [(usize, &'a str)],
    pub input: &'a dyn Fn(usize) -> Option<Input>,
    /// Whether an input is computed from sizes.
    pub has_size: bool,
    /// Whether an input is a vector of weights, or the scale of data.
    pub is_scaled: bool,
}

/// Effects of a step.
#[derive(Debug, Default)]
pub struct StepEffects {
    pub done: Vec<Operation>,
    pub numbers: Vec<(NumberRole, f64)>,
    pub is_fused: bool,
    pub has_unknown: bool,
}

/// Operators that change no numbers, or only add.
const PASSING: [&str; 38] = [
    "Identity",
    "Cast",
    "CastLike",
    "Dropout",
    "Transpose",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Expand",
    "Tile",
    "Pad",
    "Concat",
    "Sum",
    "BiasAdd",
    "QuantizeLinear",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "ReorderInput",
    "ReorderOutput",
    "MemcpyFromHost",
    "MemcpyToHost",
    "If",
    "Loop",
    "Scan",
    "SequenceConstruct",
    "SequenceAt",
    "SequenceEmpty",
    "SequenceInsert",
    "ConcatFromSequence",
    "Optional",
    "OptionalGetElement",
    "EmbedLayerNormalization",
    "LayerNormalization",
    "Conv",
    "ConvTranspose",
    "LSTM",
    "GRU",
];

/// Operators that select a part of their data.
const PARTS: [&str; 8] = [
    "Slice",
    "Split",
    "Gather",
    "GatherND",
    "GatherElements",
    "SplitToSequence",
    "Compress",
    "GatherBlockQuantized",
];

/// Name of the operator that computed a value, seen by the next step; pass-through operators keep
/// the one before.
pub fn called(step: &Step<'_>, before: &str, numerator: Option<f64>) -> String {
    let op = step.op;
    if op == "Div" && numerator.is_some() {
        return "Reciprocal".into();
    }
    let is_kept = PASSING[..12].contains(&op) || PASSING[15..22].contains(&op);
    if is_kept { before.to_owned() } else { plain(op).to_owned() }
}

fn plain(op: &str) -> &str {
    let op = plain_operator(op);
    op.strip_prefix("QLinear").unwrap_or(op)
}

/// Returns the effects of a step.
pub fn functions(work: &StepContext<'_>) -> StepEffects {
    let mut found = StepEffects::default();
    let op = plain(work.step.op);
    work.output_from_zero(&mut found);
    if let Some(effects) = arithmetic(work, op) {
        found.take(effects);
    } else if let Some(effects) = fused(work, op) {
        found.take(effects);
    } else if PARTS.contains(&op) {
        // Rows of a table are lookups, not parts of the data.
        if !work.is_scaled {
            found.done.push(Operation::Arithmetic("Part"));
        }
    } else if family(op) == Family::Product && work.step.op != "Attention" {
        found.take(product(work));
    } else if op == "Pad" {
        found.done.push(Operation::Arithmetic("Pad"));
    } else if !PASSING.contains(&op) && op != "RNN" {
        found.done.push(Operation::Function(format!("{op}{}", attributes(work.step))));
    }
    let behind = work.step.node.text("activation");
    if matches!(family(op), Family::Convolution | Family::Product) && !behind.is_empty() {
        found.take(activation(work, behind));
    }
    found
}

impl StepEffects {
    fn take(&mut self, other: Self) {
        self.done.extend(other.done);
        self.numbers.extend(other.numbers);
        self.is_fused |= other.is_fused;
        self.has_unknown |= other.has_unknown;
    }

    fn arithmetic(arithmetic: &[&'static str]) -> Self {
        let done = arithmetic.iter().map(|name| Operation::Arithmetic(name)).collect();
        Self { done, ..Self::default() }
    }

    fn number(mut self, role: NumberRole, value: f64) -> Self {
        let has_effect = match role {
            NumberRole::Factor => (value - 1.0).abs() >= LEAST_NUMBER,
            NumberRole::Offset => value.abs() >= LEAST_NUMBER,
            _ => true,
        };
        if has_effect {
            self.numbers.push((role, value));
        }
        self
    }

    fn function(mut self, name: impl Into<String>) -> Self {
        self.done.push(Operation::Function(name.into()));
        self
    }

    /// Marks the numbers of a fused operator, which are in no tensor, as unknown.
    fn unknown(mut self) -> Self {
        self.has_unknown = true;
        self
    }
}

impl StepContext<'_> {
    fn number(&self, at: usize) -> Option<f64> {
        (self.input)(at).and_then(|input| input.number)
    }

    /// The number operand of a two-input operator on data.
    fn operand(&self) -> Option<f64> {
        if !self.step.op.starts_with("QLinear") {
            return self.number(usize::from(self.is_fed(0)));
        }
        // Codes, each with its scale and zero point.
        let at = if self.is_fed(0) { 3 } else { 0 };
        let code = self.number(at)?;
        let scale = self.number(at + 1)?;
        Some((code - self.number(at + 2).unwrap_or(0.0)) * scale)
    }

    fn is_fed(&self, at: usize) -> bool {
        self.by.iter().any(|(input, _)| *input == at)
    }

    /// Records that a quantized value whose range begins at 0 cannot be negative: quantizers drop
    /// activations that do only this.
    fn output_from_zero(&self, found: &mut StepEffects) {
        let (scale, zero) = match self.step.op {
            "QuantizeLinear" => (1, 2),
            "QLinearConv" | "QLinearMatMul" | "QLinearAdd" | "QLinearMul" => (6, 7),
            "QGemm" => (7, 8),
            op if op.starts_with("QLinear") && op != "QLinearConcat" => (3, 4),
            _ => return,
        };
        let (least, greatest, zero) = match (self.input)(zero) {
            None => (0.0, 255.0, 0.0),
            Some(Input { number: Some(zero), element: Some(element) }) => match element {
                Element::U8 => (0.0, 255.0, zero),
                Element::I8 => (-128.0, 127.0, zero),
                Element::U16 => (0.0, 65_535.0, zero),
                Element::I16 => (-32_768.0, 32_767.0, zero),
                _ => return,
            },
            _ => return,
        };
        let Some(scale) = self.number(scale).filter(|_| zero == least) else { return };
        found.done.push(Operation::Function(FROM_ZERO.into()));
        found.numbers.push((NumberRole::Top, scale * (greatest - zero)));
    }
}

/// Name of exponentials divided by their sum.
pub const NORMALIZED: &str = "Softmax";

/// Name of values that quantization keeps from being negative.
pub const FROM_ZERO: &str = "a range from zero";

/// Effects of sums, products and similar operators; `None` for others.
fn arithmetic(work: &StepContext<'_>, op: &str) -> Option<StepEffects> {
    let both = work.by.len() > 1;
    let number = work.operand();
    // The operand is a tensor other than a weight or a number: a size, or quantized.
    let unknown = |found: StepEffects| if work.has_size { found.unknown() } else { found };
    let is_sum_of_codes =
        work.by.first().is_some_and(|(_, by)| matches!(*by, "MatMulInteger" | "ConvInteger"));
    Some(match (op, number) {
        ("Add", Some(value)) if !both => StepEffects::default().number(NumberRole::Offset, value),
        ("Add", _) => unknown(StepEffects::default()),
        ("Sub", Some(value)) if !both && work.is_fed(0) => {
            StepEffects::default().number(NumberRole::Offset, -value)
        }
        ("Sub", Some(value)) if !both => StepEffects::default()
            .number(NumberRole::Offset, value)
            .number(NumberRole::Factor, -1.0),
        ("Sub" | "Mul" | "Div", _) if !both && (work.is_scaled || is_sum_of_codes) => {
            StepEffects::default()
        }
        ("Sub", _) if !both => unknown(StepEffects::default()),
        ("Sub", _) => StepEffects::arithmetic(&["Difference"]),
        ("Mul", Some(value)) if !both => StepEffects::default().number(NumberRole::Factor, value),
        ("Mul", _) if !both => unknown(StepEffects::default()),
        ("Mul", _) if work.by.iter().any(|(_, by)| *by == "Reciprocal") => StepEffects::default(),
        ("Mul", _) => StepEffects::arithmetic(&["Product"]),
        ("Div", Some(value)) if !both && work.is_fed(0) => {
            StepEffects::default().number(NumberRole::Factor, 1.0 / value)
        }
        ("Div", Some(value)) if !both => {
            StepEffects::arithmetic(&["Quotient"]).number(NumberRole::Factor, value)
        }
        ("Div", _) if !both => unknown(StepEffects::default()),
        ("Div" | "Reciprocal", _) => StepEffects::arithmetic(&["Quotient"]),
        ("Neg", _) => StepEffects::default().number(NumberRole::Factor, -1.0),
        ("Sqrt", _) => StepEffects::arithmetic(&["Sqrt"]),
        ("Pow", Some(value)) if !both && work.is_fed(0) => match value {
            0.5 => StepEffects::arithmetic(&["Sqrt"]),
            -0.5 => StepEffects::arithmetic(&["Sqrt", "Quotient"]),
            -1.0 => StepEffects::arithmetic(&["Quotient"]),
            value if value == value.round() && value > 1.0 => StepEffects::arithmetic(&["Product"]),
            value => StepEffects::default().function(format!("Pow {value:.3}")),
        },
        ("ReduceMean" | "GlobalAveragePool", _) => StepEffects::arithmetic(&["Mean"]),
        ("ReduceSum", _) => StepEffects::arithmetic(&["ReduceSum"]),
        (
            "Where" | "Not" | "And" | "Or" | "Equal" | "Less" | "Greater" | "LessOrEqual"
            | "GreaterOrEqual" | "Trilu" | "IsNaN",
            _,
        ) => StepEffects::arithmetic(&["Choice"]),
        ("Relu", _) => StepEffects::default().function("Relu"),
        ("Clip", _) => clipped(work),
        ("Max" | "Min", Some(value)) if !both => match op {
            "Max" if value == 0.0 => StepEffects::default().function("Relu"),
            "Max" => StepEffects::default().number(NumberRole::Low, value),
            _ => StepEffects::default().number(NumberRole::High, value),
        },
        _ => return None,
    })
}

fn clipped(work: &StepContext<'_>) -> StepEffects {
    let bound = |at: usize, name: &str| match work.step.node.attribute(name) {
        Some(Attribute::Float(value)) => Some(f64::from(*value)),
        _ => work.number(at),
    };
    let is_given = |at: usize| (work.input)(at).is_some();
    let low = bound(1, "min");
    let high = bound(2, "max");
    let found = bounded(low, high, work.by.first().map_or("", |(_, by)| by));
    let is_known = (low.is_some() || !is_given(1)) && (high.is_some() || !is_given(2));
    if is_known { found } else { found.unknown() }
}

/// Bounds beyond this are no bounds.
const UNBOUNDED: f64 = 1e30;

fn bounded(low: Option<f64>, high: Option<f64>, by: &str) -> StepEffects {
    let mut found = StepEffects::default();
    match low.filter(|low| *low > -UNBOUNDED) {
        // A fused operator combines Relu and an upper bound.
        Some(0.0) if by == "Relu" => {}
        Some(0.0) => found = found.function("Relu"),
        Some(low) => found = found.number(NumberRole::Low, low),
        None => {}
    }
    match high.filter(|high| *high < UNBOUNDED) {
        Some(high) => found.number(NumberRole::High, high),
        None => found,
    }
}

/// Effects of fused operators; `None` for others.
fn fused(work: &StepContext<'_>, op: &str) -> Option<StepEffects> {
    let node = work.step.node;
    let float = |name: &str, default: f64| match node.attribute(name) {
        Some(Attribute::Float(value)) => f64::from(*value),
        _ => default,
    };
    let is_norm = op.ends_with("LayerNormalization") || op == "RMSNormalization";
    Some(match op {
        _ if is_norm => {
            let all = ["Mean", "Sqrt", "Product", "Quotient", "Difference"];
            let is_simple = op.contains("Simplified") || op == "RMSNormalization";
            let found = StepEffects::arithmetic(if is_simple { &all[..4] } else { &all[..] });
            found.number(NumberRole::Offset, float("epsilon", 1e-5))
        }
        "BatchNormalization" => {
            let found = StepEffects::default().function("BatchNormalization");
            found.number(NumberRole::Offset, float("epsilon", 1e-5))
        }
        "Gelu" if node.text("approximate") == "tanh" => {
            StepEffects::arithmetic(&["Product"]).function("Tanh").unknown()
        }
        "Gelu" | "BiasGelu" => StepEffects::arithmetic(&["Product"]).function("Erf").unknown(),
        "FastGelu" => StepEffects::arithmetic(&["Product"]).function("Tanh").unknown(),
        "QuickGelu" | "Swish" => {
            let factor = float("alpha", if op == "Swish" { 1.0 } else { 1.702 });
            let found = StepEffects::arithmetic(&["Product"]).function("Sigmoid");
            found.number(NumberRole::Factor, factor)
        }
        "BiasSoftmax" => StepEffects::arithmetic(&[NORMALIZED]).function("Exp"),
        "Softmax" | "LogSoftmax" => {
            let axis = node.int("axis", -1);
            let found = StepEffects::arithmetic(&[NORMALIZED])
                .function("Exp")
                .number(NumberRole::Axis, axis as f64);
            if op == "Softmax" { found } else { found.function("Log") }
        }
        "Attention"
        | "QAttention"
        | "MultiHeadAttention"
        | "GroupQueryAttention"
        | "PackedAttention"
        | "PackedMultiHeadAttention"
        | "DecoderMaskedSelfAttention"
        | "DecoderMaskedMultiHeadAttention"
        | "SparseAttention" => {
            let found = StepEffects::arithmetic(&[NORMALIZED]).function("Exp").unknown();
            StepEffects { is_fused: true, ..found }
        }
        "RotaryEmbedding" => StepEffects { is_fused: true, ..StepEffects::default() }.unknown(),
        "Loop" => match work.number(0) {
            Some(turns) => StepEffects::default().number(NumberRole::Count, turns),
            None => StepEffects::default(),
        },
        _ => return None,
    })
}

/// Effects of a matrix product, with the factors of some operators.
fn product(work: &StepContext<'_>) -> StepEffects {
    let node = work.step.node;
    let second = if node.op == "QLinearMatMul" { 3 } else { 1 };
    let found = if work.is_fed(0) && work.is_fed(second) {
        StepEffects::arithmetic(&["Matrix product"])
    } else {
        StepEffects::default()
    };
    let is_plain = matches!(node.op.as_str(), "Gemm" | "FusedGemm" | "FusedMatMul");
    match node.attribute("alpha") {
        Some(Attribute::Float(alpha)) if is_plain => {
            found.number(NumberRole::Factor, (*alpha).into())
        }
        _ => found,
    }
}

/// Data inputs of a matrix product; `None` for other operators.
pub fn sides(step: &Step<'_>) -> Option<[usize; 2]> {
    match step.op {
        "MatMul" | "MatMulInteger" | "FusedMatMul" | "TransposeMatMul" => Some([0, 1]),
        "QLinearMatMul" => Some([0, 3]),
        _ => None,
    }
}

/// Effects of an activation fused into a layer.
fn activation(work: &StepContext<'_>, name: &str) -> StepEffects {
    let node = work.step.node;
    let numbers = match node.attribute("activation_params") {
        Some(Attribute::Floats(values)) => values.clone(),
        _ => Vec::new(),
    };
    let named = |name: &str| match node.attribute(name) {
        Some(Attribute::Float(value)) => Some(*value),
        _ => None,
    };
    let number = |at: usize, name: &str| numbers.get(at).copied().or_else(|| named(name));
    match name {
        "Clip" => bounded(number(0, "min").map(f64::from), number(1, "max").map(f64::from), ""),
        _ => {
            let alpha = number(0, "activation_alpha").map(|value| ("alpha", value));
            let beta = number(1, "activation_beta").map(|value| ("beta", value));
            let parts = alpha.into_iter().chain(beta);
            let parts: Vec<String> =
                parts.filter_map(|(kind, value)| float(name, kind, value)).collect();
            StepEffects::default().function(format!("{name}{}", parts.concat()))
        }
    }
}

/// Attributes that describe only layout, or nothing.
const LEFT_OUT: [&str; 12] = [
    "axis",
    "axes",
    "channels_last",
    "keepdims",
    "to",
    "perm",
    "seed",
    "storage_order",
    "opset",
    "activation",
    "activation_params",
    "noop_with_empty_axes",
];

/// Non-default attributes of an operator.
fn attributes(step: &Step<'_>) -> String {
    let parts = step.node.attributes.iter().filter(|(name, _)| !LEFT_OUT.contains(&&name[..]));
    let mut parts: Vec<String> = parts
        .filter_map(|(name, value)| match value {
            Attribute::Int(0) => None,
            Attribute::Int(value) => Some(format!(" {name}={value}")),
            Attribute::Float(value) => float(plain(step.op), name, *value),
            Attribute::Text(text) if text == "NOTSET" || text.is_empty() => None,
            Attribute::Text(text) => Some(format!(" {name}={text}")),
            Attribute::Ints(values) => ints(name, values).map(|text| format!(" {text}")),
            _ => None,
        })
        .collect();
    parts.sort_unstable();
    parts.concat()
}

fn float(op: &str, name: &str, value: f32) -> Option<String> {
    let default = match (op, name) {
        ("LeakyRelu", "alpha") => 0.01,
        ("HardSigmoid", "alpha") => 0.2,
        ("HardSigmoid", "beta") => 0.5,
        ("Elu" | "Celu" | "ThresholdedRelu", "alpha") => 1.0,
        _ => f32::NAN,
    };
    let is_default = (value - default).abs() < 1e-6;
    (!is_default).then(|| format!(" {name}={value:.3}"))
}

/// Formats a list unless it has its neutral value.
fn ints(name: &str, values: &[i64]) -> Option<String> {
    let nothing = i64::from(matches!(name, "strides" | "dilations"));
    let is_nothing = matches!(name, "strides" | "dilations" | "pads" | "output_padding")
        && values.iter().all(|value| *value == nothing);
    (!is_nothing).then(|| format!("{name}={values:?}"))
}

/// Attributes of a layer, and its padding; pads of -1 depend on the size.
pub fn attributes_and_pads(step: &Step<'_>) -> (String, Vec<i64>) {
    let node = step.node;
    let op = plain(step.op);
    let mut parts = Vec::new();
    let names: &[&str] = match family(op) {
        Family::Convolution => &["dilations", "group", "output_padding", "strides"],
        Family::Recurrent => {
            &["activations", "clip", "direction", "input_forget", "linear_before_reset"]
        }
        _ => &[],
    };
    for name in names {
        parts.extend(match node.attribute(name) {
            Some(Attribute::Ints(values)) => ints(name, values),
            Some(Attribute::Int(value)) if *value != i64::from(*name == "group") => {
                Some(format!("{name}={value}"))
            }
            Some(Attribute::Float(value)) => Some(format!("{name}={value:.3}")),
            Some(Attribute::Text(text)) if text != "forward" => Some(format!("{name}={text}")),
            Some(Attribute::Texts(texts)) if !are_usual(op, texts) => {
                Some(format!("{name}={texts:?}"))
            }
            _ => None,
        });
    }
    // A convolution at a single position is a product.
    let class = if matches!(op, "ConvTranspose" | "LSTM" | "GRU" | "RNN") { op } else { "" };
    let pads = match node.text("auto_pad") {
        "" | "NOTSET" | "VALID" => node.ints("pads").unwrap_or_default().to_vec(),
        _ => vec![-1],
    };
    let pads = if pads.iter().all(|pad| *pad == 0) { Vec::new() } else { pads };
    (format!("{class} {}", parts.join(" ")).trim().to_owned(), pads)
}

/// Whether the functions are the defaults of a recurrent operator.
fn are_usual(op: &str, names: &[String]) -> bool {
    let usual: &[&str] = match op {
        "LSTM" => &["Sigmoid", "Tanh", "Tanh"],
        "GRU" => &["Sigmoid", "Tanh"],
        _ => &["Tanh"],
    };
    names.len().is_multiple_of(usual.len())
        && names.iter().zip(usual.iter().cycle()).all(|(name, usual)| name == usual)
}

/// Whether data is multiplied with the transpose of a matrix; `None` if the step is not a product
/// of two.
pub fn is_turned(step: &Step<'_>, at: usize) -> Option<bool> {
    let node = step.node;
    let is_second = at != 0;
    match step.op {
        "MatMul"
        | "MatMulInteger"
        | "QLinearMatMul"
        | "DynamicQuantizeMatMul"
        | "MatMulIntegerToFloat" => Some(!is_second),
        "Gemm" | "QGemm" | "FusedMatMul" | "FusedGemm" => {
            let name = if is_second { "transB" } else { "transA" };
            Some((node.int(name, 0) == 1) ^ !is_second)
        }
        "MatMulNBits" => Some(true),
        _ => None,
    }
}
