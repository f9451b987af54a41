//! Trains the perceptron of `dyno_sut::digits` and writes its weights:
//!
//! ```text
//! cargo run --release -p dyno-sut --example train_digits
//! ```
//!
//! Stochastic gradient descent with momentum on the cross entropy, images
//! slightly moved, turned, scaled and sheared at random. The settings were
//! chosen by cross-validation within the training images, which is the first
//! line that is printed; the test images are looked at once, at the end. The
//! same seed gives the same bytes, up to the last place of the platform's
//! exponential, sine and cosine.

use std::fs;
use std::path::Path;

use dyno_loadgen::rng::Mt19937;
use dyno_sut::digits::{self, CLASSES, Digit, HIDDEN, PIXELS, Perceptron};
use dyno_sut::top1;

const SEED: u64 = 1998;
const EPOCHS: usize = 200;
const BATCH: usize = 16;
const LEARNING_RATE: f32 = 0.03;
const MOMENTUM: f32 = 0.9;
/// Shrinks each weight by this share of the learning rate per step.
const WEIGHT_DECAY: f32 = 1e-3;
/// Contiguous parts of the training images for cross-validation: contiguous,
/// since neighbours in the file resemble each other.
const FOLDS: usize = 4;

/// Greatest displacement, pixels.
const SHIFT: f32 = 0.6;
/// Greatest turn, radians.
const TURN: f32 = 0.2;
/// Greatest relative change of width and of height.
const SCALE: f32 = 0.2;
/// Greatest slant, pixels sideways per pixel down.
const SHEAR: f32 = 0.15;

fn main() -> std::io::Result<()> {
    let images: Vec<Digit> = digits::train().collect();
    let validated: usize = (0..FOLDS).map(|fold| validate(&images, fold)).sum();
    println!("cross-validation: {validated} of {} correct", images.len());

    let network = train(&images);
    report("training", &network, images.iter().copied());
    report("test", &network, digits::test());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/digits-mlp.bin");
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

fn correct(network: &Perceptron, images: impl Iterator<Item = Digit>) -> usize {
    images.filter(|image| network.classify(image.pixels) == usize::from(image.label)).count()
}

fn report(what: &str, network: &Perceptron, images: impl ExactSizeIterator<Item = Digit>) {
    let total = images.len();
    println!("{what}: {} of {total} correct", correct(network, images));
}

fn train(images: &[Digit]) -> Perceptron {
    let mut rng = Mt19937::new(SEED);
    let mut network = start(&mut rng);
    let mut velocity = Perceptron::zeros();
    let mut order: Vec<usize> = (0..images.len()).collect();
    for epoch in 0..EPOCHS {
        shuffle(&mut order, &mut rng);
        // Half a cosine from the full learning rate down to 0.
        let progress = epoch as f32 / EPOCHS as f32;
        let rate = LEARNING_RATE * 0.5 * (1.0 + (progress * std::f32::consts::PI).cos());
        for batch in order.chunks(BATCH) {
            let mut gradient = Perceptron::zeros();
            for &i in batch {
                let input = distorted(images[i].pixels, &mut rng);
                add_gradient(&network, &input, images[i].label.into(), &mut gradient);
            }
            step(&mut network, &mut velocity, &gradient, rate, batch.len());
        }
    }
    network
}

/// Weights uniform within He's bound, biases 0.
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
    let shear = within(SHEAR);

    let image = Perceptron::input(pixels);
    let ink = |row: f32, column: f32| {
        let inside = (0.0..8.0).contains(&row) && (0.0..8.0).contains(&column);
        if inside { image[8 * row as usize + column as usize] } else { 0.0 }
    };
    std::array::from_fn(|at| {
        let (y, x) = ((at / 8) as f32 - CENTRE, (at % 8) as f32 - CENTRE);
        let (x, y) = (cos * x - sin * y, sin * x + cos * y);
        let column = x * width + y * shear + right + CENTRE;
        let row = y * height + down + CENTRE;
        let (above, left) = (row.floor(), column.floor());
        let (low, far) = (row - above, column - left);
        let upper = (1.0 - far) * ink(above, left) + far * ink(above, left + 1.0);
        let lower = (1.0 - far) * ink(above + 1.0, left) + far * ink(above + 1.0, left + 1.0);
        (1.0 - low) * upper + low * lower
    })
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

fn add(sums: &mut [f32], scale: f32, terms: &[f32]) {
    for (sum, term) in sums.iter_mut().zip(terms) {
        *sum += scale * term;
    }
}

fn softmax(scores: &[f32; CLASSES]) -> [f32; CLASSES] {
    let greatest = scores[top1::argmax(scores)];
    let exponentials = scores.map(|score| (score - greatest).exp());
    let total: f32 = exponentials.iter().sum();
    exponentials.map(|exponential| exponential / total)
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
