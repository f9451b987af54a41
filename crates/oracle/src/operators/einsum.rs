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
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let texts: Vec<&str> = left.split(',').collect();
    if texts.len() != inputs.len() {
        return fault(format!("equation {equation:?} for {} inputs", inputs.len()));
    }
    let hidden_each = texts.iter().zip(&inputs).map(|(text, input)| hidden(text, input.rank()));
    let hidden_each: Vec<usize> = hidden_each.collect();
    let terms = texts.iter().zip(&hidden_each).map(|(text, hidden)| names_of(text, *hidden));
    let terms: Vec<Vec<char>> = terms.collect();
    let sizes = sizes_of_names(&equation, &terms, &inputs)?;
    let most = hidden_each.iter().copied().max().unwrap_or(0);
    // Without an arrow the output has the names that occur once, in alphabetic order.
    let once = |name: &char| left.chars().filter(|other| other == name).count() == 1;
    let output: Vec<char> = match right {
        Some(right) => names_of(right, most),
        None => {
            names_of(ELLIPSIS, most).into_iter().chain(sizes.keys().copied().filter(once)).collect()
        }
    };
    if most > 0 && right.is_some_and(|right| !right.contains(ELLIPSIS)) {
        return fault(format!("equation {equation:?}: the output lacks the ellipsis"));
    }
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

/// Returns the size of the dimensions that have each name.
fn sizes_of_names(
    equation: &str,
    terms: &[Vec<char>],
    inputs: &[&Tensor],
) -> Result<BTreeMap<char, usize>, Fault> {
    let mut sizes = BTreeMap::new();
    for (term, input) in terms.iter().zip(inputs) {
        if term.len() != input.rank() || input.element() != inputs[0].element() {
            return fault(format!("equation {equation:?} for an input {:?}", input.shape()));
        }
        if let Some(name) =
            term.iter().find(|name| !name.is_ascii_alphabetic() && !is_hidden(**name))
        {
            return fault(format!("equation {equation:?}: {name:?} is not a letter"));
        }
        for (name, size) in term.iter().zip(input.shape()) {
            let known = sizes.entry(*name).or_insert(*size);
            // Dimensions of an ellipsis are broadcast.
            if is_hidden(*name) && *known == 1 {
                *known = *size;
            }
            if *known != *size && !(is_hidden(*name) && *size == 1) {
                return fault(format!("equation {equation:?}: {name:?} is of two sizes"));
            }
        }
    }
    Ok(sizes)
}

const ELLIPSIS: &str = "...";
/// Name of the last dimension of an ellipsis; those of the dimensions before it follow.
const LAST_HIDDEN: char = '\u{e000}';

fn is_hidden(name: char) -> bool {
    ('\u{e000}'..='\u{f8ff}').contains(&name)
}

/// Returns the number of dimensions for which the ellipsis of a term stands.
fn hidden(term: &str, rank: usize) -> usize {
    match term.split_once(ELLIPSIS) {
        Some((before, after)) => rank.saturating_sub(before.len() + after.len()),
        None => 0,
    }
}

/// Returns the names of a term, with those of the dimensions of its ellipsis.
fn names_of(term: &str, hidden: usize) -> Vec<char> {
    let Some((before, after)) = term.split_once(ELLIPSIS) else { return term.chars().collect() };
    let hidden = (LAST_HIDDEN..='\u{f8ff}').take(hidden).collect::<Vec<char>>();
    before.chars().chain(hidden.into_iter().rev()).chain(after.chars()).collect()
}

/// Returns how far an operand moves for a step of each name; a name that occurs twice walks a diagonal.
fn strides(term: &[char], shape: &[usize], names: &[char]) -> Vec<usize> {
    let mut strides = vec![0; names.len()];
    let mut step = 1;
    for (name, size) in term.iter().zip(shape).rev() {
        let place = names.iter().position(|other| other == name);
        // A dimension of one element is repeated.
        if let Some(place) = place.filter(|_| *size != 1) {
            strides[place] += step;
        }
        step *= size;
    }
    strides
}
