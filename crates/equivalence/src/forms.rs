//! Traces each tensor to the operator that computes with it: determines which tensors are weights,
//! with which scales, and which take a path that is not understood.

use std::collections::{BTreeSet, HashMap, HashSet};

use dyno_onnx::{Element, Tensor, code_of};

use super::flow::{Flow, Step};
use super::operators::{
    COMPARING, CodeInput, MOVING, PICKING, ScaleKind, code_inputs, is_place, plain_operator,
    scales_of_activations,
};
use super::small::SmallFloat;

/// Codes, or numbers that the graph rounds to codes, with their scales and zero point.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantization {
    /// Tensors whose product is the scale.
    pub scales: Vec<String>,
    pub zero: Option<String>,
    pub kind: ScaleKind,
    /// Type of the codes, if the graph computes them.
    pub computed: Option<Element>,
}

/// A tensor that an operator computes with.
#[derive(Debug, Clone)]
pub struct TensorUse {
    pub tensor: String,
    /// First use: the operator and the index of its input.
    pub slot: (String, usize),
    pub by: Option<Quantization>,
    /// Operators that change it before it meets data.
    pub through: BTreeSet<String>,
}

/// Tensors that a graph computes with.
pub struct TensorUses {
    /// Uses in the order of execution.
    pub all: Vec<TensorUse>,
    /// Tensors that are used in a form that is not understood.
    pub unread: Vec<String>,
}

/// Elements of an integer tensor that may be options.
const FEW: u64 = 16;

/// A value computed from tensors only.
#[derive(Debug, Clone)]
struct DerivedTensor {
    tensors: Vec<String>,
    form: Form,
    /// Whether data selects a part of it.
    is_fed: bool,
    /// Operators that changed it without computing with it.
    through: BTreeSet<String>,
}

impl DerivedTensor {
    fn new(tensors: Vec<String>, form: Form) -> Self {
        Self { tensors, form, is_fed: false, through: BTreeSet::new() }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Form {
    /// The tensor, with permuted or reshaped dimensions if it was moved.
    Itself { is_moved: bool },
    /// Codes minus their zero point.
    Shifted { zero: String, is_moved: bool },
    /// Dequantized codes.
    Read(Quantization),
    /// Codes that the graph computes from numbers.
    Rounded(Quantization),
    /// Result of a computation that is not understood; its numbers are known to be used.
    Lost,
    /// Result of computations with tensors only, by these operators.
    Computed(BTreeSet<String>),
}

/// Returns the tensors that a graph computes with.
pub fn uses(flow: &Flow<'_>) -> TensorUses {
    let itself =
        |name: &String| DerivedTensor::new(vec![name.clone()], Form::Itself { is_moved: false });
    let mut walk = Walk {
        flow,
        values: flow.tensors.keys().map(|name| (name.clone(), itself(name))).collect(),
        uses: Vec::new(),
        used: HashMap::new(),
        unread: Vec::new(),
        after: HashMap::new(),
        product_scales: HashSet::new(),
    };
    for (number, step) in flow.steps.iter().enumerate() {
        walk.find_scale_after(number, step);
    }
    for (number, step) in flow.steps.iter().enumerate() {
        walk.step(number, step);
    }
    for output in &flow.outputs {
        if let Some(DerivedTensor { tensors, form: Form::Itself { .. }, .. }) =
            walk.values.get(output)
            && is_float(&flow.tensors[&tensors[0]])
        {
            let tensor = tensors[0].clone();
            walk.record(tensor, ("output".into(), 0), None);
        }
    }
    walk.unread.sort_unstable();
    walk.unread.dedup();
    TensorUses { all: walk.uses, unread: walk.unread }
}

struct Walk<'f> {
    flow: &'f Flow<'f>,
    values: HashMap<String, DerivedTensor>,
    uses: Vec<TensorUse>,
    used: HashMap<String, usize>,
    unread: Vec<String>,
    /// Scales that follow integer products, by step.
    after: HashMap<usize, Vec<String>>,
    /// Steps and their inputs that are such scales.
    product_scales: HashSet<(usize, usize)>,
}

pub fn is_float(tensor: &Tensor) -> bool {
    matches!(tensor.element, Element::F32 | Element::F16 | Element::BF16 | Element::F64)
        || SmallFloat::from_element(tensor.element).is_some()
}

impl Walk<'_> {
    fn step(&mut self, number: usize, step: &Step<'_>) {
        let input = |at: usize| step.inputs.get(at).filter(|name| !name.is_empty());
        let passed = input(0).and_then(|name| self.values.get(name)).cloned();
        let output = match (step.op, passed) {
            ("Cast", Some(value)) => Some(self.cast(value, step.node.int("to", 1))),
            ("Identity", Some(value)) => Some(value),
            (op, Some(value)) if MOVING.contains(&op) => Some(moved(value)),
            ("Gather", Some(value)) if self.is_codes(&value) => {
                Some(self.picked(value, self.is_asked(input(1))))
            }
            ("DequantizeLinear", Some(value)) => Some(self.dequantized(value, step)),
            ("QuantizeLinear", Some(value)) => Some(self.quantized(value, step)),
            ("Sub", _) => self.shifted(step),
            ("Mul", _) => self.multiplied(step),
            _ => None,
        };
        if let (Some(value), Some(name)) = (output, step.outputs.first()) {
            self.values.insert(name.clone(), value);
            return;
        }
        let mut described = self.packed(step);
        for at in scales_of_activations(step.op) {
            let few = |tensor: &String| self.flow.tensors[tensor].elements() <= FEW;
            if input(*at).and_then(|name| self.fixed(name)).is_none_or(few) {
                described.insert(*at);
            }
        }
        described.extend(
            self.product_scales.iter().filter(|(at, _)| *at == number).map(|(_, input)| *input),
        );
        for read in code_inputs(step.node) {
            let scales = match self.after.get(&number) {
                Some(scales) => Some(scales.clone()),
                None => read.scales.iter().map(|at| self.fixed_input(step, *at)).collect(),
            };
            described
                .extend(scales.map(|scales| self.read(step, &read, scales)).unwrap_or_default());
        }
        self.computed(step, &described);
    }

