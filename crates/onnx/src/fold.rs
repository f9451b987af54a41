//! Constants: values that do not depend on the inputs of a model.
//!
//! In many files a few nodes are between a weight and the layer that reads it: they transpose, cut and
//! concatenate constants, or select one by an `If` with a constant condition. Such nodes only move
//! elements. Nodes that compute new numbers are not evaluated.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use dyno_tensors::Element;

use crate::graph::{Attribute, Body, Model, Node, Port};
use crate::tensor::{Tensor, Values};

/// Maximum number of nodes from a tensor to a constant. Exporters write fewer. The limit keeps the
/// recursion from exhausting the stack.
const MAX_DEPTH: usize = 64;

/// Bytes of computed constants for each byte of the tensors that they come from. A small file can
/// concatenate a tensor with itself until no memory holds it.
const MAX_GROWTH: u64 = 16;
/// Bytes of computed constants that need no tensor, such as those of `ConstantOfShape`.
const MAX_FILLED: u64 = 1 << 28;

/// Constants of a graph and of the graphs around it.
///
/// ```
/// use dyno_onnx::{Builder, Constants, Element, Tensor, Weights};
///
/// let mut net = Builder::new("net", Weights::seeded(1));
/// let x = net.input("x", Element::F32, &[2.into()]);
/// let w = net.tensor(Tensor::from_f32("w", &[1, 2], &[0.5, -2.0]))?;
/// let transposed = net.node("Transpose", &[&w], &[])?;
/// let model = net.finish();
///
/// let constants = Constants::new(&model);
/// assert_eq!(constants.get(transposed.as_str()).unwrap().shape, [2, 1]);
/// assert!(!constants.contains(x.as_str()));
/// # Ok::<(), dyno_onnx::BuildError>(())
/// ```
pub struct Constants<'a> {
    outer: Option<&'a Constants<'a>>,
    tensors: HashMap<&'a str, &'a Tensor>,
    /// Node of each value, and index of the value among the node's outputs.
    makers: HashMap<&'a str, (&'a Node, usize)>,
    /// Inputs of the graph. They hide values of the graphs around it that have equal names.
    inputs: HashSet<&'a str>,
    /// Why the last [`Constants::get`] could not load a tensor.
    failure: RefCell<Option<String>>,
}

/// State of one [`Constants::get`].
#[derive(Default)]
struct Search {
    /// Values of nodes, by their graph and name.
    known: RefCell<HashMap<(usize, String), Option<Tensor>>>,
    /// Addresses of the tensors that were loaded.
    loaded: RefCell<HashSet<usize>>,
    /// Bytes that may be computed from the tensors loaded so far, and bytes computed.
    bytes: Cell<[u64; 2]>,
    failure: RefCell<Option<String>>,
}

impl Search {
    /// Returns a tensor with its elements in memory.
    fn load(&self, tensor: &Tensor) -> Option<Tensor> {
        let loaded = match load(tensor) {
            Ok(loaded) => loaded,
            Err(why) => {
                self.failure.borrow_mut().get_or_insert(why);
                return None;
            }
        };
        if self.loaded.borrow_mut().insert(std::ptr::from_ref(tensor).addr()) {
            let [most, used] = self.bytes.get();
            let more = loaded.bytes().saturating_mul(MAX_GROWTH);
            self.bytes.set([most.saturating_add(more), used]);
        }
        Some(loaded)
    }

    /// Returns whether so many bytes more may be computed.
    fn allows(&self, bytes: u64) -> bool {
        let [most, used] = self.bytes.get();
        let used = used.saturating_add(bytes);
        self.bytes.set([most, used]);
        used <= most.saturating_add(MAX_FILLED)
    }
}

impl<'a> Constants<'a> {
    /// Returns the constants of a model's graph.
    pub fn new(model: &'a Model) -> Self {
        Self::from_graph(None, &model.nodes, &model.tensors, &model.inputs)
    }

