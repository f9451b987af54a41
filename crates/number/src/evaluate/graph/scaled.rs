//! Weights with scales: integers or narrow floats times a scale for each tensor, channel or group.

mod search;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use dyno_onnx::{
    Attribute, Constants, Element, Model, Node, Tensor as Constant, Values, in_floats,
};

pub use self::search::{ScaledChoice, ScaledRung, ScaledSearch};
use super::super::LayerNames;
use super::super::packed::{PackedError, known};
use super::qdq::QdqError;
use super::read;
use crate::codec::Rounding;
use crate::config::Dictionary;
use crate::format::Format;
use crate::pack::pack;
use crate::scaled::{Affine, BlockFormat};

/// A format of weights with scales, such as `int8:channel`, `uint4:32` or `mxfp4`.
///
/// ```
/// use dyno_number::evaluate::graph::ScaledFormat;
///
/// let format: ScaledFormat = "uint4:32".parse()?;
/// assert_eq!(format.to_string(), "uint4:32");
/// // 4 bits each, and a float32 and a zero point of 4 bits for 32 of them.
/// assert_eq!(format.bits_of(64, 2), 64 * 4 + 2 * (32 + 4));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaledFormat {
    element: ScaledElement,
    extent: Extent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScaledElement {
    /// Integers with a scale of float32; without a sign they have a zero point.
    Integers { bits: u32, has_sign: bool },
    /// A block format by its name.
    Block(&'static str, BlockFormat),
}

/// What shares a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Tensor,
    /// All weights of an output.
    Channel,
    /// Weights of an output, beside each other along the inputs.
    Group(usize),
}

/// Block formats by name.
fn blocks() -> [(&'static str, BlockFormat); 7] {
    [
        ("mxfp8-e4m3", BlockFormat::mx(Format::FP8_E4M3FN)),
        ("mxfp8-e5m2", BlockFormat::mx(Format::FP8_E5M2)),
        ("mxfp4", BlockFormat::mx(Format::FP4_E2M1)),
        ("mxfp6-e3m2", BlockFormat::mx(Format::FP6_E3M2)),
        ("mxfp6-e2m3", BlockFormat::mx(Format::FP6_E2M3)),
        ("mxint8", BlockFormat::mx(Format::MXINT8)),
        ("nvfp4", BlockFormat::nvfp4()),
    ]
}

/// Sizes of groups that runtimes support.
const GROUPS: [usize; 5] = [16, 32, 64, 128, 256];

impl FromStr for ScaledFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let names: Vec<&str> = blocks().iter().map(|(name, _)| *name).collect();
            format!(
                "expected int8, int4, uint8 or uint4 with :tensor, :channel or :GROUP (16 to 256), \
                 or one of {}, found `{text}`",
                names.join(", ")
            )
        };
        if let Some((name, block)) = blocks().into_iter().find(|(name, _)| *name == text) {
            let extent = Extent::Group(if name == "nvfp4" { 16 } else { 32 });
            return Ok(Self { element: ScaledElement::Block(name, block), extent });
        }
        let (element, extent) = text.split_once(':').unwrap_or((text, "tensor"));
        let (bits, has_sign) = match element {
            "int8" => (8, true),
            "int4" => (4, true),
            "uint8" => (8, false),
            "uint4" => (4, false),
            _ => return Err(wrong()),
        };
        let extent = match extent {
            "tensor" => Extent::Tensor,
            "channel" => Extent::Channel,
            group => {
                let group = group.parse().ok().filter(|group| GROUPS.contains(group));
                Extent::Group(group.ok_or_else(wrong)?)
            }
        };
        Ok(Self { element: ScaledElement::Integers { bits, has_sign }, extent })
    }
}

impl fmt::Display for ScaledFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.element, self.extent) {
            (ScaledElement::Block(name, _), _) => f.write_str(name),
            (ScaledElement::Integers { bits, has_sign }, extent) => {
                write!(f, "{}int{bits}:", if has_sign { "" } else { "u" })?;
                match extent {
                    Extent::Tensor => f.write_str("tensor"),
                    Extent::Channel => f.write_str("channel"),
                    Extent::Group(group) => write!(f, "{group}"),
                }
            }
        }
    }
}

