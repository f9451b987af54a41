//! Slice and Split.

use super::{Operator, operator};
use crate::call::{Call, axis_of, integer_of, sizes_of};
use crate::fault::{Fault, fault};
use crate::tensor::{Tensor, position};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Slice", 7, 5, &["starts", "ends", "axes"], slice),
    operator("Split", 7, 2, &["axis", "split", "num_outputs"], split),
];

/// Takes every `step`-th element from `start` to before `end` of some dimensions.
fn slice(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let starts = call.integers_of_opset("starts", 10, 1)?.unwrap_or_default();
    let ends = call.integers_of_opset("ends", 10, 2)?.unwrap_or_default();
    let axes = call.integers_of_opset("axes", 10, 3)?;
    let axes = axes.unwrap_or_else(|| (0..integer_of(starts.len())).collect());
    let steps = call.optional(4).map_or(Ok(None), |steps| steps.as_integers().map(Some))?;
    let steps = steps.map_or_else(|| vec![1; starts.len()], <[i64]>::to_vec);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return fault("starts, ends, axes and steps are not equally many");
    }
    // First element, step and count for each dimension.
    let mut ranges: Vec<(i64, i64, usize)> =
        input.shape().iter().map(|size| (0, 1, *size)).collect();
    let mut seen = Vec::new();
    for (number, axis) in axes.iter().enumerate() {
        let axis = axis_of(*axis, input.rank())?;
        if seen.contains(&axis) {
            return fault(format!("axis {axis} appears twice"));
        }
        seen.push(axis);
        ranges[axis] = range(starts[number], ends[number], steps[number], input.shape()[axis])?;
    }
    let shape: Vec<usize> = ranges.iter().map(|(.., count)| *count).collect();
    Ok(vec![input.rearranged(&shape, |index| {
        let own: Vec<usize> = index
            .iter()
            .zip(&ranges)
            .map(|(index, (first, step, _))| {
                usize::try_from(first + integer_of(*index) * step).unwrap_or(0)
            })
            .collect();
        position(&own, input.shape())
    })?])
}

/// Returns the first element, the step and the count of a slice. Negative bounds count from the end;
/// bounds are limited to the dimension.
fn range(start: i64, end: i64, step: i64, size: usize) -> Result<(i64, i64, usize), Fault> {
    let size = integer_of(size);
    let counted = |bound: i64| if bound < 0 { bound.saturating_add(size) } else { bound };
    if step == 0 {
        return fault("a step is 0");
    }
    let (start, end) = if step > 0 {
        (counted(start).clamp(0, size), counted(end).clamp(0, size))
    } else {
        (counted(start).clamp(0, (size - 1).max(0)), counted(end).clamp(-1, (size - 1).max(-1)))
    };
    let distance = if step > 0 { end - start } else { start - end };
    let count = if distance <= 0 || size == 0 {
        0
    } else {
        (distance.unsigned_abs() - 1) / step.unsigned_abs() + 1
    };
    // A step beyond the dimension takes one element, and must not overflow.
    Ok((start, step.clamp(-size.max(1), size.max(1)), usize::try_from(count).unwrap_or(0)))
}

/// Splits along an axis into parts of given sizes, or of equal size.
fn split(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let axis = call.axis(0, input.rank())?;
    let size = input.shape()[axis];
    let outputs = call.node.outputs.len();
    let parts =
        match (call.integers_of_opset("split", 13, 1)?, call.optional_integer("num_outputs")?) {
            (Some(_), Some(_)) => return fault("both sizes and a number of parts are given"),
            (Some(parts), None) => sizes_of(&parts)?,
            (None, Some(count)) => {
                if count != integer_of(outputs) || count == 0 {
                    return fault(format!("{count} parts for {outputs} outputs"));
                }
                let part = size.div_ceil(outputs);
                (0..outputs).map(|number| part.min(size.saturating_sub(number * part))).collect()
            }
            (None, None) if outputs > 0 && size.is_multiple_of(outputs) => {
                vec![size / outputs; outputs]
            }
            (None, None) => return fault(format!("{size} is not divisible by {outputs} outputs")),
        };
    let total = parts.iter().try_fold(0usize, |all, part| all.checked_add(*part));
    if parts.len() != outputs || total != Some(size) {
        return fault(format!("parts {parts:?} of {size} for {outputs} outputs"));
    }
    let mut begin = 0;
    let part = |part: &usize| {
        let mut shape = input.shape().to_vec();
        shape[axis] = *part;
        let first = begin;
        begin += part;
        input.rearranged(&shape, |index| {
            let mut own = index.to_vec();
            own[axis] += first;
            position(&own, input.shape())
        })
    };
    parts.iter().map(part).collect()
}