    /// Returns the constants of a graph inside a node of this graph.
    pub fn enter<'b>(&'b self, body: &'b Body) -> Constants<'b> {
        Constants::from_graph(Some(self), &body.nodes, &body.tensors, &body.inputs)
    }

    fn from_graph(
        outer: Option<&'a Constants<'a>>,
        nodes: &'a [Node],
        tensors: &'a [Tensor],
        inputs: &'a [Port],
    ) -> Self {
        let outputs = |node: &'a Node| {
            node.outputs.iter().enumerate().map(move |(at, output)| (output.as_str(), (node, at)))
        };
        Self {
            outer,
            tensors: tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect(),
            makers: nodes.iter().flat_map(outputs).collect(),
            inputs: inputs.iter().map(|port| port.name.as_str()).collect(),
            failure: RefCell::new(None),
        }
    }

    /// Returns the value of a constant, or `None` if the value depends on inputs or is not supported.
    ///
    /// A constant is a tensor, or is computed from tensors by `Constant`, `Identity`, `Unsqueeze`,
    /// `Squeeze`, `Reshape`, `Transpose`, `Slice`, `Concat`, `Gather` of one index, `ConstantOfShape`,
    /// or an `If` with a constant condition. Tensors in other files are loaded.
    pub fn get(&self, name: &str) -> Option<Tensor> {
        let search = Search::default();
        let found = self.find(name, MAX_DEPTH, &search);
        self.failure.replace(search.failure.into_inner());
        found
    }

    /// Returns the reason, if the last [`Constants::get`] returned `None` because a tensor could not
    /// be loaded from another file.
    pub fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    /// Returns whether a value is computed from tensors alone by operators that [`Constants::get`]
    /// supports.
    ///
    /// Does not compute the value, and loads no file except for the condition of an `If`.
    pub fn contains(&self, name: &str) -> bool {
        self.is_constant(name, MAX_DEPTH, &mut HashMap::new())
    }

    /// `cache` has the results for values of this graph. Without it, values that are concatenated with
    /// themselves many times would take exponential time.
    fn is_constant(&self, name: &str, depth: usize, cache: &mut HashMap<String, bool>) -> bool {
        let Some(depth) = depth.checked_sub(1) else { return false };
        if self.tensors.contains_key(name) {
            return true;
        }
        if name.is_empty() || self.inputs.contains(name) {
            return false;
        }
        let Some((node, _)) = self.makers.get(name) else {
            return self
                .outer
                .is_some_and(|outer| outer.is_constant(name, depth, &mut HashMap::new()));
        };
        if let Some(is_constant) = cache.get(name) {
            return *is_constant;
        }
        // A value that depends on itself is not a constant.
        cache.insert(name.to_owned(), false);
        let is_constant = match node.op.as_str() {
            _ if !node.domain.is_empty() => false,
            "Constant" => true,
            "If" => self.find(name, depth + 1, &Search::default()).is_some(),
            "ConstantOfShape" | "Identity" | "Unsqueeze" | "Squeeze" | "Reshape" | "Transpose"
            | "Slice" | "Concat" | "Gather" => {
                let mut inputs = node.inputs.iter().filter(|input| !input.is_empty()).peekable();
                inputs.peek().is_some() && inputs.all(|input| self.is_constant(input, depth, cache))
            }
            _ => false,
        };
        cache.insert(name.to_owned(), is_constant);
        is_constant
    }

    /// Returns whether all elements of a value are known to be 0.
    ///
    /// The value need not be a constant: the shape of an `Expand`, `Tile` or `ConstantOfShape` may
    /// depend on inputs.
    pub fn is_zero(&self, name: &str) -> bool {
        self.has_only_zeros(name, MAX_DEPTH, &mut HashMap::new())
    }

    /// `cache` has the results for values of this graph, as in [`Self::is_constant`].
    fn has_only_zeros(&self, name: &str, depth: usize, cache: &mut HashMap<String, bool>) -> bool {
        let Some(depth) = depth.checked_sub(1) else { return false };
        let is_zero = |tensor: &Tensor| {
            let Values::Bytes(bytes) = &tensor.values else { return false };
            bytes.iter().all(|byte| *byte == 0)
        };
        if let Some(tensor) = self.tensors.get(name) {
            return is_zero(tensor);
        }
        let Some((node, _)) = self.makers.get(name) else {
            let is_input = self.inputs.contains(name);
            let in_outer =
                |outer: &Constants<'_>| outer.has_only_zeros(name, depth, &mut HashMap::new());
            return !is_input && self.outer.is_some_and(in_outer);
        };
        if let Some(known) = cache.get(name) {
            return *known;
        }
        cache.insert(name.to_owned(), false);
        let mut are_zeros = |inputs: &[String]| {
            let mut inputs = inputs.iter();
            inputs.len() > 0 && inputs.all(|input| self.has_only_zeros(input, depth, cache))
        };
        let has_only_zeros = match node.op.as_str() {
            _ if !node.domain.is_empty() => false,
            "Constant" => constant(node).is_some_and(|tensor| is_zero(&tensor)),
            "ConstantOfShape" => match node.attribute("value") {
                Some(Attribute::Tensor(tensor)) => is_zero(tensor),
                _ => true,
            },
            "Concat" => are_zeros(&node.inputs),
            "Expand" | "Identity" | "Unsqueeze" | "Squeeze" | "Reshape" | "Transpose" | "Slice"
            | "Gather" | "Tile" | "Cast" => are_zeros(&node.inputs[..node.inputs.len().min(1)]),
            _ => false,
        };
        cache.insert(name.to_owned(), has_only_zeros);
        has_only_zeros
    }

    /// Returns the value of a constant with at most `depth` nodes before it.
    fn find(&self, name: &str, depth: usize, search: &Search) -> Option<Tensor> {
        let depth = depth.checked_sub(1)?;
        if name.is_empty() {
            return None;
        }
        if let Some(tensor) = self.tensors.get(name) {
            return search.load(tensor);
        }
        if self.inputs.contains(name) {
            return None;
        }
        let Some((node, output)) = self.makers.get(name) else {
            return self.outer?.find(name, depth, search);
        };
        let key = (std::ptr::from_ref(self).addr(), name.to_owned());
        if let Some(known) = search.known.borrow().get(&key) {
            return known.clone();
        }
        let found = self.compute(node, *output, depth, search);
        search.known.borrow_mut().insert(key, found.clone());
        found
    }

    /// Returns an output of a node.
    fn compute(&self, node: &Node, output: usize, depth: usize, search: &Search) -> Option<Tensor> {
        let input = |at: usize| self.find(node.inputs.get(at)?, depth, search);
        // An attribute in old versions of an operator, an input in new ones.
        let integers = |name: &str, at: usize| -> Option<Vec<i64>> {
            node.ints(name).map(<[i64]>::to_vec).or_else(|| input(at)?.integers())
        };
        match node.op.as_str() {
            _ if !node.domain.is_empty() => None,
            "Constant" => constant(node),
            "ConstantOfShape" => {
                constant_of_shape(node, &input(0)?.integers()?, &|bytes| search.allows(bytes))
            }
            "Identity" => input(0),
            "Unsqueeze" => unsqueeze(input(0)?, &integers("axes", 1)?),
            "Squeeze" => squeeze(input(0)?, integers("axes", 1).as_deref()),
            "Reshape" => reshape(input(0)?, &input(1)?.integers()?),
            "Transpose" => View::new(&input(0)?)?.transpose(node.ints("perm"))?.tensor(),
            "Slice" => {
                let ranges = Ranges {
                    starts: integers("starts", 1)?,
                    ends: integers("ends", 2)?,
                    axes: integers("axes", 3),
                    steps: integers("steps", 4),
                };
                slice(&input(0)?, &ranges)
            }
            "Gather" => gather(&input(0)?, &input(1)?, node.int("axis", 0)),
            "Concat" => {
                let parts = (0..node.inputs.len()).map(input).collect::<Option<Vec<_>>>()?;
                let bytes = parts.iter().map(Tensor::bytes).fold(0, u64::saturating_add);
                search.allows(bytes).then(|| concatenate(&parts, node.int("axis", 0)))?
            }
            "If" => {
                let is_then =
                    input(0)?.integers()?.first().is_some_and(|condition| *condition != 0);
                let branch = if is_then { "then_branch" } else { "else_branch" };
                let (_, body) = node.bodies().find(|(name, _)| *name == branch)?;
                let constants = self.enter(body);
                constants.find(&body.outputs.get(output)?.name, depth, search)
            }
            _ => None,
        }
    }
}

