//! Operators that move elements: they change dimensions, cut, join and repeat.

use dyno_tensors::{Element, Elements};

use super::broadcast::{broadcast, broadcast_strides};
use super::{name, one};
use crate::node::{NodeReader, Operation};
use crate::session::Frame;
use crate::value::{Number, Value, axis, count, each, strides};

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let ("", operator) = name(reader) else { return Ok(None) };
    match operator {
        "Reshape" => {
            let keeps_zero = reader.flag("allowzero")?;
            one(move |frame| reshape(frame, keeps_zero))
        }
        "Flatten" => {
            let along = reader.int("axis", 1)?;
            // All axes may be before it.
            reader.check_axes(&[along], usize::from(along >= 0))?;
            one(move |frame| {
                let value = frame.take(0)?;
                let rank = value.dims().len();
                let at = if along == rank as i64 { rank } else { axis(along, rank)? };
                let (outer, inner) = value.dims().split_at(at);
                let dims = vec![outer.iter().product(), inner.iter().product()];
                value.reshaped(dims)
            })
        }
        "Squeeze" => {
            let axes = reader.ints("axes")?;
            reader.check_axes(&reader.known(1, axes.as_deref())?, 0)?;
            one(move |frame| {
                let axes = integers(frame, 1, axes.as_deref())?;
                squeeze(frame.take(0)?, axes.as_deref())
            })
        }
        "Unsqueeze" => {
            let axes = reader.ints("axes")?;
            let known = reader.known(1, axes.as_deref())?;
            reader.check_axes(&known, known.len())?;
            one(move |frame| {
                let axes = integers(frame, 1, axes.as_deref())?.ok_or("expected axes")?;
                unsqueeze(frame.take(0)?, &axes)
            })
        }
        "Transpose" => {
            let order = reader.sizes("perm")?;
            if let Some(order) = &order {
                check_permutation(order, reader.rank(0).unwrap_or(order.len()))?;
            }
            one(move |frame| transposed(frame.input(0)?, order.as_deref()))
        }
        "Concat" => {
            let along = reader.required_axis("axis")?;
            one(move |frame| {
                let all: Vec<Value> = frame.take_all().into_iter().flatten().collect();
                concat(&all, along)
            })
        }
        "Split" => split(reader),
        "Slice" => slice(reader),
        "Expand" => one(|frame| {
            let shape = frame.input(1)?.integers()?;
            let dims = broadcast(frame.input(0)?.dims(), &sizes(&shape)?)?;
            expanded(frame.input(0)?, &dims)
        }),
        "Tile" => {
            if let Some(repeats) = reader.constant(1) {
                reader.expect_rank(0, repeats.len())?;
            }
            one(|frame| {
                let repeats = frame.input(1)?.integers()?;
                tile(frame.input(0)?, &sizes(&repeats)?)
            })
        }
        "Pad" => pad(reader),
        "DepthToSpace" | "SpaceToDepth" => depth(reader, operator == "DepthToSpace"),
        _ => Ok(None),
    }
}

/// Returns integers of an attribute or, in newer versions of an operator, of an input.
pub(super) fn integers(
    frame: &Frame<'_>,
    input: usize,
    attribute: Option<&[i64]>,
) -> Result<Option<Vec<i64>>, String> {
    match (frame.get(input), attribute) {
        (Some(value), _) => Ok(Some(value.integers()?.into_owned())),
        (None, attribute) => Ok(attribute.map(<[i64]>::to_vec)),
    }
}

pub(super) fn sizes(all: &[i64]) -> Result<Vec<usize>, String> {
    let size = |n: &i64| usize::try_from(*n).map_err(|_| format!("expected sizes, found {n}"));
    all.iter().map(size).collect()
}

/// Elements of an array at equal distances along each axis.
struct View {
    dims: Vec<usize>,
    strides: Vec<isize>,
    offset: isize,
}

