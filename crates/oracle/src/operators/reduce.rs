//! Operators that combine the elements of dimensions: sums, extremes, softmax.

use super::arithmetic::greater;
use super::{Operator, operator};
use crate::call::{Call, axes_of};
use crate::element::Element;
use crate::fault::{Fault, fault};
use crate::tensor::{Lanes, Tensor, Values, for_each_index, position};

const AXES: &[&str] = &["axes", "keepdims", "noop_with_empty_axes"];

pub(super) const OPERATORS: &[Operator] = &[
    operator("ReduceSum", 7, 2, AXES, |call| {
        reduce(call, 13, |lane| Ok(lane.iter().sum()), Some(|lane, _| sum(lane)))
    }),
    operator("ReduceMean", 7, 2, AXES, |call| reduce(call, 18, mean, None)),
    operator("ReduceProd", 7, 2, AXES, |call| {
        let integers: Integers = |lane, _| lane.iter().fold(1i64, |all, x| all.wrapping_mul(*x));
        reduce(call, 18, |lane| Ok(lane.iter().product()), Some(integers))
    }),
    operator("ReduceMax", 7, 2, AXES, |call| {
        let integers: Integers = |lane, (low, _)| lane.iter().copied().fold(low, i64::max);
        let start = f64::NEG_INFINITY;
        reduce(call, 18, move |lane| Ok(lane.iter().copied().fold(start, greater)), Some(integers))
    }),
    operator("ReduceMin", 7, 2, AXES, |call| {
        let integers: Integers = |lane, (_, high)| lane.iter().copied().fold(high, i64::min);
        let floats =
            |lane: &[f64]| Ok(-lane.iter().map(|value| -value).fold(f64::NEG_INFINITY, greater));
        reduce(call, 18, floats, Some(integers))
    }),
    operator("ReduceL1", 7, 2, AXES, |call| {
        let integers: Integers =
            |lane, _| lane.iter().fold(0i64, |all, x| all.wrapping_add(x.wrapping_abs()));
        reduce(call, 18, |lane| Ok(lane.iter().map(|x| x.abs()).sum()), Some(integers))
    }),
    operator("ReduceL2", 7, 2, AXES, |call| {
        reduce(call, 18, |lane| Ok(square_sum(lane).sqrt()), None)
    }),
    operator("ReduceLogSum", 7, 2, AXES, |call| {
        reduce(call, 18, |lane| Ok(lane.iter().sum::<f64>().ln()), None)
    }),
    operator("ReduceLogSumExp", 7, 2, AXES, |call| {
        reduce(call, 18, |lane| Ok(log_sum_exp(lane)), None)
    }),
    operator("ReduceSumSquare", 7, 2, AXES, |call| {
        let integers: Integers =
            |lane, _| lane.iter().fold(0i64, |all, x| all.wrapping_add(x.wrapping_mul(*x)));
        reduce(call, 18, |lane| Ok(square_sum(lane)), Some(integers))
    }),
    operator("ArgMax", 7, 1, ARG, |call| arg(call, |new, best| new > best)),
    operator("ArgMin", 7, 1, ARG, |call| arg(call, |new, best| new < best)),
    operator("Softmax", 7, 1, &["axis"], |call| {
        along(call, |lane| {
            let total = log_sum_exp(lane);
            lane.iter().map(|value| (value - total).exp()).collect()
        })
    }),
    operator("LogSoftmax", 7, 1, &["axis"], |call| {
        along(call, |lane| {
            let total = log_sum_exp(lane);
            lane.iter().map(|value| value - total).collect()
        })
    }),
    operator("Hardmax", 7, 1, &["axis"], |call| {
        check_order(call.input(0)?)?;
        along(call, |lane| {
            let largest = lane.iter().copied().fold(f64::NEG_INFINITY, greater);
            let first = lane.iter().position(|value| *value == largest);
            (0..lane.len()).map(|step| if Some(step) == first { 1.0 } else { 0.0 }).collect()
        })
    }),
];

const ARG: &[&str] = &["axis", "keepdims", "select_last_index"];

/// Combines integers of a type with these limits.
type Integers = fn(&[i64], (i64, i64)) -> i64;

fn sum(lane: &[i64]) -> i64 {
    lane.iter().fold(0i64, |all, value| all.wrapping_add(*value))
}

fn square_sum(lane: &[f64]) -> f64 {
    lane.iter().map(|value| value * value).sum()
}

fn mean(lane: &[f64]) -> Result<f64, Fault> {
    if lane.is_empty() {
        return fault("the mean of no elements is undefined");
    }
    Ok(lane.iter().sum::<f64>() / lane.len() as f64)
}

/// Returns ln Σ eˣ without overflow.
fn log_sum_exp(lane: &[f64]) -> f64 {
    let largest = lane.iter().copied().fold(f64::NEG_INFINITY, greater);
    if largest.is_infinite() {
        return largest;
    }
    largest + lane.iter().map(|value| (value - largest).exp()).sum::<f64>().ln()
}

