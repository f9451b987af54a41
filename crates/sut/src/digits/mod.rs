//! The embedded default: handwritten digits, a small perceptron, and a small LSTM.
//!
//! The data set is the 1,797 images of the test part of "Optical Recognition of
//! Handwritten Digits" (E. Alpaydin, C. Kaynak; UCI Machine Learning
//! Repository; CC BY 4.0), 8x8 pixels of 0 to 16. Rows 0..1,257 train the
//! networks; the last 540 are the sample library. `data/README.md` tells the
//! origin and the formats.

mod export;
mod lstm;
mod perceptron;

pub use lstm::{DigitsLstm, LSTM_CORRECT, LstmWeights, ROW, ROWS, UNITS};
pub use perceptron::{DigitsPerceptron, HIDDEN, Perceptron};

use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};

use crate::top1::{self, Score};

/// Pixels in an image.
pub const PIXELS: usize = 64;
/// Classes.
pub const CLASSES: usize = 10;
/// Images that train the perceptron: the first ones of the data set.
pub const TRAIN_COUNT: usize = 1_257;
/// Images that test it: the rest, in the same order.
pub const TEST_COUNT: usize = 540;

/// Per image 64 bytes of pixels, row by row, then its label.
static DATA: [u8; (TRAIN_COUNT + TEST_COUNT) * (PIXELS + 1)] =
    *include_bytes!("../../data/digits.bin");

/// One image and the digit it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digit {
    /// Ink, 0 to 16, row by row.
    pub pixels: &'static [u8; PIXELS],
    /// 0 to 9.
    pub label: u8,
}

fn digit(row: usize) -> Digit {
    let bytes = &DATA[row * (PIXELS + 1)..][..=PIXELS];
    let (pixels, label) = bytes.split_first_chunk().expect("a row is longer than an image");
    Digit { pixels, label: label[0] }
}

/// The images that train the perceptron.
pub fn train() -> impl ExactSizeIterator<Item = Digit> {
    (0..TRAIN_COUNT).map(digit)
}

/// The images of the sample library, in its order.
pub fn test() -> impl ExactSizeIterator<Item = Digit> {
    (0..TEST_COUNT).map(test_digit)
}

/// Image `index` (below 540) of the sample library.
#[inline]
#[must_use]
pub fn test_digit(index: usize) -> Digit {
    assert!(index < TEST_COUNT, "sample {index} of {TEST_COUNT}");
    digit(TRAIN_COUNT + index)
}

/// The labels of the sample library, in its order.
#[must_use]
pub fn labels() -> Vec<i64> {
    test().map(|digit| i64::from(digit.label)).collect()
}

/// Top-1 accuracy of an accuracy log of the sample library.
pub fn score<'a>(entries: impl IntoIterator<Item = (SampleIndex, &'a [u8])>) -> Score {
    top1::score(entries, &labels())
}

/// The 540 test images. They are part of the program, so loading is nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct DigitsLibrary;

impl SampleLibrary for DigitsLibrary {
    fn name(&self) -> &str {
        "digits"
    }

    fn total_sample_count(&self) -> usize {
        TEST_COUNT
    }

    fn performance_sample_count(&self) -> usize {
        TEST_COUNT
    }

    fn load(&self, _samples: &[SampleIndex]) {}

    fn unload(&self, _samples: &[SampleIndex]) {}
}
