//! The course of a computation: what a model does with its inputs between one weight and the next,
//! described so that fusion, quantization and other layouts do not change it.
//!
//! The rules require a model that computes the same function. Equal weights do not prove that they
//! are used in the same place by the same functions. Layers with a matrix of weights are the
//! landmarks; between them are functions (activations, poolings), vectors of weights, and numbers.
//! A fused operator is described by the operators that it replaces.

mod compare;
mod functions;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use dyno_onnx::{Attribute, Model};

use super::flow::{Flow, Step};
use super::numbers::Bytes;
use super::operators::{is_place, plain_operator};

pub use compare::{WeightNames, differences};
use functions::{Family, Input, Operation, family, functions};

/// Origin of numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// An input of the model, by its position in the reference.
    Input(usize),
    /// A layer with this weight, by its position in the reference.
    Weight(usize),
    /// Something that only one of the models has.
    Other(String),
}

/// Role of a number in a computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NumberRole {
    Factor,
    Offset,
    Low,
    High,
    /// Greatest number that a quantized value can have, if the least is 0.
    Top,
    Axis,
    Count,
    /// Last dimension of a tensor with several.
    Size,
}

/// Operations on numbers on their way to a value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// For each source, the operations on the way, each with the steps that perform it; for
    /// operations that are not counted, the step is 0.
    pub from: BTreeMap<Source, BTreeSet<(Operation, usize)>>,
    /// Numbers in the computation, as bits of `f32`.
    pub numbers: BTreeSet<(NumberRole, u32)>,
    /// A part is fused, so that no operation belongs to one source alone.
    pub is_fused: bool,
    /// Some numbers of the computation are unknown.
    pub has_unknown: bool,
    /// The trace is too large to follow.
    pub is_lost: bool,
}

/// How a layer uses its data.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LayerUse {
    pub trace: Trace,
    pub attributes: BTreeSet<String>,
    pub pads: BTreeSet<Vec<i64>>,
    /// Whether the data is multiplied with the matrix or with its transpose.
    pub turned: BTreeSet<bool>,
}

/// The course of one model.
#[derive(Debug, Default)]
pub struct Course {
    /// Use of each weight that is a layer, by its position in the reference.
    pub layer_uses: BTreeMap<usize, LayerUse>,
    /// Trace of each output, by name.
    pub outputs: Vec<(String, Trace)>,
}

/// Facts about a graph besides its nodes.
pub struct GraphFacts<'a> {
    /// Positions in the reference of the weights that each tensor represents.
    pub weights: HashMap<&'a str, Vec<usize>>,
    /// Scales of normalizations that the other model has folded into convolutions.
    pub folded: HashSet<&'a str>,
    /// Positions of inputs in the reference, by name.
    pub inputs: HashMap<&'a str, usize>,
}

/// Maximum entries of one trace; real models have fewer.
const MOST: usize = 1 << 16;

/// Maximum entries of all traces of a model.
const MOST_OF_ALL: usize = 1 << 24;

/// A value that is computed from tensors only.
#[derive(Debug, Clone, Default)]
struct ConstantValue {
    weights: BTreeSet<usize>,
    number: Option<f64>,
    is_turned: bool,
}

/// A value during the walk.
#[derive(Debug, Clone)]
enum Value {
    Constant(ConstantValue),
    /// Sizes, and values derived from them.
    Size,
    /// Scales of data, which are measured while the graph is executed.
    Scale,
    Fed {
        trace: Trace,
        /// The operator that computed it.
        by: String,
    },
}

struct Walk<'a> {
    flow: &'a Flow<'a>,
    known: &'a GraphFacts<'a>,
    values: HashMap<String, Value>,
    course: Course,
    /// Entries that may still be added.
    left: usize,
}

