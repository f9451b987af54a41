//! Trains the networks of the thesis' tables for which MNIST suffices, with equal weights on every
//! machine.
//!
//! Every sum has a fixed order, independent of the number of threads. Every function consists of
//! additions, multiplications and divisions, which IEEE 754 defines exactly. Values are ordered by
//! pixel and channel, weights by input and output.

use std::collections::BTreeMap;

use dyno_loadgen::rng::split_mix;
use dyno_onnx::{Attribute, BuildError, Builder, Dim, Element, Model, Tensor, Weights};

/// Rows and columns of an image.
pub const SIDE: usize = 28;
const CLASSES: usize = 10;
/// Images per step, and per part of a step whose gradient is summed separately.
const BATCH: usize = 64;
const PART: usize = 8;
/// Caffe's solver for LeNet: rate, momentum and decay.
const RATE: f32 = 0.01;
const MOMENTUM: f32 = 0.9;
const DECAY: f32 = 5e-4;

/// A layer; `side` is that of its input.
#[derive(Clone, Copy)]
pub enum Layer {
    Convolution {
        side: usize,
        channels: usize,
        kernel: usize,
        outputs: usize,
    },
    /// Windows of 2 x 2 pixels.
    MaxPool {
        side: usize,
        channels: usize,
    },
    FullyConnected {
        inputs: usize,
        outputs: usize,
    },
    Relu {
        numbers: usize,
    },
}

/// Caffe's LeNet.
pub const LENET: &[Layer] = &[
    Layer::Convolution { side: 28, channels: 1, kernel: 5, outputs: 20 },
    Layer::MaxPool { side: 24, channels: 20 },
    Layer::Convolution { side: 12, channels: 20, kernel: 5, outputs: 50 },
    Layer::MaxPool { side: 8, channels: 50 },
    Layer::FullyConnected { inputs: 800, outputs: 500 },
    Layer::Relu { numbers: 500 },
    Layer::FullyConnected { inputs: 500, outputs: CLASSES },
];

/// MLP-M with the three layers of the thesis' table, which does not state their widths.
pub const MLP_M: &[Layer] = &[
    Layer::FullyConnected { inputs: SIDE * SIDE, outputs: 500 },
    Layer::Relu { numbers: 500 },
    Layer::FullyConnected { inputs: 500, outputs: 250 },
    Layer::Relu { numbers: 250 },
    Layer::FullyConnected { inputs: 250, outputs: CLASSES },
];

/// A small convolutional network. All its layers are tuned.
pub const DIGITS: &[Layer] = &[
    Layer::Convolution { side: 28, channels: 1, kernel: 5, outputs: 8 },
    Layer::MaxPool { side: 24, channels: 8 },
    Layer::Convolution { side: 12, channels: 8, kernel: 5, outputs: 16 },
    Layer::MaxPool { side: 8, channels: 16 },
    Layer::FullyConnected { inputs: 256, outputs: CLASSES },
];

/// A perceptron with a block that is repeated three times: 200-200-200-200.
pub const BLOCKS: &[Layer] = &[
    Layer::FullyConnected { inputs: SIDE * SIDE, outputs: 200 },
    Layer::Relu { numbers: 200 },
    Layer::FullyConnected { inputs: 200, outputs: 200 },
    Layer::Relu { numbers: 200 },
    Layer::FullyConnected { inputs: 200, outputs: 200 },
    Layer::Relu { numbers: 200 },
    Layer::FullyConnected { inputs: 200, outputs: 200 },
    Layer::Relu { numbers: 200 },
    Layer::FullyConnected { inputs: 200, outputs: CLASSES },
];

impl Layer {
    /// Returns the numbers of its input per image.
    fn inputs(self) -> usize {
        match self {
            Self::Convolution { side, channels, .. } | Self::MaxPool { side, channels } => {
                side * side * channels
            }
            Self::FullyConnected { inputs, .. } => inputs,
            Self::Relu { numbers } => numbers,
        }
    }

    /// Returns the numbers of inputs and outputs of its weights.
    fn weights(self) -> (usize, usize) {
        match self {
            Self::Convolution { channels, kernel, outputs, .. } => {
                (kernel * kernel * channels, outputs)
            }
            Self::FullyConnected { inputs, outputs } => (inputs, outputs),
            Self::MaxPool { .. } | Self::Relu { .. } => (0, 0),
        }
    }
}

/// Weights of a layer, or their gradient.
struct Weight {
    matrix: Vec<f32>,
    bias: Vec<f32>,
}