/// Returns a tensor with its elements in memory.
///
/// # Errors
/// The reason why a file cannot be read.
fn load(tensor: &Tensor) -> Result<Tensor, String> {
    tensor.clone().in_memory().map_err(|error| error.to_string())
}

/// Returns the value of a node `Constant`.
fn constant(node: &Node) -> Option<Tensor> {
    node.attributes.iter().find_map(|(name, value)| match (name.as_str(), value) {
        ("value", Attribute::Tensor(tensor)) => load(tensor).ok(),
        ("value_float", Attribute::Float(value)) => Some(Tensor::from_f32("", &[], &[*value])),
        ("value_floats", Attribute::Floats(values)) => {
            Some(Tensor::from_f32("", &[values.len()], values))
        }
        ("value_int", Attribute::Int(value)) => Some(Tensor::from_i64("", &[], &[*value])),
        ("value_ints", Attribute::Ints(values)) => {
            Some(Tensor::from_i64("", &[values.len()], values))
        }
        _ => None,
    })
}

/// Returns the value of a node `ConstantOfShape`.
fn constant_of_shape(node: &Node, shape: &[i64], allows: &dyn Fn(u64) -> bool) -> Option<Tensor> {
    /// Maximum number of elements. Models fill initial states and sizes this way, but no weights.
    const MAX_ELEMENTS: usize = 1 << 24;
    let shape: Vec<usize> =
        shape.iter().map(|n| usize::try_from(*n).ok()).collect::<Option<_>>()?;
    let count = elements(&shape)?;
    let value = match node.attribute("value") {
        Some(Attribute::Tensor(tensor)) => load(tensor).ok()?,
        _ => Tensor::from_f32("", &[1], &[0.0]),
    };
    let Values::Bytes(bytes) = &value.values else { return None };
    if value.elements() != 1 {
        return None;
    }
    let total = (bytes.len() as u64).saturating_mul(count as u64);
    (count <= MAX_ELEMENTS && allows(total)).then(|| Tensor {
        shape,
        values: Values::Bytes(bytes.repeat(count)),
        ..value
    })
}