    /// Returns the kernel input of a convolution in a processor-specific layout, which is not
    /// understood.
    fn packed(&mut self, step: &Step<'_>) -> HashSet<usize> {
        let is_packed = step.node.domain == "com.microsoft.nchwc" && step.op == "Conv";
        let kernel = self.fixed_input(step, 1).filter(|_| is_packed);
        self.unread.extend(kernel.clone());
        kernel.map(|_| 1).into_iter().collect()
    }

    /// Finds the scale of an integer product: the factor that it is multiplied with later.
    fn find_scale_after(&mut self, number: usize, step: &Step<'_>) -> Option<()> {
        if !matches!(step.op, "MatMulInteger" | "ConvInteger") {
            return None;
        }
        let steps = || self.flow.steps.iter().enumerate();
        let held = |name: &&String| self.flow.tensors.contains_key(*name);
        let mut value = step.outputs.first()?;
        for _ in 0..3 {
            let mut users = steps().filter(|(_, step)| step.inputs.contains(value));
            // A value with two users may be scaled twice.
            let (Some((at, next)), None) = (users.next(), users.next()) else { return None };
            if next.op != "Mul" {
                value = next.outputs.first()?;
                continue;
            }
            let input = next.inputs.iter().position(|input| input != value)?;
            let other = &next.inputs[input];
            if held(&other) {
                self.after.insert(number, vec![other.clone()]);
                self.product_scales.insert((at, input));
                return Some(());
            }
            let (at, product) = steps().find(|(_, step)| step.outputs.contains(other))?;
            let factors = product.inputs.iter().enumerate().filter(|(_, name)| held(name));
            let factors: Vec<(usize, &String)> = factors.collect();
            if product.op == "Mul" && !factors.is_empty() {
                self.product_scales.extend(factors.iter().map(|(input, _)| (at, *input)));
                let names = factors.into_iter().map(|(_, name)| name.clone());
                self.after.insert(number, names.collect());
            }
            return Some(());
        }
        None
    }

    fn fixed_input(&self, step: &Step<'_>, at: usize) -> Option<String> {
        self.fixed(step.inputs.get(at).filter(|name| !name.is_empty())?).cloned()
    }

