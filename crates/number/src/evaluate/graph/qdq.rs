//! Writes a tuned model as an ONNX file with `QuantizeLinear` and `DequantizeLinear`.
//!
//! A runtime that computes the file rounds what the evaluator rounds, where it rounds it: weights
//! are stored as integers with a scale, and the inputs of layers pass through a pair of nodes. The
//! scales are powers of two, so that both round equally. What ONNX cannot express is rejected, and
//! never replaced by something similar.

mod code;

pub(super) use self::code::format_of;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dyno_onnx::{
    Attribute, Constants, Element, Model, Node, Tensor as Constant, Values, in_floats,
};
use thiserror::Error;

use self::code::{Expression, Integers};
use super::super::LayerNames;
use super::super::layer_names::with_own_weights;
use super::super::packed::{PackedError, known};
use super::read::{self, Steps, WeightUse};
use crate::codec::{Conversion, NanError};
use crate::config::Dictionary;
use crate::format::Format;

/// Domain of the operators that ONNX Runtime adds to the standard.
const RUNTIME_DOMAIN: &str = "com.microsoft";

/// Choices of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QdqOptions {
    /// Stores weights whose format no type of ONNX has as numbers of float32 that are rounded to
    /// the format, instead of rejecting them.
    pub fake_weights: bool,
    /// Stores weights of up to 4 bits as int4 and uint4, which runtimes before 2024 cannot read,
    /// instead of as bytes.
    pub int4: bool,
    /// Stores weights as integers that are cast and multiplied by their scale, and limits the
    /// inputs of layers after `DequantizeLinear`. Runtimes then compute products in float32.
    /// Otherwise they may compute them in integers, which ONNX Runtime does after it rounded biases
    /// and some activations.
    pub exact: bool,
}

/// A model with its formats as nodes.
#[derive(Clone, Debug)]
pub struct QdqModel {
    /// The model, which any runtime of ONNX executes.
    pub model: Model,
    /// Objects whose numbers the file rounds, in the order of the nodes.
    pub objects: Vec<QdqObject>,
}

/// An object in its format, and the type in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct QdqObject {
    /// Name of the object, such as `conv1.weight`.
    pub name: String,
    /// Its format.
    pub format: Format,
    /// The type that stores its numbers.
    pub element: Element,
    /// The factor of the integers; `None` if they are floats.
    pub scale: Option<f32>,
    /// Number of constants that are stored; 0 for inputs of layers.
    pub values: usize,
}

/// Why a model in formats cannot be written as an ONNX file.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum QdqError {
    /// The engine does not support the model, or the model does not have the objects of some
    /// formats.
    #[error("{0}")]
    Model(PackedError),
    /// ONNX cannot express the formats of some objects: a sentence for each.
    #[error("{}", .0.join("; "))]
    Inexpressible(Vec<String>),
    /// A weight is NaN, and its format has none.
    #[error("weights of {object}: {cause}")]
    Nan {
        /// Name of the object.
        object: String,
        /// Format without NaN, and the index of the weight.
        cause: NanError,
    },
}

impl QdqModel {
    /// Writes the formats of a model as nodes. Objects without an entry in `formats` are FLOAT(32).
    ///
    /// ```
    /// use dyno_number::Dictionary;
    /// use dyno_number::evaluate::graph::{QdqModel, QdqOptions};
    /// use dyno_onnx::{Builder, Dim, Element, Fill, Weights};
    ///
    /// let mut net = Builder::new("small", Weights::seeded(1));
    /// let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
    /// let weight = net.weight("fc1.weight", &[4, 3], Fill::he(4))?;
    /// let y = net.node("MatMul", &[&x, &weight], &[])?;
    /// net.output("y", &y)?;
    ///
    /// let formats: Dictionary = "fc1.weight FIXED 4 0\nfc1.input FIXED 8 0\n".parse()?;
    /// let made = QdqModel::new(&net.finish(), &formats, QdqOptions::default())?;
    /// let nodes: Vec<&str> = made.model.nodes.iter().map(|node| node.op.as_str()).collect();
    /// let clipped = ["Clip", "QuantizeLinear", "DequantizeLinear"];
    /// assert_eq!(nodes, [&["DequantizeLinear"], &clipped[..], &["MatMul", "Identity"]].concat());
    /// assert_eq!(made.objects[0].scale, Some(0.125));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The engine does not support the model, the model does not have the objects of `formats`, or
    /// ONNX cannot express one of them.
    pub fn new(model: &Model, formats: &Dictionary, options: QdqOptions) -> Result<Self, QdqError> {
        let floats = in_floats(model);
        let own = with_own_weights(&floats, formats);
        let model = own.as_ref().unwrap_or(&floats);
        let network = |error| QdqError::Model(PackedError::Network(error));
        let steps = read::steps(model).map_err(network)?;
        let names: Vec<String> =
            steps.targets.iter().flat_map(super::target::Target::names).collect();
        let resolved = LayerNames::resolve(model, formats, &names);
        let formats = &*resolved;
        known(formats, &names).map_err(QdqError::Model)?;
        let mut writer = Writer::new(model, &steps, formats, options);
        for weight_use in &steps.uses {
            writer.layer(weight_use)?;
        }
        writer.finish()
    }
}

