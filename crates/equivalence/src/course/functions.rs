//! What operators compute, in the words of the simplest of them: a fused operator is what
//! it stands for.

use dyno_onnx::{Attribute, Element};

use super::Use;
use crate::flow::Step;
use crate::operators::plain_operator;

/// What is done to numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Done {
    /// A function, which changes what is computed each time that it is there.
    Function(String),
    /// Arithmetic, which can be arranged in other ways; only whether it is there counts.
    Arithmetic(&'static str),
    /// A vector of weights of the reference, by its position there.
    Vector(usize),
}

impl Done {
    pub fn is_counted(&self) -> bool {
        matches!(self, Self::Function(_))
    }
}

/// Told of what stands on the left of a product of two matrices that are data, and on the
/// right: queries and keys.
pub const SIDES: [Done; 2] =
    [Done::Arithmetic("place on the left"), Done::Arithmetic("place on the right")];

/// Operators that have a matrix of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Convolution,
    Product,
    Recurrent,
    Attention,
    None,
}

/// By the plain name of an operator.
pub fn family(op: &str) -> Family {
    match op {
        "Conv" | "ConvTranspose" => Family::Convolution,
        "MatMul" | "Einsum" | "TransposeMatMul" | "FusedMatMulActivation" => Family::Product,
        "LSTM" | "GRU" | "RNN" => Family::Recurrent,
        "Attention" | "PackedAttention" => Family::Attention,
        _ => Family::None,
    }
}

/// Factors that are nearer to 1, and addends that are nearer to 0, only keep a division
/// from failing.
const LEAST_NUMBER: f64 = 1e-3;

/// An input that is no data.
pub struct Input {
    pub number: Option<f64>,
    /// Of a tensor.
    pub element: Option<Element>,
}

/// A step at work.
pub struct Work<'a> {
    pub step: &'a Step<'a>,
    /// Inputs that are data, with the operators that made them.
    pub by: &'a [(usize, &'a str)],
    pub input: &'a dyn Fn(usize) -> Option<Input>,
    /// An input is made of sizes.
    pub has_size: bool,
    /// An input is a vector of weights, or the scale of data.
    pub is_scaled: bool,
}

/// What comes of it.
#[derive(Debug, Default)]
pub struct Found {
    pub done: Vec<Done>,
    pub numbers: Vec<(Use, f64)>,
    pub is_fused: bool,
    pub has_untold: bool,
}

/// Operators that change no number, or only add.
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

/// Operators that take a part of their data.
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

/// What made a value, for the step that takes it: those that only pass keep it.
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

/// What a step does.
pub fn functions(work: &Work<'_>) -> Found {
    let mut found = Found::default();
    let op = plain(work.step.op);
    work.output_from_zero(&mut found);
    if let Some(of) = arithmetic(work, op) {
        found.take(of);
    } else if let Some(of) = fused(work, op) {
        found.take(of);
    } else if PARTS.contains(&op) {
        // Rows of a table are what is looked up, and no part of the data.
        if !work.is_scaled {
            found.done.push(Done::Arithmetic("Part"));
        }
    } else if family(op) == Family::Product && work.step.op != "Attention" {
        found.take(product(work));
    } else if op == "Pad" {
        found.done.push(Done::Arithmetic("Pad"));
    } else if !PASSING.contains(&op) && op != "RNN" {
        found.done.push(Done::Function(format!("{op}{}", attributes(work.step))));
    }
    let behind = work.step.node.text("activation");
    if matches!(family(op), Family::Convolution | Family::Product) && !behind.is_empty() {
        found.take(activation(work, behind));
    }
    found
}

impl Found {
    fn take(&mut self, other: Self) {
        self.done.extend(other.done);
        self.numbers.extend(other.numbers);
        self.is_fused |= other.is_fused;
        self.has_untold |= other.has_untold;
    }

