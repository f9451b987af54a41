//! Handwritten digits on noise with their bounding boxes: pictures for a small detector. The ground
//! truth is exact because the pictures are generated here.
//!
//! The digits are those that come with Dyno. Training pictures show the digits that train its
//! perceptron, pictures of the sample library the others. A picture is a function of its part and
//! its number; `training/digit_boxes.py` uses the same pictures.
//!
//! ```
//! use dyno_task::data::digit_boxes::{Scene, SIDE};
//! use dyno_task::data::part::Part;
//!
//! let scene = Scene::draw(Part::Training, 0);
//! assert_eq!(scene.pixels.len(), SIDE * SIDE);
//! assert_eq!(scene.objects.len(), 2);
//! ```

use std::collections::BTreeMap;
use std::io::{self, Write};

use dyno_loadgen::qsl::SampleIndex;
use dyno_sut::digits::{self, Digit, TEST_COUNT, TRAIN_COUNT};
use dyno_sut::tensors::{Elements, SampleTensor, Source};
use serde_json::json;

use super::part::Part;
use super::{SampleSet, library};
use crate::files::{CacheKey, Files, OpenError};

/// Revision of the pictures: increases when they change.
const REVISION: u32 = 1;
/// Width and height of a picture.
pub const SIDE: usize = 96;
/// Maximum number of digits on a picture; the minimum is one.
const MOST: u32 = 4;
/// Range of the side to which a digit is enlarged, in pixels.
const SIZES: std::ops::RangeInclusive<usize> = 16..=40;
/// Minimum distance between the boxes of two digits, in pixels.
const GAP: usize = 1;
/// Places that are tried for a digit before it is omitted.
const TRIES: usize = 30;
/// Minimum ink of a pixel that belongs to a digit; the maximum is 240.
const FAINT: f32 = 40.0;
/// Upper bound of the noise, exclusive.
const NOISE: u32 = 64;

/// A digit on a picture with the bounding box of its ink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigitBox {
    /// The digit, 0 to 9.
    pub digit: u8,
    /// First column.
    pub left: usize,
    /// First row.
    pub top: usize,
    /// Number of columns.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
}

/// A picture and the digits on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scene {
    /// Gray pixels, row by row.
    pub pixels: Vec<u8>,
    /// Digits in the order in which they were drawn.
    pub objects: Vec<DigitBox>,
}

impl Scene {
    /// Draws picture `number` of a part.
    pub fn draw(part: Part, number: u64) -> Self {
        let mut random = part.random(number);
        let mut pixels: Vec<u8> = (0..SIDE * SIDE).map(|_| random.bounded(NOISE) as u8).collect();
        let mut objects: Vec<DigitBox> = Vec::new();
        for _ in 0..=random.bounded(MOST) {
            let digit = match part {
                Part::Training => {
                    let mut all = digits::training_digits();
                    all.nth(random.bounded(TRAIN_COUNT as u32) as usize).expect("one of them")
                }
                Part::Test => digits::test_digit(random.bounded(TEST_COUNT as u32) as usize),
            };
            let sizes = (SIZES.end() - SIZES.start() + 1) as u32;
            let stamp = Stamp::new(digit, SIZES.start() + random.bounded(sizes) as usize);
            let strength = 0.6 + 0.4 * random.canonical() as f32;
            for _ in 0..TRIES {
                let mut place = |length: usize| random.bounded((SIDE - length + 1) as u32) as usize;
                let left = place(stamp.width);
                let top = place(stamp.height);
                let Stamp { width, height, .. } = stamp;
                let object = DigitBox { digit: digit.label, left, top, width, height };
                if objects.iter().all(|other| !near(other, &object)) {
                    stamp.print(&mut pixels, &object, strength);
                    objects.push(object);
                    break;
                }
            }
        }
        Self { pixels, objects }
    }
}

/// Whether two boxes overlap or have less than the gap between them.
fn near(one: &DigitBox, other: &DigitBox) -> bool {
    let close = |start: usize, length: usize, other: usize, other_length: usize| {
        start < other + other_length + GAP && other < start + length + GAP
    };
    close(one.left, one.width, other.left, other.width)
        && close(one.top, one.height, other.top, other.height)
}

/// The ink of a digit, cut to its box.
struct Stamp {
    ink: Vec<f32>,
    width: usize,
    height: usize,
}

impl Stamp {
    /// Enlarges a digit to `size` by `size` pixels with bilinear interpolation and crops it to its
    /// ink.
    fn new(digit: Digit, size: usize) -> Self {
        let ink = |row: usize, column: usize| f32::from(digit.pixels[row * 8 + column]) * 15.0;
        // The first of the two nearest pixels of the digit, and the weight of the second.
        let between = |at: usize| {
            let place = ((at as f32 + 0.5) * 8.0 / size as f32 - 0.5).clamp(0.0, 7.0);
            let first = (place as usize).min(6);
            (first, place - first as f32)
        };
        let mut large = Vec::with_capacity(size * size);
        for (row, down) in (0..size).map(between) {
            for (column, right) in (0..size).map(between) {
                let line = |row| ink(row, column) * (1.0 - right) + ink(row, column + 1) * right;
                large.push(line(row) * (1.0 - down) + line(row + 1) * down);
            }
        }
        let is_dark = |row: usize, column: usize| large[row * size + column] >= FAINT;
        let rows: Vec<usize> = (0..size).filter(|r| (0..size).any(|c| is_dark(*r, c))).collect();
        let columns: Vec<usize> = (0..size).filter(|c| (0..size).any(|r| is_dark(r, *c))).collect();
        let ends = |all: &[usize]| (all[0], all[all.len() - 1] + 1 - all[0]);
        let ((top, height), (left, width)) = (ends(&rows), ends(&columns));
        let cut = (top..top + height).flat_map(|row| {
            let row = &large[row * size + left..][..width];
            row.iter().map(|ink| if *ink >= FAINT { *ink } else { 0.0 })
        });
        Self { ink: cut.collect(), width, height }
    }

