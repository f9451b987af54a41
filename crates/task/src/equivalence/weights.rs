//! The weights of a model: its tensors of floating-point numbers, and those of whole
//! numbers that the graph turns into such by a scale.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use dyno_onnx::{Attribute, Element, Model, Node, ReadError, Tensor, Values};
use half::{bf16, f16};

use super::grain::{Affine, Decoded, Grain, Layout};

/// A weight, not decoded yet.
#[derive(Debug, Clone)]
pub struct Weight {
    /// As the model has it, without what quantisers append.
    pub name: String,
    /// As the file has it.
    pub held_as: String,
    /// Of its elements in the file.
    pub element: Element,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Where it is used first: the operator, and the number of its input.
    pub slot: (String, usize),
    /// How many weights are used before it.
    pub place: usize,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Plain,
    /// Codes with the tensors that tell what they stand for.
    Quantised(Quantised),
    /// Numbers that stand in no file.
    Made(Vec<f32>),
    /// A plain one, each slice along the first dimension times a factor.
    Scaled(Vec<f32>),
}

#[derive(Debug, Clone, PartialEq)]
struct Quantised {
    scale: String,
    zero: Option<String>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// One scale, or one for each slice along this dimension.
    Axis(i64),
    /// A scale for each block along this dimension.
    Blocks { axis: i64, size: usize },
    /// Two numbers a byte, as `MatMulNBits` has them.
    Nibbles { rows: usize, columns: usize, block: usize },
}

/// The tensors of a model by name, and which of them are weights.
pub struct Weights<'a> {
    tensors: HashMap<&'a str, Cow<'a, Tensor>>,
    /// Of floating-point numbers, in the order of their use.
    pub all: Vec<Weight>,
    /// Tensors that operators hold packed in a way that is not understood.
    pub unread: Vec<String>,
}

/// Operators that pass a weight on, in another form.
const PASSING: [&str; 9] = [
    "DequantizeLinear",
    "QuantizeLinear",
    "Cast",
    "Identity",
    "Transpose",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
];

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
        other => other,
    }
}

impl<'a> Weights<'a> {
    /// The weights of a model.
    pub fn of(model: &'a Model) -> Self {
        let tensors = tensors(model);
        let mut quantised = HashMap::new();
        let mut describing = HashSet::new();
        for node in &model.nodes {
            for (held, by) in codes(node, model, &tensors) {
                describing.insert(by.scale.clone());
                describing.extend(by.zero.clone());
                quantised.entry(held).or_insert(by);
            }
            describing.extend(scales_of_activations(node));
        }
        let uses = uses(model, &tensors);
        let mut weights = Self { tensors, all: Vec::new(), unread: Vec::new() };
        for (place, (name, slot)) in uses.into_iter().enumerate() {
            let tensor = &weights.tensors[name];
            let is_small = tensor.elements() < 2;
            if describing.contains(name) || is_small {
                continue;
            }
            let by = quantised.get(name);
            let is_float = matches!(
                tensor.element,
                Element::F32 | Element::F16 | Element::BF16 | Element::F64
            );
            if by.is_none() && !is_float {
                if matches!(tensor.element, Element::U8 | Element::I8) && tensor.elements() > 16 {
                    weights.unread.push(name.to_owned());
                }
                continue;
            }
            let shape = match by.map(|by| by.kind) {
                Some(Kind::Nibbles { rows, columns, .. }) => vec![rows, columns],
                _ => tensor.shape.clone(),
            };
            weights.all.push(Weight {
                name: base(name).to_owned(),
                held_as: name.to_owned(),
                element: tensor.element,
                shape,
                slot,
                place,
                source: by.cloned().map_or(Source::Plain, Source::Quantised),
            });
        }
        weights
    }

