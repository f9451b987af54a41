//! Folding of normalizations into the convolutions before them, which implementations may do:
//! computes the reference's weights after folding.

use dyno_onnx::ReadError;

use super::flow::{Flow, Step};
use super::weights::Weights;

/// A folded normalization.
pub struct FoldedNormalization {
    /// Name of its scale, which identifies it.
    pub scale: String,
    /// Names of the tensors that the bias replaces.
    pub gone: Vec<String>,
    /// Name of the bias.
    pub bias_name: String,
}

/// Folds each normalization of the reference that the model no longer has.
///
/// # Errors
/// Weights cannot be read.
pub fn fold(
    reference: &mut Weights<'_>,
    own: &Weights<'_>,
) -> Result<Vec<FoldedNormalization>, ReadError> {
    let is_norm = |step: &&Step<'_>| step.op == "BatchNormalization";
    let count = |flow: &Flow<'_>| flow.steps.iter().filter(is_norm).count();
    let theirs = count(&reference.flow);
    let left = count(&own.flow);
    let mut folds = Vec::new();
    let mut folded = Vec::new();
    if left >= theirs {
        return Ok(folded);
    }
    let steps = &reference.flow.steps;
    for step in steps.iter().filter(is_norm) {
        let [from, scale, ..] = &step.inputs[..] else { continue };
        let is_kept = own.all.iter().any(|weight| weight.held_as == *scale);
        if is_kept && left > 0 {
            continue;
        }
        let conv = steps.iter().find(|step| step.outputs.contains(from));
        let Some(conv) = conv.filter(|conv| conv.op == "Conv") else { continue };
        let is_shared = steps.iter().filter(|step| step.inputs.contains(from)).count() > 1;
        if !is_shared && let Some(fold) = fold_one(conv, step, reference)? {
            folds.push((fold, scale.clone()));
        }
    }
    for (fold, scale) in folds {
        reference.scale(&fold.kernel, fold.factors);
        let gone: Vec<&str> = fold.gone.iter().map(String::as_str).collect();
        reference.replace(&gone, &fold.bias_name, fold.bias, fold.greatest);
        folded.push(FoldedNormalization { scale, gone: fold.gone, bias_name: fold.bias_name });
    }
    Ok(folded)
}

/// A normalization as a factor and a bias of a convolution.
struct Fold {
    kernel: String,
    factors: Vec<f32>,
    /// Names of the weights that the bias replaces.
    gone: Vec<String>,
    bias_name: String,
    bias: Vec<f32>,
    /// Greatest of the numbers that are summed in the bias.
    greatest: f32,
}

fn fold_one(
    conv: &Step<'_>,
    norm: &Step<'_>,
    weights: &Weights<'_>,
) -> Result<Option<Fold>, ReadError> {
    let [_, scale, shift, mean, variance] = &norm.inputs[..] else { return Ok(None) };
    let held = |name: &String| weights.flow.tensors.contains_key(name);
    let Some(kernel) = conv.inputs.get(1).filter(|name| held(name)) else { return Ok(None) };
    if ![scale, shift, mean, variance].into_iter().all(held) {
        return Ok(None);
    }
    let is_plain = weights.all.iter().any(|weight| weight.held_as == *kernel);
    if !is_plain {
        return Ok(None);
    }
    let numbers = |name: &String| weights.plain(name);
    let scale = numbers(scale)?;
    let shift = numbers(shift)?;
    let mean = numbers(mean)?;
    let variance = numbers(variance)?;
    let bias = match conv.inputs.get(2).filter(|name| !name.is_empty()) {
        Some(name) if held(name) => numbers(name)?,
        Some(_) => return Ok(None),
        None => vec![0.0; scale.len()],
    };
    let lengths = [shift.len(), mean.len(), variance.len(), bias.len()];
    if lengths.iter().any(|&len| len != scale.len()) {
        return Ok(None);
    }
    let epsilon = match norm.node.attribute("epsilon") {
        Some(dyno_onnx::Attribute::Float(value)) => f64::from(*value),
        _ => 1e-5,
    };
    let factor = |at: usize| f64::from(scale[at]) / (f64::from(variance[at]) + epsilon).sqrt();
    let biased =
        |at: usize| (f64::from(bias[at]) - f64::from(mean[at])) * factor(at) + f64::from(shift[at]);
    let all = 0..scale.len();
    let greatest = all.clone().fold(0_f64, |most, at| {
        let sum = (f64::from(bias[at]).abs() + f64::from(mean[at]).abs()) * factor(at).abs();
        most.max(sum + f64::from(shift[at]).abs())
    });
    let factors = all.clone().map(|at| factor(at) as f32).collect();
    let values = all.map(|at| biased(at) as f32).collect();
    let own = conv.inputs.get(2).filter(|name| !name.is_empty());
    let bias_name = own.cloned().unwrap_or_else(|| format!("{kernel}, its bias"));
    let gone = norm.inputs[1..].iter().chain(own).cloned().collect();
    Ok(Some(Fold {
        kernel: kernel.clone(),
        factors,
        gone,
        bias_name,
        bias: values,
        greatest: greatest as f32,
    }))
}
