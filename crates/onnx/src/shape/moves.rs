//! Shape inference of operators that work element by element, or that move, cut or join values.

use dyno_tensors::Element;

use super::{Dim, Fact, Facts, ShapeError, axis, format_shape, input, misfit, optional};
use crate::graph::{Attribute, Node};
use crate::tensor::{Tensor, element_of};

/// Maximum number of elements of a `ConstantOfShape` that are computed.
const MAX_INTEGERS: usize = 4096;

/// Returns the shape to which two shapes broadcast.
pub fn broadcast(a: &[Dim], b: &[Dim]) -> Result<Vec<Dim>, ShapeError> {
    let rank = a.len().max(b.len());
    let at = |shape: &[Dim], i: usize| match (i + shape.len()).checked_sub(rank) {
        Some(i) => shape[i].clone(),
        None => Dim::Fixed(1),
    };
    let join = |i: usize| match (at(a, i), at(b, i)) {
        (x, y) if x == y => Ok(x),
        (Dim::Fixed(1), other) | (other, Dim::Fixed(1)) => Ok(other),
        _ => misfit(format!("{} beside {}", format_shape(a), format_shape(b))),
    };
    (0..rank).map(join).collect()
}

/// Returns the shape to which all inputs broadcast.
pub fn broadcast_all(inputs: &[Option<&Fact>]) -> Result<Vec<Dim>, ShapeError> {
    let mut shape = Vec::new();
    for at in 0..inputs.len() {
        shape = broadcast(&shape, &input(inputs, at)?.shape)?;
    }
    Ok(shape)
}

/// Infers the output of an operator such as `Add`, and computes few integers.
pub fn arithmetic(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let mut fact = input(inputs, 0)?.with_shape(broadcast_all(inputs)?);
    // Integer division would be wrong for floating-point numbers.
    if matches!(fact.element, Element::I64 | Element::I32)
        && let [Some(a), Some(b)] = inputs
        && let (Some(a), Some(b)) = (&a.integers, &b.integers)
        && (a.len() == b.len() || a.len() == 1 || b.len() == 1)
    {
        let element = |values: &[i64], at: usize| values[if values.len() == 1 { 0 } else { at }];
        let result = |at: usize| {
            let (a, b) = (element(a, at), element(b, at));
            match node.op.as_str() {
                "Add" => a.checked_add(b),
                "Sub" => a.checked_sub(b),
                "Mul" => a.checked_mul(b),
                "Div" => a.checked_div(b),
                _ => None,
            }
        };
        let count = if a.is_empty() || b.is_empty() { 0 } else { a.len().max(b.len()) };
        fact.integers = (0..count).map(result).collect();
    }
    Ok(vec![fact])
}

/// Infers the output of a `Cast`.
pub fn cast(node: &Node, data: &Fact) -> Facts {
    let code = node.int("to", 0);
    let element = i32::try_from(code).ok().and_then(element_of);
    let Some(element) = element else { return misfit(format!("a cast to type {code}")) };
    let is_integer = matches!(element, Element::I64 | Element::I32);
    let integers = data.integers.clone().filter(|_| is_integer);
    Ok(vec![Fact { element, shape: data.shape.clone(), integers }])
}

/// Returns the elements of an input such as a shape or axes, which must be known.
fn known_integers(shape: &Fact) -> Result<&[i64], ShapeError> {
    shape.integers.as_deref().ok_or(ShapeError::Unknown(1))
}

/// Returns a shape with these sizes.
fn dims(sizes: &[i64]) -> Result<Vec<Dim>, ShapeError> {
    let dim = |&n: &i64| usize::try_from(n).map(Dim::Fixed);
    sizes.iter().map(dim).collect::<Result<_, _>>().or_else(|_| misfit(format!("shape {sizes:?}")))
}

/// Infers the output of a `ConstantOfShape`.
pub fn constant_of_shape(node: &Node, shape: &Fact) -> Facts {
    let tensor = match node.attribute("value") {
        Some(Attribute::Tensor(tensor)) => Some(tensor),
        _ => None,
    };
    let element = tensor.map_or(Element::F32, |tensor| tensor.element);
    let mut fact = Fact::new(element, dims(known_integers(shape)?)?);
    let value = tensor.and_then(Tensor::integers).and_then(|values| values.first().copied());
    let count = fact.elements().and_then(|count| usize::try_from(count).ok());
    if let (Some(value), Some(count @ 0..=MAX_INTEGERS)) = (value, count) {
        fact.integers = Some(vec![value; count]);
    }
    Ok(vec![fact])
}