    /// Records codes that an operator reads; returns the inputs that this explains.
    fn read(&mut self, step: &Step<'_>, read: &CodeInput, scales: Vec<String>) -> Vec<usize> {
        let name = |at: usize| step.inputs.get(at).filter(|name| !name.is_empty());
        let value = name(read.codes).and_then(|name| self.values.get(name));
        let Some(value) = value.filter(|value| self.is_codes(value)).cloned() else {
            return Vec::new();
        };
        let tensor = &self.flow.tensors[&value.tensors[0]];
        let is_of_four_bits = matches!(tensor.element, Element::I4 | Element::U4);
        if !read.kind.fits(tensor) || step.op == "GatherBlockQuantized" && !is_of_four_bits {
            return Vec::new();
        }
        let zero = read.zero.filter(|at| name(*at).is_some());
        let zero = zero.map_or(Some(None), |at| self.fixed_input(step, at).map(Some));
        let (Some(zero), false) = (zero, scales.is_empty()) else { return Vec::new() };
        let mut by = Quantization { scales, zero, kind: read.kind, computed: None };
        self.settle(&value.tensors[0], &mut by);
        let is_whole = self.is_whole(&by);
        if !matches!(value.form, Form::Itself { is_moved } if !is_moved || is_whole) {
            return Vec::new();
        }
        let slot = (plain_operator(step.op).to_owned(), read.codes);
        self.record(value.tensors[0].clone(), slot, Some(by));
        [read.codes].into_iter().chain(read.zero).chain(read.scales.iter().copied()).collect()
    }

    /// Determines which of two dimensions has the scales.
    fn settle(&self, codes: &str, by: &mut Quantization) {
        if by.kind == ScaleKind::FirstOrLast {
            let shape = &self.flow.tensors[codes].shape;
            let scales = self.flow.tensors[&by.scales[0]].elements();
            let first = shape.first().copied().unwrap_or(1) as u64;
            by.kind = match shape[..] {
                _ if scales == first => ScaleKind::Axis(0),
                // One scale per direction and gate.
                [_, size, last] if scales == first.saturating_mul(last as u64) => {
                    ScaleKind::Blocks { axis: 1, size: size.max(1) }
                }
                _ => ScaleKind::Axis(-1),
            };
        }
    }

    fn is_whole(&self, by: &Quantization) -> bool {
        let mut names = by.scales.iter().chain(&by.zero);
        names.all(|name| self.flow.tensors[name].elements() == 1)
    }

    /// Returns the tensor if the value is stored unchanged in the file.
    fn fixed(&self, name: &str) -> Option<&String> {
        match self.values.get(name)? {
            DerivedTensor {
                tensors,
                form: Form::Itself { is_moved: false },
                is_fed: false,
                ..
            } => tensors.first(),
            _ => None,
        }
    }

    /// Whether a value is a tensor of integers, or of other numbers that take a scale.
    fn is_codes(&self, value: &DerivedTensor) -> bool {
        let tensor = &self.flow.tensors[&value.tensors[0]];
        matches!(value.form, Form::Itself { .. } | Form::Shifted { .. })
            && (!is_float(tensor) || SmallFloat::from_element(tensor.element).is_some())
    }

    /// Whether a value depends on data.
    fn is_asked(&self, name: Option<&String>) -> bool {
        name.is_some_and(|name| self.values.get(name).is_none_or(|value| value.is_fed))
    }

    /// Selects rows of codes, by data or always the same ones.
    fn picked(&self, value: DerivedTensor, is_fed: bool) -> DerivedTensor {
        let mut picked = moved(value);
        picked.is_fed |= is_fed;
        if !is_fed {
            picked.through.insert("Gather".into());
        }
        picked
    }

    /// Converts to another type: floating-point numbers stay such, and integers lose nothing.
    fn cast(&self, value: DerivedTensor, to: i64) -> DerivedTensor {
        // `TensorProto.DataType`: float32, float16, float64, bfloat16; int32, int64.
        let (to_float, to_wide) = (matches!(to, 1 | 10 | 11 | 16), matches!(to, 6 | 7));
        let own = i64::from(code_of(self.flow.tensors[&value.tensors[0]].element));
        let is_kept = to_float || to == own || to_wide && self.is_codes(&value);
        if is_kept { value } else { DerivedTensor { form: Form::Lost, ..value } }
    }

