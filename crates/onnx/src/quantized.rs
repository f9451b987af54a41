//! Quantized models, with products of floating-point numbers.
//!
//! Files store quantized models in three ways: `QuantizeLinear` and `DequantizeLinear` around
//! floating-point operators (QDQ), operators on integers such as `QLinearConv` (QOperator), and
//! `MatMulInteger` after `DynamicQuantizeLinear`. [`in_floats`] makes the first of the others, with
//! weights as constants of float32. It computes the same function: integers times a scale.

mod fp8;
mod outline;
mod spread;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use dyno_tensors::{Element, Elements};

use self::spread::Spread;
use crate::fold::Constants;
use crate::graph::{Attribute, Model, Node};
use crate::shape::{Fact, infer};
use crate::tensor::{Fill, Tensor, Values, element_of};

/// Endings that programs append to the name of a weight when they quantize it.
const ENDINGS: [&str; 10] = [
    "_quantized",
    "_DequantizeLinear_Output",
    ".int8",
    ".uint8",
    ".int4",
    ".uint4",
    ".int16",
    ".uint16",
    ".float16",
    ".bfloat16",
];

/// Returns a quantized model in which all products are of floating-point numbers, and all weights
/// are constants of float32. Activations are rounded by `QuantizeLinear` and `DequantizeLinear`. A
/// node that cannot be written so stays as it is. Other models are returned unchanged.
///
/// ```
/// use dyno_onnx::{Builder, Constants, Element, Tensor, Values, Weights, in_floats};
///
/// let mut net = Builder::new("net", Weights::seeded(1));
/// let x = net.input("x", Element::F32, &[1.into(), 2.into()]);
/// let values = Values::Bytes(vec![1, 2, 0xff, 4]);
/// let codes = Tensor { element: Element::I8, values, ..Tensor::from_f32("w_quantized", &[2, 2], &[]) };
/// let codes = net.tensor(codes)?;
/// let scale = net.tensor(Tensor::from_f32("scale", &[], &[0.5]))?;
/// let w = net.node("DequantizeLinear", &[&codes, &scale], &[])?;
/// let y = net.node("MatMul", &[&x, &w], &[])?;
/// net.output("y", &y)?;
/// let model = net.finish();
///
/// let floats = in_floats(&model);
/// assert_eq!(floats.nodes[0].op, "MatMul");
/// let weights = Constants::new(&floats).get("w").unwrap();
/// assert_eq!(weights.floats(), Some(vec![0.5, 1.0, -0.5, 2.0]));
/// # Ok::<(), dyno_onnx::BuildError>(())
/// ```
pub fn in_floats(model: &Model) -> Cow<'_, Model> {
    rewritten(model, false)
}

/// Returns the model of [`in_floats`] with zeros in place of the converted weights, which may be larger
/// than the memory. They are not loaded.
pub(crate) fn outline_in_floats(model: &Model) -> Cow<'_, Model> {
    rewritten(model, true)
}

fn rewritten(model: &Model, is_outline: bool) -> Cow<'_, Model> {
    let is_combined =
        |node: &Node| node.domain == "com.microsoft" || node.op.starts_with("QLinear");
    let is_integer = |node: &Node| {
        let op = node.op.as_str();
        matches!(op, "QuantizeLinear" | "DequantizeLinear" | "MatMulInteger" | "ConvInteger")
    };
    let has_combined = model.nodes.iter().any(is_combined);
    let is_narrow = |tensor: &Tensor| tensor.element != Element::F32 && tensor.element.is_real();
    let is_code = |tensor: &Tensor| !tensor.shape.is_empty() && limits(tensor.element).is_some();
    let is_stored = |tensor: &Tensor| is_narrow(tensor) || is_code(tensor);
    let has_codes = model.nodes.iter().any(is_integer) || model.tensors.iter().any(is_stored);
    if !has_combined && !has_codes {
        return Cow::Borrowed(model);
    }
    let mut expanded = Cow::Borrowed(model);
    if has_combined {
        expanded.to_mut().expand_codes();
    }
    let mut rewriter = Rewriter::new(&expanded);
    rewriter.facts = is_outline.then(|| infer(&expanded, &BTreeMap::new()).facts);
    for node in &expanded.nodes {
        let mark = rewriter.nodes.len();
        if rewriter.node(node).is_none() {
            rewriter.nodes.truncate(mark);
            rewriter.nodes.push(node.clone());
        }
    }
    Cow::Owned(rewriter.finish())
}