/// Returns the elements at these positions of axis `at` of an array with this shape, or `None` if the
/// shape is unknown or empty, or a position is out of range.
fn select(
    values: &[i64],
    shape: &[Dim],
    at: usize,
    positions: &(impl Iterator<Item = usize> + Clone),
) -> Option<Vec<i64>> {
    let sizes: Vec<usize> = shape.iter().map(Dim::fixed).collect::<Option<_>>()?;
    let product = |sizes: &[usize]| sizes.iter().try_fold(1_usize, |all, n| all.checked_mul(*n));
    let (inner, block) = (product(&sizes[at + 1..])?, product(&sizes[at..])?);
    if block == 0 || product(&sizes) != Some(values.len()) {
        return None;
    }
    let mut selected = Vec::new();
    for part in values.chunks(block) {
        for position in positions.clone() {
            selected.extend_from_slice(part.get(position * inner..(position + 1) * inner)?);
        }
    }
    Some(selected)
}

/// Infers the output of a `Shape`: the sizes of all axes, or of a range of them.
pub fn shape_of(node: &Node, data: &Fact) -> Facts {
    let rank = data.shape.len() as i64;
    let place = |n: i64| if n < 0 { n.saturating_add(rank) } else { n }.clamp(0, rank) as usize;
    let (start, end) = (place(node.int("start", 0)), place(node.int("end", i64::MAX)));
    let part = data.shape.get(start..end).unwrap_or_default();
    let sizes = part.iter().map(|dim| dim.fixed().map(|n| n as i64)).collect();
    Ok(vec![Fact { element: Element::I64, shape: vec![part.len().into()], integers: sizes }])
}

/// Infers the output of a `Reshape`.
pub fn reshape(node: &Node, data: &Fact, shape: &Fact) -> Facts {
    let target = known_integers(shape)?;
    let wrong = || misfit(format!("{} as {target:?}", format_shape(&data.shape)));
    let mut dims = Vec::new();
    for (at, &size) in target.iter().enumerate() {
        dims.push(match size {
            0 if node.int("allowzero", 0) == 0 => match data.shape.get(at) {
                Some(dim) => Some(dim.clone()),
                None => return wrong(),
            },
            -1 => None,
            size if size < 0 => return wrong(),
            size => Some(Dim::Fixed(size as usize)),
        });
    }
    // Equal symbols of both shapes cancel. The rest must have equal products, or one symbol that
    // becomes the dimension -1.
    let mut symbols: Vec<&Dim> = data.shape.iter().filter(|dim| dim.fixed().is_none()).collect();
    for dim in dims.iter().flatten().filter(|dim| dim.fixed().is_none()) {
        match symbols.iter().position(|symbol| *symbol == dim) {
            Some(at) => drop(symbols.remove(at)),
            None => return wrong(),
        }
    }
    let product = |dims: &mut dyn Iterator<Item = &Dim>| {
        dims.filter_map(Dim::fixed).try_fold(1_usize, usize::checked_mul)
    };
    let all = product(&mut data.shape.iter());
    let known = product(&mut dims.iter().flatten());
    let (Some(all), Some(known)) = (all, known) else { return wrong() };
    let missing = dims.iter().filter(|dim| dim.is_none()).count();
    let rest = match (missing, &symbols[..]) {
        (0, []) if all == known => Dim::Fixed(1),
        (1, []) if known > 0 && all % known == 0 => Dim::Fixed(all / known),
        (1, [symbol]) if all == known => (*symbol).clone(),
        _ => return wrong(),
    };
    let shape = dims.into_iter().map(|dim| dim.unwrap_or_else(|| rest.clone())).collect();
    Ok(vec![Fact { integers: data.integers.clone(), ..data.with_shape(shape) }])
}

