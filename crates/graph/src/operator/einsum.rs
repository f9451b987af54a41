//! Sums of products by an equation of axes.

use dyno_kernels::Isa;
use dyno_onnx::{EquationAxes, equation_axes};

use super::product::matmul;
use super::{cast, layout, one};
use crate::node::{NodeReader, Operation};
use crate::value::{Value, count};

/// Reads an `Einsum`. Terms with one axis twice are not supported.
pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let equation: String =
        reader.text("equation", "")?.chars().filter(|c| !c.is_whitespace()).collect();
    let operands = reader.node.inputs.len();
    // The equation is checked with ranks that are unknown before the model runs as if they fit.
    let (left, _) = equation.split_once("->").unwrap_or((equation.as_str(), ""));
    let letters = |term: &str| term.chars().filter(char::is_ascii_alphabetic).count();
    let least: Vec<usize> = left.split(',').map(letters).collect();
    let rank = |input: usize| reader.rank(input).or_else(|| least.get(input).copied());
    let ranks: Vec<usize> = (0..operands).map(|input| rank(input).unwrap_or(0)).collect();
    axes(&equation, &ranks)?;
    one(move |frame| {
        let isa = frame.workspace.isa;
        let values = (0..operands).map(|input| frame.input(input));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let ranks: Vec<usize> = values.iter().map(|value| value.dims().len()).collect();
        evaluate(isa, &values, &axes(&equation, &ranks)?)
    })
}

/// Returns the axes of an equation. The standard's sums of diagonals are not supported.
fn axes(equation: &str, ranks: &[usize]) -> Result<EquationAxes, String> {
    let unsupported = |why: &str| format!("equation '{equation}' is not supported{why}");
    let axes = equation_axes(equation, ranks).map_err(|why| unsupported(&format!(": {why}")))?;
    let has_twice = |term: &Vec<char>| (0..term.len()).any(|at| term[..at].contains(&term[at]));
    let is_known = |c: &char| axes.operands.iter().any(|operand| operand.contains(c));
    if axes.operands.iter().any(has_twice)
        || has_twice(&axes.output)
        || !axes.output.iter().all(is_known)
    {
        return Err(unsupported(""));
    }
    Ok(axes)
}

/// Multiplies operands, the first ones first. An axis is summed as soon as neither a later operand nor
/// the output has it.
fn evaluate(isa: Isa, values: &[&Value], axes: &EquationAxes) -> Result<Value, String> {
    let output = &axes.output;
    let operands = without_repeated(values, &axes.operands)?;
    let Some(((first, own), operands)) = operands.split_first() else {
        return Err("expected an operand".into());
    };
    let (mut product, mut own) = (first.clone(), own.clone());
    for (at, (value, other)) in operands.iter().enumerate() {
        let later = &operands[at + 1..];
        let is_needed =
            |c: &char| output.contains(c) || later.iter().any(|(_, operand)| operand.contains(c));
        let is_left = |c: &char| is_needed(c) || other.contains(c);
        let (left, left_axes) = without(isa, &product, &own, &is_left)?;
        let is_right = |c: &char| is_needed(c) || own.contains(c);
        let (right, right_axes) = without(isa, value, other, &is_right)?;
        let added = right_axes.iter().filter(|c| !left_axes.contains(c));
        let all = left_axes.iter().chain(added).copied().filter(is_needed);
        let kept = if later.is_empty() { output.clone() } else { all.collect() };
        product = contract(isa, (&left, &left_axes), (&right, &right_axes), &kept)?;
        own = kept;
    }
    let (product, own) = without(isa, &product, &own, &|c| output.contains(c))?;
    let place = |c: &char| own.iter().position(|known| known == c).ok_or("expected its axis");
    let order = output.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    layout::transposed(&product, Some(&order))
}