impl View {
    fn whole(value: &Value) -> Self {
        let strides = strides(value.dims()).into_iter().map(usize::cast_signed).collect();
        Self { dims: value.dims().to_vec(), strides, offset: 0 }
    }

    fn copy(self, value: &Value) -> Result<Value, String> {
        fn copied<T: Number>(view: View, from: &[T]) -> Result<Value, String> {
            let mut all = Vec::with_capacity(count(&view.dims, size_of::<T>())?);
            if !view.dims.contains(&0) {
                view.append(from, 0, view.offset, &mut all);
            }
            Value::new(view.dims, all)
        }
        each!(value, from => copied(self, from))
    }

    fn append<T: Number>(&self, from: &[T], axis: usize, offset: isize, to: &mut Vec<T>) {
        let at = |offset: isize| offset.cast_unsigned();
        let Some(size) = self.dims.get(axis).copied() else {
            to.push(from[at(offset)]);
            return;
        };
        let stride = self.strides[axis];
        let is_last = axis + 1 == self.dims.len();
        match stride {
            1 if is_last => to.extend_from_slice(&from[at(offset)..][..size]),
            0 if is_last => to.resize(to.len() + size, from[at(offset)]),
            _ if is_last => {
                let places = (0..size.cast_signed()).map(|index| at(offset + index * stride));
                to.extend(places.map(|place| from[place]));
            }
            _ => {
                for index in 0..size.cast_signed() {
                    self.append(from, axis + 1, offset + index * stride, to);
                }
            }
        }
    }
}

fn reshape(frame: &mut Frame<'_>, keeps_zero: bool) -> Result<Value, String> {
    let asked = frame.input(1)?.integers()?.into_owned();
    let value = frame.take(0)?;
    let mut dims = Vec::new();
    let mut open = None;
    for (at, size) in asked.iter().enumerate() {
        dims.push(match *size {
            0 if !keeps_zero => *value.dims().get(at).ok_or("expected a dimension to keep")?,
            -1 if open.is_none() => {
                open = Some(at);
                1
            }
            size => usize::try_from(size).map_err(|_| format!("cannot reshape to {asked:?}"))?,
        });
    }
    if let Some(open) = open {
        let rest = count(&dims, 1)?;
        if rest == 0 || !value.len().is_multiple_of(rest) {
            return Err(format!("cannot reshape {:?} to {asked:?}", value.dims()));
        }
        dims[open] = value.len() / rest;
    }
    value.reshaped(dims)
}

/// Resolves axes, none of which may occur twice: the standard does not define it.
fn distinct(axes: &[i64], rank: usize) -> Result<Vec<usize>, String> {
    let found: Vec<usize> =
        axes.iter().map(|along| axis(*along, rank)).collect::<Result<_, _>>()?;
    match found.iter().enumerate().find(|(at, along)| found[..*at].contains(along)) {
        Some((_, along)) => Err(format!("axis {along} occurs twice")),
        None => Ok(found),
    }
}

pub(super) fn squeeze(value: Value, axes: Option<&[i64]>) -> Result<Value, String> {
    let rank = value.dims().len();
    let mut goes: Vec<bool> = value.dims().iter().map(|n| axes.is_none() && *n == 1).collect();
    for along in axes.unwrap_or(&[]) {
        let along = axis(*along, rank)?;
        if value.dims()[along] != 1 {
            return Err(format!("cannot remove axis {along} of {:?}", value.dims()));
        }
        goes[along] = true;
    }
    let kept = value.dims().iter().zip(goes).filter(|(_, goes)| !goes).map(|(n, _)| *n).collect();
    value.reshaped(kept)
}

pub(super) fn unsqueeze(value: Value, axes: &[i64]) -> Result<Value, String> {
    let rank = value.dims().len() + axes.len();
    let mut dims = vec![None; rank];
    for along in axes {
        dims[axis(*along, rank)?] = Some(1);
    }
    let mut own = value.dims().iter().copied();
    let dims: Option<Vec<usize>> = dims.into_iter().map(|n| n.or_else(|| own.next())).collect();
    value.reshaped(dims.ok_or("expected axes that differ")?)
}