/// State of rewriting a model.
struct Rewriter<'a> {
    model: &'a Model,
    constants: Constants<'a>,
    makers: HashMap<&'a str, &'a Node>,
    readers: HashMap<&'a str, Vec<&'a Node>>,
    nodes: Vec<Node>,
    tensors: Vec<Tensor>,
    names: BTreeSet<String>,
    /// New names of values.
    renamed: HashMap<String, String>,
    /// Values that are made elsewhere.
    done: BTreeSet<String>,
    /// Weights in floats, by the names of their codes, scale and zero point.
    known: HashMap<Vec<String>, String>,
    /// Facts about all values, if only the shapes of weights count.
    facts: Option<HashMap<String, Fact>>,
}

impl<'a> Rewriter<'a> {
    fn new(model: &'a Model) -> Self {
        let mut readers: HashMap<&str, Vec<&Node>> = HashMap::new();
        let mut makers = HashMap::new();
        let mut names = BTreeSet::new();
        for node in &model.nodes {
            makers.extend(node.outputs.iter().map(|output| (output.as_str(), node)));
            node.inputs.iter().for_each(|input| readers.entry(input).or_default().push(node));
            names.extend(node.inputs.iter().chain(&node.outputs).cloned());
        }
        names.extend(model.tensors.iter().map(|tensor| tensor.name.clone()));
        Self {
            model,
            constants: Constants::new(model),
            makers,
            readers,
            nodes: Vec::new(),
            tensors: Vec::new(),
            names,
            renamed: HashMap::new(),
            done: BTreeSet::new(),
            known: HashMap::new(),
            facts: None,
        }
    }

    /// Writes a node in floats. `None` if it stays as it is.
    fn node(&mut self, node: &'a Node) -> Option<()> {
        if node.outputs.first().is_some_and(|output| self.done.contains(output)) {
            return Some(());
        }
        match node.op.as_str() {
            "DequantizeLinear" => self.dequantize(node),
            "QuantizeLinear" => {
                // The operator of ONNX Runtime has the same inputs.
                self.nodes.push(Node { domain: String::new(), ..node.clone() });
                Some(())
            }
            "Cast" => {
                let (shape, numbers) = self.narrow_floats(&node.inputs[0])?;
                let is_float = node.int("to", 0) == 1 && !self.is_output(&node.outputs[0]);
                is_float.then(|| self.replace(node, &node.inputs[0], &shape, &numbers))
            }
            "Mul" => {
                let [codes, scale] = self.scaled_codes(node)?;
                let (shape, numbers) = self.weights([codes, scale, ""], 0, 0)?;
                self.replace(node, codes, &shape, &numbers);
                Some(())
            }
            "Gather" => self.table(node),
            "MatMulInteger" => self.integers(node, "MatMul", -1),
            "ConvInteger" => self.integers(node, "Conv", 0),
            _ => None,
        }
    }

    fn is_output(&self, name: &str) -> bool {
        self.model.outputs.iter().any(|port| port.name == name)
    }

    /// Replaces the output of a node by constants.
    fn replace(&mut self, node: &Node, origin: &str, shape: &[usize], numbers: &[f32]) {
        let name = self.store(origin, &node.outputs[0], shape, numbers);
        self.renamed.insert(node.outputs[0].clone(), name);
    }