    fn dequantized(&self, value: DerivedTensor, step: &Step<'_>) -> DerivedTensor {
        let by = match (self.described(step), &value.form) {
            (Some(by), Form::Itself { is_moved }) if self.is_codes(&value) => {
                Some(by).filter(|by| !is_moved || self.is_whole(by))
            }
            (Some(by), Form::Rounded(rounding))
                if (&by.scales, &by.zero) == (&rounding.scales, &rounding.zero) =>
            {
                Some(rounding.clone())
            }
            _ => None,
        };
        DerivedTensor { form: by.map_or(Form::Lost, Form::Read), ..value }
    }

    fn quantized(&self, value: DerivedTensor, step: &Step<'_>) -> DerivedTensor {
        let is_plain = matches!(value.form, Form::Itself { .. })
            && is_float(&self.flow.tensors[&value.tensors[0]]);
        let is_moved = value.form == Form::Itself { is_moved: true };
        let by = self.described(step).filter(|_| is_plain);
        let by = by.filter(|by| !is_moved || self.is_whole(by)).map(|by| {
            let of_zero = by.zero.as_ref().map(|zero| self.flow.tensors[zero].element);
            let stated = step.node.stated_codes();
            Quantization { computed: of_zero.or(stated).or(Some(Element::U8)), ..by }
        });
        DerivedTensor { form: by.map_or(Form::Lost, Form::Rounded), ..value }
    }

    /// Scale and zero point of `QuantizeLinear` and `DequantizeLinear`.
    fn described(&self, step: &Step<'_>) -> Option<Quantization> {
        let scale = self.fixed(step.inputs.get(1)?)?.clone();
        let zero = match step.inputs.get(2).filter(|name| !name.is_empty()) {
            Some(name) => Some(self.fixed(name)?.clone()),
            None => None,
        };
        let axis = step.node.int("axis", 1);
        let kind = match usize::try_from(step.node.int("block_size", 0)) {
            Ok(size @ 1..) => ScaleKind::Blocks { axis, size },
            _ => ScaleKind::Axis(axis),
        };
        Some(Quantization { scales: vec![scale], zero, kind, computed: None })
    }

    /// Codes minus a zero point.
    fn shifted(&self, step: &Step<'_>) -> Option<DerivedTensor> {
        let value = self.values.get(step.inputs.first()?)?;
        let Form::Itself { is_moved } = value.form else { return None };
        let zero = self.fixed(step.inputs.get(1)?)?.clone();
        let shape = |name: &String| &self.flow.tensors[name].shape;
        let is_one = self.flow.tensors[&zero].elements() == 1;
        let is_spread =
            is_one || !is_moved && spread(shape(&value.tensors[0]), shape(&zero)).is_some();
        let form = Form::Shifted { zero, is_moved };
        (self.is_codes(value) && is_spread).then(|| DerivedTensor { form, ..value.clone() })
    }

    /// Codes times a scale.
    fn multiplied(&self, step: &Step<'_>) -> Option<DerivedTensor> {
        let [a, b] = &step.inputs[..] else { return None };
        let is_codes = |name: &String| self.values.get(name).filter(|value| self.is_codes(value));
        let (value, scale) = match (is_codes(a), is_codes(b)) {
            (Some(value), None) => (value, self.fixed(b)?),
            (None, Some(value)) => (value, self.fixed(a)?),
            _ => return None,
        };
        let (zero, is_moved) = match &value.form {
            Form::Itself { is_moved } => (None, *is_moved),
            Form::Shifted { zero, is_moved } => (Some(zero.clone()), *is_moved),
            _ => return None,
        };
        let shape = |name: &String| &self.flow.tensors[name].shape;
        let codes = shape(&value.tensors[0]);
        let kind = spread(codes, shape(scale))?;
        let of_zero = zero.as_ref().filter(|zero| self.flow.tensors[*zero].elements() > 1);
        if of_zero.is_some_and(|zero| spread(codes, shape(zero)) != Some(kind)) {
            return None;
        }
        let by = Quantization { scales: vec![scale.clone()], zero, kind, computed: None };
        let is_read = !is_moved || self.is_whole(&by);
        is_read.then(|| DerivedTensor { form: Form::Read(by), ..value.clone() })
    }

