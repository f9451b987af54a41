//! Trains the perceptron of `dyno_sut::digits` and writes its weights:
//!
//! ```text
//! cargo run --release -p dyno-sut --example train_digits
//! ```
//!
//! Stochastic gradient descent with momentum on the cross entropy. Images are slightly moved,
//! rotated, scaled and sheared at random. The settings were chosen by cross-validation within the
//! training images, which the first printed line shows. The test images are evaluated only once, at
//! the end. The same seed gives the same bytes, up to the last digit of the platform's exponential,
//! sine and cosine.

mod training;

use dyno_loadgen::rng::Mt19937;
use dyno_sut::digits::{Digit, HIDDEN, PIXELS, Perceptron};
use training::{BATCH, Training, add, distorted, share, shuffle, softmax};

const SEED: u64 = 1998;
const EPOCHS: usize = 200;
const LEARNING_RATE: f32 = 0.03;
const MOMENTUM: f32 = 0.9;
/// Weight decay per step, as a share of the learning rate.
const WEIGHT_DECAY: f32 = 1e-3;
/// Maximum slant, pixels sideways per pixel down.
const SHEAR: f32 = 0.15;

fn main() -> std::io::Result<()> {
    let classify = |network: &Perceptron, pixels: &[u8; PIXELS]| network.classify(pixels);
    Training { train, classify, bytes: Perceptron::to_bytes, file: "digits-mlp.bin" }.run()
}

fn train(images: &[Digit]) -> Perceptron {
    let mut rng = Mt19937::new(SEED);
    let mut network = start(&mut rng);
    let mut velocity = Perceptron::zeros();
    let mut order: Vec<usize> = (0..images.len()).collect();
    for epoch in 0..EPOCHS {
        shuffle(&mut order, &mut rng);
        let rate = LEARNING_RATE * share(epoch, EPOCHS);
        for batch in order.chunks(BATCH) {
            let mut gradient = Perceptron::zeros();
            for &i in batch {
                let image = Perceptron::input(images[i].pixels);
                let input = distorted(&image, Some(SHEAR), &mut rng);
                add_gradient(&network, &input, images[i].label.into(), &mut gradient);
            }
            step(&mut network, &mut velocity, &gradient, rate, batch.len());
        }
    }
    network
}

/// Returns uniform weights within He's bound, with biases of 0.
fn start(rng: &mut Mt19937) -> Perceptron {
    let mut network = Perceptron::zeros();
    let mut fill = |weights: &mut [f32], inputs: usize| {
        let bound = (6.0 / inputs as f64).sqrt();
        for weight in weights {
            *weight = ((2.0 * rng.canonical() - 1.0) * bound) as f32;
        }
    };
    fill(network.hidden.as_flattened_mut(), PIXELS);
    fill(network.output.as_flattened_mut(), HIDDEN);
    network
}

/// Adds the gradient of one image's cross entropy.
fn add_gradient(
    network: &Perceptron,
    input: &[f32; PIXELS],
    label: usize,
    gradient: &mut Perceptron,
) {
    let hidden = network.activate(input);
    let mut error = softmax(&network.scores(&hidden));
    error[label] -= 1.0;
    add(&mut gradient.output_bias, 1.0, &error);
    let mut hidden_error = [0.0; HIDDEN];
    for unit in 0..HIDDEN {
        add(&mut gradient.output[unit], hidden[unit], &error);
        if hidden[unit] > 0.0 {
            let terms = network.output[unit].iter().zip(&error);
            hidden_error[unit] = terms.map(|(weight, error)| weight * error).sum();
        }
    }
    add(&mut gradient.hidden_bias, 1.0, &hidden_error);
    for (row, value) in gradient.hidden.iter_mut().zip(input) {
        add(row, *value, &hidden_error);
    }
}

fn step(
    network: &mut Perceptron,
    velocity: &mut Perceptron,
    gradient: &Perceptron,
    rate: f32,
    batch: usize,
) {
    let terms = velocity.weights_mut().zip(gradient.weights());
    for (weight, (velocity, gradient)) in network.weights_mut().zip(terms) {
        let slope = gradient / batch as f32 + WEIGHT_DECAY * *weight;
        *velocity = MOMENTUM * *velocity - rate * slope;
        *weight += *velocity;
    }
}