/// Combines the elements of the axes; `input_since` is the opset from which the axes are an input.
fn reduce(
    call: &Call<'_>,
    input_since: i64,
    floats: impl Fn(&[f64]) -> Result<f64, Fault>,
    integers: Option<Integers>,
) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let keeps = call.flag("keepdims", true)?;
    let axes = call.integers_of_opset("axes", input_since, 1)?.unwrap_or_default();
    let is_noop = axes.is_empty() && call.flag("noop_with_empty_axes", false)?;
    // Each element is its own lane. These operators return it; the others still apply to it.
    let plain = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"];
    if is_noop && plain.contains(&call.node.operator.as_str()) {
        return Ok(vec![input.clone()]);
    }
    let axes = if axes.is_empty() && !is_noop {
        (0..input.rank()).collect()
    } else {
        axes_of(&axes, input.rank())?
    };
    let shape_of = |keeps: bool| -> Vec<usize> {
        let sizes = input.shape().iter().enumerate();
        sizes
            .filter(|(axis, _)| keeps || !axes.contains(axis))
            .map(|(axis, size)| if axes.contains(&axis) { 1 } else { *size })
            .collect()
    };
    let kept = shape_of(true);
    let count = call.spend_shape(&kept)?;
    // The positions that are combined to each element of the result.
    let mut lanes = vec![Vec::new(); count];
    let mut element = 0;
    for_each_index(input.shape(), |index| {
        let sizes = index.iter().zip(&kept);
        let target: Vec<usize> =
            sizes.map(|(index, size)| if *size == 1 { 0 } else { *index }).collect();
        lanes[position(&target, &kept)].push(element);
        element += 1;
    });
    let output = match (input.values(), integers) {
        (Values::Floats(values), _) => {
            let lanes = lanes.iter().map(|lane| floats(&take(values, lane)));
            Tensor::of_floats(input.element(), &shape_of(keeps), lanes.collect::<Result<_, _>>()?)
        }
        (Values::Integers(values), Some(integers)) => {
            let limits = input.element().limits();
            let lanes = lanes.iter().map(|lane| integers(&take(values, lane), limits));
            Tensor::of_integers(input.element(), &shape_of(keeps), lanes.collect())
        }
        _ => fault(format!("elements of type {} are not supported", input.element())),
    };
    Ok(vec![output?])
}

fn take<T: Copy>(values: &[T], positions: &[usize]) -> Vec<T> {
    positions.iter().map(|position| values[*position]).collect()
}

/// Checks that no element is NaN.
pub(super) fn check_order(input: &Tensor) -> Result<(), Fault> {
    if input.to_floats().iter().any(|value| value.is_nan()) {
        return fault("the standard does not order NaN");
    }
    Ok(())
}

/// Finds the index of the best element on an axis: the first of equal ones, or the last.
fn arg(call: &Call<'_>, is_better: fn(f64, f64) -> bool) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let axis = call.axis(0, input.rank())?;
    let takes_last = call.flag("select_last_index", false)?;
    let lanes = Lanes::new(input.shape(), axis);
    if lanes.size == 0 {
        return fault("no element to choose from");
    }
    check_order(input)?;
    let values = input.to_floats();
    let best = lanes.positions().map(|lane| {
        let mut best = 0;
        for step in 1..lane.len() {
            let (new, old) = (values[lane[step]], values[lane[best]]);
            if is_better(new, old) || takes_last && new == old {
                best = step;
            }
        }
        if input.element().is_float() {
            lane.iter().for_each(|at| call.note_choice(values[*at], values[lane[best]]));
        }
        crate::call::integer_of(best)
    });
    let mut shape = input.shape().to_vec();
    shape[axis] = 1;
    if !call.flag("keepdims", true)? {
        shape.remove(axis);
    }
    Ok(vec![Tensor::of_integers(Element::Int64, &shape, best.collect())?])
}

/// Applies a function to the elements along the axis; before opset 13 to those of all dimensions from
/// the axis on.
fn along(call: &Call<'_>, function: impl Fn(&[f64]) -> Vec<f64>) -> Result<Vec<Tensor>, Fault> {
    let input = call.input(0)?;
    let (values, rank) = (input.as_floats()?, input.rank());
    let lanes = if call.opset >= 13 {
        Lanes::new(input.shape(), call.axis(-1, rank)?)
    } else {
        let axis = match call.integer("axis", 1)? {
            axis if axis == crate::call::integer_of(rank) => rank,
            axis => crate::call::axis_of(axis, rank)?,
        };
        let (outer, size) = input.shape().split_at(axis);
        Lanes { outer: outer.iter().product(), size: size.iter().product(), inner: 1 }
    };
    let mut output = vec![0.0; values.len()];
    for lane in lanes.positions() {
        for (position, value) in lane.iter().zip(function(&take(values, &lane))) {
            output[*position] = value;
        }
    }
    Ok(vec![Tensor::of_floats(input.element(), input.shape(), output)?])
}