impl ScaledFormat {
    /// Returns all formats: integers with all scales, and all blocks.
    pub fn all() -> Vec<Self> {
        let extents = [Extent::Tensor, Extent::Channel].into_iter();
        let extents: Vec<Extent> = extents.chain(GROUPS.map(Extent::Group)).collect();
        let mut all = Vec::new();
        for (bits, has_sign) in [(8, true), (8, false), (4, true), (4, false)] {
            let element = ScaledElement::Integers { bits, has_sign };
            all.extend(extents.iter().map(|extent| Self { element, extent: *extent }));
        }
        let names = blocks().map(|(name, _)| name);
        all.extend(
            names.iter().map(|name| name.parse::<Self>().expect("a name of a block format")),
        );
        all
    }

    /// Returns the bits of `count` weights with `scales` scales and zero points.
    pub fn bits_of(self, count: usize, scales: usize) -> u64 {
        let (count, scales) = (count as u64, scales as u64);
        match self.element {
            ScaledElement::Integers { bits, has_sign } => {
                let zero = if has_sign { 0 } else { u64::from(bits) };
                count * u64::from(bits) + scales * (32 + zero)
            }
            ScaledElement::Block(name, block) => {
                let tensor = if name == "nvfp4" { 32 } else { 0 };
                count * u64::from(block.element().bits())
                    + scales * u64::from(block.scale_format().bits())
                    + tensor
            }
        }
    }
}

/// A model some of whose weights have scales.
#[derive(Clone, Debug)]
pub struct ScaledModel {
    /// The model, with `DequantizeLinear` nodes before the layers.
    pub model: Model,
    /// The layers with scaled weights.
    pub layers: Vec<ScaledLayer>,
}

/// A layer with scaled weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaledLayer {
    /// Name of the object, such as `fc1.weight`.
    pub object: String,
    /// Its format.
    pub format: ScaledFormat,
    /// Number of weights.
    pub weights: usize,
    /// Number of scales.
    pub scales: usize,
    /// Bits of weights, scales and zero points.
    pub bits: u64,
}

impl ScaledModel {
    /// Rounds weights to formats with scales. An object may have either name of its
    /// layer. The scales are those that the largest magnitudes of the weights need. Weights of up to 4 bits are stored as int4 or uint4 if `int4` is set.
    ///
    /// # Errors
    /// The engine does not support the model, the model does not have an object, or a format does
    /// not fit its weights.
    pub fn new(
        model: &Model,
        formats: &[(String, ScaledFormat)],
        int4: bool,
    ) -> Result<Self, QdqError> {
        let model = &*in_floats(model);
        let steps =
            read::steps(model).map_err(|error| QdqError::Model(PackedError::Network(error)))?;
        let names: Vec<String> =
            steps.targets.iter().map(|target| format!("{}.weight", target.name)).collect();
        let formats = resolved(model, formats, &names)?;
        let mut made = model.clone();
        let (mut layers, mut problems) = (Vec::new(), Vec::new());
        let mut before: BTreeMap<usize, Vec<Node>> = BTreeMap::new();
        let constants = Constants::new(model);
        let version = version_of(model);
        for (place, weight_use) in steps.uses.iter().enumerate() {
            let object = &names[weight_use.target];
            let Some((_, format)) = formats.iter().find(|(name, _)| name == object) else {
                continue;
            };
            let node = &model.nodes[weight_use.node];
            let found = constants
                .get(&node.inputs[weight_use.input])
                .and_then(|constant| Some((constant.floats()?, constant.shape)));
            let Some((numbers, shape)) = found else { continue };
            let axes = Axes::new(node, weight_use.input, shape.len());
            let scaled = ScaledWeights::new(&numbers, &shape, axes, *format);
            let scaled = scaled.and_then(|scaled| scaled.if_expressible(version));
            match scaled {
                Ok(scaled) => {
                    let bits = format.bits_of(numbers.len(), scaled.scales.len());
                    let name = format!("{object}.{place}");
                    let output =
                        scaled.write(&name, &shape, int4, &mut made, &mut before, weight_use.node);
                    made.nodes[weight_use.node].inputs[weight_use.input] = output;
                    layers.push(ScaledLayer {
                        object: object.clone(),
                        format: *format,
                        weights: numbers.len(),
                        scales: scaled.scales.len(),
                        bits,
                    });
                }
                Err(problem) => problems.push(format!("`{object}` {problem}")),
            }
        }
        if !problems.is_empty() {
            return Err(QdqError::Inexpressible(problems));
        }
        let nodes = std::mem::take(&mut made.nodes).into_iter().enumerate();
        made.nodes = nodes
            .flat_map(|(at, node)| before.remove(&at).unwrap_or_default().into_iter().chain([node]))
            .collect();
        made.remove_unused();
        made.ir_version = made.ir_version.max(10);
        Ok(Self { model: made, layers })
    }
}