/// Infers the output of a `Flatten`.
pub fn flatten(node: &Node, data: &Fact) -> Facts {
    let at = axis(node.int("axis", 1), data.shape.len())?;
    let side = |dims: &[Dim]| {
        let symbols: Vec<_> = dims.iter().filter(|dim| dim.fixed().is_none()).collect();
        let number = dims.iter().filter_map(Dim::fixed).try_fold(1_usize, usize::checked_mul);
        match (&symbols[..], number) {
            ([], Some(number)) => Ok(Dim::Fixed(number)),
            ([symbol], Some(1)) => Ok((*symbol).clone()),
            _ => misfit(format!("{} flattened", format_shape(&data.shape))),
        }
    };
    Ok(vec![data.with_shape(vec![side(&data.shape[..at])?, side(&data.shape[at..])?])])
}

/// Infers the output of a `Transpose`.
pub fn transpose(node: &Node, data: &Fact) -> Facts {
    let rank = data.shape.len();
    let reverse: Vec<i64> = (0..rank as i64).rev().collect();
    let order = node.ints("perm").unwrap_or(&reverse);
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..rank as i64) {
        return misfit(format!("{} in the order {order:?}", format_shape(&data.shape)));
    }
    let shape: Vec<Dim> = order.iter().map(|&at| data.shape[at as usize].clone()).collect();
    let integers =
        data.integers.as_deref().and_then(|all| transpose_integers(all, &data.shape, order));
    Ok(vec![Fact { integers, ..data.with_shape(shape) }])
}

/// Returns the elements of an array with this shape in another order of the axes.
fn transpose_integers(values: &[i64], shape: &[Dim], order: &[i64]) -> Option<Vec<i64>> {
    let sizes: Vec<usize> = shape.iter().map(Dim::fixed).collect::<Option<_>>()?;
    let count = sizes.iter().try_fold(1_usize, |all, n| all.checked_mul(*n));
    if count != Some(values.len()) {
        return None;
    }
    let stride = |axis: &i64| sizes[*axis as usize + 1..].iter().product::<usize>();
    let axes: Vec<(usize, usize)> =
        order.iter().map(|axis| (sizes[*axis as usize], stride(axis))).collect();
    let place = |at: usize| {
        let step = |(rest, place): (usize, usize), (size, stride): &(usize, usize)| {
            (rest / size, place + rest % size * stride)
        };
        axes.iter().rev().fold((at, 0), step).1
    };
    (0..values.len()).map(|at| values.get(place(at)).copied()).collect()
}

/// Returns the axes of a node: an attribute in old versions of an operator, the second input in new
/// ones.
fn axes(node: &Node, inputs: &[Option<&Fact>]) -> Result<Option<Vec<i64>>, ShapeError> {
    let axes = match node.ints("axes") {
        Some(axes) => Some(axes),
        None => optional(node, inputs, 1)?.map(known_integers).transpose()?,
    };
    Ok(axes.map(<[i64]>::to_vec))
}

/// Infers the output of a `Squeeze` or `Unsqueeze`.
pub fn squeeze(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let data = input(inputs, 0)?;
    let axes = axes(node, inputs)?;
    let mut shape = data.shape.clone();
    if node.op == "Unsqueeze" {
        let axes = axes.unwrap_or_default();
        let rank = shape.len() + axes.len();
        let mut positions = axes.iter().map(|&at| axis(at, rank)).collect::<Result<Vec<_>, _>>()?;
        positions.sort_unstable();
        for at in positions {
            if at > shape.len() {
                return misfit(format!("axes {axes:?} of {}", format_shape(&data.shape)));
            }
            shape.insert(at, 1.into());
        }
    } else if let Some(axes) = axes {
        let index = |&at: &i64| axis(at, data.shape.len());
        let positions = axes.iter().map(index).collect::<Result<Vec<_>, _>>()?;
        if positions.iter().any(|&at| shape.get(at) != Some(&Dim::Fixed(1))) {
            return misfit(format!("{} without axes {axes:?}", format_shape(&shape)));
        }
        let rest = shape.into_iter().enumerate().filter(|(i, _)| !positions.contains(i));
        shape = rest.map(|(_, dim)| dim).collect();
    } else {
        shape.retain(|dim| *dim != Dim::Fixed(1));
    }
    Ok(vec![Fact { integers: data.integers.clone(), ..data.with_shape(shape) }])
}

