//! Matching of detections with objects, and the resulting precision and recall.

use super::{Bounds, Detection, Object};

/// Number of overlaps from which on a detection counts as right.
const THRESHOLDS: usize = 10;

/// Number of recalls at which precision is measured.
const RECALLS: usize = 101;

/// Area above which boxes do not count, in square pixels: the limit of "all areas" in pycocotools.
const GREATEST_AREA: f64 = 1e10;

/// Returns the threshold with this number, as in `numpy.linspace(0.5, 0.95, 10)`.
fn threshold(at: usize) -> f64 {
    if at == THRESHOLDS - 1 { 0.95 } else { 0.5 + at as f64 * ((0.95 - 0.5) / 9.0) }
}

/// Result of matching a detection, with one bit per threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DetectionMatch {
    /// Confidence of the system.
    score: f64,
    /// Rank of the image by its id.
    image: u32,
    /// Rank of the detection by score, within image and category.
    order: u32,
    /// Thresholds at which the detection is right.
    right: u16,
    /// Thresholds at which the detection is neither right nor wrong.
    ignored: u16,
}

/// Returns the area that both boxes share, divided by the area of their union. For a crowd, the
/// divisor is the area of the detection.
fn overlap(detection: &Bounds, object: &Object) -> f64 {
    let other = &object.bounds;
    let side = |at: usize| {
        let end = (detection[at] + detection[at + 2]).min(other[at] + other[at + 2]);
        end - detection[at].max(other[at])
    };
    let (width, height) = (side(0), side(1));
    if width <= 0.0 || height <= 0.0 {
        return 0.0;
    }
    let common = width * height;
    let area = detection[2] * detection[3];
    let together = if object.is_crowd { area } else { area + other[2] * other[3] - common };
    common / together
}

impl Object {
    /// Returns whether the object counts neither as detected nor as missed.
    pub(super) fn is_ignored(&self) -> bool {
        self.is_crowd || !(0.0..=GREATEST_AREA).contains(&self.area)
    }
}

/// Matches the detections of an image and category with its objects. Detections must be sorted by
/// descending score. Each takes the free object that it overlaps most.
///
/// ```
/// use dyno_metrics::detection::{Detection, Object, average_precision, match_boxes};
///
/// let object = Object { id: 1, bounds: [0.0, 0.0, 10.0, 10.0], area: 100.0, is_crowd: false };
/// let right = Detection { bounds: object.bounds, score: 0.9 };
/// let wrong = Detection { bounds: [50.0, 50.0, 10.0, 10.0], score: 0.8 };
/// let mut matches = match_boxes(0, &[right, wrong], &[object]);
/// assert!((average_precision(&mut matches, 1) - 1.0).abs() < 1e-9);
/// ```
pub fn match_boxes(
    image: u32,
    detections: &[Detection],
    objects: &[Object],
) -> Vec<DetectionMatch> {
    let mut objects: Vec<&Object> = objects.iter().collect();
    objects.sort_by_key(|object| object.is_ignored());
    let overlaps: Vec<f64> = detections
        .iter()
        .flat_map(|detection| objects.iter().map(|object| overlap(&detection.bounds, object)))
        .collect();
    let matches = |(order, detection): (usize, &Detection)| DetectionMatch {
        score: detection.score,
        image,
        order: order as u32,
        right: 0,
        ignored: 0,
    };
    let mut found: Vec<DetectionMatch> = detections.iter().enumerate().map(matches).collect();
    for at in 0..THRESHOLDS {
        let mut is_taken = vec![false; objects.len()];
        for (result, detection) in found.iter_mut().zip(detections) {
            let start = result.order as usize * objects.len();
            let overlaps = &overlaps[start..start + objects.len()];
            let best = best(&objects, &is_taken, overlaps, threshold(at).min(1.0 - 1e-10));
            if let Some(best) = best {
                is_taken[best] = true;
            }
            // pycocotools marks a match by the id of the annotation, so that the id 0 is no match.
            let is_matched = best.is_some_and(|best| objects[best].id != 0);
            let area = detection.bounds[2] * detection.bounds[3];
            let is_outside = !is_matched && !(0.0..=GREATEST_AREA).contains(&area);
            let is_ignored = best.is_some_and(|best| objects[best].is_ignored()) || is_outside;
            result.right |= u16::from(is_matched && !is_ignored) << at;
            result.ignored |= u16::from(is_ignored) << at;
        }
    }
    found
}

