//! Inputs of a graph, and the correct answers.

use dyno_onnx::{Element, Model};

use super::super::EvaluateError;
use super::agreement::Agreement;
use super::tensor::Tensor;

/// One input of a model, for all samples.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphInput {
    /// Dimensions of a sample.
    pub dims: Vec<usize>,
    /// Values of all samples, one after the other. Integers of at most 24 bits are exact.
    pub values: Vec<f32>,
}

/// What counts as a correct answer.
#[derive(Clone, Debug, PartialEq)]
pub enum CorrectnessRule {
    /// For each sample, the index of the output that should be the largest.
    Labels(Vec<usize>),
    /// The answer agrees with that in FLOAT(32).
    Agreement(Agreement),
}

/// Samples for all inputs of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphSamples {
    /// The inputs in the order of the model, each with all samples.
    pub inputs: Vec<GraphInput>,
    /// How much of the first axis of each sample is valid; `None` if all of it is. Samples of equal
    /// length are computed together, without padding.
    pub lengths: Option<Vec<usize>>,
    /// What counts as a correct answer.
    pub correctness: CorrectnessRule,
}

impl GraphSamples {
    /// Returns the number of samples.
    pub fn count(&self) -> usize {
        let count =
            |input: &GraphInput| input.values.len().checked_div(input.dims.iter().product());
        self.inputs.first().and_then(count).unwrap_or(0)
    }

    /// Checks the samples against the model.
    ///
    /// # Errors
    /// Inputs, lengths or labels do not fit the model or each other.
    pub(super) fn check(&self, model: &Model) -> Result<(), EvaluateError> {
        let wrong =
            |expected: String, found: String| Err(EvaluateError::Samples { expected, found });
        if self.inputs.len() != model.inputs.len() {
            let names: Vec<&str> = model.inputs.iter().map(|port| port.name.as_str()).collect();
            let expected = format!("samples of each input: {}", names.join(", "));
            return wrong(expected, format!("samples of {}", self.inputs.len()));
        }
        let count = self.count();
        for (port, input) in model.inputs.iter().zip(&self.inputs) {
            let size: usize = input.dims.iter().product();
            if count == 0 {
                return wrong(format!("at least one sample of {}", port.name), "none".into());
            }
            if input.values.len() != count * size {
                let expected = format!("{size} numbers for each of {count} samples");
                return wrong(expected, format!("{} of {}", input.values.len(), port.name));
            }
            if let Some(element) = port.element.filter(|element| is_whole(*element))
                && let Some(at) = input.values.iter().position(|x| x.fract() != 0.0)
            {
                let expected = format!("whole numbers for {} ({})", port.name, element.name());
                let (found, sample) = (input.values[at], at / size);
                return wrong(expected, format!("{found} in sample {sample}"));
            }
            let Some(shape) = &port.shape else { continue };
            let is_cut = |at: usize| at == 0 && self.lengths.is_some();
            let fits =
                shape.len() == input.dims.len() + 1
                    && shape[1..].iter().zip(&input.dims).enumerate().all(|(at, (dim, n))| {
                        is_cut(at) || dim.fixed().is_none_or(|dim| dim == *n)
                    });
            if !fits {
                let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
                let expected = format!("{} of shape [{}]", port.name, dims.join(", "));
                return wrong(expected, format!("samples of {:?}", input.dims));
            }
        }
        // Inputs without an axis to cut have one number per sample.
        let first = |input: &GraphInput| input.dims.first().copied().unwrap_or(1);
        let most = self.inputs.iter().map(first).min().unwrap_or(0);
        match &self.lengths {
            Some(lengths) if lengths.len() != count => {
                wrong(format!("a length for each of {count} samples"), lengths.len().to_string())
            }
            Some(lengths) => match lengths.iter().find(|n| !(1..=most).contains(*n)) {
                Some(other) => wrong(format!("lengths from 1 to {most}"), other.to_string()),
                None => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// Checks the labels, or the agreement, against the answers.
    ///
    /// # Errors
    /// A label is not an index of an answer, or answers have too few numbers for the agreement.
    pub(super) fn check_answers(&self, answers: &[Vec<f32>]) -> Result<(), EvaluateError> {
        let wrong =
            |expected: String, found: String| Err(EvaluateError::Samples { expected, found });
        let is_nan = |answer: &Vec<f32>| answer.iter().any(|x| x.is_nan());
        if let Some(at) = answers.iter().position(is_nan) {
            return wrong("numbers as answers in FLOAT 32".into(), format!("NaN for sample {at}"));
        }
        let labels = match &self.correctness {
            CorrectnessRule::Labels(labels) => labels,
            CorrectnessRule::Agreement(agreement) => {
                let least = agreement.fewest_numbers();
                return match answers.iter().position(|answer| answer.len() < least) {
                    Some(at) => wrong(
                        format!(
                            "answers of {least} numbers or more for the agreement `{agreement}`"
                        ),
                        format!(
                            "{} for sample {at}; use `agreement = \"within 0.1\"` or a program, \
                             `cmd_fullset`",
                            answers[at].len()
                        ),
                    ),
                    None => Ok(()),
                };
            }
        };
        if labels.len() != answers.len() {
            return wrong(
                format!("a label for each of {} samples", answers.len()),
                labels.len().to_string(),
            );
        }
        let mut pairs = labels.iter().zip(answers).enumerate();
        match pairs.find(|(_, (label, answer))| **label >= answer.len()) {
            Some((at, (label, answer))) => {
                let single = "; a single score determines no class, and `agreement = \"within 0.1\"` in \
                              place of `labels` needs none";
                let hint = if answer.len() == 1 { single } else { "" };
                wrong(
                    format!("labels below {}, the outputs of the model", answer.len()),
                    format!("{label} for sample {at}{hint}"),
                )
            }
            None => Ok(()),
        }
    }

    /// Groups samples that can be computed together: of equal length, at most `most` of them.
    pub(super) fn blocks(&self, samples: &[usize], most: usize) -> Vec<Vec<usize>> {
        let length = |at: usize| self.lengths.as_ref().map_or(0, |lengths| lengths[at]);
        let mut order = samples.to_vec();
        order.sort_by_key(|at| length(*at));
        let alike = order.chunk_by(|a, b| length(*a) == length(*b));
        alike.flat_map(|alike| alike.chunks(most)).map(<[usize]>::to_vec).collect()
    }

    /// Returns input `at` for some samples of equal length.
    pub(super) fn gathered(&self, at: usize, samples: &[usize]) -> Tensor {
        let GraphInput { dims, values } = &self.inputs[at];
        let size: usize = dims.iter().product();
        let length = self.lengths.as_ref().map(|lengths| lengths[samples[0]]);
        let mut dims = dims.clone();
        if let (Some(first), Some(length)) = (dims.first_mut(), length) {
            *first = length;
        }
        let valid: usize = dims.iter().product();
        let mut all = Vec::with_capacity(samples.len() * valid);
        samples.iter().for_each(|at| all.extend_from_slice(&values[at * size..][..valid]));
        dims.insert(0, samples.len());
        Tensor::new(dims, all)
    }
}

/// Returns whether a type holds whole numbers only.
fn is_whole(element: Element) -> bool {
    use Element::{Bool, I8, I16, I32, I64, U8, U16, U32, U64};
    matches!(element, Bool | I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
}