/// Infers the output of a `Concat`.
pub fn concat(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let first = input(inputs, 0)?;
    let at = axis(node.int("axis", 0), first.shape.len())?;
    let mut shape = first.shape.clone();
    let mut integers = Some(Vec::new());
    let mut sum = Some(0_usize);
    for i in 0..inputs.len() {
        let part = input(inputs, i)?;
        let fits = part.shape.len() == shape.len()
            && (0..shape.len()).all(|d| d == at || part.shape[d] == shape[d]);
        let Some(size) = part.shape.get(at).filter(|_| fits) else {
            return misfit(format!(
                "{} behind {}",
                format_shape(&part.shape),
                format_shape(&first.shape)
            ));
        };
        sum = sum.zip(size.fixed()).map(|(sum, size)| sum.saturating_add(size));
        integers = integers.zip(part.integers.as_ref()).map(|(mut all, more)| {
            all.extend(more);
            all
        });
    }
    // If the size of one part is unknown, the sum is unknown.
    shape[at] = match (sum, inputs) {
        (Some(sum), _) => sum.into(),
        (None, [_]) => shape[at].clone(),
        (None, _) => Dim::symbol("?"),
    };
    let integers = integers.filter(|_| shape.len() == 1);
    Ok(vec![Fact { integers, ..first.with_shape(shape) }])
}

/// Infers the outputs of a `Split`.
pub fn split(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let data = input(inputs, 0)?;
    let at = axis(node.int("axis", 0), data.shape.len())?;
    let parts = node.outputs.len().max(1);
    let Some(size) = data.shape.get(at).and_then(Dim::fixed) else {
        return misfit(format!("{} split along axis {at}", format_shape(&data.shape)));
    };
    let declared = match node.ints("split") {
        Some(sizes) => Some(sizes),
        None => optional(node, inputs, 1)?.map(known_integers).transpose()?,
    };
    let even = size.div_ceil(parts);
    let sizes: Vec<usize> = match declared {
        Some(sizes) => sizes.iter().map(|&n| n.max(0) as usize).collect(),
        None => (0..parts).map(|i| size.saturating_sub(i * even).min(even)).collect(),
    };
    let sum = sizes.iter().try_fold(0_usize, |sum, size| sum.checked_add(*size));
    if sizes.len() != parts || sum != Some(size) {
        return misfit(format!("{size} split into {sizes:?}"));
    }
    let part = |size: usize| {
        let mut shape = data.shape.clone();
        shape[at] = size.into();
        data.with_shape(shape)
    };
    Ok(sizes.into_iter().map(part).collect())
}

/// Infers the output of a `Slice`.
pub fn slice(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let data = input(inputs, 0)?;
    let (starts, ends) = (input(inputs, 1)?, input(inputs, 2)?);
    let [count] = &starts.shape[..] else { return misfit("a slice has a row of starts") };
    let Some(count) = count.fixed() else { return Err(ShapeError::Unknown(1)) };
    if count > data.shape.len() {
        return misfit(format!("{count} slices of {}", format_shape(&data.shape)));
    }
    let numbers = |at: usize, default: Vec<i64>| match optional(node, inputs, at)? {
        Some(fact) => known_integers(fact).map(<[i64]>::to_vec),
        None => Ok(default),
    };
    let axes = numbers(3, (0..count as i64).collect())?;
    let steps = numbers(4, vec![1; count])?;
    let counts = [starts, ends].map(|fact| fact.integers.as_ref().map_or(count, Vec::len));
    if counts.into_iter().chain([axes.len(), steps.len()]).any(|n| n != count) {
        return misfit("a slice has as many starts, ends, axes and steps");
    }
    let mut fact = data.clone();
    for i in 0..count {
        let at = axis(axes[i], data.shape.len())?;
        let Some(dim) = fact.shape.get(at) else {
            return misfit(format!("a slice of {}", format_shape(&data.shape)));
        };
        let (Some(size), Some(starts), Some(ends)) =
            (dim.fixed(), &starts.integers, &ends.integers)
        else {
            // The size depends on the data.
            fact.shape[at] = Dim::symbol("?");
            fact.integers = None;
            continue;
        };
        let size = size as i64;
        let from_start = |n: i64| if n < 0 { n.saturating_add(size) } else { n };
        let (start, end) = (from_start(starts[i]), from_start(ends[i]));
        let (start, count) = if steps[i] > 0 {
            let (start, end) = (start.clamp(0, size), end.clamp(0, size));
            let length = (end - start).max(0);
            (start, (length as u64).div_ceil(steps[i].unsigned_abs()))
        } else if steps[i] < 0 {
            let end = if ends[i] < -size { -1 } else { end };
            // The first element at least, unless the axis is empty.
            let start = start.clamp(size.min(1) - 1, size - 1);
            let end = end.clamp(-1, size - 1);
            (start, ((start - end).max(0) as u64).div_ceil(steps[i].unsigned_abs()))
        } else {
            return misfit("a slice with a step of 0");
        };
        let positions = (0..count).map(|n| (start + n as i64 * steps[i]) as usize);
        fact.integers = fact.integers.and_then(|all| select(&all, &fact.shape, at, &positions));
        fact.shape[at] = Dim::Fixed(count as usize);
    }
    Ok(vec![fact])
}

