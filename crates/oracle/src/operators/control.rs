//! Operators with graphs inside.

use std::sync::Arc;

use super::layout::join;
use super::{ANY, Operator, operator};
use crate::call::{Call, axis_of, integer_of, size_of};
use crate::element::Element;
use crate::fault::{Fault, fault};
use crate::model::{Dimension, Graph};
use crate::tensor::{Tensor, position};

const SCAN: &[&str] = &[
    "body",
    "num_scan_inputs",
    "scan_input_axes",
    "scan_input_directions",
    "scan_output_axes",
    "scan_output_directions",
];

pub(super) const OPERATORS: &[Operator] = &[
    operator("If", 7, 1, &["then_branch", "else_branch"], |call| {
        let name = if truth(call.input(0)?)? { "then_branch" } else { "else_branch" };
        let outputs = call.evaluate(call.graph(name)?, Vec::new())?;
        if outputs.len() != call.node.outputs.len() {
            return fault(format!("{name} has {} outputs", outputs.len()));
        }
        Ok(outputs.iter().map(|output| Tensor::clone(output)).collect())
    }),
    operator("Loop", 7, ANY, &["body"], repeat),
    operator("Scan", 9, ANY, SCAN, scan),
];

fn truth(tensor: &Tensor) -> Result<bool, Fault> {
    match tensor.as_truths()?[..] {
        [truth] => Ok(truth),
        _ => fault("expected one truth value"),
    }
}

/// Maximum iterations of a loop that states no maximum, or none within reach: its condition may never
/// become false.
const MAX_UNSTATED: i64 = 1 << 16;

/// Largest stated maximum that is within reach.
const MAX_STATED: i64 = 1 << 20;

/// Work of an iteration besides that of its nodes, in multiplications, by the time it takes.
const ITERATION: usize = 1000;

/// Computes the body until its condition is false, or the number of iterations is reached.
fn repeat(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let body = call.graph("body")?;
    let limit = call.optional(0).map(Tensor::as_integer).transpose()?;
    let mut continues = call.optional(1).map_or(Ok(true), truth)?;
    let states: Result<Vec<Arc<Tensor>>, Fault> =
        (2..call.inputs.len()).map(|number| Ok(Arc::new(call.input(number)?.clone()))).collect();
    let mut states: Vec<Arc<Tensor>> = states?;
    let Some(scans) = body.outputs.len().checked_sub(1 + states.len()) else {
        return fault("the body has fewer outputs than states");
    };
    let mut parts = vec![Vec::new(); scans];
    let mut iteration = 0;
    let is_stated = limit.is_some_and(|limit| limit <= MAX_STATED);
    while continues && limit.is_none_or(|limit| iteration < limit) {
        if !is_stated && iteration == MAX_UNSTATED {
            return fault(format!("its condition is not false within {MAX_UNSTATED} iterations"));
        }
        call.spend(ITERATION)?;
        let mut inputs = vec![
            Arc::new(Tensor::of_integers(Element::Int64, &[], vec![iteration])?),
            Arc::new(Tensor::of_truths(&[], [continues].into_iter())?),
        ];
        inputs.append(&mut states);
        let mut outputs = call.evaluate(body, inputs)?;
        let new_parts = outputs.split_off(outputs.len() - scans);
        states = outputs.split_off(1);
        continues = truth(&outputs[0])?;
        let is_last = limit.is_some_and(|limit| iteration + 1 >= limit);
        if !continues && call.optional(1).is_none() && !is_last {
            return fault("its body ends it, but the standard ignores that without a condition");
        }
        for (parts, part) in parts.iter_mut().zip(new_parts) {
            parts.push(part);
        }
        iteration += 1;
    }
    let first_scan = body.outputs.len() - scans;
    let stacks =
        parts.iter().enumerate().map(|(number, parts)| stack(body, first_scan + number, parts));
    states.iter().map(|state| Ok(Tensor::clone(state))).chain(stacks).collect()
}

/// Puts results of iterations on a new first dimension.
fn stack(body: &Graph, output: usize, parts: &[Arc<Tensor>]) -> Result<Tensor, Fault> {
    let Some(first) = parts.first() else {
        return empty(body, output);
    };
    let lengthened: Result<Vec<Tensor>, Fault> = parts
        .iter()
        .map(|part| {
            if part.shape() != first.shape() || part.element() != first.element() {
                return fault("results of iterations are of different shapes or types");
            }
            part.reshaped(&[&[1], part.shape()].concat())
        })
        .collect();
    let lengthened = lengthened?;
    let shape = [&[parts.len()], first.shape()].concat();
    join(&lengthened.iter().collect::<Vec<_>>(), 0, &shape)
}