/// Ranges of a `Slice`.
struct Ranges {
    starts: Vec<i64>,
    ends: Vec<i64>,
    /// The first axes by default.
    axes: Option<Vec<i64>>,
    /// 1 by default.
    steps: Option<Vec<i64>>,
}

fn slice(tensor: &Tensor, ranges: &Ranges) -> Option<Tensor> {
    let mut view = View::new(tensor)?;
    for (at, start) in ranges.starts.iter().enumerate() {
        let value = |values: &Option<Vec<i64>>, default: i64| match values {
            Some(values) => values.get(at).copied(),
            None => Some(default),
        };
        let (axis, step) = (value(&ranges.axes, at as i64)?, value(&ranges.steps, 1)?);
        view = view.slice(axis, *start, *ranges.ends.get(at)?, step)?;
    }
    view.tensor()
}

/// Returns the elements at one index of an axis. An index without dimensions removes the axis.
fn gather(tensor: &Tensor, index: &Tensor, axis: i64) -> Option<Tensor> {
    let [at] = index.integers()?[..] else { return None };
    let end = if at == -1 { i64::MAX } else { at.checked_add(1)? };
    let part = View::new(tensor)?.slice(axis, at, end, 1)?.tensor()?;
    if index.shape.is_empty() { squeeze(part, Some(&[axis])) } else { Some(part) }
}