/// Removes axes of one element that are longer in another operand: an operand has the same values all
/// along such an axis.
fn without_repeated(
    values: &[&Value],
    operands: &[Vec<char>],
) -> Result<Vec<(Value, Vec<char>)>, String> {
    let all = || values.iter().zip(operands);
    let is_longer = |c: &char| {
        let mut sizes = all().flat_map(|(value, own)| own.iter().zip(value.dims()));
        sizes.any(|(other, size)| other == c && *size != 1)
    };
    let one = |(value, own): (&&Value, &Vec<char>)| -> Result<(Value, Vec<char>), String> {
        let axes = own.iter().copied().zip(value.dims().iter().copied());
        let (own, dims) = axes.filter(|(c, size)| *size != 1 || !is_longer(c)).unzip();
        Ok(((*value).clone().reshaped(dims)?, own))
    };
    all().map(one).collect()
}

/// Sums a value over its axes that are not kept. Returns the sums and their axes.
fn without(
    isa: Isa,
    value: &Value,
    axes: &[char],
    is_kept: &dyn Fn(&char) -> bool,
) -> Result<(Value, Vec<char>), String> {
    let (kept, lost): (Vec<char>, Vec<char>) = axes.iter().copied().partition(|c| is_kept(c));
    if lost.is_empty() {
        return Ok((value.clone(), kept));
    }
    let sizes = axes.iter().zip(value.dims()).filter(|(c, _)| !is_kept(c));
    let dims: Vec<usize> = sizes.map(|(_, size)| *size).collect();
    let ones = Value::new(dims.clone(), vec![1.0_f32; count(&dims, size_of::<f32>())?])?;
    let ones = cast::cast_to(ones, value.element())?;
    Ok((contract(isa, (value, axes), (&ones, &lost), &kept)?, kept))
}

/// Multiplies two values over the axes that the output lacks.
fn contract(
    isa: Isa,
    (a, axes_a): (&Value, &[char]),
    (b, axes_b): (&Value, &[char]),
    output: &[char],
) -> Result<Value, String> {
    if a.dims().len() != axes_a.len() || b.dims().len() != axes_b.len() {
        return Err("expected as many axes as the equation has".into());
    }
    let size = |c: &char| -> Result<usize, String> {
        let of = |value: &Value, axes: &[char]| {
            axes.iter().position(|known| known == c).map(|at| value.dims()[at])
        };
        match (of(a, axes_a), of(b, axes_b)) {
            (Some(n), Some(m)) if n != m => Err(format!("axis '{c}' has {n} and {m} elements")),
            (n, m) => n.or(m).ok_or_else(|| format!("axis '{c}' has no size")),
        }
    };
    let pick = |axes: &[char], is_in: &dyn Fn(&char) -> bool| -> Vec<char> {
        axes.iter().copied().filter(|c| is_in(c)).collect()
    };
    let batch = pick(axes_a, &|c| axes_b.contains(c) && output.contains(c));
    let summed = pick(axes_a, &|c| axes_b.contains(c) && !output.contains(c));
    let rows = pick(axes_a, &|c| !axes_b.contains(c));
    let columns = pick(axes_b, &|c| !axes_a.contains(c));
    let product = |axes: &[char]| -> Result<usize, String> {
        count(&axes.iter().map(size).collect::<Result<Vec<_>, _>>()?, 1)
    };
    let arranged = |value: &Value, own: &[char], parts: [&[char]; 3]| {
        let all = parts.concat();
        let place = |c: &char| own.iter().position(|known| known == c).expect("its own axis");
        let order: Vec<usize> = all.iter().map(place).collect();
        let dims = parts.iter().map(|part| product(part)).collect::<Result<Vec<_>, _>>()?;
        layout::transposed(value, Some(&order))?.reshaped(dims)
    };
    let left = arranged(a, axes_a, [&batch, &rows, &summed])?;
    let right = arranged(b, axes_b, [&batch, &summed, &columns])?;
    let all = [batch, rows, columns].concat();
    let dims = all.iter().map(size).collect::<Result<Vec<_>, _>>()?;
    let found = matmul(isa, &left, &right)?.reshaped(dims)?;
    let order: Vec<usize> = output
        .iter()
        .map(|c| all.iter().position(|known| known == c).ok_or("expected its axis"))
        .collect::<Result<_, _>>()?;
    layout::transposed(&found, Some(&order))
}
