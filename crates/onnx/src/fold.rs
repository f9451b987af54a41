//! Values that do not depend on what a model is fed.
//!
//! Weights in files often come through a few nodes: a constant is turned, cut and put together, or is
//! taken from a branch whose condition is constant. Nothing is computed here but where elements are.

use std::collections::HashMap;

use dyno_tensors::Element;

use crate::graph::{Attribute, Body, Model, Node};
use crate::tensor::{Tensor, Values, fill};

/// Nodes between a constant and who asks for it: more than any exporter writes, and too few to
/// exhaust the stack.
const DEPTH: usize = 64;

/// The constants of a graph, with those of the graphs around it.
pub struct Constants<'a> {
    around: Option<&'a Constants<'a>>,
    tensors: HashMap<&'a str, &'a Tensor>,
    /// Who makes a value, and which of its outputs that is.
    makers: HashMap<&'a str, (&'a Node, usize)>,
    /// Values that are handed in, which may hide others of the same name.
    fed: Vec<&'a str>,
}

impl<'a> Constants<'a> {
    /// Those of a model.
    #[must_use]
    pub fn new(model: &'a Model) -> Self {
        let fed = model.inputs.iter().map(|port| port.name.as_str()).collect();
        Self::of(None, &model.nodes, &model.tensors, fed)
    }

    /// Those inside of a node of this graph.
    #[must_use]
    pub fn within<'b>(&'b self, body: &'b Body) -> Constants<'b> {
        let fed = body.inputs.iter().map(|port| port.name.as_str()).collect();
        Constants::of(Some(self), &body.nodes, &body.tensors, fed)
    }

