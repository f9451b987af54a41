//! The states of silero-vad along a recording in plain float32: the state that each step of a
//! stream receives from the previous step.
//!
//! A stream feeds each step with the state of the previous one. Samples of a run come in any order
//! and repeatedly, so each sample carries its state, which is computed here once from the same
//! weights: magnitudes of a short-time Fourier transform, four convolutions and an LSTM.

use std::path::Path;

use dyno_onnx::{Model, Tensor};

use super::{CONTEXT, STATE, STEP, WIDE};
use crate::data::FileError;

/// Window and hop of the transform, in samples.
const WINDOW: usize = 256;
const HOP: usize = 128;
/// Frequency bins from zero to half the sample rate.
const BINS: usize = WINDOW / 2 + 1;
/// Samples that are mirrored at the end of a step.
const MIRRORED: usize = 64;
const FRAMES: usize = (CONTEXT + STEP + MIRRORED - WINDOW) / HOP + 1;

/// Input channels, output channels and stride of each convolution; kernels have size 3.
const LAYERS: [(usize, usize, usize); 4] =
    [(BINS, 128, 1), (128, 64, 2), (64, 64, 2), (64, WIDE, 1)];

/// The part of the network that computes its state.
#[derive(Debug)]
pub struct StateNetwork {
    basis: Vec<f32>,
    layers: [Layer; 4],
    /// LSTM weights of inputs, then of outputs; gates in the order input, output, forget, cell.
    inputs: Vec<f32>,
    outputs: Vec<f32>,
    bias: Vec<f32>,
}

#[derive(Debug)]
struct Layer {
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl StateNetwork {
    /// Reads `silero_vad_16k_sequence.onnx` of the package, which has the weights of
    /// `silero_vad.onnx` under readable names.
    ///
    /// # Errors
    /// [`FileError`] if the file is not this network.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let model = Model::read(path).map_err(|error| FileError::from_problem(path, error))?;
        let weight = |name: &str, shape: &[usize]| {
            let found = model.tensors.iter().find(|tensor| tensor.name == name);
            let found = found.filter(|tensor| tensor.shape == shape).and_then(Tensor::floats);
            found.ok_or_else(|| {
                let expected = format!("the weights {name} of shape {shape:?} and type float32");
                FileError::from_problem(path, format!("expected {expected}"))
            })
        };
        let layer = |at: usize| {
            let (channels, width, _) = LAYERS[at];
            let weights = weight(&format!("encoder.{at}.weight"), &[width, channels, 3])?;
            Ok(Layer { weights, bias: weight(&format!("encoder.{at}.bias"), &[width])? })
        };
        let bias = weight("onnx::LSTM_211", &[1, 8 * WIDE])?;
        let (first, second) = bias.split_at(4 * WIDE);
        Ok(Self {
            basis: weight("stft.forward_basis_buffer", &[2 * BINS, 1, WINDOW])?,
            layers: [layer(0)?, layer(1)?, layer(2)?, layer(3)?],
            inputs: weight("onnx::LSTM_209", &[1, 4 * WIDE, WIDE])?,
            outputs: weight("onnx::LSTM_210", &[1, 4 * WIDE, WIDE])?,
            bias: first.iter().zip(second).map(|(a, b)| a + b).collect(),
        })
    }

    /// Returns the state before each step; the first is zero.
    pub fn states(&self, steps: &[[f32; CONTEXT + STEP]]) -> Vec<f32> {
        let mut state = [0.0; STATE];
        let mut all = Vec::with_capacity(steps.len() * STATE);
        for step in steps {
            all.extend_from_slice(&state);
            self.advance(&self.features(step), &mut state);
        }
        all
    }

