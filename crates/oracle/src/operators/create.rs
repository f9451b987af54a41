//! Tensors of attributes, shapes and sizes.

use super::arithmetic::cast;
use super::{Operator, operator};
use crate::call::{Call, axis_of, integer_of, sizes_of};
use crate::element::Element;
use crate::fault::{Fault, fault};
use crate::tensor::{Tensor, Values, for_each_index};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Constant", 7, 0, CONSTANT, constant),
    operator("ConstantOfShape", 9, 1, &["value"], constant_of_shape),
    operator("EyeLike", 9, 1, &["dtype", "k"], eye_like),
    operator("Range", 11, 3, &["stash_type"], range),
    operator("Shape", 7, 1, &["start", "end"], shape),
    operator("Size", 7, 1, &[], |call| {
        let count = integer_of(call.input(0)?.count());
        Ok(vec![Tensor::of_integers(Element::Int64, &[], vec![count])?])
    }),
    operator("Identity", 7, 1, &[], |call| Ok(vec![call.input(0)?.clone()])),
    operator("Dropout", 7, 3, &["ratio", "seed"], dropout),
    operator("OneHot", 9, 3, &["axis"], one_hot),
    operator("Trilu", 14, 2, &["upper"], triangle),
];

const CONSTANT: &[&str] =
    &["sparse_value", "value", "value_float", "value_floats", "value_int", "value_ints"];

fn constant(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    if call.node.attributes.len() != 1 {
        return fault("expected exactly one attribute");
    }
    for name in ["value", "sparse_value"] {
        if let Some(tensor) = call.tensor(name)? {
            return Ok(vec![tensor.clone()]);
        }
    }
    let tensor = if let Some(value) = call.optional_float("value_float")? {
        Tensor::of_floats(Element::Float32, &[], vec![value])
    } else if let Some(values) = call.floats("value_floats")? {
        Tensor::of_floats(Element::Float32, &[values.len()], values)
    } else if let Some(value) = call.optional_integer("value_int")? {
        Tensor::of_integers(Element::Int64, &[], vec![value])
    } else {
        Tensor::of_indices(call.integers("value_ints")?.unwrap_or_default())
    };
    Ok(vec![tensor?])
}

fn constant_of_shape(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let shape = sizes_of(call.input(0)?.as_integers()?)?;
    call.spend_shape(&shape)?;
    let zero = Tensor::of_floats(Element::Float32, &[1], vec![0.0])?;
    let value = call.tensor("value")?.unwrap_or(&zero);
    if value.count() != 1 {
        return fault(format!("attribute \"value\": expected one number, found {}", value.count()));
    }
    Ok(vec![value.rearranged(&shape, |_| 0)?])
}

fn eye_like(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let element = match call.optional_integer("dtype")? {
        None => Some(input.element()),
        Some(code) => Element::from_code(code),
    };
    let (Some(element), [rows, columns]) = (element, input.shape()) else {
        return fault("expected a matrix, and a type that is supported");
    };
    let diagonal = call.integer("k", 0)?;
    let ones = (0..*rows).flat_map(|row| {
        (0..*columns)
            .map(move |column| integer_of(column) == integer_of(row).saturating_add(diagonal))
    });
    let truths = Tensor::of_truths(input.shape(), ones)?;
    Ok(vec![cast(&truths, element)?])
}

fn range(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (start, limit, step) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let element = start.element();
    if element != limit.element() || element != step.element() {
        return fault("start, limit and delta are of different types");
    }
    if !element.is_float() {
        let (start, limit) = (i128::from(start.as_integer()?), i128::from(limit.as_integer()?));
        let step = i128::from(step.as_integer()?);
        if step == 0 {
            return fault("the step is 0");
        }
        // Rounded up: the limit is not part of the range.
        let count = ((limit - start + step - step.signum()) / step).max(0);
        let count = call.spend_shape(&[usize::try_from(count).unwrap_or(usize::MAX)])?;
        let values = (0..count as i128).map(|number| (start + number * step) as i64).collect();
        return Ok(vec![Tensor::of_integers(element, &[count], values)?]);
    }
    let (start, limit, step) = (start.as_float()?, limit.as_float()?, step.as_float()?);
    let count = ((limit - start) / step).ceil().max(0.0);
    if !count.is_finite() || step == 0.0 {
        return fault("the range has no end");
    }
    let count = call.spend_shape(&[count as usize])?;
    let values = (0..count).map(|number| start + number as f64 * step).collect();
    Ok(vec![Tensor::of_floats(element, &[count], values)?])
}