/// State of writing a model.
struct Writer<'a> {
    model: &'a Model,
    steps: &'a Steps,
    formats: &'a Dictionary,
    options: QdqOptions,
    constants: Constants<'a>,
    /// Version of the standard operators.
    version: i64,
    made: Model,
    /// Nodes before and after each node of the model.
    before: BTreeMap<usize, Vec<Node>>,
    after: BTreeMap<usize, Vec<Node>>,
    removed: BTreeSet<usize>,
    names: BTreeSet<String>,
    /// Stored weights by the constant and its format.
    stored: HashMap<(String, Format), String>,
    /// Numbers of stored weights by the tensor.
    wide: HashMap<String, String>,
    /// Rounded values by what is rounded and its format.
    rounded: HashMap<(String, Format), String>,
    objects: Vec<QdqObject>,
    problems: Vec<String>,
    /// Whether nodes of the runtime's own domain are needed.
    needs_runtime: bool,
}

impl<'a> Writer<'a> {
    fn new(
        model: &'a Model,
        steps: &'a Steps,
        formats: &'a Dictionary,
        options: QdqOptions,
    ) -> Self {
        let standard = |domain: &str| domain.is_empty() || domain == "ai.onnx";
        let version = model.operator_sets.iter().find(|(domain, _)| standard(domain));
        let values = model.nodes.iter().flat_map(|node| node.outputs.iter().chain(&node.inputs));
        let tensors = model.tensors.iter().map(|tensor| &tensor.name);
        let ports = model.inputs.iter().map(|port| &port.name);
        Self {
            model,
            steps,
            formats,
            options,
            constants: Constants::new(model),
            version: version.map_or(1, |(_, version)| *version),
            made: model.clone(),
            before: BTreeMap::new(),
            after: BTreeMap::new(),
            removed: BTreeSet::new(),
            names: values.chain(tensors).chain(ports).cloned().collect(),
            stored: HashMap::new(),
            wide: HashMap::new(),
            rounded: HashMap::new(),
            objects: Vec::new(),
            problems: Vec::new(),
            needs_runtime: false,
        }
    }

    /// Writes the formats of one use of weights.
    fn layer(&mut self, weight_use: &WeightUse) -> Result<(), QdqError> {
        let node = &self.model.nodes[weight_use.node];
        let [weights, input] = self.steps.targets[weight_use.target].names();
        let format = self.formats.format(&weights);
        if format != Format::F32 {
            self.weights(weight_use, &weights, format)?;
        }
        let format = self.formats.format(&input);
        let is_recurrent = matches!(node.op.as_str(), "LSTM" | "GRU" | "RNN");
        match (node.op.as_str(), weight_use.input) {
            _ if format == Format::F32 => {}
            ("Gather", _) => {}
            (_, 1) => self.activations(weight_use.node, &input, format),
            (op, 2) if is_recurrent => self.problems.push(format!(
                "`{input}` has {format}; the state of {op} is inside the node, where ONNX rounds \
                 nothing, so that it has to be FLOAT 32"
            )),
            _ => {}
        }
        Ok(())
    }

