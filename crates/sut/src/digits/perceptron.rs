//! A perceptron with one hidden layer, with the same results on every machine.

use dyno_loadgen::record::Failure;
use dyno_loadgen::sut::QuerySample;

use super::{CLASSES, PIXELS, TEST_COUNT, test_digit};
use crate::engine::{Answers, Engine, EngineInfo, Port};
use crate::infer::{RowModel, Value};
use crate::tensors::{Element, Elements, ModelInput};
use crate::top1;

/// Units of the hidden layer.
pub const HIDDEN: usize = 48;

/// Ink of a black pixel. Pixels are divided by it before they enter the network.
const FULL_INK: f32 = 16.0;

/// Number of weights in the file.
const WEIGHTS: usize = PIXELS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES;

static TRAINED: [u8; 4 * WEIGHTS] = *include_bytes!("../../data/digits-mlp.bin");

/// Weights of a 64-48-10 network with ReLU between the layers.
///
/// Matrices are row-major, with the inputs of the layer as rows, so that a layer adds one scaled
/// row at a time. This vectorizes over the outputs and still adds the terms of each output in a
/// fixed order, without fused multiply-add.
#[derive(Debug, Clone, PartialEq)]
pub struct Perceptron {
    /// Weights of the hidden layer: `[64, 48]`.
    pub hidden: Box<[[f32; HIDDEN]; PIXELS]>,
    /// Biases of the hidden layer: `[48]`.
    pub hidden_bias: [f32; HIDDEN],
    /// Weights of the scores: `[48, 10]`.
    pub output: Box<[[f32; CLASSES]; HIDDEN]>,
    /// Biases of the scores: `[10]`.
    pub output_bias: [f32; CLASSES],
}

impl Perceptron {
    /// Returns a network whose weights are all 0.
    pub fn zeros() -> Self {
        Self {
            hidden: Box::new([[0.0; HIDDEN]; PIXELS]),
            hidden_bias: [0.0; HIDDEN],
            output: Box::new([[0.0; CLASSES]; HIDDEN]),
            output_bias: [0.0; CLASSES],
        }
    }

    /// Returns the network trained by `examples/train_digits.rs`.
    pub fn trained() -> Self {
        let mut network = Self::zeros();
        let mut numbers = TRAINED
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes(bytes.try_into().expect("chunks of four bytes")));
        for weight in network.weights_mut() {
            *weight = numbers.next().expect("the file holds every weight");
        }
        network
    }

    /// Returns the content of the weight file: hidden weights, hidden biases, output weights and
    /// output biases as little-endian `f32`.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.weights().flat_map(|weight| weight.to_le_bytes()).collect()
    }

    /// Returns all weights in the order of the file.
    pub fn weights(&self) -> impl Iterator<Item = &f32> {
        let hidden = self.hidden.as_flattened().iter().chain(&self.hidden_bias);
        hidden.chain(self.output.as_flattened()).chain(&self.output_bias)
    }

    /// Returns all weights in the order of the file, for changes.
    pub fn weights_mut(&mut self) -> impl Iterator<Item = &mut f32> {
        let hidden = self.hidden.as_flattened_mut().iter_mut().chain(&mut self.hidden_bias);
        hidden.chain(self.output.as_flattened_mut()).chain(&mut self.output_bias)
    }

    /// Returns the input of the network for an image: ink in [0, 1].
    pub fn input(pixels: &[u8; PIXELS]) -> [f32; PIXELS] {
        pixels.map(|ink| f32::from(ink) / FULL_INK)
    }

    /// Returns the activations of the hidden layer.
    pub fn activate(&self, input: &[f32; PIXELS]) -> [f32; HIDDEN] {
        layer(input, &self.hidden, &self.hidden_bias).map(|sum| sum.max(0.0))
    }

    /// Returns one score per class for the activations of the hidden layer.
    pub fn scores(&self, hidden: &[f32; HIDDEN]) -> [f32; CLASSES] {
        layer(hidden, &self.output, &self.output_bias)
    }

    /// Returns the class with the highest score.
    pub fn classify(&self, pixels: &[u8; PIXELS]) -> usize {
        top1::argmax(&self.scores(&self.activate(&Self::input(pixels))))
    }
}

fn layer<const I: usize, const O: usize>(
    input: &[f32; I],
    weights: &[[f32; O]; I],
    bias: &[f32; O],
) -> [f32; O] {
    let mut sums = *bias;
    for (value, row) in input.iter().zip(weights) {
        for (sum, weight) in sums.iter_mut().zip(row) {
            *sum += value * weight;
        }
    }
    sums
}

/// Engine of the trained perceptron on the sample library. Its answers are classes, encoded by
/// [`top1::encode`].
///
/// ```
/// use dyno_loadgen::sut::{QuerySample, ResponseId};
/// use dyno_sut::digits::{DigitsPerceptron, test_digit};
/// use dyno_sut::engine::{Answers, Engine};
/// use dyno_sut::top1;
///
/// let mut answers = Answers::new();
/// let sample = QuerySample { id: ResponseId(1), index: 3 };
/// DigitsPerceptron::new().answer(&[sample], &mut answers);
/// let (_, answer) = answers.iter().next().expect("one answer");
/// let class = top1::decode(answer.expect("the sample exists"));
/// assert_eq!(class, Some(test_digit(3).label.into()));
/// ```
#[derive(Debug, Clone)]
pub struct DigitsPerceptron {
    network: Perceptron,
}

impl DigitsPerceptron {
    /// Returns an engine with the trained weights.
    pub fn new() -> Self {
        Self { network: Perceptron::trained() }
    }
}

impl DigitsPerceptron {
    /// Returns the model without the data set: `ink` `[rows, 64]` in [0, 1] gives `scores` `[rows,
    /// 10]`, as in its [ONNX file](Perceptron::to_onnx). A call has at most `largest_batch` rows of
    /// several requests.
    pub fn by_value(self, largest_batch: usize) -> RowModel {
        let shape = vec![None, Some(PIXELS)];
        let input = ModelInput { name: "ink".into(), element: Element::F32, shape };
        let shape = vec![None, Some(CLASSES)];
        let output = Port { name: "scores".into(), element: "float32".into(), shape };
        let info = EngineInfo {
            inputs: vec![Port::from(&input)],
            outputs: vec![output],
            largest_batch,
            ..EngineInfo::default()
        };
        let call = move |values: &[Value]| {
            let ink = values[0].elements.to_f32();
            let (images, _) = ink.as_chunks::<PIXELS>();
            let scores = |image| self.network.scores(&self.network.activate(image));
            let scores: Vec<f32> = images.iter().flat_map(scores).collect();
            let shape = vec![images.len(), CLASSES];
            Ok(vec![Value { shape, elements: Elements::F32(scores.into()) }])
        };
        RowModel::new("digits-perceptron", vec![input], info, Box::new(call))
    }
}

impl Default for DigitsPerceptron {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine for DigitsPerceptron {
    fn name(&self) -> &str {
        "digits-perceptron"
    }

    fn answer(&self, samples: &[QuerySample], answers: &mut Answers) {
        for sample in samples {
            match usize::try_from(sample.index) {
                Ok(index) if index < TEST_COUNT => {
                    let class = self.network.classify(test_digit(index).pixels);
                    answers.push(sample.id, &top1::encode(class));
                }
                _ => answers.fail(sample.id, Failure::Rejected),
            }
        }
    }
}