/// Returns the sizes of the dimensions from `start` to before `end`, which count from the end if
/// negative, and are limited to the rank.
fn shape(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let rank = integer_of(input.rank());
    let limited = |bound: i64| {
        let counted = if bound < 0 { bound.saturating_add(rank) } else { bound };
        usize::try_from(counted.clamp(0, rank)).unwrap_or(0)
    };
    let start = limited(call.integer("start", 0)?);
    let end = limited(call.integer("end", rank)?);
    let sizes = input.shape().get(start..end).unwrap_or_default();
    Ok(vec![Tensor::of_indices(sizes.iter().map(|size| integer_of(*size)).collect())?])
}

/// Returns the input, since nothing is dropped after training.
fn dropout(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    if let Some(training) = call.optional(2) {
        let is_dropping = match call.optional(1) {
            Some(ratio) => ratio.as_float()? != 0.0,
            None => true,
        };
        if is_dropping && training.as_truths()? != [false] {
            return fault("training is not supported");
        }
    }
    if call.opset < 10 && call.wants(1) {
        return fault("the mask is not supported before opset 10");
    }
    let mask = Tensor::of_truths(input.shape(), (0..input.count()).map(|_| true))?;
    Ok(vec![input.clone(), mask])
}

/// Adds an axis on which one element, that of the index, is `values[1]`, and all others are `values[0]`.
fn one_hot(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let (indices, values) = (call.input(0)?, call.input(2)?);
    let depth = cast(call.input(1)?, Element::Int64)?.as_integer()?;
    if depth < 0 || values.shape() != [2] {
        return fault("expected a depth from 0, and two values");
    }
    let indices = cast(indices, Element::Int64)?;
    let axis = axis_of(call.integer("axis", -1)?, indices.rank() + 1)?;
    let mut shape = indices.shape().to_vec();
    shape.insert(axis, crate::call::size_of(depth)?);
    call.spend_shape(&shape)?;
    let chosen = indices.as_integers()?;
    let mut positions = Vec::new();
    for_each_index(&shape, |index| {
        let outside: Vec<usize> = [&index[..axis], &index[axis + 1..]].concat();
        let wanted = chosen[crate::tensor::position(&outside, indices.shape())];
        let counted = if wanted < 0 { wanted.saturating_add(depth) } else { wanted };
        positions.push(usize::from(integer_of(index[axis]) == counted));
    });
    Ok(vec![values.picked(&shape, &positions)?])
}

/// Keeps the upper or the lower triangle of matrices, and sets the rest to 0.
fn triangle(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let is_upper = call.flag("upper", true)?;
    let diagonal = call.optional(1).map_or(Ok(0), Tensor::as_integer)?;
    if input.rank() < 2 {
        return fault("expected matrices");
    }
    let mut keeps = Vec::new();
    for_each_index(input.shape(), |index| {
        let (row, column) =
            (integer_of(index[index.len() - 2]), integer_of(index[index.len() - 1]));
        let border = row.saturating_add(diagonal);
        keeps.push(if is_upper { column >= border } else { column <= border });
    });
    let output = match input.values() {
        Values::Floats(values) => {
            let values = values.iter().zip(&keeps).map(|(x, keep)| if *keep { *x } else { 0.0 });
            Tensor::of_floats(input.element(), input.shape(), values.collect())
        }
        Values::Integers(values) => {
            let values = values.iter().zip(&keeps).map(|(x, keep)| if *keep { *x } else { 0 });
            Tensor::of_integers(input.element(), input.shape(), values.collect())
        }
    };
    Ok(vec![output?])
}
