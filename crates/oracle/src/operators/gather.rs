//! Operators that take elements at given indices.

use super::{Operator, operator};
use crate::call::{Call, axis_of, size_of};
use crate::fault::{Fault, fault};
use crate::tensor::{Tensor, for_each_index, position};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Compress", 9, 2, &["axis"], compress),
    operator("Gather", 7, 2, &["axis"], gather),
    operator("GatherElements", 11, 2, &["axis"], gather_elements),
    operator("GatherND", 11, 2, &["batch_dims"], gather_nd),
];

/// Returns an index of a dimension; negative ones count from its end.
pub(super) fn index_of(index: i64, size: usize) -> Result<usize, Fault> {
    match axis_of(index, size) {
        Ok(index) => Ok(index),
        Err(_) => fault(format!("index {index} lies outside of a dimension of {size}")),
    }
}

/// Replaces a dimension by those of the indices.
fn gather(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (input, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(0, input.rank())?;
    let size = input.shape()[axis];
    let chosen: Result<Vec<usize>, _> =
        indices.as_integers()?.iter().map(|index| index_of(*index, size)).collect();
    let chosen = chosen?;
    let (before, after) = (&input.shape()[..axis], &input.shape()[axis + 1..]);
    let shape = [before, indices.shape(), after].concat();
    call.spend_shape(&shape)?;
    let inside = axis..axis + indices.rank();
    Ok(vec![input.rearranged(&shape, |index| {
        let wanted = chosen[position(&index[inside.clone()], indices.shape())];
        let own = [&index[..inside.start], &[wanted], &index[inside.end..]].concat();
        position(&own, input.shape())
    })?])
}

/// Takes for each index the element at the same place but on one axis.
fn gather_elements(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (input, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(0, input.rank())?;
    Ok(vec![input.picked(indices.shape(), &positions_beside(input, indices, axis)?)?])
}

/// Returns for each index the position of the element at the same place of `data` but on one axis.
pub(super) fn positions_beside(
    data: &Tensor,
    indices: &Tensor,
    axis: usize,
) -> Result<Vec<usize>, Fault> {
    let fits = indices.rank() == data.rank()
        && (0..data.rank())
            .all(|other| other == axis || indices.shape()[other] <= data.shape()[other]);
    if !fits {
        return fault(format!("indices of {:?} for data of {:?}", indices.shape(), data.shape()));
    }
    let size = data.shape()[axis];
    let chosen: Result<Vec<usize>, _> =
        indices.as_integers()?.iter().map(|index| index_of(*index, size)).collect();
    let mut chosen = chosen?.into_iter();
    let mut positions = Vec::new();
    for_each_index(indices.shape(), |index| {
        let mut own = index.to_vec();
        own[axis] = chosen.next().unwrap_or(0);
        positions.push(position(&own, data.shape()));
    });
    Ok(positions)
}

/// Returns for each index of `depth` numbers the position of the first element that it names.
pub(super) fn positions_of_tuples(
    data: &[usize],
    indices: &[i64],
    depth: usize,
) -> Result<Vec<usize>, Fault> {
    let inner: usize = data[depth..].iter().product();
    let tuples = indices.chunks_exact(depth).map(|tuple| {
        let mut first = 0;
        for (index, size) in tuple.iter().zip(data) {
            first = first * size + index_of(*index, *size)?;
        }
        Ok(first * inner)
    });
    tuples.collect()
}

/// Takes the slices that the last dimension of the indices names, in each of the batches.
fn gather_nd(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (input, indices) = (call.input(0)?, call.input(1)?);
    let batches = size_of(call.integer("batch_dims", 0)?)?;
    let Some((depth, outer)) = indices.shape().split_last() else {
        return fault("expected indices of at least one dimension");
    };
    let fits = batches <= outer.len()
        && batches + depth <= input.rank()
        && input.shape()[..batches] == outer[..batches];
    if !fits || *depth == 0 {
        return fault(format!("indices of {:?} for data of {:?}", indices.shape(), input.shape()));
    }
    let inner = &input.shape()[batches + depth..];
    let shape = [outer, inner].concat();
    call.spend_shape(&shape)?;
    let batch_size: usize = input.shape()[batches..].iter().product();
    let firsts = positions_of_tuples(&input.shape()[batches..], indices.as_integers()?, *depth)?;
    let tuples: usize = outer[batches..].iter().product();
    let length: usize = inner.iter().product();
    let positions = firsts.iter().enumerate().flat_map(|(number, first)| {
        let begin = number / tuples.max(1) * batch_size + first;
        begin..begin + length
    });
    let positions: Vec<usize> = positions.collect();
    Ok(vec![input.picked(&shape, &positions)?])
}

/// Takes the slices for which the condition is true; without an axis, of the flattened input.
fn compress(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = match call.optional_integer("axis")? {
        Some(_) => call.input(0)?.clone(),
        None => call.input(0)?.reshaped(&[call.input(0)?.count()])?,
    };
    let axis = call.axis(0, input.rank())?;
    let condition = call.input(1)?.as_truths()?;
    let chosen: Vec<usize> =
        condition.iter().enumerate().filter(|(_, truth)| **truth).map(|(index, _)| index).collect();
    if condition.len() > input.shape()[axis] {
        return fault(format!("{} conditions for {:?}", condition.len(), input.shape()));
    }
    let mut shape = input.shape().to_vec();
    shape[axis] = chosen.len();
    Ok(vec![input.rearranged(&shape, |index| {
        let mut own = index.to_vec();
        own[axis] = chosen[index[axis]];
        position(&own, input.shape())
    })?])
}