/// Returns the course of a model.
pub fn course(model: &Model, flow: &Flow<'_>, known: &GraphFacts<'_>) -> Course {
    let mut values = HashMap::new();
    for (name, tensor) in &flow.tensors {
        let weights = known.weights.get(name.as_str()).into_iter().flatten().copied().collect();
        let is_one = tensor.elements() == 1;
        let bytes = if is_one { Bytes::load(tensor).ok() } else { None };
        let number = bytes.map(|bytes| f64::from(bytes.number(0)));
        values.insert(
            name.clone(),
            Value::Constant(ConstantValue { weights, number, is_turned: false }),
        );
    }
    for port in &model.inputs {
        let source = match known.inputs.get(port.name.as_str()) {
            Some(&at) => Source::Input(at),
            None => Source::Other(format!("input '{}'", port.name)),
        };
        let trace = Trace { from: [(source, BTreeSet::new())].into(), ..Trace::default() };
        values.insert(port.name.clone(), Value::Fed { trace, by: String::new() });
    }
    let mut walk = Walk { flow, known, values, course: Course::default(), left: MOST_OF_ALL };
    for (number, step) in flow.steps.iter().enumerate() {
        walk.step(number + 1, step);
    }
    for name in &flow.outputs {
        let trace = match walk.values.get(name) {
            Some(Value::Fed { trace, .. }) => trace.clone(),
            _ => Trace::default(),
        };
        walk.course.outputs.push((name.clone(), trace));
    }
    walk.course
}

/// Inputs of a step.
struct StepInputs {
    /// Data, each with the number of the input, in order.
    fed: Vec<(usize, Trace, String)>,
    fixed: Vec<(usize, ConstantValue)>,
    /// Number of inputs that are sizes.
    sizes: usize,
    /// Whether one input is the scale of data.
    has_scale: bool,
}

impl StepInputs {
    fn number(&self, at: usize) -> Option<f64> {
        self.fixed.iter().find(|(input, _)| *input == at).and_then(|(_, fixed)| fixed.number)
    }
}

