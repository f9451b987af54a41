//! Inputs of a sample, for users.

use dyno_sut::digits::{self, Perceptron};
use dyno_sut::tensors::{Elements, SampleTensor};
use serde::Serialize;

use super::System;

/// One input of one sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampleInput {
    /// Name of the model's input.
    #[cfg_attr(feature = "schema", schemars(description = "name of the model's input"))]
    pub name: String,
    /// Type of the elements.
    pub element: String,
    /// Without the batch's dimension.
    pub shape: Vec<usize>,
    /// Least element; null if no element is a number.
    #[cfg_attr(
        feature = "schema",
        schemars(description = "Least element; null if no element is a number.")
    )]
    pub min: Option<f64>,
    /// Mean of the elements.
    pub mean: Option<f64>,
    /// Greatest element.
    pub max: Option<f64>,
    /// Elements that are infinite or not a number.
    pub not_finite: usize,
    /// The first few.
    pub first: Vec<f64>,
}

/// Maximum number of shown elements.
const SHOWN: usize = 8;

impl SampleInput {
    fn new(name: &str, shape: &[usize], elements: &Elements<'_>) -> Self {
        let all = elements.to_f64();
        let finite: Vec<f64> = all.iter().copied().filter(|x| x.is_finite()).collect();
        let sum: f64 = finite.iter().sum();
        Self {
            name: name.to_string(),
            element: elements.element().to_string(),
            shape: shape.to_vec(),
            min: finite.iter().copied().reduce(f64::min),
            mean: (!finite.is_empty()).then(|| sum / finite.len() as f64),
            max: finite.iter().copied().reduce(f64::max),
            not_finite: all.len() - finite.len(),
            first: all.into_iter().take(SHOWN).collect(),
        }
    }
}

impl System {
    /// Returns the inputs of a sample; empty if samples are only numbers.
    pub fn sample(&self, index: u32) -> Vec<SampleInput> {
        if matches!(self.short_name(), "digits" | "digits-lstm") {
            let ink = Perceptron::input(digits::test_digit(index as usize).pixels);
            let elements = Elements::F32(ink.to_vec().into());
            return vec![SampleInput::new("ink", &[digits::PIXELS], &elements)];
        }
        let Some(library) = &self.tensors else { return Vec::new() };
        let inputs = library.sample(index).unwrap_or_default();
        let input = |(name, tensor): &(&str, SampleTensor)| {
            SampleInput::new(name, &tensor.shape, &tensor.elements)
        };
        inputs.iter().map(input).collect()
    }
}