    /// The numbers of a weight.
    ///
    /// # Errors
    /// A file beside the model that cannot be read, or a tensor that is cut short.
    pub fn decode(&self, weight: &Weight) -> Result<Decoded, ReadError> {
        let shape = weight.shape.clone();
        let by = match &weight.source {
            Source::Made(values) => {
                return Ok(Decoded { shape, values: values.clone(), grain: Grain::F32 });
            }
            Source::Plain => None,
            Source::Quantised(by) => Some(by),
            Source::Scaled(factors) => {
                let mut decoded = self.plain(&weight.held_as)?;
                let slice = decoded.values.len() / factors.len().max(1);
                for (slice, factor) in decoded.values.chunks_mut(slice.max(1)).zip(factors) {
                    slice.iter_mut().for_each(|value| *value *= factor);
                }
                return Ok(Decoded { grain: Grain::Computed, ..decoded });
            }
        };
        let Some(by) = by else { return self.plain(&weight.held_as) };
        let tensor = self.loaded(&weight.held_as)?;
        let wrong = |why: &str| ReadError::Tensor { name: weight.held_as.clone(), why: why.into() };
        let scales = self.plain(&by.scale)?.values;
        let mut codes = integers(&tensor)?;
        let (mut zeros, mut range) = (Vec::new(), limits(tensor.element));
        if let Some(zero) = &by.zero {
            zeros = integers(self.loaded(zero)?.as_ref())?;
        }
        let axis_of = |axis: i64| {
            let rank = shape.len() as i64;
            let axis = if axis < 0 { axis + rank } else { axis };
            usize::try_from(axis).ok().filter(|&axis| axis < shape.len())
        };
        let inner = |axis: usize| shape[axis + 1..].iter().product::<usize>();
        let layout = match by.kind {
            Kind::Axis(_) if scales.len() == 1 => Layout::Whole,
            Kind::Axis(axis) => {
                let axis = axis_of(axis).ok_or_else(|| wrong("its axis is none of its own"))?;
                Layout::Axis { len: shape[axis], inner: inner(axis) }
            }
            Kind::Blocks { axis, size } => {
                let axis = axis_of(axis).ok_or_else(|| wrong("its axis is none of its own"))?;
                Layout::Blocks { len: shape[axis], inner: inner(axis), size }
            }
            Kind::Nibbles { rows, columns, block } => {
                let blocks = columns.div_ceil(block);
                codes = nibbles(&codes, rows, blocks * block, columns);
                range = (0, 15);
                zeros = match zeros.is_empty() {
                    true => vec![8],
                    false => nibbles(&zeros, rows, blocks.next_multiple_of(2), blocks),
                };
                Layout::Blocks { len: columns, inner: 1, size: block }
            }
        };
        let affine = Affine { scales, zeros, layout, range };
        affine.decode(shape, &codes).ok_or_else(|| wrong("its scales are not as many as it needs"))
    }

    /// Bytes that describe how codes are read: scales and zero points.
    pub fn description(&self, weight: &Weight) -> u64 {
        let Source::Quantised(by) = &weight.source else { return 0 };
        let bytes = |name: &String| self.tensors.get(name.as_str()).map_or(0, |one| one.bytes());
        bytes(&by.scale) + by.zero.as_ref().map_or(0, bytes)
    }

    /// Bytes of a weight in the file.
    pub fn bytes(&self, weight: &Weight) -> u64 {
        self.tensors.get(weight.held_as.as_str()).map_or(0, |tensor| tensor.bytes())
    }

    /// A tensor of floating-point numbers.
    pub fn plain(&self, name: &str) -> Result<Decoded, ReadError> {
        let tensor = self.loaded(name)?;
        let bytes = bytes_of(&tensor)?;
        let two = |bytes: &[u8]| u16::from_le_bytes([bytes[0], bytes[1]]);
        let (values, grain) = match tensor.element {
            Element::F16 => {
                let value = |bytes: &[u8]| f16::from_bits(two(bytes)).to_f32();
                (bytes.chunks_exact(2).map(value).collect(), Grain::F16)
            }
            Element::BF16 => {
                let value = |bytes: &[u8]| bf16::from_bits(two(bytes)).to_f32();
                (bytes.chunks_exact(2).map(value).collect(), Grain::Bf16)
            }
            Element::F64 => {
                let (whole, _) = bytes.as_chunks::<8>();
                (whole.iter().map(|one| f64::from_le_bytes(*one) as f32).collect(), Grain::F32)
            }
            Element::F32 => {
                let (whole, _) = bytes.as_chunks::<4>();
                (whole.iter().map(|one| f32::from_le_bytes(*one)).collect(), Grain::F32)
            }
            _ => {
                let values = integers(&tensor)?.into_iter().map(|code| code as f32).collect();
                (values, Grain::F32)
            }
        };
        Ok(Decoded { shape: tensor.shape.clone(), values, grain })
    }

    fn loaded(&self, name: &str) -> Result<Cow<'_, Tensor>, ReadError> {
        let tensor = self.tensors.get(name).ok_or_else(|| ReadError::Tensor {
            name: name.to_owned(),
            why: "the graph names it, and the file does not hold it".into(),
        })?;
        if let Values::Bytes(_) = tensor.values {
            return Ok(Cow::Borrowed(tensor));
        }
        let mut tensor = tensor.clone().into_owned();
        tensor.load()?;
        Ok(Cow::Owned(tensor))
    }

    /// Replaces a plain weight by itself times a factor for each slice along the first
    /// dimension.
    pub fn scale(&mut self, name: &str, factors: Vec<f32>) {
        let found = self.all.iter_mut().find(|weight| weight.held_as == name);
        if let Some(weight) = found.filter(|weight| matches!(weight.source, Source::Plain)) {
            weight.source = Source::Scaled(factors);
        }
    }

    /// Removes weights, and puts numbers that no file holds in the place of the first.
    pub fn replace(&mut self, names: &[&str], made: &str, values: Vec<f32>) {
        let first = self.all.iter().find(|weight| names.contains(&weight.held_as.as_str()));
        let Some(first) = first.cloned() else { return };
        self.all.retain(|weight| !names.contains(&weight.held_as.as_str()));
        self.all.push(Weight {
            name: made.to_owned(),
            held_as: made.to_owned(),
            element: Element::F32,
            shape: vec![values.len()],
            slot: ("Conv".into(), 2),
            source: Source::Made(values),
            ..first
        });
    }
}

