//! Equations of the operator `Einsum`.

use std::collections::BTreeMap;

use super::{Dim, Fact, Facts, ShapeError, misfit};
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

/// Axes of an equation. Those of an ellipsis are digits, which count from its last axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EquationAxes {
    /// Axes of each operand.
    pub operands: Vec<Vec<char>>,
    /// Axes of the output.
    pub output: Vec<char>,
}

/// Returns the axes of an equation, without blanks, for operands of these ranks.
///
/// ```
/// let axes = dyno_onnx::equation_axes("...ij,jk->...ik", &[4, 2])?;
/// assert_eq!(axes.operands, [vec!['1', '0', 'i', 'j'], vec!['j', 'k']]);
/// assert_eq!(axes.output, ['1', '0', 'i', 'k']);
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// The equation is malformed, or does not fit the ranks.
pub fn equation_axes(equation: &str, ranks: &[usize]) -> Result<EquationAxes, String> {
    let wrong = || format!("equation '{equation}' of {} inputs", ranks.len());
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation, None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != ranks.len() {
        return Err(wrong());
    }
    let mut widest = 0;
    let mut operands = Vec::new();
    for (term, &rank) in terms.iter().zip(ranks) {
        let letters = spell(term, 0).ok_or_else(wrong)?.len();
        let open = match rank.checked_sub(letters) {
            Some(open) if open == 0 || term.contains(ELLIPSIS) => open,
            _ => return Err(format!("{rank} dimensions as '{term}'")),
        };
        widest = widest.max(open);
        operands.push(spell(term, open).ok_or_else(wrong)?);
    }
    let output = match right {
        Some(right) if widest > 0 && !right.contains(ELLIPSIS) => return Err(wrong()),
        Some(right) => spell(right, widest).ok_or_else(wrong)?,
        // Without `->`, the output has the axes of the ellipsis, and the letters that occur once, in
        // alphabetical order.
        None => {
            let all = operands.concat();
            let is_once = |c: &char| all.iter().filter(|other| *other == c).count() == 1;
            let letters = all.iter().copied().filter(char::is_ascii_alphabetic);
            let mut once: Vec<char> = letters.filter(is_once).collect();
            once.sort_unstable();
            [spell(ELLIPSIS, widest).ok_or_else(wrong)?, once].concat()
        }
    };
    Ok(EquationAxes { operands, output })
}

const ELLIPSIS: &str = "...";

/// Returns the axes of a term with `open` axes in the place of its ellipsis; `None` if the term has
/// anything but letters and one ellipsis, or too many axes.
fn spell(term: &str, open: usize) -> Option<Vec<char>> {
    let (before, after) = term.split_once(ELLIPSIS).unwrap_or((term, ""));
    let open: Vec<char> = (0..open)
        .rev()
        .map(|at| char::from_digit(u32::try_from(at).ok()?, 10))
        .collect::<Option<_>>()?;
    let open = if term.contains(ELLIPSIS) { open } else { Vec::new() };
    let letters = before.chars().chain(after.chars()).all(|c| c.is_ascii_alphabetic());
    letters.then(|| before.chars().chain(open).chain(after.chars()).collect())
}

/// Parses the equation of a node.
///
/// # Errors
/// [`ShapeError`] if the equation does not fit the inputs.
pub fn parse_equation(node: &Node, inputs: &[Option<&Fact>]) -> Result<Einsum, ShapeError> {
    let text: String = node.text("equation").chars().filter(|c| !c.is_whitespace()).collect();
    let facts = (0..inputs.len()).map(|at| super::input(inputs, at));
    let facts = facts.collect::<Result<Vec<_>, _>>()?;
    let ranks: Vec<usize> = facts.iter().map(|fact| fact.shape.len()).collect();
    let EquationAxes { operands, output } =
        equation_axes(&text, &ranks).map_err(ShapeError::Misfit)?;
    let mut dims = BTreeMap::new();
    for (letters, fact) in operands.iter().zip(&facts) {
        for (&letter, dim) in letters.iter().zip(&fact.shape) {
            let known = dims.entry(letter).or_insert_with(|| dim.clone());
            if *known == Dim::Fixed(1) {
                *known = dim.clone();
            } else if known != dim && *dim != Dim::Fixed(1) {
                return misfit(format!("'{letter}' of '{text}' is {known} and {dim}"));
            }
        }
    }
    if let Some(unknown) = output.iter().find(|letter| !dims.contains_key(letter)) {
        return misfit(format!("'{unknown}' of '{text}' is in no input"));
    }
    Ok(Einsum { dims, output, operands: operands.len() })
}

/// Infers the output of an `Einsum`.
pub fn infer(node: &Node, inputs: &[Option<&Fact>]) -> Facts {
    let Einsum { dims, output, .. } = parse_equation(node, inputs)?;
    let shape = output.iter().map(|letter| dims[letter].clone()).collect();
    Ok(vec![super::input(inputs, 0)?.with_shape(shape)])
}
