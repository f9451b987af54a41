//! Trains the LSTM of `dyno_sut::digits` and writes its weights:
//!
//! ```text
//! cargo run --release -p dyno-sut --example train_digits_lstm
//! ```
//!
//! Backpropagation through the eight rows of an image, steps by Adam (Kingma and Ba, 2015) on
//! the cross entropy, images slightly moved, turned and scaled at random as for the perceptron. The
//! settings are the first that were tried; cross-validation within the training images is the first
//! line that is printed, and the test images are looked at once, at the end. The network is computed here loop by loop, without
//! the engine that runs it later. The same seed gives the same bytes, up to the last place of the
//! platform's exponential, hyperbolic tangent, sine and cosine.

use std::fs;
use std::path::Path;

use dyno_loadgen::rng::Mt19937;
use dyno_sut::digits::{self, CLASSES, Digit, LstmWeights, PIXELS, ROW, ROWS, UNITS};
use dyno_sut::top1;

const SEED: u64 = 1997;
const EPOCHS: usize = 120;
const BATCH: usize = 16;
const LEARNING_RATE: f32 = 4e-3;
/// Shares of the past in Adam's two means.
const PAST: [f32; 2] = [0.9, 0.99];
/// Shrinks each weight by this share of the learning rate per step.
const WEIGHT_DECAY: f32 = 1e-2;
/// Contiguous parts of the training images for cross-validation: contiguous,
/// since neighbours in the file resemble each other.
const FOLDS: usize = 4;

/// Greatest displacement, pixels.
const SHIFT: f32 = 0.6;
/// Greatest turn, radians.
const TURN: f32 = 0.2;
/// Greatest relative change of width and of height.
const SCALE: f32 = 0.2;

fn main() -> std::io::Result<()> {
    let images: Vec<Digit> = digits::train().collect();
    let validated: usize = (0..FOLDS).map(|fold| validate(&images, fold)).sum();
    println!("cross-validation: {validated} of {} correct", images.len());

    let network = train(&images);
    report("training", &network, images.iter().copied());
    report("test", &network, digits::test());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/digits-lstm.bin");
    fs::write(&path, network.to_bytes())?;
    println!("wrote {}", path.display());
    Ok(())
}

/// Images of one fold that a network trained on the others gets right.
fn validate(images: &[Digit], fold: usize) -> usize {
    let (begin, end) = (images.len() * fold / FOLDS, images.len() * (fold + 1) / FOLDS);
    let network = train(&[&images[..begin], &images[end..]].concat());
    correct(&network, images[begin..end].iter().copied())
}

fn correct(network: &LstmWeights, images: impl Iterator<Item = Digit>) -> usize {
    let is_right = |image: &Digit| {
        let steps = forward(network, &LstmWeights::input(image.pixels));
        top1::argmax(&network.scores(&steps[ROWS - 1].hidden)) == usize::from(image.label)
    };
    images.filter(is_right).count()
}

fn report(what: &str, network: &LstmWeights, images: impl ExactSizeIterator<Item = Digit>) {
    let total = images.len();
    println!("{what}: {} of {total} correct", correct(network, images));
}

/// What a step leaves for the way back.
#[derive(Clone, Copy)]
struct Step {
    /// i, f, g, o after their activations.
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

fn add(sums: &mut [f32], scale: f32, terms: &[f32]) {
    for (sum, term) in sums.iter_mut().zip(terms) {
        *sum += scale * term;
    }
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

fn softmax(scores: &[f32; CLASSES]) -> [f32; CLASSES] {
    let greatest = scores[top1::argmax(scores)];
    let exponentials = scores.map(|score| (score - greatest).exp());
    let total: f32 = exponentials.iter().sum();
    exponentials.map(|exponential| exponential / total)
}

fn train(images: &[Digit]) -> LstmWeights {
    let mut rng = Mt19937::new(SEED);
    let mut network = start(&mut rng);
    let mut means = [LstmWeights::zeros(), LstmWeights::zeros()];
    let mut order: Vec<usize> = (0..images.len()).collect();
    let mut steps = 0;
    for epoch in 0..EPOCHS {
        shuffle(&mut order, &mut rng);
        // Half a cosine from the full learning rate down to 0.
        let progress = epoch as f32 / EPOCHS as f32;
        let rate = LEARNING_RATE * 0.5 * (1.0 + (progress * std::f32::consts::PI).cos());
        for batch in order.chunks(BATCH) {
            let mut gradient = LstmWeights::zeros();
            for &i in batch {
                let image = distorted(images[i].pixels, &mut rng);
                add_gradient(&network, &image, images[i].label.into(), &mut gradient);
            }
            steps += 1;
            step(&mut network, &mut means, &gradient, rate, batch.len(), steps);
        }
    }
    network
}

/// Weights uniform within one over the root of the units; gates f begin open.
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

/// Adam with weights that decay by themselves (Loshchilov and Hutter, 2019).
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

fn below(n: usize, rng: &mut Mt19937) -> usize {
    (rng.canonical() * n as f64) as usize
}

fn shuffle(order: &mut [usize], rng: &mut Mt19937) {
    for last in (1..order.len()).rev() {
        order.swap(last, below(last + 1, rng));
    }
}

/// The image under a small random affine map, interpolated linearly; beyond its
/// border it is blank.
fn distorted(pixels: &[u8; PIXELS], rng: &mut Mt19937) -> [f32; PIXELS] {
    const CENTRE: f32 = 3.5;
    let mut within = |bound: f32| (2.0 * rng.canonical() as f32 - 1.0) * bound;
    let (right, down) = (within(SHIFT), within(SHIFT));
    let (sin, cos) = within(TURN).sin_cos();
    let (width, height) = (1.0 + within(SCALE), 1.0 + within(SCALE));
    let image = LstmWeights::input(pixels);
    let ink = |row: f32, column: f32| {
        let inside = (0.0..8.0).contains(&row) && (0.0..8.0).contains(&column);
        if inside { image[8 * row as usize + column as usize] } else { 0.0 }
    };
    std::array::from_fn(|at| {
        let (y, x) = ((at / 8) as f32 - CENTRE, (at % 8) as f32 - CENTRE);
        let (x, y) = (cos * x - sin * y, sin * x + cos * y);
        let (column, row) = (x * width + right + CENTRE, y * height + down + CENTRE);
        let (above, left) = (row.floor(), column.floor());
        let (low, far) = (row - above, column - left);
        let upper = (1.0 - far) * ink(above, left) + far * ink(above, left + 1.0);
        let lower = (1.0 - far) * ink(above + 1.0, left) + far * ink(above + 1.0, left + 1.0);
        (1.0 - low) * upper + low * lower
    })
}