/// Returns formats by the names of `names`. An object may have either name of its layer.
///
/// # Errors
/// There is no such object, or an object has two formats.
fn resolved(
    model: &Model,
    formats: &[(String, ScaledFormat)],
    names: &[String],
) -> Result<Vec<(String, ScaledFormat)>, QdqError> {
    let layers = LayerNames::new(model);
    let formats: Vec<(String, ScaledFormat)> = formats
        .iter()
        .flat_map(|(object, format)| {
            let objects = layers.objects_or_itself(object, names).into_iter();
            objects.map(move |name| (name, *format))
        })
        .collect();
    let mut asked = Dictionary::new();
    for (at, (object, format)) in formats.iter().enumerate() {
        let differs = |(name, other): &(String, ScaledFormat)| name == object && other != format;
        if let Some((_, other)) = formats[..at].iter().find(|earlier| differs(earlier)) {
            let problem = format!("`{object}` has two formats, {other} and {format}");
            return Err(QdqError::Inexpressible(vec![problem]));
        }
        asked
            .set(object, Format::F32)
            .map_err(|error| QdqError::Inexpressible(vec![error.to_string()]))?;
    }
    known(&asked, names).map_err(QdqError::Model)?;
    Ok(formats)
}

/// Returns the type of ONNX that has the numbers of a format.
fn float_of(element: Format) -> Option<Element> {
    let known = [(Format::FP8_E4M3FN, Element::F8E4M3), (Format::FP8_E5M2, Element::F8E5M2)];
    known.into_iter().find(|(format, _)| *format == element).map(|(_, element)| element)
}

/// Axes of the outputs and of the inputs of weights.
#[derive(Clone, Copy, Debug)]
struct Axes {
    output: usize,
    input: usize,
}

impl Axes {
    fn new(node: &Node, input: usize, rank: usize) -> Self {
        match node.op.as_str() {
            "Gemm" if node.int("transB", 0) != 0 => Self { output: 0, input: 1 },
            "Gemm" | "MatMul" => Self { output: 1, input: 0 },
            // W and R: directions, gates, inputs.
            "LSTM" | "GRU" | "RNN" if input < 3 => Self { output: 1, input: 2 },
            _ => Self { output: 0, input: 1.min(rank.saturating_sub(1)) },
        }
    }
}

fn version_of(model: &Model) -> i64 {
    let version = model.operator_sets.iter().find(|(domain, _)| domain.is_empty());
    version.map_or(1, |(_, version)| *version)
}

/// Weights as integers with scales.
struct ScaledWeights {
    codes: Vec<i32>,
    scales: Vec<f32>,
    zeros: Vec<i32>,
    /// Axis and size of blocks; a size of 0 is one scale for each step along the axis.
    axis: usize,
    block: usize,
    bits: u32,
    has_sign: bool,
    /// Type of codes that are numbers themselves.
    float: Option<Element>,
    /// Sum of the squared differences from the weights.
    error: f64,
}