/// Without what quantisers append.
fn base(name: &str) -> &str {
    ["_quantized", "_quant", "_Q4"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

/// Tensors beside the graph, and those of constant nodes.
fn tensors(model: &Model) -> HashMap<&str, Cow<'_, Tensor>> {
    let held = model.tensors.iter().map(|one| (one.name.as_str(), Cow::Borrowed(one)));
    let constants = model.nodes.iter().filter(|node| node.op == "Constant").filter_map(|node| {
        let Some(Attribute::Tensor(tensor)) = node.attribute("value") else { return None };
        Some((node.outputs.first()?.as_str(), Cow::Borrowed(tensor)))
    });
    held.chain(constants).collect()
}

/// Each tensor that a node uses, with the first use, in the order of use.
fn uses<'a>(
    model: &'a Model,
    tensors: &HashMap<&'a str, Cow<'a, Tensor>>,
) -> Vec<(&'a str, (String, usize))> {
    let mut from: HashMap<&str, &str> = tensors.keys().map(|&name| (name, name)).collect();
    let (mut seen, mut uses) = (HashSet::new(), Vec::new());
    for node in &model.nodes {
        let passed = node.inputs.first().and_then(|input| from.get(input.as_str()).copied());
        if let (Some(tensor), true) = (passed, PASSING.contains(&node.op.as_str())) {
            from.extend(node.outputs.first().map(|output| (output.as_str(), tensor)));
            continue;
        }
        for (number, input) in node.inputs.iter().enumerate() {
            let Some(&tensor) = from.get(input.as_str()) else { continue };
            if seen.insert(tensor) {
                uses.push((tensor, (plain_operator(&node.op).to_owned(), number)));
            }
        }
    }
    // What only a body of a loop or an output uses comes last; what nothing uses is dead.
    let has_bodies = super::layers::bodies(model) > 0;
    let of_body = model.tensors.iter().map(|tensor| tensor.name.as_str());
    let of_body = of_body.filter(|name| has_bodies && !seen.contains(name));
    let of_body: Vec<_> = of_body.map(|name| (name, ("body".to_owned(), 0))).collect();
    uses.extend(of_body);
    uses
}

/// Inputs of a node that are scales or zero points of what it computes.
fn scales_of_activations(node: &Node) -> Vec<String> {
    let at: &[usize] = match node.op.as_str() {
        "QuantizeLinear" | "DequantizeLinear" => &[1, 2],
        "QLinearConv" | "QLinearMatMul" | "QLinearAdd" | "QLinearMul" => &[1, 2, 4, 5, 6, 7],
        "QGemm" => &[1, 2, 4, 5, 7, 8],
        "MatMulInteger" | "ConvInteger" => &[2, 3],
        _ => &[],
    };
    let named = at.iter().filter_map(|&at| node.inputs.get(at));
    named.filter(|name| !name.is_empty()).cloned().collect()
}