impl Walk<'_> {
    fn step(&mut self, number: usize, step: &Step<'_>) {
        let mut given = self.given(step, false);
        if given.fed.is_empty() && given.sizes == 0 {
            let by_place = self.given(step, true);
            // Only indices depend on the data: a table lookup.
            if !by_place.fed.is_empty() {
                given = by_place;
            }
        }
        let of_sizes =
            matches!(step.op, "Shape" | "Size" | "ConstantOfShape" | "Range" | "EyeLike");
        let value = match (given.fed.is_empty(), given.sizes > 0 || of_sizes) {
            (true, true) => Value::Size,
            (_, true) if of_sizes => Value::Size,
            (true, false) if given.fixed.is_empty() && !given.has_scale => self.generated(step),
            (true, false) => Value::Constant(self.fixed(step, &given)),
            (false, _) => Value::Fed {
                trace: self.traced(number, step, &given),
                by: functions::called(step, &given.fed[0].2, given.number(0)),
            },
        };
        let value = match value {
            Value::Constant(_) | Value::Size if given.has_scale => Value::Scale,
            value => value,
        };
        self.give(number, step, &given, &value);
    }

    /// Assigns a value to the outputs of a step.
    fn give(&mut self, number: usize, step: &Step<'_>, given: &StepInputs, value: &Value) {
        for (at, name) in step.outputs.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let mut value = value.clone();
            if step.op == "DynamicQuantizeLinear" && at > 0 {
                value = Value::Scale;
            }
            // The sum before the normalization.
            if step.op.starts_with("Skip") && at > 0 {
                let mut trace = Trace::default();
                given.fed.iter().for_each(|(_, fed, _)| trace.join(fed));
                let bias = if step.op.starts_with("SkipS") { 3 } else { 4 };
                let vectors = given.fixed.iter().filter(|(at, _)| *at == bias);
                let vectors = vectors.flat_map(|(_, fixed)| &fixed.weights);
                vectors.for_each(|&weight| trace.add(&Operation::Vector(weight), number));
                value = Value::Fed { trace, by: "Add".into() };
            }
            if let Value::Fed { trace, .. } = &mut value {
                let size = trace.size();
                if size > MOST || size > self.left {
                    *trace = Trace { is_lost: true, ..Trace::default() };
                }
                self.left -= trace.size();
            }
            self.values.insert(name.clone(), value);
        }
    }

    fn given(&self, step: &Step<'_>, with_places: bool) -> StepInputs {
        let mut given =
            StepInputs { fed: Vec::new(), fixed: Vec::new(), sizes: 0, has_scale: false };
        for (at, name) in step.inputs.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let is_left_out = is_place(step.op, at) && !with_places || is_of_quantiser(step.op, at);
            match self.values.get(name) {
                Some(Value::Constant(fixed)) => given.fixed.push((at, fixed.clone())),
                _ if is_left_out => {}
                Some(Value::Fed { trace, by }) => given.fed.push((at, trace.clone(), by.clone())),
                Some(Value::Size) => given.sizes += 1,
                Some(Value::Scale) => given.has_scale = true,
                None => {
                    let source = Source::Other(format!("'{name}'"));
                    let from = [(source, BTreeSet::new())].into();
                    let trace = Trace { from, ..Trace::default() };
                    given.fed.push((at, trace, String::new()));
                }
            }
        }
        given
    }

    /// Value of a step without inputs: random numbers, texts.
    fn generated(&self, step: &Step<'_>) -> Value {
        // The iteration number of a loop, or its condition.
        if step.op == "Identity" {
            return Value::Size;
        }
        let source = Source::Other(format!("{} of its own", step.op));
        let trace = Trace { from: [(source, BTreeSet::new())].into(), ..Trace::default() };
        Value::Fed { trace, by: step.op.to_owned() }
    }

    /// Value computed from tensors only: its weights, and the number if it is a single one.
    fn fixed(&self, step: &Step<'_>, given: &StepInputs) -> ConstantValue {
        let weights = given.fixed.iter().flat_map(|(_, fixed)| fixed.weights.iter().copied());
        let number = |at: usize| given.number(at);
        let two = |f: fn(f64, f64) -> f64| number(0).zip(number(1)).map(|(a, b)| f(a, b));
        let number = match step.op {
            "Add" => two(|a, b| a + b),
            "Sub" => two(|a, b| a - b),
            "Mul" => two(|a, b| a * b),
            "Div" => two(|a, b| a / b),
            "Pow" => two(f64::powf),
            "Sqrt" => number(0).map(f64::sqrt),
            "Neg" => number(0).map(|value| -value),
            "Reciprocal" => number(0).map(f64::recip),
            "DequantizeLinear" => {
                let zero = number(2).unwrap_or(0.0);
                number(0).zip(number(1)).map(|(code, scale)| (code - zero) * scale)
            }
            "Cast" | "Identity" | "Unsqueeze" | "Squeeze" | "Reshape" | "Expand" => number(0),
            _ => None,
        };
        let is_turned = given.fixed.first().is_some_and(|(_, fixed)| fixed.is_turned);
        let turns = step.op == "Transpose" && is_swap(step);
        ConstantValue { weights: weights.collect(), number, is_turned: is_turned ^ turns }
    }

    fn traced(&mut self, number: usize, step: &Step<'_>, given: &StepInputs) -> Trace {
        let layers = layers(step, given);
        let mut trace = Trace::default();
        let sides = functions::sides(step);
        if let (Some(sides), [_, _], true) = (sides, &given.fed[..], layers.is_empty()) {
            for (at, fed, _) in &given.fed {
                let mut fed = fed.clone();
                let side = sides.iter().position(|side| side == at).unwrap_or(0);
                fed.add(&functions::SIDES[side], number);
                trace.join(&fed);
            }
        } else if layers.is_empty() {
            given.fed.iter().for_each(|(_, fed, _)| trace.join(fed));
        } else {
            self.meet(step, given, &layers);
            for weight in layers.iter().flat_map(|(_, fixed)| &fixed.weights) {
                trace.from.insert(Source::Weight(*weight), BTreeSet::new());
            }
            // Masks, initial states, and addends after the layer.
            given.fed[1..].iter().for_each(|(_, fed, _)| trace.join(fed));
            trace.is_fused |= layers.iter().any(|(_, fixed)| fixed.weights.len() > 1);
        }
        let is_layer = |at: usize| layers.iter().any(|(layer, _)| *layer == at);
        let vectors =
            given.fixed.iter().filter(|(at, _)| !is_layer(*at) && !is_place(step.op, *at));
        // Tensors passed into a body are used by the steps in it.
        let has_body = matches!(step.op, "If" | "Loop" | "Scan");
        for weight in vectors.filter(|_| !has_body).flat_map(|(_, fixed)| &fixed.weights) {
            trace.add(&Operation::Vector(*weight), number);
        }
        let is_folded = step.op == "BatchNormalization"
            && step.inputs.get(1).is_some_and(|scale| self.known.folded.contains(scale.as_str()));
        if !is_folded {
            self.work(number, step, given, &mut trace);
        }
        trace
    }

    /// Adds the operations of a step besides those of its layer.
    fn work(&self, number: usize, step: &Step<'_>, given: &StepInputs, trace: &mut Trace) {
        let by: Vec<(usize, &str)> =
            given.fed.iter().map(|(at, _, by)| (*at, by.as_str())).collect();
        let input = |at: usize| {
            let name = step.inputs.get(at).filter(|name| !name.is_empty())?;
            let element = self.flow.tensors.get(name).map(|tensor| tensor.element);
            Some(Input { number: given.number(at), element })
        };
        let has_weight = given.fixed.iter().any(|(_, fixed)| !fixed.weights.is_empty());
        let work = functions(&functions::StepContext {
            step,
            by: &by,
            input: &input,
            has_size: given.sizes > 0,
            is_scaled: has_weight || given.has_scale,
        });
        work.done.iter().for_each(|done| trace.add(done, number));
        // The heads of an attention are recognized by their size.
        let shape = step.inputs.get(1).filter(|_| step.op == "Reshape");
        let shape = shape.and_then(|name| self.flow.tensors.get(name)?.integers());
        if let Some(&[_, _, _, .., last]) = shape.as_deref()
            && last > 0
        {
            trace.numbers.insert((NumberRole::Size, (last as f32).to_bits()));
        }
        let finite = work.numbers.into_iter().filter(|(_, value)| value.is_finite());
        trace.numbers.extend(finite.map(|(role, value)| (role, (value as f32).to_bits())));
        trace.is_fused |= work.is_fused;
        trace.has_unknown |= work.has_unknown;
    }

    /// Records that data reaches the weights of a layer.
    fn meet(&mut self, step: &Step<'_>, given: &StepInputs, layers: &[(usize, ConstantValue)]) {
        let (attributes, pads) = functions::attributes_and_pads(step);
        for (at, fixed) in layers {
            let turned = functions::is_turned(step, *at).map(|turned| turned ^ fixed.is_turned);
            for weight in &fixed.weights {
                let layer_use = self.course.layer_uses.entry(*weight).or_default();
                layer_use.trace.join(&given.fed[0].1);
                layer_use.trace.is_fused |= fixed.weights.len() > 1;
                layer_use.attributes.insert(attributes.clone());
                layer_use.pads.insert(pads.clone());
                layer_use.turned.extend(turned);
            }
        }
    }
}