fn check_permutation(order: &[usize], rank: usize) -> Result<(), String> {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    if sorted.into_iter().ne(0..rank) {
        return Err(format!("cannot order {rank} axes as {order:?}"));
    }
    Ok(())
}

/// Returns a value with its axes in another order; reversed without an order.
pub(super) fn transposed(value: &Value, order: Option<&[usize]>) -> Result<Value, String> {
    let rank = value.dims().len();
    let reversed: Vec<usize> = (0..rank).rev().collect();
    let order = order.unwrap_or(&reversed);
    check_permutation(order, rank)?;
    // Axes of one element do not count.
    let moved = order.iter().filter(|axis| value.dims()[**axis] != 1);
    if moved.is_sorted() {
        return value.clone().reshaped(order.iter().map(|axis| value.dims()[*axis]).collect());
    }
    let View { dims, strides, offset } = View::whole(value);
    let view = View {
        dims: order.iter().map(|axis| dims[*axis]).collect(),
        strides: order.iter().map(|axis| strides[*axis]).collect(),
        offset,
    };
    view.copy(value)
}

/// Joins values along an axis.
pub(super) fn concat(all: &[Value], along: i64) -> Result<Value, String> {
    fn joined<T: Number>(
        _: &[T],
        all: &[Value],
        at: usize,
        dims: Vec<usize>,
    ) -> Result<Value, String> {
        let mut to = Vec::with_capacity(count(&dims, size_of::<T>())?);
        let parts: Vec<(&[T], usize)> = all
            .iter()
            .map(|value| Ok((value.all::<T>()?, value.dims()[at..].iter().product())))
            .collect::<Result<_, String>>()?;
        for outer in 0..dims[..at].iter().product() {
            for (part, size) in &parts {
                to.extend_from_slice(&part[outer * size..][..*size]);
            }
        }
        Value::new(dims, to)
    }
    let first = all.first().ok_or("expected inputs")?;
    let at = axis(along, first.dims().len())?;
    let mut dims = first.dims().to_vec();
    for next in &all[1..] {
        let is_equal = |(axis, (a, b)): (usize, (&usize, &usize))| axis == at || a == b;
        let mut pairs = dims.iter().zip(next.dims()).enumerate();
        if next.dims().len() != dims.len() || !pairs.all(is_equal) {
            return Err(format!("cannot join {dims:?} and {:?} along axis {at}", next.dims()));
        }
        dims[at] = dims[at].checked_add(next.dims()[at]).ok_or("sizes overflow")?;
    }
    each!(first, from => joined(from, all, at, dims))
}

/// Joins values along a new axis, in reverse order if `back`. Without values, the declared type and
/// dimensions of a value are those of the result.
pub(super) fn stack(
    all: &[Value],
    along: i64,
    back: bool,
    declared: Option<&(Element, Vec<usize>)>,
) -> Result<Value, String> {
    let mut slices: Vec<Value> =
        all.iter().map(|value| unsqueeze(value.clone(), &[along])).collect::<Result<_, _>>()?;
    if back {
        slices.reverse();
    }
    if slices.is_empty() {
        let unknown = "joins no slices, and the body declares no type and dimensions of its output";
        let (element, mut dims) = declared.cloned().ok_or(unknown)?;
        dims.insert(axis(along, dims.len() + 1)?, 0);
        return Value::from_elements(&dims, Elements::read(element, &[]).ok_or(unknown)?);
    }
    concat(&slices, along)
}

/// Returns the slice at an index of an axis, without that axis.
pub(super) fn slice_at(value: &Value, along: usize, index: usize) -> Value {
    let mut view = View::whole(value);
    view.offset = view.strides.remove(along) * index.cast_signed();
    view.dims.remove(along);
    view.copy(value).expect("a slice is smaller than its value")
}