    fn dequantize(&mut self, node: &'a Node) -> Option<()> {
        let key = node.inputs.clone();
        let output = &node.outputs[0];
        if self.is_output(output) {
            return None;
        }
        if let Some(known) = self.known.get(&key) {
            self.renamed.insert(output.clone(), known.clone());
            return Some(());
        }
        let axis = node.int("axis", 1);
        let block = usize::try_from(node.int("block_size", 0)).ok()?;
        let parts = [0, 1, 2].map(|at| node.inputs.get(at).map_or("", String::as_str));
        match self.weights(parts, axis, block) {
            Some((shape, numbers)) => {
                self.replace(node, parts[0], &shape, &numbers);
                self.known.insert(key, self.renamed[output].clone());
            }
            None => self.nodes.push(Node { domain: String::new(), ..node.clone() }),
        }
        Some(())
    }

    /// Returns constant codes as numbers: minus the zero point, times the scale.
    fn weights(
        &self,
        [codes, scale, zero]: [&str; 3],
        axis: i64,
        block: usize,
    ) -> Option<(Vec<usize>, Vec<f32>)> {
        if self.facts.is_some() {
            let shape = self.outline_of_codes([codes, zero], Some(scale), axis, block)?;
            return Some((shape, Vec::new()));
        }
        let (shape, codes) = self.code_values(codes)?;
        let scales = self.scales(scale)?;
        let of_scale = Spread::new(&shape, axis, block, scales.len())?;
        let zeros = if zero.is_empty() { Vec::new() } else { self.code_values(zero)?.1 };
        let of_zero = Spread::new(&shape, axis, block, zeros.len().max(1))?;
        let numbers = codes.iter().enumerate().map(|(at, code)| {
            let zero = zeros.get(of_zero.index_of(at)).copied().unwrap_or(0.0);
            (code - zero) as f32 * scales[of_scale.index_of(at)]
        });
        let numbers = numbers.collect();
        Some((shape, numbers))
    }

    /// Returns constant scales, or those that a node makes of one constant and others.
    fn scales(&self, name: &str) -> Option<Vec<f32>> {
        if let Some(scales) = self.constants.get(name) {
            return scales.floats();
        }
        let node = self.makers.get(name).filter(|node| node.op == "Mul")?;
        let factors = |at: usize| self.constants.get(node.inputs.get(at)?)?.floats();
        let (one, others) = (factors(0)?, factors(1)?);
        let [one] = one[..] else { return None };
        Some(others.iter().map(|other| one * other).collect())
    }

    /// Returns what codes stand for, without scale and zero point: integers, or numbers of FP8.
    fn code_values(&self, name: &str) -> Option<(Vec<usize>, Vec<f64>)> {
        if let Some(tensor) = self.constants.get(name)
            && let Some(numbers) = fp8::numbers(&tensor)
        {
            return Some((tensor.shape, numbers));
        }
        let (shape, codes) = self.codes(name)?;
        Some((shape, codes.into_iter().map(|code| code as f64).collect()))
    }

    /// Returns constant integers, or the codes of constants that are quantized.
    fn codes(&self, name: &str) -> Option<(Vec<usize>, Vec<i64>)> {
        if let Some(tensor) = self.constants.get(name) {
            let codes = tensor.whole()?;
            return Some((tensor.shape, codes));
        }
        let node = self.makers.get(name).filter(|node| node.op == "QuantizeLinear")?;
        let (numbers, scale) =
            (self.constants.get(&node.inputs[0])?, self.constants.get(node.inputs.get(1)?)?);
        let zero = node.inputs.get(2).filter(|name| !name.is_empty());
        let zero = zero.map(|name| self.constants.get(name));
        let (element, zeros) = match zero {
            Some(zero) => {
                let zero = zero?;
                (zero.element, zero.whole()?)
            }
            None => (Element::U8, vec![0]),
        };
        let (least, most) = limits(element)?;
        let block = usize::try_from(node.int("block_size", 0)).ok()?;
        let axis = node.int("axis", 1);
        let scales = scale.floats()?;
        let of_scale = Spread::new(&numbers.shape, axis, block, scales.len())?;
        let of_zero = Spread::new(&numbers.shape, axis, block, zeros.len())?;
        let floats = numbers.floats()?;
        let codes = floats.iter().enumerate().map(|(at, x)| {
            let steps = (x / scales[of_scale.index_of(at)]).round_ties_even() as i64;
            (steps + zeros[of_zero.index_of(at)]).clamp(least, most)
        });
        let codes = codes.collect();
        Some((numbers.shape, codes))
    }