    fn of(
        around: Option<&'a Constants<'a>>,
        nodes: &'a [Node],
        tensors: &'a [Tensor],
        fed: Vec<&'a str>,
    ) -> Self {
        let made = |node: &'a Node| {
            node.outputs.iter().enumerate().map(move |(at, output)| (output.as_str(), (node, at)))
        };
        Self {
            around,
            tensors: tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect(),
            makers: nodes.iter().flat_map(made).collect(),
            fed,
        }
    }

    /// A value, if it is a constant: a tensor, or made from tensors by `Constant`, `Identity`,
    /// `Unsqueeze`, `Squeeze`, `Reshape`, `Transpose`, `Slice`, `Concat`, `Gather` of one index,
    /// `ConstantOfShape`, or an `If` whose condition is constant. Tensors in other files are loaded.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Tensor> {
        self.find(name, DEPTH)
    }

    /// Whether a value follows from tensors alone by the nodes that [`Constants::get`] goes through; no value is
    /// made, and no file is loaded but for the condition of an `If`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.known(name, DEPTH, &mut HashMap::new())
    }

    /// `found` is of names of this graph, so that what joins a value with itself many times is asked for once.
    fn known(&self, name: &str, depth: usize, found: &mut HashMap<String, bool>) -> bool {
        let Some(depth) = depth.checked_sub(1) else { return false };
        if self.tensors.contains_key(name) {
            return true;
        }
        if name.is_empty() || self.fed.contains(&name) {
            return false;
        }
        let Some((node, _)) = self.makers.get(name) else {
            return self
                .around
                .is_some_and(|around| around.known(name, depth, &mut HashMap::new()));
        };
        if let Some(known) = found.get(name) {
            return *known;
        }
        // What hangs on itself is none.
        found.insert(name.to_owned(), false);
        let known = match node.op.as_str() {
            "Constant" => true,
            "If" => self.find(name, depth + 1).is_some(),
            "ConstantOfShape" | "Identity" | "Unsqueeze" | "Squeeze" | "Reshape" | "Transpose"
            | "Slice" | "Concat" | "Gather" => {
                let mut given = node.inputs.iter().filter(|input| !input.is_empty()).peekable();
                given.peek().is_some() && given.all(|input| self.known(input, depth, found))
            }
            _ => false,
        };
        found.insert(name.to_owned(), known);
        known
    }

    /// Whether a value is all zeros, of whatever shape: as [`Constants::get`], and besides what
    /// `Expand` and `ConstantOfShape` make of a shape that is not known before.
    #[must_use]
    pub fn is_zeros(&self, name: &str) -> bool {
        self.zeros(name, DEPTH)
    }

    fn zeros(&self, name: &str, depth: usize) -> bool {
        let Some(depth) = depth.checked_sub(1) else { return false };
        let is_zero = |tensor: &Tensor| {
            let Values::Bytes(bytes) = &tensor.values else { return false };
            bytes.iter().all(|byte| *byte == 0)
        };
        if let Some(tensor) = self.tensors.get(name) {
            return is_zero(tensor);
        }
        let Some((node, _)) = self.makers.get(name) else {
            let here = self.fed.contains(&name);
            return self.around.is_some_and(|around| !here && around.zeros(name, depth));
        };
        let first = |count: usize| {
            let inputs = &node.inputs[..count.min(node.inputs.len())];
            !inputs.is_empty() && inputs.iter().all(|input| self.zeros(input, depth))
        };
        match node.op.as_str() {
            "Constant" => constant(node).is_some_and(|tensor| is_zero(&tensor)),
            "ConstantOfShape" => match node.attribute("value") {
                Some(Attribute::Tensor(tensor)) => is_zero(tensor),
                _ => true,
            },
            "Concat" => first(usize::MAX),
            "Expand" | "Identity" | "Unsqueeze" | "Squeeze" | "Reshape" | "Transpose" | "Slice"
            | "Gather" | "Tile" | "Cast" => first(1),
            _ => false,
        }
    }

    fn find(&self, name: &str, depth: usize) -> Option<Tensor> {
        let depth = depth.checked_sub(1)?;
        if name.is_empty() {
            return None;
        }
        if let Some(tensor) = self.tensors.get(name) {
            return held(tensor);
        }
        if self.fed.contains(&name) {
            return None;
        }
        let Some((node, output)) = self.makers.get(name) else {
            return self.around?.find(name, depth);
        };
        let input = |at: usize| self.find(node.inputs.get(at)?, depth);
        // In older files an attribute, in newer ones an input.
        let whole = |name: &str, at: usize| -> Option<Vec<i64>> {
            node.ints(name).map(<[i64]>::to_vec).or_else(|| input(at)?.integers())
        };
        match node.op.as_str() {
            "Constant" => constant(node),
            "ConstantOfShape" => of_shape(node, &input(0)?.integers()?),
            "Identity" => input(0),
            "Unsqueeze" => unsqueezed(input(0)?, &whole("axes", 1)?),
            "Squeeze" => squeezed(input(0)?, whole("axes", 1).as_deref()),
            "Reshape" => reshaped(input(0)?, &input(1)?.integers()?),
            "Transpose" => View::of(&input(0)?)?.turned(node.ints("perm"))?.tensor(),
            "Slice" => {
                let steps = [whole("axes", 3), whole("steps", 4)];
                sliced(&input(0)?, &whole("starts", 1)?, &whole("ends", 2)?, &steps)
            }
            "Gather" => picked(&input(0)?, &input(1)?, node.int("axis", 0)),
            "Concat" => {
                let parts = (0..node.inputs.len()).map(input).collect::<Option<Vec<_>>>()?;
                joined(&parts, node.int("axis", 0))
            }
            "If" => {
                let is_then =
                    input(0)?.integers()?.first().is_some_and(|condition| *condition != 0);
                let branch = if is_then { "then_branch" } else { "else_branch" };
                let (_, body) = node.bodies().find(|(name, _)| *name == branch)?;
                let inside = self.within(body);
                inside.find(&body.outputs.get(*output)?.name, depth)
            }
            _ => None,
        }
    }
}

/// A tensor with its bytes.
fn held(tensor: &Tensor) -> Option<Tensor> {
    let mut tensor = tensor.clone();
    match &tensor.values {
        Values::Bytes(_) => {}
        Values::External { .. } => tensor.load().ok()?,
        Values::Filled(how, seed) => {
            let mut bytes = vec![0; usize::try_from(tensor.bytes()).ok()?];
            fill(*how, &mut seed.clone(), &mut bytes);
            tensor.values = Values::Bytes(bytes);
        }
    }
    Some(tensor)
}