    /// Stores weights in their format, and replaces the input of the node.
    fn weights(
        &mut self,
        weight_use: &WeightUse,
        object: &str,
        format: Format,
    ) -> Result<(), QdqError> {
        // Cast knows integers of 4 bits since version 21.
        let is_half = self.options.int4 && (!self.options.exact || self.version >= 21);
        let least_bits = if is_half { 4 } else { 8 };
        let code = match Expression::of_weights(format, least_bits) {
            Some(code) if self.can_cast(code) => code,
            _ if self.options.fake_weights => Expression::Float,
            _ => {
                let why = format!(
                    "`{object}` has {format}, whose numbers no type of ONNX {} has",
                    self.version
                );
                self.problems.push(why);
                return Ok(());
            }
        };
        let at = weight_use.node;
        let key = (self.model.nodes[at].inputs[weight_use.input].clone(), format);
        let is_folded = self.steps.folds.iter().any(|fold| fold.convolution == at);
        let known = self.stored.get(&key).filter(|_| !is_folded).cloned();
        let stored = match known {
            Some(known) => known,
            None => {
                let numbers = self.numbers(weight_use, object);
                let Some((shape, mut numbers)) = numbers else { return Ok(()) };
                let nan = |cause| QdqError::Nan { object: object.to_owned(), cause };
                format.quantise_slice(&mut numbers, Conversion::default()).map_err(nan)?;
                self.store(object, format, code, &shape, &numbers)
            }
        };
        let is_table = self.model.nodes[at].op == "Gather";
        self.made.nodes[at].inputs[weight_use.input].clone_from(&stored);
        self.stored.insert(key, stored.clone());
        if code == Expression::Float {
            return Ok(());
        }
        if is_table {
            // Rows are widened after they are read, not the whole table.
            let output = self.made.nodes[at].outputs[0].clone();
            let codes = self.name(&format!("{output}.codes"));
            let widen = self.widened(object, code, codes.clone(), output);
            self.made.nodes[at].outputs[0] = codes;
            self.after.entry(at).or_default().extend(widen);
        } else {
            let output = match self.wide.get(&stored) {
                Some(known) => known.clone(),
                None => {
                    let output = self.name(&format!("{object}.{format}"));
                    let widen = self.widened(object, code, stored.clone(), output.clone());
                    self.before.entry(at).or_default().extend(widen);
                    self.wide.insert(stored, output.clone());
                    output
                }
            };
            self.made.nodes[at].inputs[weight_use.input] = output;
        }
        Ok(())
    }

    /// Returns the shape and numbers of weights as the node reads them. A normalization that the
    /// engine computes together with a convolution becomes part of it.
    fn numbers(&mut self, weight_use: &WeightUse, object: &str) -> Option<(Vec<usize>, Vec<f32>)> {
        let at = weight_use.node;
        let name = &self.model.nodes[at].inputs[weight_use.input];
        let constant = self.constants.get(name)?;
        let fold = self.steps.folds.iter().find(|fold| fold.convolution == at);
        let Some(fold) = fold.filter(|_| weight_use.input == 1) else {
            let numbers = constant.floats()?;
            return Some((constant.shape, numbers));
        };
        let target = weight_use.target;
        if self.steps.uses.iter().filter(|other| other.target == target).count() > 1 {
            self.problems.push(format!(
                "`{object}` are the weights of several convolutions, of which one has a \
                 BatchNormalization after it; fold it into the model first"
            ));
            return None;
        }
        let bias = self.name(&format!("{object}.bias"));
        self.made.tensors.push(Constant::from_f32(&bias, &[fold.bias.len()], &fold.bias));
        let output = self.model.nodes[fold.normal].outputs[0].clone();
        let node = &mut self.made.nodes[at];
        node.inputs.truncate(2);
        node.inputs.push(bias);
        node.outputs = vec![output];
        self.removed.insert(fold.normal);
        Some((constant.shape, self.steps.targets[target].weights.clone()))
    }

