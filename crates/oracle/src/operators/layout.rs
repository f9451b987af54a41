//! Operators that move elements to other shapes and orders.

use super::{ANY, Operator, operator};
use crate::call::{Call, axes_of, axis_of, integer_of, size_of, sizes_of};
use crate::fault::{Fault, fault};
use crate::tensor::{Tensor, broadcast_shape, position};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Concat", 7, ANY, &["axis"], concatenate),
    operator("DepthToSpace", 7, 1, &["blocksize", "mode"], depth_to_space),
    operator("SpaceToDepth", 7, 1, &["blocksize", "mode"], space_to_depth),
    operator("Expand", 8, 2, &[], |call| {
        let input = call.input(0)?;
        let wanted = sizes_of(call.input(1)?.as_integers()?)?;
        let shape = broadcast_shape(&[input.shape(), &wanted])?;
        call.spend_shape(&shape)?;
        Ok(vec![input.broadcast(&shape)?])
    }),
    operator("Flatten", 7, 1, &["axis"], flatten),
    operator("Reshape", 7, 2, &["allowzero"], reshape),
    operator("ReverseSequence", 10, 2, &["batch_axis", "time_axis"], reverse_sequence),
    operator("Squeeze", 7, 2, &["axes"], squeeze),
    operator("Unsqueeze", 7, 2, &["axes"], unsqueeze),
    operator("Tile", 7, 2, &[], tile),
    operator("Transpose", 7, 1, &["perm"], |call| {
        let input = call.input(0)?;
        let order = match call.integers("perm")? {
            Some(order) => sizes_of(&order)?,
            None => (0..input.rank()).rev().collect(),
        };
        Ok(vec![transpose(input, &order)?])
    }),
];

fn concatenate(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let inputs = call.all_inputs()?;
    let Some(first) = inputs.first() else { return fault("expected at least one input") };
    let Some(axis) = call.optional_integer("axis")? else { return fault("axis is missing") };
    let axis = axis_of(axis, first.rank())?;
    let mut shape = first.shape().to_vec();
    shape[axis] = 0;
    for input in &inputs {
        let mut others = input.shape().to_vec();
        let Some(size) = others.get_mut(axis) else {
            return fault("inputs are of different ranks");
        };
        shape[axis] += *size;
        *size = shape[axis];
        if others != shape || input.element() != first.element() {
            return fault(format!("{:?} does not fit {:?}", input.shape(), first.shape()));
        }
    }
    call.spend_shape(&shape)?;
    join(&inputs, axis, &shape).map(|joined| vec![joined])
}

/// Puts tensors beside each other along an axis; `shape` is that of the result.
pub(super) fn join(inputs: &[&Tensor], axis: usize, shape: &[usize]) -> Result<Tensor, Fault> {
    // All elements one after the other, and where those of each input begin.
    let mut all = inputs[0].reshaped(&[inputs[0].count()])?;
    let mut begins = vec![(0, 0)];
    for (number, input) in inputs.iter().enumerate().skip(1) {
        let (along, element) = begins[number - 1];
        begins
            .push((along + inputs[number - 1].shape()[axis], element + inputs[number - 1].count()));
        all = all.followed_by(input)?;
    }
    all.rearranged(shape, |index| {
        let number = begins.iter().rposition(|(along, _)| *along <= index[axis]).unwrap_or(0);
        let mut own = index.to_vec();
        own[axis] -= begins[number].0;
        begins[number].1 + position(&own, inputs[number].shape())
    })
}

/// Makes dimension `i` of the result of dimension `order[i]` of the input.
pub(super) fn transpose(input: &Tensor, order: &[usize]) -> Result<Tensor, Fault> {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    if sorted != (0..input.rank()).collect::<Vec<_>>() {
        return fault(format!("{order:?} is no order of {} dimensions", input.rank()));
    }
    let shape: Vec<usize> = order.iter().map(|axis| input.shape()[*axis]).collect();
    let mut own = vec![0; input.rank()];
    input.rearranged(&shape, |index| {
        for (axis, value) in order.iter().zip(index) {
            own[*axis] = *value;
        }
        position(&own, input.shape())
    })
}

fn flatten(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    // One more than the rank is allowed: all dimensions come before.
    let axis = match call.integer("axis", 1)? {
        axis if axis == integer_of(input.rank()) => input.rank(),
        axis => axis_of(axis, input.rank())?,
    };
    let (rows, columns) = input.shape().split_at(axis);
    Ok(vec![input.reshaped(&[rows.iter().product(), columns.iter().product()])?])
}

/// Reshapes. 0 keeps the size of the input, unless `allowzero` is set; -1 is what remains.
fn reshape(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let wanted = call.input(1)?.as_integers()?;
    let allows_zero = call.flag("allowzero", false)?;
    let mut shape = Vec::new();
    let mut unknown = None;
    for (axis, size) in wanted.iter().enumerate() {
        shape.push(match size {
            0 if !allows_zero => match input.shape().get(axis) {
                Some(size) => *size,
                None => return fault(format!("size 0 at {axis} needs a dimension of the input")),
            },
            -1 if unknown.is_none() => {
                unknown = Some(axis);
                1
            }
            size => size_of(*size)?,
        });
    }
    if let Some(axis) = unknown {
        let known = crate::tensor::element_count(&shape)?;
        if known == 0 || !input.count().is_multiple_of(known) {
            return fault(format!("{:?} does not fit into {wanted:?}", input.shape()));
        }
        shape[axis] = input.count() / known;
    }
    Ok(vec![input.reshaped(&shape)?])
}