    fn of(arithmetic: &[&'static str]) -> Self {
        let done = arithmetic.iter().map(|name| Done::Arithmetic(name)).collect();
        Self { done, ..Self::default() }
    }

    fn number(mut self, of: Use, value: f64) -> Self {
        let tells = match of {
            Use::Factor => (value - 1.0).abs() >= LEAST_NUMBER,
            Use::Offset => value.abs() >= LEAST_NUMBER,
            _ => true,
        };
        if tells {
            self.numbers.push((of, value));
        }
        self
    }

    fn function(mut self, name: impl Into<String>) -> Self {
        self.done.push(Done::Function(name.into()));
        self
    }

    /// Of a fused operator, whose numbers stand in no tensor.
    fn untold(mut self) -> Self {
        self.has_untold = true;
        self
    }
}

impl Work<'_> {
    fn number(&self, at: usize) -> Option<f64> {
        (self.input)(at).and_then(|input| input.number)
    }

    /// The number that data is computed with, of an operator with two inputs.
    fn operand(&self) -> Option<f64> {
        if !self.step.op.starts_with("QLinear") {
            return self.number(usize::from(self.is_fed(0)));
        }
        // Codes, each with its scale and its zero point.
        let at = if self.is_fed(0) { 3 } else { 0 };
        let (code, scale) = (self.number(at)?, self.number(at + 1)?);
        Some((code - self.number(at + 2).unwrap_or(0.0)) * scale)
    }

    fn is_fed(&self, at: usize) -> bool {
        self.by.iter().any(|(input, _)| *input == at)
    }

    /// A quantised value whose range begins at 0 holds nothing below: quantisers leave
    /// activations out that do no more than that.
    fn output_from_zero(&self, found: &mut Found) {
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
        found.done.push(Done::Function(FROM_ZERO.into()));
        found.numbers.push((Use::Top, scale * (greatest - zero)));
    }
}

/// Told of exponentials that are divided by their sum.
pub const NORMALISED: &str = "Softmax";

/// Told of values that quantisation keeps from being less than 0.
pub const FROM_ZERO: &str = "a range from zero";

/// Sums, products and their like; `None` for other operators.
fn arithmetic(work: &Work<'_>, op: &str) -> Option<Found> {
    let both = work.by.len() > 1;
    let number = work.operand();
    // By a tensor that is no weight and no number: of a size, or quantised.
    let untold = |found: Found| if work.has_size { found.untold() } else { found };
    let is_sum_of_codes =
        work.by.first().is_some_and(|(_, by)| matches!(*by, "MatMulInteger" | "ConvInteger"));
    Some(match (op, number) {
        ("Add", Some(value)) if !both => Found::default().number(Use::Offset, value),
        ("Add", _) => untold(Found::default()),
        ("Sub", Some(value)) if !both && work.is_fed(0) => {
            Found::default().number(Use::Offset, -value)
        }
        ("Sub", Some(value)) if !both => {
            Found::default().number(Use::Offset, value).number(Use::Factor, -1.0)
        }
        ("Sub" | "Mul" | "Div", _) if !both && (work.is_scaled || is_sum_of_codes) => {
            Found::default()
        }
        ("Sub", _) if !both => untold(Found::default()),
        ("Sub", _) => Found::of(&["Difference"]),
        ("Mul", Some(value)) if !both => Found::default().number(Use::Factor, value),
        ("Mul", _) if !both => untold(Found::default()),
        ("Mul", _) if work.by.iter().any(|(_, by)| *by == "Reciprocal") => Found::default(),
        ("Mul", _) => Found::of(&["Product"]),
        ("Div", Some(value)) if !both && work.is_fed(0) => {
            Found::default().number(Use::Factor, 1.0 / value)
        }
        ("Div", Some(value)) if !both => Found::of(&["Quotient"]).number(Use::Factor, value),
        ("Div", _) if !both => untold(Found::default()),
        ("Div" | "Reciprocal", _) => Found::of(&["Quotient"]),
        ("Neg", _) => Found::default().number(Use::Factor, -1.0),
        ("Sqrt", _) => Found::of(&["Sqrt"]),
        ("Pow", Some(value)) if !both && work.is_fed(0) => match value {
            0.5 => Found::of(&["Sqrt"]),
            -0.5 => Found::of(&["Sqrt", "Quotient"]),
            -1.0 => Found::of(&["Quotient"]),
            value if value == value.round() && value > 1.0 => Found::of(&["Product"]),
            value => Found::default().function(format!("Pow {value:.3}")),
        },
        ("ReduceMean" | "GlobalAveragePool", _) => Found::of(&["Mean"]),
        ("ReduceSum", _) => Found::of(&["ReduceSum"]),
        (
            "Where" | "Not" | "And" | "Or" | "Equal" | "Less" | "Greater" | "LessOrEqual"
            | "GreaterOrEqual" | "Trilu" | "IsNaN",
            _,
        ) => Found::of(&["Choice"]),
        ("Relu", _) => Found::default().function("Relu"),
        ("Clip", _) => clipped(work),
        ("Max" | "Min", Some(value)) if !both => match op {
            "Max" if value == 0.0 => Found::default().function("Relu"),
            "Max" => Found::default().number(Use::Low, value),
            _ => Found::default().number(Use::High, value),
        },
        _ => return None,
    })
}