    /// Stores numbers that are in a format, and returns the name of the tensor.
    fn store(
        &mut self,
        object: &str,
        format: Format,
        code: Expression,
        shape: &[usize],
        numbers: &[f32],
    ) -> String {
        let name = self.name(&format!("{object}.{}", code.element().name()));
        let values = match code {
            Expression::Float => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Expression::Integers(integers) => integers.bytes(numbers),
            Expression::Cast(element) => {
                // Every number is one of the format, so that its code is that of the type.
                let codes = numbers.iter().map(|x| format.encode(f64::from(*x)).unwrap_or(0));
                let bytes = element.bits() / 8;
                codes.flat_map(|code| code.to_le_bytes().into_iter().take(bytes)).collect()
            }
        };
        let values = Values::Bytes(values);
        let (element, shape) = (code.element(), shape.to_vec());
        self.made.tensors.push(Constant { name: name.clone(), element, shape, values });
        self.describe(object, format, code, numbers.len());
        name
    }

    /// Returns the nodes that turn stored weights into numbers.
    fn widened(&mut self, object: &str, code: Expression, from: String, to: String) -> Vec<Node> {
        match code {
            Expression::Integers(integers) if self.options.exact => {
                let [scale, steps] = ["scale", "steps"].map(|part| format!("{object}.{part}"));
                let [scale, steps] = [scale, steps].map(|name| self.name(&name));
                self.made.tensors.push(Constant::from_f32(&scale, &[], &[integers.scale]));
                let wide = cast(from, steps.clone(), Element::F32);
                vec![wide, plain("Mul", vec![steps, scale], to)]
            }
            Expression::Integers(integers) => {
                let [scale, zero] = self.parameters(object, integers);
                let inputs = vec![from, scale, zero];
                vec![self.quantizer("DequantizeLinear", integers.element, inputs, to)]
            }
            _ => vec![cast(from, to, Element::F32)],
        }
    }

    /// Rounds the first input of a node to a format.
    fn activations(&mut self, at: usize, object: &str, format: Format) {
        let code = Expression::of_activations(format).filter(|code| self.can_cast(*code));
        let Some(code) = code else {
            self.problems.push(format!(
                "`{object}` has {format}; ONNX {} rounds inputs of layers only to FIXED of 2 to 16 \
                 bits, to UFIXED of 1 to 16 bits, and to its own types of floats",
                self.version
            ));
            return;
        };
        let value = self.made.nodes[at].inputs[0].clone();
        if let Some(known) = self.rounded.get(&(value.clone(), format)) {
            self.made.nodes[at].inputs[0].clone_from(known);
            return;
        }
        let result = self.name(&format!("{object}.{format}"));
        let nodes = match code {
            Expression::Float => Vec::new(),
            Expression::Cast(element) => {
                let codes = self.name(&format!("{object}.codes"));
                vec![
                    cast(value.clone(), codes.clone(), element),
                    cast(codes, result.clone(), Element::F32),
                ]
            }
            Expression::Integers(integers) => {
                self.through(object, integers, value.clone(), result.clone())
            }
        };
        self.before.entry(at).or_default().extend(nodes);
        self.describe(object, format, code, 0);
        self.made.nodes[at].inputs[0].clone_from(&result);
        self.rounded.insert((value, format), result);
    }

    /// Returns the nodes that round values to integers times a scale.
    fn through(
        &mut self,
        object: &str,
        integers: Integers,
        value: String,
        result: String,
    ) -> Vec<Node> {
        // QuantizeLinear saturates only at the limits of the type.
        let is_limited = self.options.exact || !integers.are_all();
        let limited = self.name(&format!("{object}.limited"));
        let codes = self.name(&format!("{object}.codes"));
        let limits = [integers.least, integers.most].map(|n| n as f32 * integers.scale);
        let [scale, zero] = self.parameters(object, integers);
        let inputs = |from: &String| vec![from.clone(), scale.clone(), zero.clone()];
        // Where a layer reads a DequantizeLinear, ONNX Runtime quantizes its weights and bias. Codes
        // may be limited after they were rounded, because the limits are codes.
        let is_last = self.options.exact;
        let (from, to) = match (is_limited, is_last) {
            (true, true) => (&value, &limited),
            (true, false) => (&limited, &result),
            (false, _) => (&value, &result),
        };
        let element = integers.element;
        let mut nodes = vec![
            self.quantizer("QuantizeLinear", element, inputs(from), codes.clone()),
            self.quantizer("DequantizeLinear", element, inputs(&codes), to.clone()),
        ];
        if is_last {
            nodes.push(self.clip(object, limits, limited, result));
        } else if is_limited {
            nodes.insert(0, self.clip(object, limits, value, limited));
        }
        nodes
    }

