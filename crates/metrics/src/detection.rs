//! Mean average precision of boxes, as COCO defines it.
//!
//! A detection is right if it overlaps a box of the references by at least a threshold. The figure
//! is the mean over ten thresholds and all categories of the precision at 101 recalls.
//!
//! Source: `cocoeval.py` of pycocotools for boxes, all areas and 100 detections; `accuracy-coco.py`
//! and `accuracy-openimages.py` of the benchmarks SSD-MobileNet, SSD-ResNet-34 and RetinaNet, which
//! print three decimals.

mod matching;
mod truth;

use super::payload::{self, Element};
use super::{AnswerError, Choice, Figure, Method, Need, Scorer, Scores};

pub use matching::{DetectionMatch, average_precision, match_boxes};
pub use truth::{Object, Truth};

const ANNOTATIONS: Need = Need {
    name: "annotations",
    help: "instances_val2017.json of COCO, or openimages-mlperf.json: images, annotations and \
           categories as JSON",
    is_required: true,
};

const CLASSES: Choice = Choice {
    name: "classes",
    values: &["ids", "positions"],
    help: "whether the class of a box is the id of a category, or its position in the list, from 1",
};

const IMAGES: Choice = Choice {
    name: "images",
    values: &["all", "annotated"],
    help: "whether samples are all images of the file, or only those with an object (4,952 of \
           5,000 in COCO), in the order of the file",
};

/// Method of `ssd-small`, `ssd-large` and `retinanet`.
pub(crate) const COCO_MAP: Method = Method {
    name: "coco-map",
    title: "mean average precision of boxes at overlaps from 0.50 to 0.95, in percent",
    answer: "of each box seven elements: sample, top, left, bottom, right as shares of the image, \
             score, class",
    element: Some(Element::F32),
    needs: &[ANNOTATIONS],
    choices: &[CLASSES, IMAGES],
    open: |inputs| {
        let mut truth = Truth::read(inputs.file(&ANNOTATIONS)?)?;
        if inputs.choice(&IMAGES) == "annotated" {
            truth.keep_annotated();
        }
        let by_position = inputs.choice(&CLASSES) == "positions";
        Ok(Box::new(CocoMap::new(truth, inputs.element.unwrap_or(Element::F32), by_position)))
    },
};

/// Maximum number of detections that count per image and category. Those with the highest scores
/// count.
const MAX_DETECTIONS: usize = 100;

/// Values per box in an answer.
const VALUES: usize = 7;

/// A box: left, top, width and height, in pixels.
pub type Bounds = [f64; 4];

/// A box that a system detected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detection {
    /// Position and size.
    pub bounds: Bounds,
    /// Confidence of the system. Must not be NaN.
    pub score: f64,
}

/// Scores boxes against those of the references.
#[derive(Debug)]
pub struct CocoMap {
    truth: Truth,
    element: Element,
    by_position: bool,
    /// Matches of all detections, and number of objects that count, by category.
    categories: Vec<(Vec<DetectionMatch>, u64)>,
    /// Boxes that name another sample than their entry.
    strays: u64,
}

impl CocoMap {
    /// Creates the scorer. The class of a box is the id of a category, or with `by_position` its
    /// position in the file, from 1.
    ///
    /// ```
    /// use dyno_metrics::Scorer;
    /// use dyno_metrics::detection::{CocoMap, Truth};
    /// use dyno_metrics::payload::Element;
    ///
    /// let json = r#"{
    ///     "images": [{"id": 7, "width": 100, "height": 50}],
    ///     "annotations": [{"id": 1, "image_id": 7, "category_id": 3, "bbox": [10, 10, 20, 20],
    ///         "area": 400}],
    ///     "categories": [{"id": 3}]
    /// }"#;
    /// let file = tempfile::NamedTempFile::new().unwrap();
    /// std::fs::write(&file, json).unwrap();
    ///
    /// let truth = Truth::read(file.path()).unwrap();
    /// let mut scorer = CocoMap::new(truth, Element::F32, false);
    /// // Sample, top, left, bottom and right as shares of the image, score, class.
    /// let detection = [0.0_f32, 0.2, 0.1, 0.6, 0.3, 0.9, 3.0].map(f32::to_le_bytes).concat();
    /// scorer.take(0, &detection).unwrap();
    /// assert!(scorer.scores().figure("mAP").unwrap() > 99.9);
    /// ```
    pub fn new(truth: Truth, element: Element, by_position: bool) -> Self {
        let categories = vec![(Vec::new(), 0); truth.categories()];
        Self { truth, element, by_position, categories, strays: 0 }
    }