impl ScaledWeights {
    fn new(
        numbers: &[f32],
        shape: &[usize],
        axes: Axes,
        format: ScaledFormat,
    ) -> Result<Self, String> {
        let (axis, block) = match format.extent {
            Extent::Tensor => (0, 0),
            Extent::Channel => (axes.output, 0),
            Extent::Group(group) => (axes.input, group),
        };
        let along = shape.get(axis).copied().unwrap_or(1);
        if block > 0 && !along.is_multiple_of(block) {
            return Err(format!("has {along} inputs, which groups of {block} do not divide"));
        }
        let inner: usize = shape.iter().skip(axis + 1).product();
        let group = |at: usize| {
            let step = at / inner % along;
            match format.extent {
                Extent::Tensor => 0,
                Extent::Channel => step,
                Extent::Group(_) => {
                    let outer = at / inner / along;
                    (outer * (along / block) + step / block) * inner + at % inner
                }
            }
        };
        let count = (0..numbers.len()).map(group).max().map_or(0, |last| last + 1);
        let mut groups = vec![Vec::new(); count];
        (0..numbers.len()).for_each(|at| groups[group(at)].push(at));
        match format.element {
            ScaledElement::Integers { bits, has_sign } => {
                let mut found = Self::empty(numbers.len(), axis, block, bits, has_sign);
                for places in &groups {
                    found.integers(numbers, places)?;
                }
                Ok(found)
            }
            ScaledElement::Block(_, block_format) => {
                let element = block_format.element();
                let most = element.max_value() / element.min_positive();
                let float = float_of(element);
                let bits = if most > 127.0 && float.is_none() { 16 } else { 8 };
                let mut found = Self::empty(numbers.len(), axis, block, bits, true);
                found.float = float;
                found.blocks(numbers, &groups, block_format)?;
                Ok(found)
            }
        }
    }

    fn empty(count: usize, axis: usize, block: usize, bits: u32, has_sign: bool) -> Self {
        let (scales, zeros) = (Vec::new(), Vec::new());
        Self {
            codes: vec![0; count],
            scales,
            zeros,
            axis,
            block,
            bits,
            has_sign,
            float: None,
            error: 0.0,
        }
    }

    /// Rejects groups for operators that do not have them: no runtime reads such a file.
    fn if_expressible(self, version: i64) -> Result<Self, String> {
        if self.block == 0 || version >= 21 {
            return Ok(self);
        }
        Err(format!(
            "has groups of {}, which need operators of version 21; the model has version {version}. \
             onnx.version_converter.convert_version(model, 21) raises it",
            self.block
        ))
    }

    fn integers(&mut self, numbers: &[f32], places: &[usize]) -> Result<(), String> {
        let own = places.iter().map(|at| numbers[*at]);
        let affine = if self.has_sign {
            let most = own.fold(0.0_f32, |most, x| most.max(x.abs()));
            let format = if self.bits == 8 { Format::INT8 } else { Format::INT4 };
            Affine::symmetric(format, most)
        } else {
            let (least, most) =
                own.fold((0.0_f32, 0.0_f32), |(least, most), x| (least.min(x), most.max(x)));
            let format = if self.bits == 8 { Format::UINT8 } else { Format::UINT4 };
            Affine::covering(format, least, most)
        };
        let affine = affine.map_err(|error| error.to_string())?;
        for at in places {
            let code = affine.encode(numbers[*at]).map_err(|error| error.to_string())?;
            let shift = 32 - self.bits;
            let signed = (code << shift) as i32 >> shift;
            self.codes[*at] = if self.has_sign { signed } else { code as i32 };
            self.error += f64::from(affine.decode(code) - numbers[*at]).powi(2);
        }
        self.scales.push(affine.scale());
        self.zeros.push(affine.zero_point());
        Ok(())
    }