/// What a node `Constant` has.
fn constant(node: &Node) -> Option<Tensor> {
    node.attributes.iter().find_map(|(name, value)| match (name.as_str(), value) {
        ("value", Attribute::Tensor(tensor)) => held(tensor),
        ("value_float", Attribute::Float(value)) => Some(Tensor::of_f32("", &[], &[*value])),
        ("value_floats", Attribute::Floats(values)) => {
            Some(Tensor::of_f32("", &[values.len()], values))
        }
        ("value_int", Attribute::Int(value)) => Some(Tensor::of_i64("", &[], &[*value])),
        ("value_ints", Attribute::Ints(values)) => {
            Some(Tensor::of_i64("", &[values.len()], values))
        }
        _ => None,
    })
}

fn of_shape(node: &Node, shape: &[i64]) -> Option<Tensor> {
    /// Elements of what is made here: states and sizes, no weights.
    const MOST: usize = 1 << 24;
    let shape: Vec<usize> =
        shape.iter().map(|n| usize::try_from(*n).ok()).collect::<Option<_>>()?;
    let count = elements(&shape)?;
    let one = match node.attribute("value") {
        Some(Attribute::Tensor(tensor)) => held(tensor)?,
        _ => Tensor::of_f32("", &[1], &[0.0]),
    };
    let Values::Bytes(bytes) = &one.values else { return None };
    (count <= MOST).then(|| Tensor { shape, values: Values::Bytes(bytes.repeat(count)), ..one })
}

/// Parts of some axes, which are the first ones where they are not said.
fn sliced(
    tensor: &Tensor,
    starts: &[i64],
    ends: &[i64],
    [axes, steps]: &[Option<Vec<i64>>; 2],
) -> Option<Tensor> {
    let mut view = View::of(tensor)?;
    for (at, start) in starts.iter().enumerate() {
        let said = |of: &Option<Vec<i64>>, default: i64| match of {
            Some(of) => of.get(at).copied(),
            None => Some(default),
        };
        view = view.cut(said(axes, at as i64)?, *start, *ends.get(at)?, said(steps, 1)?)?;
    }
    view.tensor()
}

/// One index of an axis, which goes if the index has no dimension.
fn picked(tensor: &Tensor, index: &Tensor, axis: i64) -> Option<Tensor> {
    let [at] = index.integers()?[..] else { return None };
    let end = if at == -1 { i64::MAX } else { at.checked_add(1)? };
    let one = View::of(tensor)?.cut(axis, at, end, 1)?.tensor()?;
    if index.shape.is_empty() { squeezed(one, Some(&[axis])) } else { Some(one) }
}

/// An axis that may be counted from the end.
fn axis_of(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.checked_add(rank as i64)? } else { axis };
    usize::try_from(axis).ok().filter(|axis| *axis < rank)
}

fn unsqueezed(mut tensor: Tensor, axes: &[i64]) -> Option<Tensor> {
    let rank = tensor.shape.len() + axes.len();
    let mut axes: Vec<usize> =
        axes.iter().map(|axis| axis_of(*axis, rank)).collect::<Option<_>>()?;
    axes.sort_unstable();
    for axis in axes {
        if axis > tensor.shape.len() {
            return None;
        }
        tensor.shape.insert(axis, 1);
    }
    Some(tensor)
}

fn squeezed(mut tensor: Tensor, axes: Option<&[i64]>) -> Option<Tensor> {
    let rank = tensor.shape.len();
    let named: Option<Vec<usize>> = axes
        .map(|axes| axes.iter().map(|axis| axis_of(*axis, rank)).collect())
        .unwrap_or(Some(Vec::new()));
    let named = named?;
    if named.iter().any(|axis| tensor.shape[*axis] != 1) {
        return None;
    }
    let mut at = 0;
    tensor.shape.retain(|n| {
        at += 1;
        if axes.is_some() { !named.contains(&(at - 1)) } else { *n != 1 }
    });
    Some(tensor)
}