    fn clip(&mut self, object: &str, limits: [f32; 2], from: String, to: String) -> Node {
        let mut node = plain("Clip", vec![from], to);
        if self.version < 11 {
            let [least, most] = limits.map(Attribute::Float);
            node.attributes = vec![("min".into(), least), ("max".into(), most)];
            return node;
        }
        for (part, limit) in ["least", "most"].into_iter().zip(limits) {
            let name = self.name(&format!("{object}.{part}"));
            self.made.tensors.push(Constant::from_f32(&name, &[], &[limit]));
            node.inputs.push(name);
        }
        node
    }

    /// Stores a scale and a zero point of 0, and returns their names.
    fn parameters(&mut self, object: &str, integers: Integers) -> [String; 2] {
        let [scale, zero] = ["scale", "zero"].map(|part| self.name(&format!("{object}.{part}")));
        self.made.tensors.push(Constant::from_f32(&scale, &[], &[integers.scale]));
        let bytes = integers.element.bits().div_ceil(8);
        let values = Values::Bytes(vec![0; bytes]);
        let element = integers.element;
        self.made.tensors.push(Constant { name: zero.clone(), element, shape: Vec::new(), values });
        [scale, zero]
    }

    /// Returns a node of the standard where it has the type, otherwise ONNX Runtime's node.
    fn quantizer(&mut self, op: &str, element: Element, inputs: Vec<String>, to: String) -> Node {
        let is_standard = self.version >= 21 || self.version >= 10 && element.bits() == 8;
        let mut node = plain(op, inputs, to);
        if !is_standard {
            node.domain = RUNTIME_DOMAIN.into();
            self.needs_runtime = true;
        }
        node
    }

    /// Returns whether `Cast` knows the type in this version of the standard.
    fn can_cast(&self, code: Expression) -> bool {
        match code {
            Expression::Cast(Element::F16) | Expression::Float | Expression::Integers(_) => true,
            Expression::Cast(Element::BF16) => self.version >= 13,
            Expression::Cast(_) => self.version >= 19,
        }
    }

    fn describe(&mut self, object: &str, format: Format, code: Expression, values: usize) {
        let scale = match code {
            Expression::Integers(integers) => Some(integers.scale),
            _ => None,
        };
        let name = object.to_owned();
        self.objects.push(QdqObject { name, format, element: code.element(), scale, values });
    }

    /// Returns a name that no value has.
    fn name(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        while !self.names.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    fn finish(mut self) -> Result<QdqModel, QdqError> {
        if !self.problems.is_empty() {
            return Err(QdqError::Inexpressible(self.problems));
        }
        let mut nodes = Vec::new();
        for (at, node) in self.made.nodes.into_iter().enumerate() {
            nodes.extend(self.before.remove(&at).unwrap_or_default());
            if !self.removed.contains(&at) {
                nodes.push(node);
            }
            nodes.extend(self.after.remove(&at).unwrap_or_default());
        }
        self.made.nodes = nodes;
        self.made.remove_unused();
        if self.needs_runtime && self.made.operator_sets.iter().all(|(to, _)| to != RUNTIME_DOMAIN)
        {
            self.made.operator_sets.push((RUNTIME_DOMAIN.into(), 1));
        }
        // Types of 4 bits came with version 10 of the files, those of 8-bit floats with 9. Before
        // version 4, initializers had to be inputs too.
        let narrowest = self.objects.iter().map(|object| object.element.bits()).min();
        let least = if narrowest == Some(4) { 10 } else { 9 };
        self.made.ir_version = self.made.ir_version.max(least);
        Ok(QdqModel { model: self.made, objects: self.objects })
    }
}

fn plain(op: &str, inputs: Vec<String>, output: String) -> Node {
    Node {
        name: output.clone(),
        op: op.into(),
        domain: String::new(),
        inputs,
        outputs: vec![output],
        attributes: Vec::new(),
    }
}

fn cast(from: String, to: String, element: Element) -> Node {
    Node { attributes: vec![("to".into(), element.into())], ..plain("Cast", vec![from], to) }
}