    fn blocks(
        &mut self,
        numbers: &[f32],
        groups: &[Vec<usize>],
        format: BlockFormat,
    ) -> Result<(), String> {
        // Blocks of the format are beside each other.
        let places: Vec<usize> = groups.concat();
        let ordered: Vec<f32> = places.iter().map(|at| numbers[*at]).collect();
        let blocks =
            format.encode(&ordered, Rounding::NearestEven).map_err(|error| error.to_string())?;
        let element = format.element();
        let unit = if self.float.is_some() { 1.0 } else { element.min_positive() };
        for (at, code) in places.iter().zip(&blocks.codes) {
            let is_number = self.float.is_some();
            self.codes[*at] =
                if is_number { *code as i32 } else { (element.decode(*code) / unit) as i32 };
        }
        for (x, y) in ordered.iter().zip(format.decode(&blocks)) {
            self.error += f64::from(x - y).powi(2);
        }
        let scale = |code: &u32| {
            let scale = format.scale_format().decode(*code) as f32 * blocks.tensor_scale;
            scale * unit as f32
        };
        self.scales = blocks.scales.iter().map(scale).collect();
        self.zeros = vec![0; self.scales.len()];
        Ok(())
    }

    /// Returns the type of the stored codes.
    fn element(&self, is_half: bool) -> Element {
        match (self.float, self.has_sign, is_half) {
            (Some(float), ..) => float,
            _ if self.bits == 16 => Element::I16,
            (None, true, true) => Element::I4,
            (None, false, true) => Element::U4,
            (None, true, false) => Element::I8,
            (None, false, false) => Element::U8,
        }
    }

    /// Adds the tensors and the node, and returns the name of its output.
    fn write(
        &self,
        name: &str,
        shape: &[usize],
        int4: bool,
        made: &mut Model,
        before: &mut BTreeMap<usize, Vec<Node>>,
        at: usize,
    ) -> String {
        let is_half = int4 && self.bits == 4;
        let element = self.element(is_half);
        let stored = |all: &[i32]| {
            let codes: Vec<u32> = all.iter().map(|n| *n as u32 & 15).collect();
            let bytes = usize::from(self.bits == 16) + 1;
            let bytes = all.iter().flat_map(|n| n.to_le_bytes().into_iter().take(bytes));
            Values::Bytes(if is_half { pack(&codes, 4) } else { bytes.collect() })
        };
        let scale_shape = match (self.scales.len(), self.block) {
            (1, 0) => Vec::new(),
            (count, 0) => vec![count],
            (_, block) => {
                let mut shape = shape.to_vec();
                shape[self.axis] /= block;
                shape
            }
        };
        let [codes, scale, zero] =
            ["codes", "scales", "zeros"].map(|part| format!("{name}.{part}"));
        let tensor = |name: &String, shape: &[usize], all: &[i32]| Constant {
            name: name.clone(),
            element,
            shape: shape.to_vec(),
            values: stored(all),
        };
        made.tensors.push(tensor(&codes, shape, &self.codes));
        made.tensors.push(Constant::from_f32(&scale, &scale_shape, &self.scales));
        if self.float.is_none() {
            made.tensors.push(tensor(&zero, &scale_shape, &self.zeros));
        }
        // The zero point is 0 by default.
        let inputs = [codes, scale].into_iter().chain(self.float.is_none().then_some(zero));
        let mut attributes: Vec<(String, Attribute)> =
            vec![("axis".into(), (self.axis as i64).into())];
        if self.block > 0 {
            attributes.push(("block_size".into(), (self.block as i64).into()));
        }
        let version = version_of(made);
        let is_standard = version >= 21 || version >= 13 && !is_half && self.bits < 16;
        let domain = if is_standard { "" } else { "com.microsoft" };
        if !is_standard && made.operator_sets.iter().all(|(known, _)| known != domain) {
            made.operator_sets.push((domain.into(), 1));
        }
        let output = format!("{name}.scaled");
        before.entry(at).or_default().push(Node {
            name: output.clone(),
            op: "DequantizeLinear".into(),
            domain: domain.into(),
            inputs: inputs.collect(),
            outputs: vec![output.clone()],
            attributes,
        });
        output
    }
}