    /// Returns the names of codes and their scale, if a node multiplies codes that are cast to
    /// float32 with one number.
    fn scaled_codes(&self, node: &'a Node) -> Option<[&'a str; 2]> {
        let [codes, scale] = &node.inputs[..] else { return None };
        let cast = self.makers.get(codes.as_str())?;
        let is_cast = cast.op == "Cast" && cast.int("to", 0) == 1;
        let is_one = self.constants.get(scale).is_some_and(|scale| scale.elements() == 1);
        (is_cast && is_one && !self.is_output(&node.outputs[0]))
            .then_some([cast.inputs[0].as_str(), scale])
    }

    /// Returns constants of floating-point types other than float32.
    fn narrow_floats(&self, name: &str) -> Option<(Vec<usize>, Vec<f32>)> {
        if self.facts.is_some() {
            return Some((self.narrow_outline(name)?, Vec::new()));
        }
        let tensor = self.constants.get(name)?;
        if let Some(numbers) = fp8::numbers(&tensor) {
            return Some((tensor.shape, numbers.into_iter().map(|x| x as f32).collect()));
        }
        let Values::Bytes(bytes) = &tensor.values else { return None };
        let is_narrow = tensor.element != Element::F32 && tensor.element.is_real();
        let all = Elements::read(tensor.element, bytes).filter(|_| is_narrow)?;
        Some((tensor.shape, all.into_f32()))
    }

    /// Reads rows of a constant table of codes as rows of floats, if all that reads the rows makes
    /// floats of them.
    fn table(&mut self, node: &'a Node) -> Option<()> {
        let [reader] = self.readers.get(node.outputs[0].as_str())?[..] else { return None };
        if self.is_output(&node.outputs[0]) || self.is_output(&reader.outputs[0]) {
            return None;
        }
        let mut last = reader;
        let (shape, numbers) = match reader.op.as_str() {
            "DequantizeLinear" if reader.inputs[0] == node.outputs[0] => {
                let part = |at: usize| reader.inputs.get(at).map_or("", String::as_str);
                let is_one = |name: &str| {
                    name.is_empty() || self.constants.get(name).is_some_and(|of| of.elements() == 1)
                };
                if !is_one(part(1)) || !is_one(part(2)) {
                    return None;
                }
                self.weights([&node.inputs[0], part(1), part(2)], 0, 0)?
            }
            "Cast" if reader.int("to", 0) == 1 => match self.narrow_floats(&node.inputs[0]) {
                Some(found) => found,
                None => {
                    let [next] = self.readers.get(reader.outputs[0].as_str())?[..] else {
                        return None;
                    };
                    last = next;
                    let [_, scale] = self.scaled_codes(next).filter(|_| next.op == "Mul")?;
                    self.weights([&node.inputs[0], scale, ""], 0, 0)?
                }
            },
            _ => return None,
        };
        let table = self.store(&node.inputs[0], &node.inputs[0], &shape, &numbers);
        let mut node = node.clone();
        node.inputs[0] = table;
        node.outputs[0].clone_from(&last.outputs[0]);
        self.done.extend([reader.outputs[0].clone(), last.outputs[0].clone()]);
        self.nodes.push(node);
        Some(())
    }

