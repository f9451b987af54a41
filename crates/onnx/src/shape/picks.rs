//! Shape inference of operators that select, repeat or find elements.
//!
//! A size that depends on the data is the symbol `?`.

use dyno_tensors::Element;

use super::{Dim, Fact, Facts, axis, format_shape, input, misfit};
use crate::graph::Node;

/// Returns a size that depends on the data.
fn unknown() -> Dim {
    Dim::symbol("?")
}

/// Maximum number of elements of a `Range` that are computed.
const MAX_RANGE: u64 = 4096;

/// Infers the outputs of a node, or returns `None` for operators of other modules.
pub fn infer(node: &Node, inputs: &[Option<&Fact>]) -> Option<Facts> {
    let first = || input(inputs, 0);
    Some(match node.op.as_str() {
        "TopK" => top_k(node, inputs),
        "NonMaxSuppression" => Ok(vec![Fact::new(Element::I64, vec![unknown(), 3.into()])]),
        "NonZero" => first()
            .map(|data| vec![Fact::new(Element::I64, vec![data.shape.len().into(), unknown()])]),
        "Size" => Ok(vec![Fact::new(Element::I64, Vec::new())]),
        "IsNaN" | "IsInf" => first().map(|data| vec![Fact::new(Element::Bool, data.shape.clone())]),
        "CastLike" => first()
            .and_then(|data| Ok(vec![Fact::new(input(inputs, 1)?.element, data.shape.clone())])),
        "Range" => range(inputs),
        "Tile" => tile(inputs),
        "GatherElements" => {
            first().and_then(|data| Ok(vec![data.with_shape(input(inputs, 1)?.shape.clone())]))
        }
        "GatherND" => gather_nd(node, inputs),
        "OneHot" => one_hot(node, inputs),
        "DepthToSpace" => rearrange(node, inputs, Rearrangement::DepthToSpace),
        "SpaceToDepth" => rearrange(node, inputs, Rearrangement::SpaceToDepth),
        _ => return None,
    })
}

fn top_k(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let data = input(inputs, 0)?;
    let at = axis(node.int("axis", -1), data.shape.len())?;
    let Some(size) = data.shape.get(at) else {
        return misfit(format!("the greatest along axis {at} of {}", format_shape(&data.shape)));
    };
    let count = match input(inputs, 1)?.integers.as_deref() {
        Some(&[count]) => usize::try_from(count).ok(),
        _ => None,
    };
    let selected = match (count, size) {
        (Some(count), Dim::Fixed(size)) if count > *size => {
            return misfit(format!("the {count} greatest of {size}"));
        }
        (Some(count), _) => Dim::Fixed(count),
        (None, _) => unknown(),
    };
    let mut shape = data.shape.clone();
    shape[at] = selected;
    Ok(vec![data.with_shape(shape.clone()), Fact::new(Element::I64, shape)])
}

fn range(inputs: &[Option<&Fact>]) -> Facts {
    let start = input(inputs, 0)?;
    let number = |at: usize| match input(inputs, at)?.integers.as_deref() {
        Some(&[number]) => Ok(Some(number)),
        _ => Ok(None),
    };
    let (Some(from), Some(to), Some(step)) = (number(0)?, number(1)?, number(2)?) else {
        return Ok(vec![start.with_shape(vec![unknown()])]);
    };
    let is_up = step > 0;
    let room = if is_up { to.checked_sub(from) } else { from.checked_sub(to) };
    let (Some(room), Some(stride)) = (room, step.checked_abs().filter(|&step| step > 0)) else {
        return misfit(format!("a range from {from} to {to} in steps of {step}"));
    };
    let count = u64::try_from(room).unwrap_or(0).div_ceil(stride.unsigned_abs());
    let mut fact = start.with_shape(vec![Dim::Fixed(count as usize)]);
    if count <= MAX_RANGE && matches!(fact.element, Element::I64 | Element::I32) {
        fact.integers = (0..count as i64).map(|i| i.checked_mul(step)?.checked_add(from)).collect();
    }
    Ok(vec![fact])
}

fn tile(inputs: &[Option<&Fact>]) -> Facts {
    let data = input(inputs, 0)?;
    let Some(times) = &input(inputs, 1)?.integers else {
        return Ok(vec![data.with_shape(vec![unknown(); data.shape.len()])]);
    };
    if times.len() != data.shape.len() {
        return misfit(format!("{} repeated {times:?} times", format_shape(&data.shape)));
    }
    let repeat = |(dim, &times): (&Dim, &i64)| match (dim, usize::try_from(times)) {
        (dim, Ok(1)) => Ok(dim.clone()),
        (Dim::Fixed(n), Ok(times)) => Ok(Dim::Fixed(n.saturating_mul(times))),
        _ => misfit(format!("{} repeated {times} times", format_shape(&data.shape))),
    };
    Ok(vec![data.with_shape(data.shape.iter().zip(times).map(repeat).collect::<Result<_, _>>()?)])
}

fn gather_nd(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let (data, index) = (input(inputs, 0)?, input(inputs, 1)?);
    let wrong =
        || misfit(format!("{} at {}", format_shape(&data.shape), format_shape(&index.shape)));
    let batch = usize::try_from(node.int("batch_dims", 0)).unwrap_or(usize::MAX);
    let Some((depth, places)) = index.shape.split_last() else { return wrong() };
    let Some(rest) = depth.fixed().and_then(|depth| depth.checked_add(batch)) else {
        return wrong();
    };
    let Some(rest) = data.shape.get(rest..) else { return wrong() };
    Ok(vec![data.with_shape([places, rest].concat())])
}

fn one_hot(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let (index, values) = (input(inputs, 0)?, input(inputs, 2)?);
    let depth = match input(inputs, 1)?.integers.as_deref() {
        Some(&[depth]) => usize::try_from(depth).map_or_else(|_| unknown(), Dim::Fixed),
        _ => unknown(),
    };
    let at = axis(node.int("axis", -1), index.shape.len() + 1)?;
    let mut shape = index.shape.clone();
    shape.insert(at.min(index.shape.len()), depth);
    Ok(vec![values.with_shape(shape)])
}

#[derive(Clone, Copy)]
enum Rearrangement {
    DepthToSpace,
    SpaceToDepth,
}

fn rearrange(node: &Node, inputs: &[Option<&Fact>], rearrangement: Rearrangement) -> Facts {
    let data = input(inputs, 0)?;
    let block = usize::try_from(node.int("blocksize", 0)).unwrap_or(0);
    let [batch, depth, rest @ ..] = &data.shape[..] else {
        return misfit(format!("{} of {}", node.op, format_shape(&data.shape)));
    };
    let sizes: Option<Vec<usize>> = [depth].into_iter().chain(rest).map(Dim::fixed).collect();
    let area = block.checked_mul(block).filter(|&area| area > 0);
    let (Some(sizes), Some(area)) = (sizes, area) else {
        return misfit(format!("{} of {} by {block}", node.op, format_shape(&data.shape)));
    };
    let scale = |(at, &size): (usize, &usize)| match (at, rearrangement) {
        (0, Rearrangement::DepthToSpace) => size / area,
        (0, Rearrangement::SpaceToDepth) => size.saturating_mul(area),
        (_, Rearrangement::DepthToSpace) => size.saturating_mul(block),
        (_, Rearrangement::SpaceToDepth) => size / block,
    };
    let mut shape = vec![batch.clone()];
    shape.extend(sizes.iter().enumerate().map(scale).map(Dim::Fixed));
    Ok(vec![data.with_shape(shape)])
}