/// Returns the object with the greatest overlap of at least `least`. Objects that count precede
/// ignored ones.
fn best(objects: &[&Object], is_taken: &[bool], overlaps: &[f64], least: f64) -> Option<usize> {
    let (mut best, mut most) = (None::<usize>, least);
    for (at, object) in objects.iter().enumerate() {
        if is_taken[at] && !object.is_crowd {
            continue;
        }
        if best.is_some_and(|best| !objects[best].is_ignored() && object.is_ignored()) {
            break;
        }
        // pycocotools prefers the later of two equal objects.
        if overlaps[at] >= most {
            (best, most) = (Some(at), overlaps[at]);
        }
    }
    best
}

/// Returns the mean precision of a category over thresholds and recalls. O(n log n).
///
/// `object_count` is the number of objects of the category, at least 1.
#[must_use]
pub fn average_precision(matches: &mut [DetectionMatch], object_count: u64) -> f64 {
    matches.sort_unstable_by(|a, b| {
        b.score.total_cmp(&a.score).then((a.image, a.order).cmp(&(b.image, b.order)))
    });
    let mut precisions = Vec::with_capacity(matches.len());
    let mut sum = 0.0;
    for at in 0..THRESHOLDS {
        let bit = 1 << at;
        let (mut right, mut wrong) = (0_u64, 0_u64);
        precisions.clear();
        for result in matches.iter() {
            right += u64::from(result.right & bit != 0);
            wrong += u64::from(result.right & bit == 0 && result.ignored & bit == 0);
            let precision = right as f64 / ((wrong + right) as f64 + f64::EPSILON);
            precisions.push((right as f64 / object_count as f64, precision));
        }
        sum += precision_at_recalls(&mut precisions);
    }
    sum / (THRESHOLDS * RECALLS) as f64
}

/// Returns the sum over all recalls of the greatest precision at that recall or above.
fn precision_at_recalls(precisions: &mut [(f64, f64)]) -> f64 {
    for at in (1..precisions.len()).rev() {
        precisions[at - 1].1 = precisions[at - 1].1.max(precisions[at].1);
    }
    let (mut rest, mut sum) = (&precisions[..], 0.0);
    for recall in 0..RECALLS {
        let recall = if recall == RECALLS - 1 { 1.0 } else { recall as f64 * 0.01 };
        let below = rest.iter().take_while(|(reached, _)| *reached < recall).count();
        rest = &rest[below..];
        sum += rest.first().map_or(0.0, |(_, precision)| *precision);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(bounds: Bounds) -> Object {
        Object { id: 1, bounds, area: bounds[2] * bounds[3], is_crowd: false }
    }

    fn detection(bounds: Bounds, score: f64) -> Detection {
        Detection { bounds, score }
    }

    fn result(detections: &[Detection], objects: &[Object]) -> f64 {
        let object_count = objects.iter().filter(|object| !object.is_ignored()).count() as u64;
        average_precision(&mut match_boxes(0, detections, objects), object_count)
    }

    const BOX: Bounds = [10.0, 10.0, 20.0, 20.0];

    #[test]
    fn an_object_found_exactly_once_has_a_precision_of_one() {
        let precision = result(&[detection(BOX, 0.9)], &[object(BOX)]);
        assert!((precision - 1.0).abs() < 1e-12, "{precision}");
    }

    #[test]
    fn a_second_detection_of_an_object_is_wrong() {
        let twice = [detection(BOX, 0.9), detection(BOX, 0.8)];
        assert!((result(&twice, &[object(BOX)]) - 1.0).abs() < 1e-12, "recall was 1 before it");
        let other = [100.0, 100.0, 20.0, 20.0];
        let late = [detection(BOX, 0.9), detection(BOX, 0.8), detection(other, 0.7)];
        // 51 recalls at precision 1, 50 at two thirds.
        let expected = (51.0 + 50.0 * 2.0 / 3.0) / 101.0;
        let found = result(&late, &[object(BOX), object(other)]);
        assert!((found - expected).abs() < 1e-12, "{found}");
    }

    #[test]
    fn an_overlap_of_72_percent_is_right_at_half_of_the_thresholds() {
        // Two boxes of one size, moved by the share d of the side, overlap by (1 - d) / (1 + d).
        let moved = [10.0 + 20.0 * 0.28 / 1.72, 10.0, 20.0, 20.0];
        let found = result(&[detection(moved, 0.9)], &[object(BOX)]);
        assert!((found - 0.5).abs() < 1e-12, "{found}");
    }

    #[test]
    fn what_lies_in_a_crowd_is_neither_right_nor_wrong() {
        let crowd = Object { is_crowd: true, id: 2, ..object([0.0, 0.0, 100.0, 100.0]) };
        let inside = detection([50.0, 50.0, 10.0, 10.0], 0.99);
        let also = detection([60.0, 60.0, 10.0, 10.0], 0.98);
        let found = result(&[inside, also, detection(BOX, 0.9)], &[crowd, object(BOX)]);
        assert!((found - 1.0).abs() < 1e-12, "{found}");
    }
}