    /// Returns the inputs of the LSTM.
    fn features(&self, step: &[f32; CONTEXT + STEP]) -> Vec<f32> {
        let mut padded = step.to_vec();
        padded.extend((1..=MIRRORED).map(|back| step[step.len() - 1 - back]));
        let part = |row: usize, frame: usize| {
            dot(&self.basis[row * WINDOW..][..WINDOW], &padded[frame * HOP..][..WINDOW])
        };
        // Frames of a channel are contiguous, as convolutions need them.
        let mut x: Vec<f32> = (0..BINS * FRAMES)
            .map(|at| (at / FRAMES, at % FRAMES))
            .map(|(bin, frame)| part(bin, frame).powi(2) + part(BINS + bin, frame).powi(2))
            .map(f32::sqrt)
            .collect();
        for (layer, (channels, _, stride)) in self.layers.iter().zip(LAYERS) {
            x = layer.convolve(&x, channels, stride);
        }
        x
    }

    /// Updates the LSTM's outputs and cells by one step.
    fn advance(&self, x: &[f32], state: &mut [f32; STATE]) {
        let (h, c) = state.split_at_mut(WIDE);
        let gates: Vec<f32> = (0..4 * WIDE)
            .map(|row| {
                let sum =
                    |weights: &[f32], values: &[f32]| dot(&weights[row * WIDE..][..WIDE], values);
                sum(&self.inputs, x) + sum(&self.outputs, h) + self.bias[row]
            })
            .collect();
        let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
        for at in 0..WIDE {
            let [input, output, forget, cell] = [0, 1, 2, 3].map(|gate| gates[gate * WIDE + at]);
            c[at] = sigmoid(forget) * c[at] + sigmoid(input) * cell.tanh();
            h[at] = sigmoid(output) * c[at].tanh();
        }
    }
}

impl Layer {
    /// Applies a convolution with zero padding of 1 and a ReLU.
    fn convolve(&self, x: &[f32], channels: usize, stride: usize) -> Vec<f32> {
        let frames = x.len() / channels;
        let outputs_len = (frames - 1) / stride + 1;
        let mut y = Vec::with_capacity(self.bias.len() * outputs_len);
        for (width, bias) in self.bias.iter().enumerate() {
            for frame in 0..outputs_len {
                let mut sum = *bias;
                for channel in 0..channels {
                    let weights = &self.weights[(width * channels + channel) * 3..][..3];
                    let row = &x[channel * frames..][..frames];
                    // The padding positions are zero.
                    for (tap, weight) in weights.iter().enumerate() {
                        let at = (frame * stride + tap).checked_sub(1);
                        sum += weight * at.and_then(|at| row.get(at)).unwrap_or(&0.0);
                    }
                }
                y.push(sum.max(0.0));
            }
        }
        y
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_convolution_has_zeros_at_its_edges_and_nothing_below_zero() {
        // One input channel, two output channels: the sum of three neighbors, and its negative.
        let layer = Layer { weights: vec![1.0, 1.0, 1.0, -1.0, -1.0, -1.0], bias: vec![0.5, 7.0] };
        let x = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(layer.convolve(&x, 1, 1), [3.5, 6.5, 9.5, 7.5, 4.0, 1.0, 0.0, 0.0]);
        assert_eq!(layer.convolve(&x, 1, 2), [3.5, 9.5, 4.0, 0.0]);
    }

    #[test]
    fn a_file_without_the_weights_is_rejected() {
        let path = std::env::temp_dir().join(format!("dyno-states-{}.onnx", std::process::id()));
        std::fs::write(&path, b"no model").unwrap();
        let error = StateNetwork::read(&path).unwrap_err().to_string();
        assert!(!error.contains("expected the weights"), "{error}");
        let empty = dyno_onnx::Builder::new("empty", dyno_onnx::Weights::seeded(1)).finish();
        empty.write(&path).unwrap();
        let error = StateNetwork::read(&path).unwrap_err().to_string();
        let expected = "expected the weights onnx::LSTM_211 of shape [1, 1024] and type float32";
        assert!(error.ends_with(expected), "{error}");
        std::fs::remove_file(&path).unwrap();
    }
}