impl Trace {
    fn join(&mut self, other: &Self) {
        for (source, done) in &other.from {
            self.from.entry(source.clone()).or_default().extend(done.iter().cloned());
        }
        self.numbers.extend(&other.numbers);
        self.is_fused |= other.is_fused;
        self.has_unknown |= other.has_unknown;
        self.is_lost |= other.is_lost;
    }

    fn add(&mut self, done: &Operation, number: usize) {
        let at = if done.is_counted() { number } else { 0 };
        for all in self.from.values_mut() {
            all.insert((done.clone(), at));
        }
    }

    fn size(&self) -> usize {
        self.numbers.len() + self.from.values().map(|done| 1 + done.len()).sum::<usize>()
    }
}

/// Returns the weights of a step that are those of a layer.
fn layers(step: &Step<'_>, given: &StepInputs) -> Vec<(usize, ConstantValue)> {
    let slots: &[usize] = match family(plain_operator(step.op)) {
        _ if step.op == "QAttention" => &[1],
        Family::None => return Vec::new(),
        Family::Convolution => match step.op {
            "QLinearConv" => &[3],
            _ => &[1],
        },
        Family::Product => match step.op {
            "QLinearMatMul" | "QGemm" => &[0, 3],
            _ => &[0, 1],
        },
        Family::Recurrent => &[1, 2],
        Family::Attention => &[1],
    };
    let is_layer =
        |(at, fixed): &&(usize, ConstantValue)| slots.contains(at) && !fixed.weights.is_empty();
    given.fixed.iter().filter(is_layer).cloned().collect()
}

/// Whether an input is a scale or zero point of a quantizer, computed from the data.
fn is_of_quantiser(op: &str, at: usize) -> bool {
    matches!(op, "QuantizeLinear" | "DequantizeLinear") && at > 0
}

fn is_swap(step: &Step<'_>) -> bool {
    match step.node.attribute("perm") {
        Some(Attribute::Ints(order)) => order[..] == [1, 0],
        _ => true,
    }
}