    /// Adds a product of integers minus their zero points, without a scale.
    fn integers(&mut self, node: &'a Node, op: &str, axis: i64) -> Option<()> {
        let one = self.store("one", "one", &[], &[1.0]);
        let part = |at: usize| node.inputs.get(at).cloned().unwrap_or_default();
        let (shape, numbers) = self.differences([&part(1), &part(3)], axis)?;
        let weights = self.store(&part(1), &part(1), &shape, &numbers);
        let x = self.name(&format!("{}.floats", part(0)));
        self.push("DequantizeLinear", vec![part(0), one, part(2)], &x, Vec::new());
        self.push(op, vec![x, weights], &node.outputs[0], node.attributes.clone());
        let last = self.nodes.last_mut().expect("it was pushed");
        last.name.clone_from(&node.name);
        Some(())
    }

    /// Returns constant integers minus their zero points.
    fn differences(&self, [codes, zero]: [&str; 2], axis: i64) -> Option<(Vec<usize>, Vec<f32>)> {
        if self.facts.is_some() {
            return Some((self.outline_of_codes([codes, zero], None, axis, 0)?, Vec::new()));
        }
        let (shape, codes) = self.codes(codes)?;
        let zeros = if zero.is_empty() { vec![0] } else { self.codes(zero)?.1 };
        let of_zero = Spread::new(&shape, axis, 0, zeros.len())?;
        let number = |(at, code): (usize, &i64)| (code - zeros[of_zero.index_of(at)]) as f32;
        Some((shape, codes.iter().enumerate().map(number).collect()))
    }

    fn push(
        &mut self,
        op: &str,
        mut inputs: Vec<String>,
        output: &str,
        attributes: Vec<(String, Attribute)>,
    ) {
        while inputs.last().is_some_and(String::is_empty) {
            inputs.pop();
        }
        self.nodes.push(Node {
            name: String::new(),
            op: op.into(),
            domain: String::new(),
            inputs,
            outputs: vec![output.into()],
            attributes,
        });
    }

    /// Stores numbers by the name of the weight before it was quantized, if that is free.
    fn store(&mut self, origin: &str, other: &str, shape: &[usize], numbers: &[f32]) -> String {
        let plain = ENDINGS.iter().find_map(|ending| origin.strip_suffix(ending));
        let name = self.name(plain.unwrap_or(other));
        let mut tensor = Tensor::from_f32(&name, shape, numbers);
        if self.facts.is_some() {
            tensor.values = Values::Filled(Fill::Constant(0.0), 0);
        }
        self.tensors.push(tensor);
        name
    }

    /// Returns a name that no value has.
    fn name(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        while !self.names.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    fn finish(self) -> Model {
        let Self { model, mut nodes, tensors, renamed, .. } = self;
        for node in &mut nodes {
            for input in &mut node.inputs {
                if let Some(name) = renamed.get(input) {
                    input.clone_from(name);
                }
            }
        }
        let mut made = Model { nodes, ..model.clone() };
        made.tensors.extend(tensors);
        made.remove_unused();
        made
    }
}

/// Returns the least and the greatest integer of a type.
fn limits(element: Element) -> Option<(i64, i64)> {
    let bits = element.bits() as u32;
    Some(match element {
        Element::I4 | Element::I8 | Element::I16 => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        Element::U4 | Element::U8 | Element::U16 => (0, (1 << bits) - 1),
        _ => return None,
    })
}

impl Node {
    /// Returns the type of codes that a `QuantizeLinear` states, if it does.
    pub fn stated_codes(&self) -> Option<Element> {
        i32::try_from(self.int("output_dtype", 0)).ok().and_then(element_of)
    }

    /// Returns the least and the greatest code of a `QuantizeLinear` by the type of its zero point,
    /// which is uint8 by default. `None` if the codes are not integers of up to 16 bits.
    pub fn code_limits(&self, zero_point: Option<Element>) -> Option<(i64, i64)> {
        limits(zero_point.or_else(|| self.stated_codes()).unwrap_or(Element::U8))
    }
}
