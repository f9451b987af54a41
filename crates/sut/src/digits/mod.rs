//! The embedded default task: handwritten digits, a small perceptron, and a small LSTM.
//!
//! The data set is the 1,797 images of the test part of "Optical Recognition of Handwritten Digits"
//! (E. Alpaydin, C. Kaynak; UCI Machine Learning Repository; CC BY 4.0), 8x8 pixels from 0 to 16.
//! Rows 0..1,257 train the networks; the last 540 are the sample library. `data/README.md`
//! documents the origin and the formats.
//!
//! ```
//! use dyno_sut::digits::{Perceptron, TEST_COUNT, test_digit, test_digits};
//!
//! let network = Perceptron::trained();
//! assert_eq!(network.classify(test_digit(0).pixels), usize::from(test_digit(0).label));
//! assert_eq!(test_digits().len(), TEST_COUNT);
//! ```

mod export;
mod lstm;
mod perceptron;

pub use lstm::{DigitsLstm, LSTM_CORRECT, LstmWeights, ROW, ROWS, UNITS};
pub use perceptron::{DigitsPerceptron, HIDDEN, Perceptron};

use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};

use crate::top1::{self, Score};

/// Pixels of an image.
pub const PIXELS: usize = 64;
/// Number of classes.
pub const CLASSES: usize = 10;
/// Number of training images: the first ones of the data set.
pub const TRAIN_COUNT: usize = 1_257;
/// Number of test images: the rest of the data set, in the same order.
pub const TEST_COUNT: usize = 540;

/// For each image 64 bytes of pixels, row by row, then its label.
static DATA: [u8; (TRAIN_COUNT + TEST_COUNT) * (PIXELS + 1)] =
    *include_bytes!("../../data/digits.bin");

/// An image and the digit that it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digit {
    /// Ink from 0 to 16, row by row.
    pub pixels: &'static [u8; PIXELS],
    /// Digit from 0 to 9.
    pub label: u8,
}

fn digit(row: usize) -> Digit {
    let bytes = &DATA[row * (PIXELS + 1)..][..=PIXELS];
    let (pixels, label) = bytes.split_first_chunk().expect("a row is longer than an image");
    Digit { pixels, label: label[0] }
}

/// Returns the training images.
pub fn training_digits() -> impl ExactSizeIterator<Item = Digit> {
    (0..TRAIN_COUNT).map(digit)
}

/// Returns the images of the sample library, in its order.
pub fn test_digits() -> impl ExactSizeIterator<Item = Digit> {
    (0..TEST_COUNT).map(test_digit)
}

/// Returns image `index` (below 540) of the sample library.
#[inline]
pub fn test_digit(index: usize) -> Digit {
    assert!(index < TEST_COUNT, "sample {index} of {TEST_COUNT}");
    digit(TRAIN_COUNT + index)
}

/// Returns the labels of the sample library, in its order.
pub fn labels() -> Vec<i64> {
    test_digits().map(|digit| i64::from(digit.label)).collect()
}

/// Returns the top-1 accuracy of an accuracy log of the sample library.
pub fn score<'a>(entries: impl IntoIterator<Item = (SampleIndex, &'a [u8])>) -> Score {
    top1::score(entries, &labels())
}

/// Sample library of the 540 test images. They are part of the program, so loading them does
/// nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct DigitsLibrary;

impl SampleLibrary for DigitsLibrary {
    fn name(&self) -> &str {
        "digits"
    }

    fn total_sample_count(&self) -> usize {
        TEST_COUNT
    }
}
