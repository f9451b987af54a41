//! Trains the LSTM of `dyno_sut::digits` and writes its weights:
//!
//! ```text
//! cargo run --release -p dyno-sut --example train_digits_lstm
//! ```
//!
//! Backpropagation through the eight rows of an image, with steps by Adam (Kingma and Ba, 2015) on
//! the cross entropy. Images are slightly moved, rotated and scaled at random, as for the
//! perceptron. The settings are the first that were tried. The first printed line is the accuracy
//! of cross-validation within the training images. The test images are evaluated only once, at the
//! end. The network is computed here with plain loops, without the engine that runs it later. The
//! same seed gives the same bytes, up to the last digit of the platform's exponential, hyperbolic
//! tangent, sine and cosine.

mod training;

use dyno_loadgen::rng::Mt19937;
use dyno_sut::digits::{Digit, LstmWeights, PIXELS, ROW, ROWS, UNITS};
use dyno_sut::top1;
use training::{BATCH, Training, add, distorted, share, shuffle, softmax};

const SEED: u64 = 1997;
const EPOCHS: usize = 120;
const LEARNING_RATE: f32 = 4e-3;
/// Decay rates of the two means of Adam.
const PAST: [f32; 2] = [0.9, 0.99];
/// Weight decay per step, as a share of the learning rate.
const WEIGHT_DECAY: f32 = 1e-2;

fn main() -> std::io::Result<()> {
    Training { train, classify, bytes: LstmWeights::to_bytes, file: "digits-lstm.bin" }.run()
}

fn classify(network: &LstmWeights, pixels: &[u8; PIXELS]) -> usize {
    let steps = forward(network, &LstmWeights::input(pixels));
    top1::argmax(&network.scores(&steps[ROWS - 1].hidden))
}

/// Values of a step that backpropagation needs.
#[derive(Clone, Copy)]
struct Step {
    /// Gates i, f, g, o after their activations.
    gates: [[f32; UNITS]; 4],
    cell: [f32; UNITS],
    hidden: [f32; UNITS],
}

const NOTHING: Step = Step { gates: [[0.0; UNITS]; 4], cell: [0.0; UNITS], hidden: [0.0; UNITS] };

fn forward(network: &LstmWeights, image: &[f32; PIXELS]) -> [Step; ROWS] {
    let mut steps = [NOTHING; ROWS];
    let mut last = NOTHING;
    for (step, row) in steps.iter_mut().zip(image.chunks_exact(ROW)) {
        for (gate, sums) in step.gates.iter_mut().enumerate() {
            for (unit, sum) in sums.iter_mut().enumerate() {
                let at = gate * UNITS + unit;
                *sum = network.bias[at]
                    + dot(&network.input[at * ROW..][..ROW], row)
                    + dot(&network.state[at * UNITS..][..UNITS], &last.hidden);
                *sum = if gate == 2 { sum.tanh() } else { 1.0 / (1.0 + (-*sum).exp()) };
            }
        }
        for unit in 0..UNITS {
            let [i, f, g, o] = step.gates.map(|gate| gate[unit]);
            step.cell[unit] = f * last.cell[unit] + i * g;
            step.hidden[unit] = o * step.cell[unit].tanh();
        }
        last = *step;
    }
    steps
}

