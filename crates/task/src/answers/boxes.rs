//! Boxes of detectors that include non-maximum suppression, such as exported SSDs: their outputs
//! are the answer in another order.
//!
//! Source: the classes `PostProcessCoco...` and `PostProcessOpenImagesRetinanet` of the
//! reference's vision benchmarks.

use dyno_sut::onnx::{Answer, Outputs};
use serde::Deserialize;
use thiserror::Error;

use super::detection::{self, Detection};

/// Order of the edges of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EdgeOrder {
    /// Top, left, bottom, right, as in TensorFlow.
    TopLeft,
    /// Left, top, right, bottom, as in PyTorch.
    LeftTop,
}

/// Format in which a model outputs boxes.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoxFormat {
    /// Order of the edges.
    pub edges: EdgeOrder,
    /// Divisor of left and right edges: 1 if they are fractions of the picture, otherwise the
    /// input's width.
    pub width: f32,
    /// Divisor of top and bottom edges.
    pub height: f32,
    /// Boxes end before the first with a lower score. The reference uses 0.5 for ONNX's
    /// SSD-ResNet34 and 0.05 for TensorFlow's.
    pub least: f32,
}

/// Names of the outputs of such a model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoxOutputs {
    /// Output with four edges per box.
    pub boxes: String,
    /// Output with one score per box, in falling order.
    pub scores: String,
    /// Output with one class per box.
    pub classes: String,
    /// Output with the number of valid boxes, if the model has one.
    pub count: Option<String>,
}

/// Outputs of a sample do not fit each other.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("expected {expected}, found {found}; check the order of the outputs of the model")]
pub struct BoxFormatError {
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
}

/// Returns the conversion of a model's boxes to an answer in the format of [`detection::payload`].
pub fn answer(boxes_format: BoxFormat, names: BoxOutputs) -> Answer {
    Answer::from_fn(move |outputs, position, bytes| {
        let found = detections(&boxes_format, &names, outputs, position)?;
        bytes.extend_from_slice(&detection::payload(outputs.index(position)?, &found));
        Ok(0)
    })
}

fn detections(
    boxes_format: &BoxFormat,
    names: &BoxOutputs,
    outputs: &Outputs<'_>,
    position: usize,
) -> Result<Vec<Detection>, String> {
    let part = |name: &str| outputs.named(name)?.part(position);
    let boxes = part(&names.boxes)?;
    let scores = part(&names.scores)?;
    let classes = part(&names.classes)?;
    let count = match &names.count {
        None => None,
        // The count may be a float, which the cast truncates.
        Some(name) => part(name)?.elements.to_f32().first().map(|count| *count as usize),
    };
    let boxes = boxes.elements.to_f32();
    let scores = scores.elements.to_f32();
    let found = boxes_format.detections(&boxes, &scores, &classes.elements.to_f32(), count);
    found.map_err(|error| error.to_string())
}

impl BoxFormat {
    /// Returns the boxes of a sample: the first `count`, or those before the first score below the
    /// minimum. Fractions of classes are cut off.
    ///
    /// # Errors
    /// [`BoxFormatError`] if the numbers of edges, scores and classes do not fit, if there are
    /// fewer boxes than `count`, or if a class is not a number from 0.
    pub fn detections(
        &self,
        boxes: &[f32],
        scores: &[f32],
        classes: &[f32],
        count: Option<usize>,
    ) -> Result<Vec<Detection>, BoxFormatError> {
        let refused = |expected: String, found: String| BoxFormatError { expected, found };
        let (boxes, rest) = boxes.as_chunks::<4>();
        if !rest.is_empty() || [boxes.len(), classes.len()] != [scores.len(); 2] {
            return Err(refused(
                format!("{0} boxes of four edges and {0} classes for {0} scores", scores.len()),
                format!(
                    "{} boxes, {} more values and {} classes",
                    boxes.len(),
                    rest.len(),
                    classes.len()
                ),
            ));
        }
        let meant = match count {
            Some(count) if count > scores.len() => {
                return Err(refused(format!("{count} boxes"), scores.len().to_string()));
            }
            Some(count) => count,
            None => scores.iter().position(|score| *score < self.least).unwrap_or(scores.len()),
        };
        let found = boxes.iter().zip(scores).zip(classes).take(meant);
        found
            .map(|((edges, score), class)| {
                // Floats represent whole numbers below this exactly.
                if !(0.0..16_777_216.0).contains(class) {
                    return Err(refused("classes from 0".to_owned(), class.to_string()));
                }
                let width = self.width;
                let height = self.height;
                let [top, left, bottom, right] = match (self.edges, *edges) {
                    (EdgeOrder::TopLeft, edges) => edges,
                    (EdgeOrder::LeftTop, [left, top, right, bottom]) => [top, left, bottom, right],
                };
                let edges = [top / height, left / width, bottom / height, right / width];
                Ok(Detection { edges, score: *score, class: *class as u32 })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIXELS: BoxFormat =
        BoxFormat { edges: EdgeOrder::LeftTop, width: 800.0, height: 400.0, least: 0.5 };
    const BOXES: [f32; 12] = [80.0, 40.0, 160.0, 200.0, 0.0, 0.0, 8.0, 4.0, 0.0, 0.0, 1.0, 1.0];

    #[test]
    fn boxes_end_at_the_least_score_or_the_count() {
        let scores = [0.9, 0.4, 0.8];
        let found = PIXELS.detections(&BOXES, &scores, &[7.0, 2.9, 1.0], None).unwrap();
        let first = Detection { edges: [0.1, 0.1, 0.5, 0.2], score: 0.9, class: 7 };
        assert_eq!(found, [first], "the third comes after one that is too low");
        let shares = BoxFormat { edges: EdgeOrder::TopLeft, width: 1.0, height: 1.0, ..PIXELS };
        let found = shares.detections(&BOXES, &scores, &[7.0, 2.9, 1.0], Some(2)).unwrap();
        let second = Detection { edges: [0.0, 0.0, 8.0, 4.0], score: 0.4, class: 2 };
        assert_eq!((found[0].edges, found[1]), ([80.0, 40.0, 160.0, 200.0], second));
    }

    #[test]
    fn outputs_that_do_not_fit_each_other_are_rejected() {
        let error = |boxes: &[f32], classes: &[f32], count| {
            PIXELS.detections(boxes, &[0.9], classes, count).unwrap_err().to_string()
        };
        let found = error(&BOXES[..5], &[], None);
        assert!(found.contains("1 boxes of four edges and 1 classes for 1 scores"), "{found}");
        assert!(found.contains("found 1 boxes, 1 more values and 0 classes"), "{found}");
        let found = error(&BOXES[..4], &[1.0], Some(2));
        assert!(found.starts_with("expected 2 boxes, found 1;"), "{found}");
        assert!(error(&BOXES[..4], &[-1.0], None).contains("classes from 0, found -1"));
        assert!(error(&BOXES[..4], &[f32::NAN], None).contains("found NaN"));
    }
}