impl Weight {
    fn zeros(layer: Layer) -> Self {
        let (inputs, outputs) = layer.weights();
        Self { matrix: vec![0.0; inputs * outputs], bias: vec![0.0; outputs] }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut f32> {
        self.matrix.iter_mut().chain(&mut self.bias)
    }
}

/// A network with its weights.
pub struct Network {
    layers: &'static [Layer],
    weights: Vec<Weight>,
}

fn scaled_add(to: &mut [f32], factor: f32, row: &[f32]) {
    to.iter_mut().zip(row).for_each(|(to, x)| *to += factor * x);
}

fn dot(one: &[f32], other: &[f32]) -> f32 {
    let ((one, one_end), (other, other_end)) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    let mut sums = [0.0_f32; 8];
    for (a, b) in one.iter().zip(other) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    let end: f32 = one_end.iter().zip(other_end).map(|(a, b)| a * b).sum();
    ((a + b) + (c + d)) + ((e + f) + (g + h)) + end
}

/// Approximates e^x for x of at most 0 with products only.
fn exp(x: f32) -> f32 {
    let mut power = 1.0 + f64::from(x.max(-80.0)) / 4096.0;
    for _ in 0..12 {
        power *= power;
    }
    power as f32
}

/// Returns a number from -1 to 1.
fn drawn(state: &mut u64) -> f32 {
    (split_mix(state) >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// Returns the factors of a convolution: for each input of its weights, a number for each pixel of
/// its output.
fn patches(image: &[f32], side: usize, channels: usize, kernel: usize) -> Vec<f32> {
    let out = side - kernel + 1;
    let mut found = Vec::with_capacity(kernel * kernel * channels * out * out);
    for tap in 0..kernel * kernel * channels {
        let (place, channel) = (tap / channels, tap % channels);
        let (y, x) = (place / kernel, place % kernel);
        for row in y..y + out {
            let first = (row * side + x) * channels + channel;
            found.extend(image[first..].iter().step_by(channels).take(out));
        }
    }
    found
}

impl Network {
    /// Creates a network with random weights.
    pub fn seeded(layers: &'static [Layer]) -> Self {
        let mut state = 28;
        let start = |layer: &Layer| {
            let mut weight = Weight::zeros(*layer);
            let bound = (3.0 / layer.weights().0.max(1) as f32).sqrt();
            weight.matrix.iter_mut().for_each(|x| *x = bound * drawn(&mut state));
            weight
        };
        Self { layers, weights: layers.iter().map(start).collect() }
    }

    /// Trains a network for one epoch.
    pub fn trained(layers: &'static [Layer], images: &[f32], labels: &[u8]) -> Self {
        let mut network = Self::seeded(layers);
        let mut speeds: Vec<Weight> = layers.iter().map(|layer| Weight::zeros(*layer)).collect();
        for (images, labels) in images.chunks(BATCH * SIDE * SIDE).zip(labels.chunks(BATCH)) {
            network.step(images, labels, &mut speeds);
        }
        network
    }

    fn step(&mut self, images: &[f32], labels: &[u8], speeds: &mut [Weight]) {
        let parts: Vec<_> = images.chunks(PART * SIDE * SIDE).zip(labels.chunks(PART)).collect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut gradients: Vec<Vec<Weight>> = Vec::new();
        let network = &*self;
        std::thread::scope(|scope| {
            let of_thread = parts.chunks(parts.len().div_ceil(threads)).map(|parts| {
                let work = move || {
                    let gradient =
                        |(images, labels): &(&[f32], &[u8])| network.gradient(images, labels);
                    parts.iter().map(gradient).collect::<Vec<_>>()
                };
                scope.spawn(work)
            });
            for thread in of_thread.collect::<Vec<_>>() {
                gradients.extend(thread.join().expect("a thread that does not panic"));
            }
        });
        let share = 1.0 / labels.len() as f32;
        let (sum, others) = gradients.split_first_mut().expect("a step has images");
        for other in others {
            for (to, from) in sum.iter_mut().zip(other) {
                to.all().zip(from.all()).for_each(|(to, from)| *to += *from);
            }
        }
        for ((weight, speed), gradient) in self.weights.iter_mut().zip(speeds).zip(sum) {
            let all = weight.all().zip(speed.all()).zip(gradient.all());
            for ((weight, speed), gradient) in all {
                *speed = MOMENTUM * *speed + RATE * (share * *gradient + DECAY * *weight);
                *weight -= *speed;
            }
        }
    }

    /// Returns the input of each layer, and the scores at the end, image after image.
    fn forward(&self, images: &[f32]) -> Vec<Vec<f32>> {
        let mut values = vec![images.to_vec()];
        for (layer, weight) in self.layers.iter().zip(&self.weights) {
            let from = values.last().expect("the images");
            let mut to = Vec::new();
            for image in from.chunks_exact(layer.inputs()) {
                match *layer {
                    Layer::Convolution { side, channels, kernel, outputs } => {
                        let pixels = (side - kernel + 1) * (side - kernel + 1);
                        let mut sums = weight.bias.repeat(pixels);
                        let patches = patches(image, side, channels, kernel);
                        let rows = weight.matrix.chunks_exact(outputs);
                        for (row, numbers) in rows.zip(patches.chunks_exact(pixels)) {
                            for (sum, x) in sums.chunks_exact_mut(outputs).zip(numbers) {
                                scaled_add(sum, *x, row);
                            }
                        }
                        to.extend(sums);
                    }
                    Layer::MaxPool { side, channels } => {
                        to.extend(largest(image, side, channels).iter().map(|at| image[*at]));
                    }
                    Layer::FullyConnected { outputs, .. } => {
                        let mut sums = weight.bias.clone();
                        for (row, x) in weight.matrix.chunks_exact(outputs).zip(image) {
                            scaled_add(&mut sums, *x, row);
                        }
                        to.extend(sums);
                    }
                    Layer::Relu { .. } => to.extend(image.iter().map(|x| x.max(0.0))),
                }
            }
            values.push(to);
        }
        values
    }

    fn gradient(&self, images: &[f32], labels: &[u8]) -> Vec<Weight> {
        let values = self.forward(images);
        let scores = values.last().expect("scores");
        let mut errors: Vec<f32> = Vec::with_capacity(scores.len());
        for (scores, label) in scores.chunks_exact(CLASSES).zip(labels) {
            let most = scores.iter().copied().fold(f32::MIN, f32::max);
            let powers: Vec<f32> = scores.iter().map(|score| exp(score - most)).collect();
            let sum: f32 = powers.iter().sum();
            let wanted = |at: usize| f32::from(u8::from(at == usize::from(*label)));
            errors.extend(powers.iter().enumerate().map(|(at, power)| power / sum - wanted(at)));
        }
        let mut gradients: Vec<Weight> =
            self.layers.iter().map(|layer| Weight::zeros(*layer)).collect();
        for (at, layer) in self.layers.iter().enumerate().rev() {
            let outputs = errors.len() * layer.inputs() / values[at].len();
            let mut back = Vec::new();
            for (image, error) in
                values[at].chunks_exact(layer.inputs()).zip(errors.chunks_exact(outputs))
            {
                let back = if at > 0 { Some(&mut back) } else { None };
                let (weight, gradient) = (&self.weights[at], &mut gradients[at]);
                backward(*layer, weight, gradient, image, error, back);
            }
            errors = back;
        }
        gradients
    }
}

/// Returns the index of the largest number of each channel in each 2 x 2 pixels, the first of equal
/// ones.
fn largest(image: &[f32], side: usize, channels: usize) -> Vec<usize> {
    let mut found = Vec::new();
    for pixel in 0..side / 2 * (side / 2) {
        let corner = pixel / (side / 2) * 2 * side + pixel % (side / 2) * 2;
        for channel in 0..channels {
            let places = [0, 1, side, side + 1].map(|by| (corner + by) * channels + channel);
            let better = |a: usize, b: usize| if image[b] > image[a] { b } else { a };
            found.push(places.into_iter().reduce(better).expect("four places"));
        }
    }
    found
}

/// Adds an image's share to the gradient of the weights, and stores the gradient of the image in
/// `back`.
fn backward(
    layer: Layer,
    weight: &Weight,
    gradient: &mut Weight,
    image: &[f32],
    error: &[f32],
    back: Option<&mut Vec<f32>>,
) {
    match layer {
        Layer::Convolution { side, channels, kernel, outputs } => {
            let out = side - kernel + 1;
            let patches = patches(image, side, channels, kernel);
            let rows = gradient.matrix.chunks_exact_mut(outputs);
            for (row, numbers) in rows.zip(patches.chunks_exact(out * out)) {
                for (error, x) in error.chunks_exact(outputs).zip(numbers) {
                    scaled_add(row, *x, error);
                }
            }
            for error in error.chunks_exact(outputs) {
                scaled_add(&mut gradient.bias, 1.0, error);
            }
            let Some(back) = back else { return };
            let mut sums = vec![0.0_f32; image.len()];
            for (tap, row) in weight.matrix.chunks_exact(outputs).enumerate() {
                let (place, channel) = (tap / channels, tap % channels);
                let (y, x) = (place / kernel, place % kernel);
                for (line, errors) in error.chunks_exact(outputs * out).enumerate() {
                    let first = ((line + y) * side + x) * channels + channel;
                    let sums = sums[first..].iter_mut().step_by(channels);
                    for (sum, error) in sums.zip(errors.chunks_exact(outputs)) {
                        *sum += dot(row, error);
                    }
                }
            }
            back.extend(sums);
        }
        Layer::MaxPool { side, channels } => {
            let mut sums = vec![0.0_f32; image.len()];
            let places = largest(image, side, channels);
            places.iter().zip(error).for_each(|(at, error)| sums[*at] += error);
            back.into_iter().for_each(|back| back.extend(&sums));
        }
        Layer::FullyConnected { outputs, .. } => {
            for (row, x) in gradient.matrix.chunks_exact_mut(outputs).zip(image) {
                scaled_add(row, *x, error);
            }
            scaled_add(&mut gradient.bias, 1.0, error);
            let rows = weight.matrix.chunks_exact(outputs);
            back.into_iter().for_each(|back| back.extend(rows.clone().map(|row| dot(row, error))));
        }
        Layer::Relu { .. } => {
            let passed = image.iter().zip(error).map(|(x, e)| if *x > 0.0 { *e } else { 0.0 });
            back.into_iter().for_each(|back| back.extend(passed.clone()));
        }
    }
}

impl Network {
    /// Returns all weights and biases, layer by layer.
    pub fn numbers(&self) -> Vec<f32> {
        let numbers = |weight: &Weight| [&weight.matrix[..], &weight.bias[..]].concat();
        self.weights.iter().flat_map(numbers).collect()
    }

    /// Creates a network from the numbers that [`Network::numbers`] returns; `None` if their count
    /// differs.
    pub fn from_numbers(layers: &'static [Layer], numbers: &[f32]) -> Option<Self> {
        let mut rest = numbers;
        let mut weights = Vec::new();
        for layer in layers {
            let (inputs, outputs) = layer.weights();
            let (matrix, after) = rest.split_at_checked(inputs * outputs)?;
            let (bias, after) = after.split_at_checked(outputs)?;
            weights.push(Weight { matrix: matrix.to_vec(), bias: bias.to_vec() });
            rest = after;
        }
        rest.is_empty().then_some(Self { layers, weights })
    }

    /// Returns the network as an ONNX model, ordered by channel.
    ///
    /// # Errors
    /// The layers do not fit together.
    pub fn model(&self, name: &str) -> Result<Model, BuildError> {
        let mut net = Builder::new(name, Weights::from_tensors(BTreeMap::new()));
        let shape = [Dim::symbol("N"), 1.into(), SIDE.into(), SIDE.into()];
        let mut x = net.input("image", Element::F32, &shape);
        let (mut channels, mut is_flat, mut named) = (1, false, [0; 2]);
        for (layer, weight) in self.layers.iter().zip(&self.weights) {
            x = match *layer {
                Layer::Convolution { kernel, outputs, .. } => {
                    named[0] += 1;
                    let turned = turned(weight, kernel * kernel, channels);
                    let shape = [outputs, channels, kernel, kernel];
                    let name = format!("conv{}", named[0]);
                    let [w, b] = tensors(&mut net, &name, &shape, &turned, &weight.bias)?;
                    channels = outputs;
                    net.node("Conv", &[&x, &w, &b], &[])?
                }
                Layer::MaxPool { .. } => {
                    let two: [(&str, Attribute); 2] =
                        [("kernel_shape", [2, 2].into()), ("strides", [2, 2].into())];
                    net.node("MaxPool", &[&x], &two)?
                }
                Layer::FullyConnected { inputs, outputs } => {
                    if !is_flat {
                        x = net.node("Flatten", &[&x], &[])?;
                    }
                    named[1] += 1;
                    let of_channels = if is_flat { 1 } else { channels };
                    let turned = turned(weight, inputs / of_channels, of_channels);
                    let name = format!("ip{}", named[1]);
                    let shape = [outputs, inputs];
                    let [w, b] = tensors(&mut net, &name, &shape, &turned, &weight.bias)?;
                    is_flat = true;
                    net.node("Gemm", &[&x, &w, &b], &[("transB", 1_i64.into())])?
                }
                Layer::Relu { .. } => net.node("Relu", &[&x], &[])?,
            };
        }
        net.output("scores", &x)?;
        Ok(net.finish())
    }
}

/// Reorders weights by output, channel and pixel.
fn turned(weight: &Weight, pixels: usize, channels: usize) -> Vec<f32> {
    let outputs = weight.bias.len();
    let number = |at: usize| {
        let (output, rest) = (at / (pixels * channels), at % (pixels * channels));
        let (channel, pixel) = (rest / pixels, rest % pixels);
        weight.matrix[(pixel * channels + channel) * outputs + output]
    };
    (0..weight.matrix.len()).map(number).collect()
}

fn tensors(
    net: &mut Builder,
    name: &str,
    shape: &[usize],
    matrix: &[f32],
    bias: &[f32],
) -> Result<[dyno_onnx::Name; 2], BuildError> {
    let matrix = Tensor::from_f32(format!("{name}.weight"), shape, matrix);
    let bias = Tensor::from_f32(format!("{name}.bias"), &[bias.len()], bias);
    Ok([net.tensor(matrix)?, net.tensor(bias)?])
}