fn split(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let along = reader.axis("axis", 0)?;
    let parts = reader.ints("split")?;
    let outputs = reader.node.outputs.len();
    let known = reader.known(1, parts.as_deref())?;
    if !known.is_empty() && known.len() != outputs {
        return Err(format!("cannot split into {outputs} parts of {known:?}"));
    }
    // The last part may be shorter.
    let may_be_uneven = reader.version >= 18;
    let count = reader.int("num_outputs", outputs as i64)?;
    if count != outputs as i64 {
        return Err(format!("expected {count} outputs, found {outputs}"));
    }
    Ok(Some(Box::new(move |frame| {
        let given = integers(frame, 1, parts.as_deref())?;
        let value = frame.input(0)?;
        let at = axis(along, value.dims().len())?;
        let whole = value.dims()[at];
        let parts = match given {
            Some(given) => sizes(&given)?,
            None => {
                if !may_be_uneven && !whole.is_multiple_of(outputs) {
                    return Err(format!("cannot split {whole} into {outputs} equal parts"));
                }
                let each = whole.div_ceil(outputs.max(1));
                if each.saturating_mul(outputs.saturating_sub(1)) > whole {
                    // Only the last part may be shorter.
                    return Err(format!("cannot split {whole} into {outputs} parts of {each}"));
                }
                (0..outputs).map(|at| whole.saturating_sub(at * each).min(each)).collect()
            }
        };
        let total = parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(*part));
        if parts.len() != outputs || total != Some(whole) {
            return Err(format!("cannot split {whole} into {outputs} parts of {parts:?}"));
        }
        let mut start = 0;
        let part = |size: &usize| {
            let mut view = View::whole(value);
            view.offset = view.strides[at] * start;
            view.dims[at] = *size;
            start += size.cast_signed();
            view.copy(value)
        };
        parts.iter().map(part).collect()
    })))
}

fn slice(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let [starts, ends, axes] = ["starts", "ends", "axes"].map(|name| reader.ints(name));
    let (starts, ends, axes) = (starts?, ends?, axes?);
    reader.check_axes(&reader.known(3, axes.as_deref())?, 0)?;
    one(move |frame| {
        let starts = integers(frame, 1, starts.as_deref())?.ok_or("expected starts")?;
        let ends = integers(frame, 2, ends.as_deref())?.ok_or("expected ends")?;
        let axes = integers(frame, 3, axes.as_deref())?;
        let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = integers(frame, 4, None)?.unwrap_or_else(|| vec![1; starts.len()]);
        if [&ends, &axes, &steps].iter().any(|all| all.len() != starts.len()) {
            return Err("expected as many starts as ends, axes and steps".into());
        }
        let value = frame.input(0)?;
        let mut view = View::whole(value);
        let axes = distinct(&axes, value.dims().len())?;
        for (at, along) in axes.into_iter().enumerate() {
            let size = i64::try_from(value.dims()[along]).map_err(|_| "sizes overflow")?;
            let step = steps[at];
            let place = |n: i64| if n < 0 { n.saturating_add(size) } else { n };
            let (start, found) = match step {
                0 => return Err("expected a step other than 0".into()),
                1.. => {
                    let start = place(starts[at]).clamp(0, size);
                    (start, place(ends[at]).clamp(start, size) - start)
                }
                _ => {
                    // The first element at least, unlike in Python. An empty axis has none.
                    let start = place(starts[at]).clamp(size.min(1) - 1, size - 1);
                    (start, start - place(ends[at]).clamp(-1, start))
                }
            };
            let length = found.unsigned_abs().div_ceil(step.unsigned_abs());
            view.dims[along] = length as usize;
            if length > 0 {
                view.offset += view.strides[along] * start as isize;
            }
            // The step of a single element is not used, and may overflow.
            if length > 1 {
                view.strides[along] *= step as isize;
            }
        }
        view.copy(value)
    })
}