    /// Records the tensors that an operator computes with, except those in `described`.
    fn computed(&mut self, step: &Step<'_>, described: &HashSet<usize>) {
        let mut lost = Vec::new();
        let mut weights = Vec::new();
        let mut through = BTreeSet::new();
        let is_fed = self.is_fed(step);
        for (at, name) in step.inputs.iter().enumerate() {
            if name.is_empty() || is_place(step.op, at) || described.contains(&at) {
                continue;
            }
            let Some(value) = self.values.get(name).cloned() else { continue };
            let is_plain = is_float(&self.flow.tensors[&value.tensors[0]]);
            let slot = (plain_operator(step.op).to_owned(), at);
            let by = match value.form {
                Form::Itself { .. } if is_plain => None,
                Form::Read(by) => Some(by),
                Form::Computed(before) => {
                    for tensor in value.tensors.iter().filter(|_| is_fed) {
                        self.change(tensor, &before);
                    }
                    through.extend(before);
                    weights.extend(value.tensors);
                    continue;
                }
                _ => {
                    lost.extend(value.tensors);
                    continue;
                }
            };
            self.record(value.tensors[0].clone(), slot, by);
            if is_fed {
                self.change(&value.tensors[0], &value.through);
            }
            through.extend(value.through);
            weights.push(value.tensors[0].clone());
        }
        let elements_of = |names: &[String]| {
            let elements = names.iter().map(|name| self.flow.tensors[name].elements());
            elements.fold(0, u64::saturating_add)
        };
        if elements_of(&lost) <= FEW || COMPARING.contains(&step.op) && is_fed {
            lost.clear();
        }
        let is_passed = PICKING.contains(&step.op);
        let is_weight = elements_of(&weights) > FEW;
        let names = step.outputs.iter().filter(|name| !name.is_empty());
        if !lost.is_empty() && (is_passed || !is_fed) {
            // Numbers that are combined with such codes are changed by them.
            lost.extend(weights);
            let value = DerivedTensor::new(lost, Form::Lost);
            self.values.extend(names.map(|name| (name.clone(), value.clone())));
        } else if !is_fed && is_weight {
            through.insert(step.op.to_owned());
            let value = DerivedTensor::new(weights, Form::Computed(through));
            self.values.extend(names.map(|name| (name.clone(), value.clone())));
        } else {
            self.unread.extend(lost);
        }
    }

    /// Records that operators change a weight before it is used.
    fn change(&mut self, tensor: &str, by: &BTreeSet<String>) {
        if let Some(&at) = self.used.get(tensor) {
            self.uses[at].through.extend(by.iter().cloned());
        }
    }

    fn is_fed(&self, step: &Step<'_>) -> bool {
        let mut inputs = step.inputs.iter().filter(|name| !name.is_empty());
        inputs.any(|name| self.is_asked(Some(name)))
    }

    fn record(&mut self, tensor: String, slot: (String, usize), by: Option<Quantization>) {
        let Some(&known) = self.used.get(&tensor) else {
            self.used.insert(tensor.clone(), self.uses.len());
            self.uses.push(TensorUse { tensor, slot, by, through: BTreeSet::new() });
            return;
        };
        let known = &mut self.uses[known];
        match (&known.by, by) {
            (Some(known), Some(by)) if (&known.scales, &known.zero) != (&by.scales, &by.zero) => {
                self.unread.push(tensor);
            }
            // A weight that is rounded somewhere is compared as rounded.
            (None, Some(by)) => known.by = Some(by),
            _ => {}
        }
    }
}

fn moved(value: DerivedTensor) -> DerivedTensor {
    let form = match value.form {
        Form::Itself { .. } => Form::Itself { is_moved: true },
        Form::Shifted { zero, .. } => Form::Shifted { zero, is_moved: true },
        other => other,
    };
    DerivedTensor { form, ..value }
}

/// Returns how a scale is broadcast over codes: along adjacent dimensions.
fn spread(codes: &[usize], scale: &[usize]) -> Option<ScaleKind> {
    let before = codes.len().checked_sub(scale.len())?;
    let len_of = |at: usize| if at < before { 1 } else { scale[at - before] };
    let all: Vec<usize> = (0..codes.len()).filter(|&at| len_of(at) != 1).collect();
    let (Some(&first), Some(&last)) = (all.first(), all.last()) else {
        return Some(ScaleKind::Axis(0));
    };
    let is_whole = (first..=last).all(|at| len_of(at) == codes[at]);
    let len = codes[first..=last].iter().product();
    let inner = codes[last + 1..].iter().product();
    is_whole.then_some(ScaleKind::Slices { len, inner })
}