fn reshaped(mut tensor: Tensor, to: &[i64]) -> Option<Tensor> {
    let count = elements(&tensor.shape)?;
    let size = |(at, n): (usize, &i64)| match *n {
        0 => tensor.shape.get(at).copied(),
        -1 => Some(1),
        n => usize::try_from(n).ok(),
    };
    let mut shape: Vec<usize> = to.iter().enumerate().map(size).collect::<Option<_>>()?;
    let known = elements(&shape)?;
    if let Some(open) = to.iter().position(|n| *n == -1) {
        shape[open] = count.checked_div(known)?;
    }
    let all = elements(&shape)?;
    tensor.shape = shape;
    (all == count).then_some(tensor)
}

/// Tensors one behind the other along an axis.
fn joined(parts: &[Tensor], axis: i64) -> Option<Tensor> {
    let first = parts.first()?;
    let axis = axis_of(axis, first.shape.len())?;
    let size = element_size(first.element)?;
    let outer = elements(&first.shape[..axis])?;
    let mut shape = first.shape.clone();
    shape[axis] = 0;
    for part in parts {
        let same = |at: usize| at == axis || part.shape.get(at) == first.shape.get(at);
        if part.element != first.element
            || part.shape.len() != shape.len()
            || !(0..shape.len()).all(same)
        {
            return None;
        }
        shape[axis] = shape[axis].checked_add(part.shape[axis])?;
    }
    // Of nothing there may be any number of blocks.
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

/// Elements of a shape, if they can be counted: files may name any numbers.
fn elements(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1_usize, |count, n| count.checked_mul(*n))
}

/// Bytes of an element that has some to itself.
fn element_size(element: Element) -> Option<usize> {
    (!matches!(element, Element::U4 | Element::I4)).then(|| element.size())
}

/// A tensor looked at in another order.
struct View<'a> {
    element: Element,
    bytes: &'a [u8],
    first: usize,
    /// Elements, and how far it is from one to the next.
    axes: Vec<(usize, isize)>,
}

impl<'a> View<'a> {
    fn of(tensor: &'a Tensor) -> Option<Self> {
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

    fn turned(mut self, order: Option<&[i64]>) -> Option<Self> {
        let Some(order) = order else {
            self.axes.reverse();
            return Some(self);
        };
        let rank = self.axes.len();
        let mut seen = vec![false; rank];
        let axis = |axis: &i64| {
            let axis = axis_of(*axis, rank)?;
            (!std::mem::replace(&mut seen[axis], true)).then_some(self.axes[axis])
        };
        let axes: Vec<_> = order.iter().map(axis).collect::<Option<_>>()?;
        (axes.len() == rank).then_some(Self { axes, ..self })
    }

    /// Every `step`th from `start` to before `end`, both of them as `Slice` takes them.
    fn cut(mut self, axis: i64, start: i64, end: i64, step: i64) -> Option<Self> {
        let axis = axis_of(axis, self.axes.len())?;
        let (count, stride) = self.axes[axis];
        let length = i64::try_from(count).ok()?;
        let place = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
        let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
        let (start, end) =
            (place(start).clamp(low.max(0), high.max(0)), place(end).clamp(low, high));
        let kept = match step {
            0 => return None,
            1.. => (end - start).max(0).unsigned_abs().div_ceil(step.unsigned_abs()),
            _ => (start - end).max(0).unsigned_abs().div_ceil(step.unsigned_abs()),
        };
        let kept = usize::try_from(kept).ok()?;
        if kept > 0 {
            let skipped = isize::try_from(start).ok()?.checked_mul(stride)?;
            self.first = self.first.checked_add_signed(skipped)?;
        }
        let stride =
            if kept > 1 { stride.checked_mul(isize::try_from(step).ok()?)? } else { stride };
        self.axes[axis] = (kept, stride);
        Some(self)
    }

    /// In its own memory.
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