/// Infers the output of a `Gather`.
pub fn gather(node: &Node, data: &Fact, index: &Fact) -> Facts {
    let at = axis(node.int("axis", 0), data.shape.len())?;
    if at == data.shape.len() {
        return misfit(format!("gathering along axis {at} of {}", format_shape(&data.shape)));
    }
    let mut shape = data.shape[..at].to_vec();
    shape.extend(index.shape.iter().cloned());
    shape.extend(data.shape[at + 1..].iter().cloned());
    let mut fact = data.with_shape(shape);
    if let (Some(all), Some(indices), 1) = (&data.integers, &index.integers, data.shape.len()) {
        let pick = |&i: &i64| {
            let i = if i < 0 { i + all.len() as i64 } else { i };
            usize::try_from(i).ok().and_then(|i| all.get(i).copied())
        };
        fact.integers = indices.iter().map(pick).collect();
    }
    Ok(vec![fact])
}

/// Infers the output of an `Expand`.
pub fn expand(data: &Fact, shape: &Fact) -> Facts {
    Ok(vec![data.with_shape(broadcast(&data.shape, &dims(known_integers(shape)?)?)?)])
}

/// Infers the output of a `Pad`.
pub fn pad(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let data = input(inputs, 0)?;
    let pads = match node.ints("pads") {
        Some(pads) => pads,
        None => known_integers(input(inputs, 1)?)?,
    };
    let rank = data.shape.len();
    if pads.len() != 2 * rank {
        return misfit(format!("{} with edges {pads:?}", format_shape(&data.shape)));
    }
    let padded = |(at, dim): (usize, &Dim)| match (dim, pads[at].saturating_add(pads[at + rank])) {
        (dim, 0) => Ok(dim.clone()),
        (Dim::Fixed(n), more) => match usize::try_from((*n as i64).saturating_add(more)) {
            Ok(n) => Ok(Dim::Fixed(n)),
            Err(_) => misfit(format!("{} with edges {pads:?}", format_shape(&data.shape))),
        },
        (Dim::Symbol(_), _) => misfit(format!("{} with edges", format_shape(&data.shape))),
    };
    Ok(vec![data.with_shape(data.shape.iter().enumerate().map(padded).collect::<Result<_, _>>()?)])
}

/// Infers the output of a reduction, such as `ReduceMean` or `ArgMax`.
pub fn reduce(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let data = input(inputs, 0)?;
    let is_position = node.op.starts_with("Arg");
    let rank = data.shape.len();
    let declared = if is_position { Some(vec![node.int("axis", 0)]) } else { axes(node, inputs)? };
    let is_noop = node.int("noop_with_empty_axes", 0) != 0;
    let all = || (0..if is_noop { 0 } else { rank as i64 }).collect();
    let reduced = declared
        .filter(|axes| !axes.is_empty())
        .unwrap_or_else(all)
        .iter()
        .map(|&at| axis(at, rank))
        .collect::<Result<Vec<_>, _>>()?;
    let keeps_dims = node.int("keepdims", 1) == 1;
    let reduce = |(i, dim): (usize, &Dim)| {
        if reduced.contains(&i) { keeps_dims.then_some(Dim::Fixed(1)) } else { Some(dim.clone()) }
    };
    let shape = data.shape.iter().enumerate().filter_map(reduce).collect();
    Ok(vec![Fact::new(if is_position { Element::I64 } else { data.element }, shape)])
}