    /// Parses the detections of an image, each with the number of its category.
    fn detections(
        &mut self,
        index: u64,
        answer: &[u8],
    ) -> Result<Vec<(usize, Detection)>, AnswerError> {
        let values: Vec<f64> = payload::reals(self.element, answer)?.collect();
        if !values.len().is_multiple_of(VALUES) {
            let expected = format!("a multiple of {}", VALUES * self.element.size());
            return Err(AnswerError::Length { expected, found: answer.len() });
        }
        payload::require_finite(self.element, answer)?;
        let (width, height) = self.truth.size(index as usize);
        let (width, height) = (width as f32, height as f32);
        let mut found = Vec::with_capacity(values.len() / VALUES);
        let mut strays = 0;
        for chunk in values.chunks_exact(VALUES) {
            let [sample, top, left, bottom, right, score, class] =
                chunk.try_into().expect("chunks have the values of a box");
            strays += u64::from(sample as u64 != index);
            // NumPy 2 multiplies them in 32 bits.
            let [top, bottom] = [top as f32 * height, bottom as f32 * height];
            let [left, right] = [left as f32 * width, right as f32 * width];
            let bounds = [left, top, right - left, bottom - top].map(f64::from);
            if let Some(category) = self.truth.category(class as i64, self.by_position) {
                found.push((category, Detection { bounds, score }));
            }
        }
        self.strays += strays;
        Ok(found)
    }

    /// Matches the detections of an image, each with the number of its category, with the image's
    /// objects.
    fn match_image(&mut self, image: usize, mut detections: Vec<(usize, Detection)>) {
        // A stable sort keeps the order of the answer for equal scores.
        detections.sort_by(|(a, x), (b, y)| a.cmp(b).then(y.score.total_cmp(&x.score)));
        let rank = self.truth.rank(image);
        let mut rest = detections.as_slice();
        let mut objects = self.truth.objects(image).peekable();
        // Detections and objects are sorted by category.
        loop {
            let next = rest.first().map(|(category, _)| *category);
            let category = match (next, objects.peek().map(|(category, _)| *category)) {
                (None, None) => break,
                (Some(one), None) | (None, Some(one)) => one,
                (Some(one), Some(other)) => one.min(other),
            };
            let count = rest.iter().take_while(|(number, _)| *number == category).count();
            let (own, others) = rest.split_at(count);
            rest = others;
            let own: Vec<Detection> =
                own.iter().take(MAX_DETECTIONS).map(|(_, detection)| *detection).collect();
            let objects = objects
                .next_if(|(number, _)| *number == category)
                .map_or(&[][..], |(_, objects)| objects);
            let (matches, object_count) = &mut self.categories[category];
            *object_count += objects.iter().filter(|object| !object.is_ignored()).count() as u64;
            matches.extend(match_boxes(rank, &own, objects));
        }
    }
}

