//! Shapes behind operators that pick, repeat or find elements. Where the number found
//! depends on the data, it is a symbol.

use dyno_tensors::Element;

use super::{Dim, Fact, Facts, axis, input, misfit, written};
use crate::graph::Node;

/// So many as the data have.
fn open() -> Dim {
    Dim::symbol("?")
}

/// `None` for operators that are not among these.
pub fn of(node: &Node, inputs: &[Option<&Fact>]) -> Option<Facts> {
    let first = || input(inputs, 0);
    Some(match node.op.as_str() {
        "TopK" => top(node, inputs),
        "NonMaxSuppression" => Ok(vec![Fact::new(Element::I64, vec![open(), 3.into()])]),
        "NonZero" => {
            first().map(|data| vec![Fact::new(Element::I64, vec![data.shape.len().into(), open()])])
        }
        "Size" => Ok(vec![Fact::new(Element::I64, Vec::new())]),
        "IsNaN" | "IsInf" => first().map(|it| vec![Fact::new(Element::Bool, it.shape.clone())]),
        "CastLike" => first()
            .and_then(|data| Ok(vec![Fact::new(input(inputs, 1)?.element, data.shape.clone())])),
        "Range" => range(inputs),
        "Tile" => tile(inputs),
        "GatherElements" => {
            first().and_then(|data| Ok(vec![data.like(input(inputs, 1)?.shape.clone())]))
        }
        "GatherND" => gather_nd(node, inputs),
        "OneHot" => one_hot(node, inputs),
        "DepthToSpace" => rearranged(node, inputs, Way::Wider),
        "SpaceToDepth" => rearranged(node, inputs, Way::Deeper),
        _ => return None,
    })
}

fn top(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let data = input(inputs, 0)?;
    let at = axis(node.int("axis", -1), data.shape.len())?;
    let Some(size) = data.shape.get(at) else {
        return misfit(format!("the greatest along axis {at} of {}", written(&data.shape)));
    };
    let count = match input(inputs, 1)?.integers.as_deref() {
        Some(&[count]) => usize::try_from(count).ok(),
        _ => None,
    };
    let kept = match (count, size) {
        (Some(count), Dim::Fixed(size)) if count > *size => {
            return misfit(format!("the {count} greatest of {size}"));
        }
        (Some(count), _) => Dim::Fixed(count),
        (None, _) => open(),
    };
    let mut shape = data.shape.clone();
    shape[at] = kept;
    Ok(vec![data.like(shape.clone()), Fact::new(Element::I64, shape)])
}

fn range(inputs: &[Option<&Fact>]) -> Facts {
    let start = input(inputs, 0)?;
    let number = |at: usize| match input(inputs, at)?.integers.as_deref() {
        Some(&[number]) => Ok(Some(number)),
        _ => Ok(None),
    };
    let (Some(from), Some(to), Some(step)) = (number(0)?, number(1)?, number(2)?) else {
        return Ok(vec![start.like(vec![open()])]);
    };
    const MOST: u64 = 4096;
    let is_up = step > 0;
    let room = if is_up { to.checked_sub(from) } else { from.checked_sub(to) };
    let (Some(room), Some(stride)) = (room, step.checked_abs().filter(|&step| step > 0)) else {
        return misfit(format!("a range from {from} to {to} in steps of {step}"));
    };
    let count = u64::try_from(room).unwrap_or(0).div_ceil(stride.unsigned_abs());
    let mut fact = start.like(vec![Dim::Fixed(count as usize)]);
    if count <= MOST && matches!(fact.element, Element::I64 | Element::I32) {
        fact.integers = (0..count as i64).map(|i| i.checked_mul(step)?.checked_add(from)).collect();
    }
    Ok(vec![fact])
}

fn tile(inputs: &[Option<&Fact>]) -> Facts {
    let data = input(inputs, 0)?;
    let Some(times) = &input(inputs, 1)?.integers else {
        return Ok(vec![data.like(vec![open(); data.shape.len()])]);
    };
    if times.len() != data.shape.len() {
        return misfit(format!("{} repeated {times:?} times", written(&data.shape)));
    }
    let one = |(dim, &times): (&Dim, &i64)| match (dim, usize::try_from(times)) {
        (dim, Ok(1)) => Ok(dim.clone()),
        (Dim::Fixed(n), Ok(times)) => Ok(Dim::Fixed(n.saturating_mul(times))),
        _ => misfit(format!("{} repeated {times} times", written(&data.shape))),
    };
    Ok(vec![data.like(data.shape.iter().zip(times).map(one).collect::<Result<_, _>>()?)])
}

fn gather_nd(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let (data, index) = (input(inputs, 0)?, input(inputs, 1)?);
    let wrong = || misfit(format!("{} at {}", written(&data.shape), written(&index.shape)));
    let batch = usize::try_from(node.int("batch_dims", 0)).unwrap_or(usize::MAX);
    let Some((depth, places)) = index.shape.split_last() else { return wrong() };
    let Some(rest) = depth.fixed().and_then(|depth| depth.checked_add(batch)) else {
        return wrong();
    };
    let Some(rest) = data.shape.get(rest..) else { return wrong() };
    Ok(vec![data.like([places, rest].concat())])
}

fn one_hot(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let (index, values) = (input(inputs, 0)?, input(inputs, 2)?);
    let depth = match input(inputs, 1)?.integers.as_deref() {
        Some(&[depth]) => usize::try_from(depth).map_or_else(|_| open(), Dim::Fixed),
        _ => open(),
    };
    let at = axis(node.int("axis", -1), index.shape.len() + 1)?;
    let mut shape = index.shape.clone();
    shape.insert(at.min(index.shape.len()), depth);
    Ok(vec![values.like(shape)])
}

#[derive(Clone, Copy)]
enum Way {
    Wider,
    Deeper,
}

fn rearranged(node: &Node, inputs: &[Option<&Fact>], way: Way) -> Facts {
    let data = input(inputs, 0)?;
    let block = usize::try_from(node.int("blocksize", 0)).unwrap_or(0);
    let [batch, depth, rest @ ..] = &data.shape[..] else {
        return misfit(format!("{} of {}", node.op, written(&data.shape)));
    };
    let sizes: Option<Vec<usize>> = [depth].into_iter().chain(rest).map(Dim::fixed).collect();
    let area = block.checked_mul(block).filter(|&area| area > 0);
    let (Some(sizes), Some(area)) = (sizes, area) else {
        return misfit(format!("{} of {} by {block}", node.op, written(&data.shape)));
    };
    let one = |(at, &size): (usize, &usize)| match (at, way) {
        (0, Way::Wider) => size / area,
        (0, Way::Deeper) => size.saturating_mul(area),
        (_, Way::Wider) => size.saturating_mul(block),
        (_, Way::Deeper) => size / block,
    };
    let mut shape = vec![batch.clone()];
    shape.extend(sizes.iter().enumerate().map(one).map(Dim::Fixed));
    Ok(vec![data.like(shape)])
}