/// Repeats a value to these dimensions, to which it can be broadcast.
pub(super) fn expanded(value: &Value, dims: &[usize]) -> Result<Value, String> {
    if value.dims() == dims {
        return Ok(value.clone());
    }
    let strides = broadcast_strides(value.dims(), dims);
    let strides = strides.into_iter().map(usize::cast_signed).collect();
    View { dims: dims.to_vec(), strides, offset: 0 }.copy(value)
}

fn tile(value: &Value, repeats: &[usize]) -> Result<Value, String> {
    if repeats.len() != value.dims().len() {
        return Err(format!("expected {} repeats, found {}", value.dims().len(), repeats.len()));
    }
    // Each axis is preceded by one along which the elements repeat.
    let whole = View::whole(value);
    let (mut dims, mut strides, mut tiled) = (Vec::new(), Vec::new(), Vec::new());
    for (at, times) in repeats.iter().enumerate() {
        dims.extend([*times, whole.dims[at]]);
        strides.extend([0, whole.strides[at]]);
        tiled.push(whole.dims[at].checked_mul(*times).ok_or("sizes overflow")?);
    }
    View { dims, strides, offset: 0 }.copy(value)?.reshaped(tiled)
}

fn pad(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let mode = reader.text("mode", "constant")?.to_owned();
    if !["constant", "reflect", "edge", "wrap"].contains(&&*mode) {
        return Err(format!("mode '{mode}' is not supported"));
    }
    let pads = reader.ints("pads")?;
    let fill = reader.float("value", 0.0)?;
    reader.check_axes(&reader.known(3, None)?, 0)?;
    let known = reader.known(1, pads.as_deref())?;
    let is_whole = reader.node.inputs.get(3).is_none_or(String::is_empty);
    if let Some(rank) = reader.rank(0).filter(|_| is_whole && !known.is_empty())
        && known.len() != 2 * rank
    {
        return Err(format!("expected {} pads, found {}", 2 * rank, known.len()));
    }
    one(move |frame| {
        let pads = integers(frame, 1, pads.as_deref())?.ok_or("expected pads")?;
        let axes = integers(frame, 3, None)?;
        let value = frame.input(0)?;
        let rank = value.dims().len();
        let axes = axes.unwrap_or_else(|| (0..rank as i64).collect());
        if pads.len() != 2 * axes.len() {
            return Err(format!("expected {} pads, found {}", 2 * axes.len(), pads.len()));
        }
        let mut both = vec![[0; 2]; rank];
        for (at, along) in distinct(&axes, rank)?.into_iter().enumerate() {
            both[along] = [pads[at], pads[at + axes.len()]];
        }
        let default;
        let fill = match frame.get(2) {
            Some(fill) => fill,
            None => {
                default = super::cast::cast_to(Value::scalar(fill), value.element())?;
                &default
            }
        };
        padded(value, &both, &mode, fill)
    })
}

