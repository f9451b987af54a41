//! Pad.

use super::{Operator, operator};
use crate::call::{Call, axis_of, integer_of};
use crate::fault::{Fault, fault};
use crate::tensor::{Tensor, position};

pub(super) const OPERATORS: &[Operator] = &[operator("Pad", 7, 4, &["mode", "pads", "value"], pad)];

/// Adds elements before and after each dimension, or removes them where their number is negative.
fn pad(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let rank = input.rank();
    let Some(pads) = call.integers_of_opset("pads", 11, 1)? else {
        return fault("pads are missing");
    };
    let axes: Vec<usize> = match call.optional(3) {
        Some(axes) => {
            let axes: Result<_, _> =
                axes.as_integers()?.iter().map(|axis| axis_of(*axis, rank)).collect();
            axes?
        }
        None => (0..rank).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return fault(format!("{} pads for {} dimensions", pads.len(), axes.len()));
    }
    let mut begins = vec![0; rank];
    let mut shape = input.shape().to_vec();
    for (number, axis) in axes.iter().enumerate() {
        let (begin, end) = (pads[number], pads[axes.len() + number]);
        let size = integer_of(shape[*axis]).saturating_add(begin).saturating_add(end);
        begins[*axis] = begin;
        shape[*axis] = crate::call::size_of(size)?;
    }
    call.spend_shape(&shape)?;
    let fill = fill(call, input)?;
    let mode = call.text("mode", "constant")?;
    let source: fn(i64, i64) -> Option<i64> = match mode.as_str() {
        "constant" => |position, size| (0..size).contains(&position).then_some(position),
        "edge" => |position, size| Some(position.clamp(0, size - 1)),
        "reflect" => |position, size| Some(reflect(position, size)),
        "wrap" if call.opset >= 19 => |position, size| Some(position.rem_euclid(size)),
        other => return fault(format!("mode {other} is not supported")),
    };
    if mode != "constant" && input.count() == 0 {
        return fault("no elements to repeat");
    }
    // The element that fills the rest comes after those of the input.
    let all = input.reshaped(&[input.count()])?.followed_by(&fill)?;
    Ok(vec![all.rearranged(&shape, |index| {
        let own: Option<Vec<usize>> = (0..rank)
            .map(|axis| {
                let wanted = integer_of(index[axis]) - begins[axis];
                let found = source(wanted, integer_of(input.shape()[axis]))?;
                usize::try_from(found).ok()
            })
            .collect();
        own.map_or(input.count(), |own| position(&own, input.shape()))
    })?])
}

/// Returns the element that fills: 0 unless an attribute, or since opset 11 an input, gives it.
fn fill(call: &Call<'_>, input: &Tensor) -> Result<Tensor, Fault> {
    if let Some(value) = call.optional(2) {
        if value.count() != 1 || value.element() != input.element() {
            return fault("expected one number of the input's type to fill with");
        }
        return Ok(value.clone());
    }
    if call.opset >= 11 && call.has("value") {
        return fault("attribute \"value\" is an input since opset 11");
    }
    let value = call.float("value", 0.0)?;
    if input.element().is_float() {
        Tensor::of_floats(input.element(), &[1], vec![value])
    } else {
        Tensor::of_integers(input.element(), &[1], vec![0])
    }
}

/// Mirrors a position at the first and last element, which are not repeated.
fn reflect(position: i64, size: i64) -> i64 {
    if size == 1 {
        return 0;
    }
    let period = 2 * (size - 1);
    let inside = position.rem_euclid(period);
    if inside < size { inside } else { period - inside }
}