/// Returns the index of an axis. A negative axis counts from the end.
fn axis_index(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.checked_add(rank as i64)? } else { axis };
    usize::try_from(axis).ok().filter(|axis| *axis < rank)
}

fn unsqueeze(mut tensor: Tensor, axes: &[i64]) -> Option<Tensor> {
    let rank = tensor.shape.len() + axes.len();
    let mut axes: Vec<usize> =
        axes.iter().map(|axis| axis_index(*axis, rank)).collect::<Option<_>>()?;
    axes.sort_unstable();
    for axis in axes {
        if axis > tensor.shape.len() {
            return None;
        }
        tensor.shape.insert(axis, 1);
    }
    Some(tensor)
}

/// Removes axes of size 1: those of `axes`, or all by default.
fn squeeze(mut tensor: Tensor, axes: Option<&[i64]>) -> Option<Tensor> {
    let rank = tensor.shape.len();
    let indices = axes.unwrap_or_default().iter().map(|axis| axis_index(*axis, rank));
    let indices: Vec<usize> = indices.collect::<Option<_>>()?;
    if indices.iter().any(|axis| tensor.shape[*axis] != 1) {
        return None;
    }
    let mut at = 0;
    tensor.shape.retain(|n| {
        at += 1;
        if axes.is_some() { !indices.contains(&(at - 1)) } else { *n != 1 }
    });
    Some(tensor)
}

fn reshape(mut tensor: Tensor, target: &[i64]) -> Option<Tensor> {
    let count = elements(&tensor.shape)?;
    let size = |(at, n): (usize, &i64)| match *n {
        0 => tensor.shape.get(at).copied(),
        -1 => Some(1),
        n => usize::try_from(n).ok(),
    };
    let mut shape: Vec<usize> = target.iter().enumerate().map(size).collect::<Option<_>>()?;
    let known = elements(&shape)?;
    if target.iter().filter(|n| **n == -1).count() > 1 {
        return None;
    }
    if let Some(inferred) = target.iter().position(|n| *n == -1) {
        shape[inferred] = count.checked_div(known)?;
    }
    let all = elements(&shape)?;
    tensor.shape = shape;
    (all == count).then_some(tensor)
}

/// Returns the concatenation of tensors along an axis.
fn concatenate(parts: &[Tensor], axis: i64) -> Option<Tensor> {
    let first = parts.first()?;
    let axis = axis_index(axis, first.shape.len())?;
    let size = element_size(first.element)?;
    let outer = elements(&first.shape[..axis])?;
    let mut shape = first.shape.clone();
    shape[axis] = 0;
    for part in parts {
        let is_equal = |at: usize| at == axis || part.shape.get(at) == first.shape.get(at);
        if part.element != first.element
            || part.shape.len() != shape.len()
            || !(0..shape.len()).all(is_equal)
        {
            return None;
        }
        shape[axis] = shape[axis].checked_add(part.shape[axis])?;
    }
    // The shape of an empty result may require any number of blocks without bytes.
    let outer = if elements(&shape)? == 0 { 0 } else { outer };
    let mut bytes = Vec::new();
    for block in 0..outer {
        for part in parts {
            let Values::Bytes(from) = &part.values else { return None };
            let length = elements(&part.shape[axis..])?.checked_mul(size)?;
            bytes.extend_from_slice(from.get(block * length..(block + 1) * length)?);
        }
    }
    Some(Tensor {
        name: String::new(),
        element: first.element,
        shape,
        values: Values::Bytes(bytes),
    })
}

/// Returns the number of elements of a shape, or `None` if it exceeds `usize`. Files may have any
/// numbers.
fn elements(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1_usize, |count, n| count.checked_mul(*n))
}