    fn print(&self, pixels: &mut [u8], at: &DigitBox, strength: f32) {
        for (row, ink) in self.ink.chunks_exact(self.width).enumerate() {
            let line = &mut pixels[(at.top + row) * SIDE + at.left..][..self.width];
            for (pixel, ink) in line.iter_mut().zip(ink) {
                *pixel = (*pixel).max((ink * strength) as u8);
            }
        }
    }
}

/// Pictures as samples: `[1, 96, 96]` from 0 to 1.
#[derive(Debug)]
pub struct Scenes {
    count: usize,
    inputs: [String; 1],
}

impl Scenes {
    /// Returns the first `count` pictures of the test part, for this input.
    pub fn new(count: usize, input: &str) -> Self {
        Self { count, inputs: [input.to_owned()] }
    }
}

impl Source for Scenes {
    fn name(&self) -> &'static str {
        "digits-boxes"
    }

    fn count(&self) -> usize {
        self.count
    }

    fn inputs(&self) -> &[String] {
        &self.inputs
    }

    fn sample(&self, index: SampleIndex) -> Result<Vec<SampleTensor>, String> {
        let scene = Scene::draw(Part::Test, u64::from(index));
        let grey = scene.pixels.iter().map(|pixel| f32::from(*pixel) / 255.0);
        let elements = Elements::F32(grey.collect());
        Ok(vec![SampleTensor { shape: vec![1, SIDE, SIDE], elements }])
    }
}

/// Writes COCO annotations of the first pictures of the test part. Ids of pictures are their
/// numbers, those of categories the digits.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_annotations(count: usize, to: &mut impl Write) -> io::Result<()> {
    let mut images = Vec::new();
    let mut annotations = Vec::new();
    for index in 0..count {
        images.push(json!({ "id": index, "width": SIDE, "height": SIDE }));
        for DigitBox { digit, left, top, width, height } in
            Scene::draw(Part::Test, index as u64).objects
        {
            annotations.push(json!({
                // pycocotools treats an id of 0 as missing.
                "id": annotations.len() + 1, "image_id": index, "category_id": digit,
                "bbox": [left, top, width, height], "area": width * height, "iscrowd": 0,
            }));
        }
    }
    let categories: Vec<_> =
        (0..10).map(|id| json!({ "id": id, "name": id.to_string() })).collect();
    let all = json!({ "images": images, "annotations": annotations, "categories": categories });
    serde_json::to_writer(to, &all).map_err(io::Error::from)
}

/// Opens the pictures of the card and derives their annotations for the method `coco-map`.
pub(crate) fn open(files: &Files<'_>) -> Result<SampleSet, OpenError> {
    let card = files.card();
    let count = card.data.accuracy_samples as usize;
    let annotations = files.derive("annotations.json", REVISION, CacheKey::Card, |file| {
        write_annotations(count, file).map_err(OpenError::content)
    })?;
    let samples = library(card, Scenes::new(count, &card.data.inputs[0].name))?;
    let references = BTreeMap::from([("annotations".to_owned(), annotations)]);
    Ok(SampleSet { references, ..SampleSet::new(samples) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_the_same_each_time_and_boxes_are_those_of_their_ink() {
        for number in 0..40 {
            let scene = Scene::draw(Part::Test, number);
            assert_eq!(scene, Scene::draw(Part::Test, number));
            assert_ne!(scene, Scene::draw(Part::Training, number));
            assert!((1..=MOST as usize).contains(&scene.objects.len()));
            for (at, object) in scene.objects.iter().enumerate() {
                let DigitBox { left, top, width, height, .. } = *object;
                assert!(left + width <= SIDE && top + height <= SIDE, "{object:?}");
                assert!(scene.objects[..at].iter().all(|other| !near(other, object)));
                // Noise is darker than the ink of each outermost row and column can be.
                let ink = |row: usize, column: usize| scene.pixels[row * SIDE + column];
                let row = |row| (left..left + width).map(|column| ink(row, column)).max();
                let column = |column| (top..top + height).map(|row| ink(row, column)).max();
                let edges =
                    [row(top), row(top + height - 1), column(left), column(left + width - 1)];
                assert!(edges.iter().all(|ink| ink.unwrap() >= (0.6 * FAINT) as u8), "{edges:?}");
            }
        }
    }

    #[test]
    fn a_picture_is_the_one_that_the_detector_was_trained_for() {
        // A change of pictures requires new training of the detector and a new revision.
        let scene = Scene::draw(Part::Training, 0);
        let sum = |values: &[u8]| values.iter().map(|value| u64::from(*value)).sum::<u64>();
        let sums = (sum(&scene.pixels), sum(&scene.pixels[..SIDE]));
        assert_eq!((scene.objects.len(), sums), (2, (367_084, 5_602)));
    }

    #[test]
    fn annotations_list_each_object_of_each_picture() {
        let mut text = Vec::new();
        write_annotations(5, &mut text).unwrap();
        let all: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let objects: Vec<DigitBox> =
            (0..5).flat_map(|number| Scene::draw(Part::Test, number).objects).collect();
        assert_eq!(all["annotations"].as_array().unwrap().len(), objects.len());
        let (last, object) = (&all["annotations"][objects.len() - 1], objects[objects.len() - 1]);
        let DigitBox { digit, left, top, width, height } = object;
        assert_eq!(last["bbox"], json!([left, top, width, height]));
        assert_eq!((&last["category_id"], &last["image_id"]), (&json!(digit), &json!(4)));
    }
}
