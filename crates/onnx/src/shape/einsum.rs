//! Equations of the operator `Einsum`.

use std::collections::BTreeMap;

use super::{Dim, Fact, Facts, ShapeError, format_shape, misfit};
use crate::graph::Node;

/// An equation and the sizes of its dimensions.
pub struct Einsum {
    /// Dimensions by their letters.
    pub dims: BTreeMap<char, Dim>,
    /// Letters of the output.
    pub output: Vec<char>,
    /// Number of operands.
    pub operands: usize,
}

/// Parses the equation of a node.
///
/// # Errors
/// [`ShapeError`] if the equation has an ellipsis or does not fit the inputs.
pub fn parse_equation(node: &Node, inputs: &[Option<&Fact>]) -> Result<Einsum, ShapeError> {
    let text: String = node.text("equation").chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match text.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (text.as_str(), None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    let is_letters = |term: &str| term.chars().all(|c| c.is_ascii_alphabetic());
    if !terms.iter().chain(&right).all(|term| is_letters(term)) || terms.len() != inputs.len() {
        return misfit(format!("equation '{text}' of {} inputs", inputs.len()));
    }
    let mut dims = BTreeMap::new();
    for (at, term) in terms.iter().enumerate() {
        let fact = super::input(inputs, at)?;
        if fact.shape.len() != term.len() {
            return misfit(format!("{} as '{term}'", format_shape(&fact.shape)));
        }
        for (letter, dim) in term.chars().zip(&fact.shape) {
            let known = dims.entry(letter).or_insert_with(|| dim.clone());
            if *known == Dim::Fixed(1) {
                *known = dim.clone();
            } else if known != dim && *dim != Dim::Fixed(1) {
                return misfit(format!("'{letter}' of '{text}' is {known} and {dim}"));
            }
        }
    }
    let output: Vec<char> = match right {
        Some(right) => right.chars().collect(),
        // Without `->`, the output has the letters that occur once, in alphabetical order.
        None => dims.keys().copied().filter(|&c| left.matches(c).count() == 1).collect(),
    };
    if let Some(unknown) = output.iter().find(|letter| !dims.contains_key(letter)) {
        return misfit(format!("'{unknown}' of '{text}' is in no input"));
    }
    Ok(Einsum { dims, output, operands: terms.len() })
}

/// Infers the output of an `Einsum`.
pub fn infer(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let Einsum { dims, output, .. } = parse_equation(node, inputs)?;
    let shape = output.iter().map(|letter| dims[letter].clone()).collect();
    Ok(vec![super::input(inputs, 0)?.with_shape(shape)])
}