fn squeeze(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let axes = match call.integers_of_opset("axes", 13, 1)? {
        Some(axes) => axes_of(&axes, input.rank())?,
        None => (0..input.rank()).filter(|axis| input.shape()[*axis] == 1).collect(),
    };
    if let Some(axis) = axes.iter().find(|axis| input.shape()[**axis] != 1) {
        return fault(format!("dimension {axis} of {:?} is not 1", input.shape()));
    }
    let kept = (0..input.rank()).filter(|axis| !axes.contains(axis));
    let shape: Vec<usize> = kept.map(|axis| input.shape()[axis]).collect();
    Ok(vec![input.reshaped(&shape)?])
}

fn unsqueeze(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let Some(axes) = call.integers_of_opset("axes", 13, 1)? else {
        return fault("axes are missing");
    };
    let mut shape = input.shape().to_vec();
    for axis in axes_of(&axes, input.rank() + axes.len())? {
        shape.insert(axis, 1);
    }
    Ok(vec![input.reshaped(&shape)?])
}

fn tile(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let repeats = sizes_of(call.input(1)?.as_integers()?)?;
    if repeats.len() != input.rank() {
        return fault(format!("{} repeats for {} dimensions", repeats.len(), input.rank()));
    }
    let sizes = input.shape().iter().zip(&repeats);
    let shape: Vec<usize> = sizes.map(|(size, times)| size.saturating_mul(*times)).collect();
    call.spend_shape(&shape)?;
    Ok(vec![input.rearranged(&shape, |index| {
        let sizes = index.iter().zip(input.shape());
        sizes.fold(0, |position, (index, size)| position * size + index % size)
    })?])
}

/// Splits channels into blocks of pixels, as the standard writes it: reshape, transpose, reshape.
fn depth_to_space(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let block = size_of(call.integer("blocksize", 0)?)?;
    let [batch, channels, height, width] = *input.shape() else {
        return fault("expected 4 dimensions");
    };
    if block == 0 || !channels.is_multiple_of(block.saturating_mul(block)) {
        return fault(format!("{channels} channels are no blocks of {block}"));
    }
    let depth = channels / (block * block);
    let (shape, order) = match call.text("mode", "DCR")?.as_str() {
        "DCR" => ([batch, block, block, depth, height, width], [0, 3, 4, 1, 5, 2]),
        "CRD" => ([batch, depth, block, block, height, width], [0, 1, 4, 2, 5, 3]),
        other => return fault(format!("attribute \"mode\": expected DCR or CRD, found {other}")),
    };
    let moved = transpose(&input.reshaped(&shape)?, &order)?;
    Ok(vec![moved.reshaped(&[batch, depth, height * block, width * block])?])
}

fn space_to_depth(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let block = size_of(call.integer("blocksize", 0)?)?;
    let [batch, channels, height, width] = *input.shape() else {
        return fault("expected 4 dimensions");
    };
    if block == 0 || !height.is_multiple_of(block) || !width.is_multiple_of(block) {
        return fault(format!("{height}x{width} are no blocks of {block}"));
    }
    let (rows, columns) = (height / block, width / block);
    let split = input.reshaped(&[batch, channels, rows, block, columns, block])?;
    let order = match call.text("mode", "DCR")?.as_str() {
        "DCR" => [0, 3, 5, 1, 2, 4],
        "CRD" => [0, 1, 3, 5, 2, 4],
        other => return fault(format!("attribute \"mode\": expected DCR or CRD, found {other}")),
    };
    let moved = transpose(&split, &order)?;
    Ok(vec![moved.reshaped(&[batch, channels * block * block, rows, columns])?])
}

/// Reverses the first `sequence_lens[b]` steps of each sequence.
fn reverse_sequence(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (input, lengths) = (call.input(0)?, sizes_of(call.input(1)?.as_integers()?)?);
    let (batch, time) = (call.integer("batch_axis", 1)?, call.integer("time_axis", 0)?);
    if !matches!((batch, time), (0, 1) | (1, 0)) || input.rank() < 2 {
        return fault("expected batch and time in the first two dimensions");
    }
    let (batch, time) = (size_of(batch)?, size_of(time)?);
    let steps = input.shape()[time];
    if lengths.len() != input.shape()[batch] || lengths.iter().any(|length| *length > steps) {
        return fault(format!("lengths {lengths:?} do not fit {:?}", input.shape()));
    }
    Ok(vec![input.rearranged(input.shape(), |index| {
        let mut own = index.to_vec();
        let length = lengths[index[batch]];
        if index[time] < length {
            own[time] = length - 1 - index[time];
        }
        position(&own, input.shape())
    })?])
}