/// Pads each axis, or cuts it where the padding is negative.
fn padded(value: &Value, pads: &[[i64; 2]], mode: &str, fill: &Value) -> Result<Value, String> {
    fn filled<T: Number>(
        from: &[T],
        fill: &Value,
        dims: Vec<usize>,
        sources: &[Vec<Option<usize>>],
    ) -> Result<Value, String> {
        let &[fill] = fill.all::<T>()? else { return Err("expected one fill".into()) };
        let mut all = Vec::with_capacity(count(&dims, size_of::<T>())?);
        let mut index = vec![0; dims.len()];
        for _ in 0..count(&dims, 1)? {
            let offset = index
                .iter()
                .zip(sources)
                .try_fold(0, |sum, (at, source)| source[*at].map(|offset: usize| sum + offset));
            all.push(offset.map_or(fill, |offset| from[offset]));
            for axis in (0..dims.len()).rev() {
                index[axis] += 1;
                if index[axis] < dims[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        Value::new(dims, all)
    }
    let own = strides(value.dims());
    let (mut dims, mut sources) = (Vec::new(), Vec::new());
    for ((size, [before, after]), stride) in value.dims().iter().zip(pads).zip(own) {
        let size = i64::try_from(*size).map_err(|_| "sizes overflow")?;
        let padded = size.checked_add(*before).and_then(|n| n.checked_add(*after));
        let padded = padded.filter(|n| *n >= 0).ok_or("padding exceeds the axis")?;
        dims.push(padded as usize);
        count(&dims, 1)?;
        // What is cut cannot be reflected.
        let rest = size + (*before).min(0) + (*after).min(0);
        if mode == "reflect" && (*before.max(after) >= rest.max(1)) {
            return Err(format!("cannot reflect {rest} elements over {}", before.max(after)));
        }
        if mode == "wrap" && (*before).min(*after) < 0 {
            return Err("cannot cut an axis and wrap it around".into());
        }
        if mode != "constant" && rest <= 0 && padded > 0 {
            return Err("cannot pad an axis without elements".into());
        }
        let source = |at: i64| {
            let at = at - before;
            let at = match mode {
                "edge" => at.clamp(0, size - 1),
                "reflect" if at < 0 => -at,
                "reflect" if at >= size => 2 * (size - 1) - at,
                "wrap" => at.rem_euclid(size),
                _ => at,
            };
            (0..size).contains(&at).then(|| at as usize * stride)
        };
        sources.push((0..padded).map(source).collect());
    }
    each!(value, from => filled(from, fill, dims, &sources))
}

fn depth(reader: &NodeReader<'_>, to_space: bool) -> Result<Option<Operation>, String> {
    let block = usize::try_from(reader.int("blocksize", 0)?).unwrap_or(0);
    let mode = reader.text("mode", "DCR")?;
    if !(1..=1 << 16).contains(&block) || !["DCR", "CRD"].contains(&mode) {
        return Err(format!("block size {block} or mode '{mode}' is not supported"));
    }
    reader.expect_rank(0, 4)?;
    let is_depth_first = mode == "DCR";
    // Other axes may be empty, so that a size has no limit.
    let times = |size: usize, block: usize| size.checked_mul(block).ok_or("sizes overflow");
    one(move |frame| {
        let value = frame.take(0)?;
        let &[n, c, h, w] = value.dims() else { return Err("expected four dimensions".into()) };
        if to_space {
            if c % (block * block) != 0 {
                return Err(format!("cannot divide {c} channels into blocks of {block}"));
            }
            let c = c / (block * block);
            let (split, order) = if is_depth_first {
                (vec![n, block, block, c, h, w], [0, 3, 4, 1, 5, 2])
            } else {
                (vec![n, c, block, block, h, w], [0, 1, 4, 2, 5, 3])
            };
            let [h, w] = [times(h, block)?, times(w, block)?];
            return transposed(&value.reshaped(split)?, Some(&order))?.reshaped(vec![n, c, h, w]);
        }
        if h % block != 0 || w % block != 0 {
            return Err(format!("cannot divide {h} x {w} into blocks of {block}"));
        }
        let (h, w) = (h / block, w / block);
        let split = value.reshaped(vec![n, c, h, block, w, block])?;
        let order = if is_depth_first { [0, 3, 5, 1, 2, 4] } else { [0, 1, 3, 5, 2, 4] };
        transposed(&split, Some(&order))?.reshaped(vec![n, times(c, block * block)?, h, w])
    })
}

/// Repeats a value to these dimensions.
///
/// # Errors
/// It cannot be broadcast to them.
pub(super) fn expanded_to(value: &Value, dims: &[usize]) -> Result<Value, String> {
    if broadcast(value.dims(), dims)? != dims {
        return Err(format!("cannot broadcast {:?} to {dims:?}", value.dims()));
    }
    expanded(value, dims)
}