fn clipped(work: &Work<'_>) -> Found {
    let bound = |at: usize, name: &str| match work.step.node.attribute(name) {
        Some(Attribute::Float(value)) => Some(f64::from(*value)),
        _ => work.number(at),
    };
    let is_given = |at: usize| (work.input)(at).is_some();
    let (low, high) = (bound(1, "min"), bound(2, "max"));
    let found = bounded(low, high, work.by.first().map_or("", |(_, by)| by));
    let is_told = (low.is_some() || !is_given(1)) && (high.is_some() || !is_given(2));
    if is_told { found } else { found.untold() }
}

/// Beyond it a bound is none.
const UNBOUNDED: f64 = 1e30;

fn bounded(low: Option<f64>, high: Option<f64>, by: &str) -> Found {
    let mut found = Found::default();
    match low.filter(|low| *low > -UNBOUNDED) {
        // Relu and a bound above are one operator when they are fused.
        Some(0.0) if by == "Relu" => {}
        Some(0.0) => found = found.function("Relu"),
        Some(low) => found = found.number(Use::Low, low),
        None => {}
    }
    match high.filter(|high| *high < UNBOUNDED) {
        Some(high) => found.number(Use::High, high),
        None => found,
    }
}

/// Operators that stand for several; `None` for others.
fn fused(work: &Work<'_>, op: &str) -> Option<Found> {
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
            let found = Found::of(if is_simple { &all[..4] } else { &all[..] });
            found.number(Use::Offset, float("epsilon", 1e-5))
        }
        "BatchNormalization" => {
            let found = Found::default().function("BatchNormalization");
            found.number(Use::Offset, float("epsilon", 1e-5))
        }
        "Gelu" if node.text("approximate") == "tanh" => {
            Found::of(&["Product"]).function("Tanh").untold()
        }
        "Gelu" | "BiasGelu" => Found::of(&["Product"]).function("Erf").untold(),
        "FastGelu" => Found::of(&["Product"]).function("Tanh").untold(),
        "QuickGelu" | "Swish" => {
            let factor = float("alpha", if op == "Swish" { 1.0 } else { 1.702 });
            let found = Found::of(&["Product"]).function("Sigmoid");
            found.number(Use::Factor, factor)
        }
        "BiasSoftmax" => Found::of(&[NORMALISED]).function("Exp"),
        "Softmax" | "LogSoftmax" => {
            let axis = node.int("axis", -1);
            let found = Found::of(&[NORMALISED]).function("Exp").number(Use::Axis, axis as f64);
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
            let found = Found::of(&[NORMALISED]).function("Exp").untold();
            Found { is_fused: true, ..found }
        }
        "RotaryEmbedding" => Found { is_fused: true, ..Found::default() }.untold(),
        "Loop" => match work.number(0) {
            Some(turns) => Found::default().number(Use::Count, turns),
            None => Found::default(),
        },
        _ => return None,
    })
}

