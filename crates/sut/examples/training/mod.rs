//! Common parts of the training of both networks of `dyno_sut::digits`: cross-validation within the
//! training images, random movements of images, and batches in random order.

use std::fs;
use std::path::Path;

use dyno_loadgen::rng::Mt19937;
use dyno_sut::digits::{self, CLASSES, Digit, PIXELS};
use dyno_sut::top1;

/// Images per step.
pub const BATCH: usize = 16;
/// Parts of the training images for cross-validation. They are contiguous, because neighbors in the
/// file resemble each other.
const FOLDS: usize = 4;

/// Maximum displacement, pixels.
const SHIFT: f32 = 0.6;
/// Maximum rotation, radians.
const TURN: f32 = 0.2;
/// Maximum relative change of width and of height.
const SCALE: f32 = 0.2;

/// A kind of network and how to train it.
pub struct Training<N> {
    /// Trains a network on images.
    pub train: fn(&[Digit]) -> N,
    /// Returns the class of an image.
    pub classify: fn(&N, &[u8; PIXELS]) -> usize,
    /// Returns the content of the weight file.
    pub bytes: fn(&N) -> Vec<u8>,
    /// Name of the weight file in `data`.
    pub file: &'static str,
}

impl<N> Training<N> {
    /// Prints the accuracy of cross-validation, trains a network on all training images, and writes
    /// it.
    pub fn run(&self) -> std::io::Result<()> {
        let images: Vec<Digit> = digits::training_digits().collect();
        let validated: usize = (0..FOLDS).map(|fold| self.validate(&images, fold)).sum();
        println!("cross-validation: {validated} of {} correct", images.len());

        let network = (self.train)(&images);
        self.report("training", &network, images.iter().copied());
        self.report("test", &network, digits::test_digits());
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(self.file);
        fs::write(&path, (self.bytes)(&network))?;
        println!("wrote {}", path.display());
        Ok(())
    }

    /// Returns how many images of one fold a network classifies correctly that was trained on the
    /// other folds.
    fn validate(&self, images: &[Digit], fold: usize) -> usize {
        let (begin, end) = (images.len() * fold / FOLDS, images.len() * (fold + 1) / FOLDS);
        let network = (self.train)(&[&images[..begin], &images[end..]].concat());
        self.correct(&network, images[begin..end].iter().copied())
    }

    fn correct(&self, network: &N, images: impl Iterator<Item = Digit>) -> usize {
        let is_right =
            |image: &Digit| (self.classify)(network, image.pixels) == usize::from(image.label);
        images.filter(is_right).count()
    }

    fn report(&self, what: &str, network: &N, images: impl ExactSizeIterator<Item = Digit>) {
        let total = images.len();
        println!("{what}: {} of {total} correct", self.correct(network, images));
    }
}

/// Shuffles images.
pub fn shuffle(order: &mut [usize], rng: &mut Mt19937) {
    for last in (1..order.len()).rev() {
        order.swap(last, (rng.canonical() * (last + 1) as f64) as usize);
    }
}

/// Returns the share of the learning rate: half a cosine from 1 down to 0.
pub fn share(epoch: usize, epochs: usize) -> f32 {
    let progress = epoch as f32 / epochs as f32;
    0.5 * (1.0 + (progress * std::f32::consts::PI).cos())
}

/// Returns the image after a small random affine map, interpolated linearly; it is blank beyond its
/// border. `shear` is the maximum slant, pixels sideways per pixel down.
pub fn distorted(image: &[f32; PIXELS], shear: Option<f32>, rng: &mut Mt19937) -> [f32; PIXELS] {
    const CENTRE: f32 = 3.5;
    let mut within = |bound: f32| (2.0 * rng.canonical() as f32 - 1.0) * bound;
    let (right, down) = (within(SHIFT), within(SHIFT));
    let (sin, cos) = within(TURN).sin_cos();
    let (width, height) = (1.0 + within(SCALE), 1.0 + within(SCALE));
    let shear = shear.map_or(0.0, within);

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

/// Adds `scale` times the terms.
pub fn add(sums: &mut [f32], scale: f32, terms: &[f32]) {
    for (sum, term) in sums.iter_mut().zip(terms) {
        *sum += scale * term;
    }
}

/// Returns the probabilities of the classes.
pub fn softmax(scores: &[f32; CLASSES]) -> [f32; CLASSES] {
    let greatest = scores[top1::argmax(scores)];
    let exponentials = scores.map(|score| (score - greatest).exp());
    let total: f32 = exponentials.iter().sum();
    exponentials.map(|exponential| exponential / total)
}