/// Returns the stack of no results, whose type and shape only the body's declaration states.
fn empty(body: &Graph, output: usize) -> Result<Tensor, Fault> {
    let port = &body.outputs[output];
    let sizes = port.shape.iter().flatten().map(|dimension| match dimension {
        Dimension::Fixed(size) => Some(*size),
        Dimension::Named(_) | Dimension::Unknown => None,
    });
    let sizes: Option<Vec<usize>> = sizes.collect();
    let (Some(element), Some(sizes), Some(_)) = (port.element, sizes, &port.shape) else {
        return fault(format!("no iteration, and the body states no shape of {:?}", port.name));
    };
    let shape = [&[0], &sizes[..]].concat();
    if element.is_float() {
        Tensor::of_floats(element, &shape, Vec::new())
    } else {
        Tensor::of_integers(element, &shape, Vec::new())
    }
}

/// Computes the body for each slice of the scanned inputs.
fn scan(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let body = call.graph("body")?;
    let scanned = size_of(call.integer("num_scan_inputs", 0)?)?;
    let count = (call.inputs.len().checked_sub(scanned)).filter(|_| scanned > 0);
    let Some(count) = count else { return fault("expected 1 or more scanned inputs") };
    let Some(scans) = body.outputs.len().checked_sub(count) else {
        return fault("the body has fewer outputs than states");
    };
    let inputs = call.all_inputs()?;
    let (states, sequences) = inputs.split_at(count);
    let directions = list(call, "scan_input_directions", scanned)?;
    let axes = list(call, "scan_input_axes", scanned)?;
    let axes: Result<Vec<usize>, _> =
        axes.iter().zip(sequences).map(|(axis, input)| axis_of(*axis, input.rank())).collect();
    let axes = axes?;
    let steps = sequences[0].shape()[axes[0]];
    if sequences.iter().zip(&axes).any(|(input, axis)| input.shape()[*axis] != steps) {
        return fault("scanned inputs are of different lengths");
    }
    let mut states: Vec<Arc<Tensor>> =
        states.iter().map(|state| Arc::new(Tensor::clone(state))).collect();
    let mut parts = vec![Vec::new(); scans];
    for step in 0..steps {
        call.spend(ITERATION)?;
        let mut inputs = std::mem::take(&mut states);
        for (number, input) in sequences.iter().enumerate() {
            let step = if directions[number] == 1 { steps - 1 - step } else { step };
            inputs.push(Arc::new(slice(input, axes[number], step)?));
        }
        let mut outputs = call.evaluate(body, inputs)?;
        for (parts, part) in parts.iter_mut().zip(outputs.split_off(count)) {
            parts.push(part);
        }
        states = outputs;
    }
    let directions = list(call, "scan_output_directions", scans)?;
    let axes = list(call, "scan_output_axes", scans)?;
    let mut results: Vec<Tensor> = states.iter().map(|state| Tensor::clone(state)).collect();
    for (number, mut parts) in parts.into_iter().enumerate() {
        if directions[number] == 1 {
            parts.reverse();
        }
        let stacked = stack(body, count + number, &parts)?;
        let axis = axis_of(axes[number], stacked.rank())?;
        let mut order: Vec<usize> = (1..stacked.rank()).collect();
        order.insert(axis, 0);
        results.push(super::layout::transpose(&stacked, &order)?);
    }
    Ok(results)
}

/// Returns one integer for each input or output, by default 0.
fn list(call: &Call<'_>, name: &str, count: usize) -> Result<Vec<i64>, Fault> {
    match call.integers(name)? {
        None => Ok(vec![0; count]),
        Some(values) if values.len() == count => Ok(values),
        Some(values) => {
            fault(format!("attribute {name:?}: {} numbers for {count}", integer_of(values.len())))
        }
    }
}

/// Returns what a tensor holds at one index of an axis, without the axis.
fn slice(input: &Tensor, axis: usize, step: usize) -> Result<Tensor, Fault> {
    let mut shape = input.shape().to_vec();
    shape.remove(axis);
    input.rearranged(&shape, |index| {
        let own = [&index[..axis], &[step], &index[axis..]].concat();
        position(&own, input.shape())
    })
}