/// Returns the size of an element in bytes, or `None` if elements share bytes.
fn element_size(element: Element) -> Option<usize> {
    (!matches!(element, Element::U4 | Element::I4)).then(|| element.size())
}

/// A selection of a tensor's elements in another order.
struct View<'a> {
    element: Element,
    bytes: &'a [u8],
    /// Index of the first element.
    first: usize,
    /// Number of elements of each axis, and the distance between them.
    axes: Vec<(usize, isize)>,
}

impl<'a> View<'a> {
    fn new(tensor: &'a Tensor) -> Option<Self> {
        let Values::Bytes(bytes) = &tensor.values else { return None };
        element_size(tensor.element)?;
        let mut stride = 1_isize;
        let mut axes = Vec::new();
        for n in tensor.shape.iter().rev() {
            axes.push((*n, stride));
            stride = stride.checked_mul(isize::try_from((*n).max(1)).ok()?)?;
        }
        axes.reverse();
        Some(Self { element: tensor.element, bytes, first: 0, axes })
    }

    /// Puts the axes in another order, which is the reverse by default.
    fn transpose(mut self, order: Option<&[i64]>) -> Option<Self> {
        let Some(order) = order else {
            self.axes.reverse();
            return Some(self);
        };
        let rank = self.axes.len();
        let mut seen = vec![false; rank];
        let axis = |axis: &i64| {
            let axis = axis_index(*axis, rank)?;
            (!std::mem::replace(&mut seen[axis], true)).then_some(self.axes[axis])
        };
        let axes: Vec<_> = order.iter().map(axis).collect::<Option<_>>()?;
        (axes.len() == rank).then_some(Self { axes, ..self })
    }

    /// Selects every `step`th element of an axis from `start` to before `end`. Negative values have the
    /// meaning that `Slice` defines.
    fn slice(mut self, axis: i64, start: i64, end: i64, step: i64) -> Option<Self> {
        let axis = axis_index(axis, self.axes.len())?;
        let (count, stride) = self.axes[axis];
        let length = i64::try_from(count).ok()?;
        let place = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
        let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
        let (start, end) =
            (place(start).clamp(low.max(0), high.max(0)), place(end).clamp(low, high));
        let selected = match step {
            0 => return None,
            1.. => (end - start).max(0).unsigned_abs().div_ceil(step.unsigned_abs()),
            _ => (start - end).max(0).unsigned_abs().div_ceil(step.unsigned_abs()),
        };
        let selected = usize::try_from(selected).ok()?;
        if selected > 0 {
            let skipped = isize::try_from(start).ok()?.checked_mul(stride)?;
            self.first = self.first.checked_add_signed(skipped)?;
        }
        let stride =
            if selected > 1 { stride.checked_mul(isize::try_from(step).ok()?)? } else { stride };
        self.axes[axis] = (selected, stride);
        Some(self)
    }

    /// Returns a tensor with the selected elements.
    fn tensor(&self) -> Option<Tensor> {
        let size = element_size(self.element)?;
        let shape: Vec<usize> = self.axes.iter().map(|(n, _)| *n).collect();
        let count = elements(&shape)?;
        let mut bytes = Vec::with_capacity(count * size);
        let mut index = vec![0; shape.len()];
        let mut at = self.first;
        for _ in 0..count {
            bytes.extend_from_slice(self.bytes.get(at * size..(at + 1) * size)?);
            for (axis, (n, stride)) in self.axes.iter().enumerate().rev() {
                index[axis] += 1;
                if index[axis] < *n {
                    at = at.checked_add_signed(*stride)?;
                    break;
                }
                index[axis] = 0;
                let back = stride.checked_mul(isize::try_from(*n).ok()? - 1)?;
                at = at.checked_add_signed(back.checked_neg()?)?;
            }
        }
        let values = Values::Bytes(bytes);
        Some(Tensor { name: String::new(), element: self.element, shape, values })
    }
}