/// A product of matrices, with the factors that some operators have.
fn product(work: &Work<'_>) -> Found {
    let node = work.step.node;
    let second = if node.op == "QLinearMatMul" { 3 } else { 1 };
    let found = if work.is_fed(0) && work.is_fed(second) {
        Found::of(&["Matrix product"])
    } else {
        Found::default()
    };
    let is_plain = matches!(node.op.as_str(), "Gemm" | "FusedGemm" | "FusedMatMul");
    match node.attribute("alpha") {
        Some(Attribute::Float(alpha)) if is_plain => found.number(Use::Factor, (*alpha).into()),
        _ => found,
    }
}

/// The inputs of a product of matrices; `None` of other operators.
pub fn sides(step: &Step<'_>) -> Option<[usize; 2]> {
    match step.op {
        "MatMul" | "MatMulInteger" | "FusedMatMul" | "TransposeMatMul" => Some([0, 1]),
        "QLinearMatMul" => Some([0, 3]),
        _ => None,
    }
}

/// What is fused behind a layer.
fn activation(work: &Work<'_>, name: &str) -> Found {
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
            let told = alpha.into_iter().chain(beta);
            let told: Vec<String> = told.filter_map(|(of, value)| float(name, of, value)).collect();
            Found::default().function(format!("{name}{}", told.concat()))
        }
    }
}

/// Attributes that say how data lies, or nothing.
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

/// The choices of an operator that are not those it has by itself.
fn attributes(step: &Step<'_>) -> String {
    let told = step.node.attributes.iter().filter(|(name, _)| !LEFT_OUT.contains(&&name[..]));
    let mut told: Vec<String> = told
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
    told.sort_unstable();
    told.concat()
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

/// A list, unless it is that of an operator that says nothing.
fn ints(name: &str, values: &[i64]) -> Option<String> {
    let nothing = i64::from(matches!(name, "strides" | "dilations"));
    let is_nothing = matches!(name, "strides" | "dilations" | "pads" | "output_padding")
        && values.iter().all(|value| *value == nothing);
    (!is_nothing).then(|| format!("{name}={values:?}"))
}

/// How a layer goes about its data, and what it pads it with. Pads of -1 are made by size.
pub fn how(step: &Step<'_>) -> (String, Vec<i64>) {
    let (node, op) = (step.node, plain(step.op));
    let mut told = Vec::new();
    let names: &[&str] = match family(op) {
        Family::Convolution => &["dilations", "group", "output_padding", "strides"],
        Family::Recurrent => {
            &["activations", "clip", "direction", "input_forget", "linear_before_reset"]
        }
        _ => &[],
    };
    for name in names {
        told.extend(match node.attribute(name) {
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
    // A convolution of one place is a product.
    let class = if matches!(op, "ConvTranspose" | "LSTM" | "GRU" | "RNN") { op } else { "" };
    let pads = match node.text("auto_pad") {
        "" | "NOTSET" | "VALID" => node.ints("pads").unwrap_or_default().to_vec(),
        _ => vec![-1],
    };
    let pads = if pads.iter().all(|pad| *pad == 0) { Vec::new() } else { pads };
    (format!("{class} {}", told.join(" ")).trim().to_owned(), pads)
}

/// Whether these are the functions that a recurrent operator has by itself.
fn are_usual(op: &str, names: &[String]) -> bool {
    let usual: &[&str] = match op {
        "LSTM" => &["Sigmoid", "Tanh", "Tanh"],
        "GRU" => &["Sigmoid", "Tanh"],
        _ => &["Tanh"],
    };
    names.len().is_multiple_of(usual.len())
        && names.iter().zip(usual.iter().cycle()).all(|(name, usual)| name == usual)
}

/// Whether data is multiplied with the transpose of a matrix; `None` if it is no product
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