fn dot(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// Adds the gradient of one image's cross entropy.
fn add_gradient(
    network: &LstmWeights,
    image: &[f32; PIXELS],
    label: usize,
    gradient: &mut LstmWeights,
) {
    let steps = forward(network, image);
    let last = &steps[ROWS - 1].hidden;
    let mut error = softmax(&network.scores(last));
    error[label] -= 1.0;
    add(&mut gradient.output_bias, 1.0, &error);
    let (mut of_hidden, mut of_cell) = ([0.0; UNITS], [0.0; UNITS]);
    for (class, error) in error.iter().enumerate() {
        add(&mut gradient.output[class * UNITS..][..UNITS], *error, last);
        add(&mut of_hidden, *error, &network.output[class * UNITS..][..UNITS]);
    }
    for at in (0..ROWS).rev() {
        let step = &steps[at];
        let before = if at == 0 { &NOTHING } else { &steps[at - 1] };
        let mut of_sums = [[0.0; UNITS]; 4];
        for (unit, (of_cell, of_hidden)) in of_cell.iter_mut().zip(&of_hidden).enumerate() {
            let [i, f, g, o] = step.gates.map(|gate| gate[unit]);
            let shaped = step.cell[unit].tanh();
            let cell = *of_cell + of_hidden * o * (1.0 - shaped * shaped);
            of_sums[0][unit] = cell * g * i * (1.0 - i);
            of_sums[1][unit] = cell * before.cell[unit] * f * (1.0 - f);
            of_sums[2][unit] = cell * i * (1.0 - g * g);
            of_sums[3][unit] = of_hidden * shaped * o * (1.0 - o);
            *of_cell = cell * f;
        }
        of_hidden = [0.0; UNITS];
        for (place, error) in of_sums.as_flattened().iter().enumerate() {
            gradient.bias[place] += error;
            let row = &image[at * ROW..][..ROW];
            add(&mut gradient.input[place * ROW..][..ROW], *error, row);
            add(&mut gradient.state[place * UNITS..][..UNITS], *error, &before.hidden);
            add(&mut of_hidden, *error, &network.state[place * UNITS..][..UNITS]);
        }
    }
}

fn train(images: &[Digit]) -> LstmWeights {
    let mut rng = Mt19937::new(SEED);
    let mut network = start(&mut rng);
    let mut means = [LstmWeights::zeros(), LstmWeights::zeros()];
    let mut order: Vec<usize> = (0..images.len()).collect();
    let mut steps = 0;
    for epoch in 0..EPOCHS {
        shuffle(&mut order, &mut rng);
        let rate = LEARNING_RATE * share(epoch, EPOCHS);
        for batch in order.chunks(BATCH) {
            let mut gradient = LstmWeights::zeros();
            for &i in batch {
                let image = LstmWeights::input(images[i].pixels);
                let image = distorted(&image, None, &mut rng);
                add_gradient(&network, &image, images[i].label.into(), &mut gradient);
            }
            steps += 1;
            step(&mut network, &mut means, &gradient, rate, batch.len(), steps);
        }
    }
    network
}

/// Returns weights that are uniform within 1 / sqrt(units). The forget gates begin open.
fn start(rng: &mut Mt19937) -> LstmWeights {
    let mut network = LstmWeights::zeros();
    let bound = (UNITS as f64).sqrt().recip();
    for weight in
        [&mut network.input, &mut network.state, &mut network.output].into_iter().flatten()
    {
        *weight = ((2.0 * rng.canonical() - 1.0) * bound) as f32;
    }
    network.bias[UNITS..2 * UNITS].fill(1.0);
    network
}

/// Adam with decoupled weight decay (Loshchilov and Hutter, 2019).
fn step(
    network: &mut LstmWeights,
    [first, second]: &mut [LstmWeights; 2],
    gradient: &LstmWeights,
    rate: f32,
    batch: usize,
    steps: i32,
) {
    let [first_share, second_share] = PAST.map(|past| 1.0 - past.powi(steps));
    let parts = network.parts_mut().into_iter().zip(first.parts_mut());
    let parts = parts.zip(second.parts_mut()).zip(gradient.parts());
    for (((weights, first), second), slopes) in parts {
        for (at, weight) in weights.iter_mut().enumerate() {
            let slope = slopes[at] / batch as f32;
            first[at] = PAST[0] * first[at] + (1.0 - PAST[0]) * slope;
            second[at] = PAST[1] * second[at] + (1.0 - PAST[1]) * slope * slope;
            let (mean, spread) = (first[at] / first_share, second[at] / second_share);
            *weight -= rate * (mean / (spread.sqrt() + 1e-8) + WEIGHT_DECAY * *weight);
        }
    }
}