impl Scorer for CocoMap {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        let references = self.truth.images() as u64;
        if index >= references {
            return Err(AnswerError::Sample { references });
        }
        let detections = self.detections(index, answer);
        // A malformed list of boxes counts as an empty one.
        self.match_image(index as usize, detections.as_deref().unwrap_or_default().to_vec());
        detections.map(drop)
    }

    fn references(&self) -> Option<u64> {
        Some(self.truth.images() as u64)
    }

    fn scores(&mut self) -> Scores {
        let mut precisions = Vec::new();
        for (matches, object_count) in &mut self.categories {
            if *object_count > 0 {
                precisions.push(average_precision(matches, *object_count));
            }
        }
        let value = 100.0 * precisions.iter().sum::<f64>() / precisions.len() as f64;
        let note = format!("boxes that name another sample than their entry does: {}", self.strays);
        Scores {
            figures: vec![Figure { metric: "mAP", value }],
            text: format!("mAP={value:.3}%\n"),
            notes: if self.strays > 0 { vec![note] } else { Vec::new() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::assert_checker_reads;
    use super::*;

    fn answer(boxes: &[[f32; VALUES]]) -> Vec<u8> {
        boxes.concat().iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// Two images of 100 by 50 pixels, each with one object, of category 7 and 9.
    fn scorer(by_position: bool) -> CocoMap {
        let truth = r#"{
            "images": [{"id": 5, "width": 100, "height": 50}, {"id": 2, "width": 100, "height": 50}],
            "annotations": [
                {"id": 1, "image_id": 5, "category_id": 7, "bbox": [10, 5, 20, 10], "area": 200},
                {"id": 2, "image_id": 2, "category_id": 9, "bbox": [10, 5, 20, 10], "area": 200,
                 "iscrowd": 0}],
            "categories": [{"id": 9}, {"id": 7}]}"#;
        let truth = Truth::parse(std::path::Path::new("made.json"), truth.as_bytes()).unwrap();
        CocoMap::new(truth, Element::F32, by_position)
    }

    const BOX: [f32; 4] = [0.1, 0.1, 0.3, 0.3];

    fn found(sample: f32, class: f32) -> [f32; VALUES] {
        [sample, BOX[0], BOX[1], BOX[2], BOX[3], 0.9, class]
    }

    #[test]
    fn classes_are_ids_or_positions_in_the_list() {
        for (by_position, classes) in [(false, [7.0, 9.0]), (true, [2.0, 1.0])] {
            let mut scorer = scorer(by_position);
            assert_eq!(scorer.take(0, &answer(&[found(0.0, classes[0])])), Ok(()));
            assert_eq!(scorer.take(1, &answer(&[found(1.0, classes[1])])), Ok(()));
            let scores = scorer.scores();
            assert_eq!(scores.text, "mAP=100.000%\n");
            assert_checker_reads("v0.5", "ssd-small", &scores);
            assert_checker_reads("v5.1", "retinanet", &scores);
        }
    }

    #[test]
    fn images_without_objects_are_no_samples_if_so_chosen() {
        let truth = r#"{
            "images": [{"id": 9, "width": 10, "height": 10}, {"id": 5, "width": 100, "height": 50}],
            "annotations": [
                {"id": 1, "image_id": 5, "category_id": 7, "bbox": [10, 5, 20, 10], "area": 200},
                {"id": 2, "image_id": 9, "category_id": 6, "bbox": [1, 1, 1, 1], "area": 1}],
            "categories": [{"id": 7}]}"#;
        let path = std::path::Path::new("made.json");
        let mut truth = Truth::parse(path, truth.as_bytes()).unwrap();
        truth.keep_annotated();
        let mut scorer = CocoMap::new(truth, Element::F32, false);
        assert_eq!(scorer.references(), Some(1));
        assert_eq!(scorer.take(0, &answer(&[found(0.0, 7.0)])), Ok(()));
        assert_eq!(scorer.scores().text, "mAP=100.000%\n");
    }

    #[test]
    fn an_image_without_boxes_has_missed_its_objects_and_others_are_not_asked_for() {
        let mut scorer = scorer(false);
        assert_eq!(scorer.take(0, &answer(&[found(0.0, 7.0)])), Ok(()));
        assert!((scorer.scores().figures[0].value - 100.0).abs() < 1e-9);
        assert_eq!(scorer.take(1, &[]), Ok(()));
        assert!((scorer.scores().figures[0].value - 50.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_list_of_boxes_is_told_and_strays_are_counted() {
        let mut scorer = scorer(false);
        assert!(matches!(scorer.take(0, &[0; 24]), Err(AnswerError::Length { .. })));
        for (field, number) in (0..VALUES).flat_map(|at| [(at, f32::NAN), (at, f32::INFINITY)]) {
            let mut wrong = found(0.0, 7.0);
            wrong[field] = number;
            let result = scorer.take(0, &answer(&[wrong]));
            assert!(matches!(result, Err(AnswerError::Content { .. })), "{field} {number}");
        }
        assert_eq!(scorer.take(2, &[]), Err(AnswerError::Sample { references: 2 }));
        assert_eq!(scorer.scores().figures[0].value, 0.0, "such answers have found nothing");
        assert_eq!(scorer.take(1, &answer(&[found(0.0, 9.0)])), Ok(()));
        assert_eq!(
            scorer.scores().notes,
            ["boxes that name another sample than their entry does: 1"]
        );
    }
}
