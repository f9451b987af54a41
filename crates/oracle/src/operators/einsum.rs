//! Sums of products by the names of indices.

use std::collections::BTreeMap;

use super::{ANY, Operator, operator};
use crate::call::Call;
use crate::fault::{Fault, fault};
use crate::tensor::{Tensor, for_each_index};

pub(super) const OPERATORS: &[Operator] = &[operator("Einsum", 12, ANY, &["equation"], einsum)];

/// Multiplies elements whose indices have the same name, and sums over the names that the output lacks.
fn einsum(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let inputs = call.all_inputs()?;
    let equation: String =
        call.text("equation", "")?.chars().filter(|letter| *letter != ' ').collect();
    if equation.contains('.') {
        return fault(format!("equation {equation:?}: an ellipsis is not supported"));
    }
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let terms: Vec<Vec<char>> = left.split(',').map(|term| term.chars().collect()).collect();
    if terms.len() != inputs.len() {
        return fault(format!("equation {equation:?} for {} inputs", inputs.len()));
    }
    let mut sizes = BTreeMap::new();
    for (term, input) in terms.iter().zip(&inputs) {
        if term.len() != input.rank() || input.element() != inputs[0].element() {
            return fault(format!("equation {equation:?} for an input {:?}", input.shape()));
        }
        for (name, size) in term.iter().zip(input.shape()) {
            if !name.is_ascii_alphabetic() || *sizes.entry(*name).or_insert(*size) != *size {
                return fault(format!("equation {equation:?}: {name:?} is of two sizes"));
            }
        }
    }
    // Without an arrow the output has the names that occur once, in alphabetic order.
    let once = |name: &char| left.chars().filter(|other| other == name).count() == 1;
    let output: Vec<char> = match right {
        Some(right) => right.chars().collect(),
        None => sizes.keys().copied().filter(once).collect(),
    };
    let is_twice = |name: &char| output.iter().filter(|other| *other == name).count() > 1;
    if output.iter().any(|name| !sizes.contains_key(name) || is_twice(name)) {
        return fault(format!("equation {equation:?}: the output has other names than the inputs"));
    }
    let summed: Vec<char> = sizes.keys().copied().filter(|name| !output.contains(name)).collect();
    let names = [&output[..], &summed].concat();
    let shape: Vec<usize> = output.iter().map(|name| sizes[name]).collect();
    let full: Vec<usize> = names.iter().map(|name| sizes[name]).collect();
    let count = call.spend_shape(&shape)?;
    call.spend_product(&[&full[..], &[inputs.len()]].concat())?;
    let mut operands = Vec::new();
    for (term, input) in terms.iter().zip(&inputs) {
        operands.push((strides(term, input.shape(), &names), input.as_floats()?));
    }
    let terms_each: usize = full[shape.len()..].iter().product();
    let mut sums = vec![0.0; count];
    let mut number = 0;
    for_each_index(&full, |index| {
        let product: f64 = operands
            .iter()
            .map(|(strides, values)| {
                values[index.iter().zip(strides).map(|(at, stride)| at * stride).sum::<usize>()]
            })
            .product();
        sums[number / terms_each] += product;
        number += 1;
    });
    Ok(vec![Tensor::of_floats(inputs[0].element(), &shape, sums)?])
}

/// Returns how far an operand moves for a step of each name; a name that occurs twice walks a diagonal.
fn strides(term: &[char], shape: &[usize], names: &[char]) -> Vec<usize> {
    let mut strides = vec![0; names.len()];
    let mut step = 1;
    for (name, size) in term.iter().zip(shape).rev() {
        if let Some(place) = names.iter().position(|other| other == name) {
            strides[place] += step;
        }
        step *= size;
    }
    strides
}