/// The tensors that a node reads as codes, and what they stand for.
fn codes(
    node: &Node,
    model: &Model,
    tensors: &HashMap<&str, Cow<'_, Tensor>>,
) -> Vec<(String, Quantised)> {
    let input = |at: usize| node.inputs.get(at).filter(|name| !name.is_empty()).cloned();
    let held = |at: usize| input(at).filter(|name| tensors.contains_key(name.as_str()));
    let affine = |codes: usize, scale: usize, zero: usize, kind: Kind| {
        let by = Quantised { scale: held(scale)?, zero: held(zero), kind };
        Some((held(codes)?, by))
    };
    let axis = node.int("axis", 1);
    let found = match node.op.as_str() {
        "DequantizeLinear" => match usize::try_from(node.int("block_size", 0)) {
            Ok(size @ 1..) => affine(0, 1, 2, Kind::Blocks { axis, size }),
            _ => affine(0, 1, 2, Kind::Axis(axis)),
        },
        "QLinearConv" | "QLinearAdd" | "QLinearMul" => affine(3, 4, 5, Kind::Axis(0)),
        "QLinearMatMul" => affine(3, 4, 5, Kind::Axis(-1)),
        "QGemm" => affine(3, 4, 5, Kind::Axis(if node.int("transB", 0) == 1 { 0 } else { 1 })),
        "DynamicQuantizeMatMul" => affine(1, 2, 3, Kind::Axis(-1)),
        "MatMulIntegerToFloat" => affine(1, 3, 5, Kind::Axis(-1)),
        "MatMulInteger" | "ConvInteger" => held(1).and_then(|codes| {
            let kind = Kind::Axis(if node.op == "ConvInteger" { 0 } else { -1 });
            let scale = scale_after(node, &codes, model, tensors)?;
            Some((codes, Quantised { scale, zero: held(3), kind }))
        }),
        "MatMulNBits" if node.int("bits", 4) == 4 => {
            let size = |name: &str| usize::try_from(node.int(name, 0)).unwrap_or(0);
            let (rows, columns, block) = (size("N"), size("K"), size("block_size").max(1));
            affine(1, 2, 3, Kind::Nibbles { rows, columns, block })
        }
        _ => None,
    };
    let bias = match node.op.as_str() {
        // Its scale is the product of the two before it.
        "QLinearConv" => held(8).and_then(|bias| {
            let scale = format!("{}_scale", base(&bias));
            let is_there = tensors.contains_key(scale.as_str());
            is_there.then_some((bias, Quantised { scale, zero: None, kind: Kind::Axis(0) }))
        }),
        _ => None,
    };
    found.into_iter().chain(bias).collect()
}

/// The scale of codes whose products are whole numbers: what those are multiplied with
/// later, or the tensor that is named so.
fn scale_after(
    node: &Node,
    codes: &str,
    model: &Model,
    tensors: &HashMap<&str, Cow<'_, Tensor>>,
) -> Option<String> {
    let named = format!("{}_scale", base(codes));
    if tensors.contains_key(named.as_str()) {
        return Some(named);
    }
    let mut value = node.outputs.first()?;
    for _ in 0..3 {
        let next = model.nodes.iter().find(|node| node.inputs.contains(value))?;
        if next.op == "Mul" {
            let other = next.inputs.iter().find(|input| *input != value)?;
            if tensors.contains_key(other.as_str()) {
                return Some(other.clone());
            }
            let product = model.nodes.iter().find(|node| node.outputs.contains(other))?;
            let held = product.inputs.iter().find(|name| tensors.contains_key(name.as_str()));
            return held.filter(|_| product.op == "Mul").cloned();
        }
        value = next.outputs.first()?;
    }
    None
}

fn bytes_of(tensor: &Tensor) -> Result<&[u8], ReadError> {
    match &tensor.values {
        Values::Bytes(bytes) if bytes.len() as u64 == tensor.bytes() => Ok(bytes),
        _ => Err(ReadError::Tensor {
            name: tensor.name.clone(),
            why: format!("expected {} bytes for the shape {:?}", tensor.bytes(), tensor.shape),
        }),
    }
}

fn integers(tensor: &Tensor) -> Result<Vec<i64>, ReadError> {
    let bytes = bytes_of(tensor)?;
    let two = bytes.as_chunks::<2>().0.iter();
    let four = bytes.as_chunks::<4>().0.iter();
    Ok(match tensor.element {
        Element::I8 => bytes.iter().map(|&byte| i64::from(byte.cast_signed())).collect(),
        Element::U8 => bytes.iter().map(|&byte| byte.into()).collect(),
        Element::I16 => two.map(|bytes| i16::from_le_bytes(*bytes).into()).collect(),
        Element::U16 => two.map(|bytes| u16::from_le_bytes(*bytes).into()).collect(),
        Element::I32 => four.map(|bytes| i32::from_le_bytes(*bytes).into()).collect(),
        other => {
            let why = format!("expected whole numbers of at most 32 bits, found {other:?}");
            return Err(ReadError::Tensor { name: tensor.name.clone(), why });
        }
    })
}

fn limits(element: Element) -> (i64, i64) {
    match element {
        Element::I8 => (-128, 127),
        Element::U8 => (0, 255),
        Element::I16 => (-32_768, 32_767),
        Element::U16 => (0, 65_535),
        _ => (i64::from(i32::MIN), i64::from(i32::MAX)),
    }
}

/// The lower half of a byte comes first; rows are padded to `padded` numbers.
fn nibbles(bytes: &[i64], rows: usize, padded: usize, columns: usize) -> Vec<i64> {
    let of_row = padded / 2;
    let row = |row: usize| bytes.get(row * of_row..(row + 1) * of_row).unwrap_or_default();
    let numbers = |bytes: &[i64]| -> Vec<i64> {
        bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]).take(columns).collect()
    };
    (0..rows).flat_map(|number| numbers(row(number))).collect()
}
