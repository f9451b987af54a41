//! Normalisation that an implementation may compute into the convolution before it:
//! the reference's weights as they are then.

use dyno_onnx::{Model, Node, ReadError};

use super::weights::Weights;

/// Folds each normalisation of the reference that the model does not have any more, with
/// the names of what was folded.
///
/// # Errors
/// Weights that cannot be read.
pub fn fold(
    reference: &Model,
    weights: &mut Weights<'_>,
    model: &Model,
    own: &Weights<'_>,
) -> Result<Vec<String>, ReadError> {
    let count =
        |model: &Model| model.nodes.iter().filter(|node| node.op == "BatchNormalization").count();
    let (theirs, left) = (count(reference), count(model));
    let mut folded = Vec::new();
    if left >= theirs {
        return Ok(folded);
    }
    for node in reference.nodes.iter().filter(|node| node.op == "BatchNormalization") {
        let [from, scale, ..] = &node.inputs[..] else { continue };
        let is_kept = own.all.iter().any(|weight| weight.held_as == *scale);
        if is_kept && left > 0 {
            continue;
        }
        let conv = reference.nodes.iter().find(|node| node.outputs.contains(from));
        let Some(conv) = conv.filter(|conv| conv.op == "Conv") else { continue };
        let is_shared =
            reference.nodes.iter().filter(|node| node.inputs.contains(from)).count() > 1;
        if !is_shared && fold_one(conv, node, weights)? {
            folded.push(scale.clone());
        }
    }
    Ok(folded)
}

fn fold_one(conv: &Node, norm: &Node, weights: &mut Weights<'_>) -> Result<bool, ReadError> {
    let [_, scale, shift, mean, variance] = &norm.inputs[..] else { return Ok(false) };
    let Some(kernel) = conv.inputs.get(1) else { return Ok(false) };
    let is_plain = weights.all.iter().any(|weight| weight.held_as == *kernel);
    if !is_plain {
        return Ok(false);
    }
    let numbers = |name: &String| weights.plain(name).map(|decoded| decoded.values);
    let (scale, shift) = (numbers(scale)?, numbers(shift)?);
    let (mean, variance) = (numbers(mean)?, numbers(variance)?);
    let bias = match conv.inputs.get(2).filter(|name| !name.is_empty()) {
        Some(name) => numbers(name)?,
        None => vec![0.0; scale.len()],
    };
    let lengths = [shift.len(), mean.len(), variance.len(), bias.len()];
    if lengths.iter().any(|&len| len != scale.len()) {
        return Ok(false);
    }
    let epsilon = match norm.attribute("epsilon") {
        Some(dyno_onnx::Attribute::Float(value)) => f64::from(*value),
        _ => 1e-5,
    };
    let factor = |at: usize| f64::from(scale[at]) / (f64::from(variance[at]) + epsilon).sqrt();
    let biased =
        |at: usize| (f64::from(bias[at]) - f64::from(mean[at])) * factor(at) + f64::from(shift[at]);
    let all = 0..scale.len();
    let (factors, values) = (
        all.clone().map(|at| factor(at) as f32).collect(),
        all.map(|at| biased(at) as f32).collect(),
    );
    weights.scale(kernel, factors);
    let own = conv.inputs.get(2).filter(|name| !name.is_empty());
    let made = own.cloned().unwrap_or_else(|| format!("{kernel}, its bias"));
    let mut gone: Vec<&str> = norm.inputs[1..].iter().map(String::as_str).collect();
    gone.extend(own.map(String::as_str));
    weights.replace(&gone, &made, values);
    Ok(true)
}
