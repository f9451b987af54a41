//! Answers of detectors: seven floats per box.
//!
//! Source: the accuracy scripts of the reference's vision benchmarks, which read the
//! sample's index, the box as top, left, bottom, right of 0 to 1, score and class.

/// A box with its edges as fractions of the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detection {
    /// Top, left, bottom, right.
    pub edges: [f32; 4],
    /// Score from 0 to 1.
    pub score: f32,
    /// Class in the numbering of the ground truth.
    pub class: u32,
}

/// Returns the bytes of an answer: for each box the sample's index as a float, the edges, the score
/// and the class, little-endian.
pub fn payload(index: u64, detections: &[Detection]) -> Vec<u8> {
    let values = detections.iter().flat_map(|found| {
        let [top, left, bottom, right] = found.edges;
        [index as f32, top, left, bottom, right, found.score, found.class as f32]
    });
    values.flat_map(f32::to_le_bytes).collect()
}

/// Returns the intersection over union of two boxes; 0 if they do not overlap.
fn overlap(a: [f32; 4], b: [f32; 4]) -> f32 {
    let area = |edges: [f32; 4]| (edges[2] - edges[0]).max(0.0) * (edges[3] - edges[1]).max(0.0);
    let both = [a[0].max(b[0]), a[1].max(b[1]), a[2].min(b[2]), a[3].min(b[3])];
    let both = area(both);
    let sum = area(a) + area(b);
    if both > 0.0 { both / (sum - both) } else { 0.0 }
}

/// Non-maximum suppression: returns the boxes that overlap no box of their class with a higher
/// score by more than `max_overlap`, at most `keep` of all classes, the best first. Equal scores
/// keep their order; NaN scores are dropped.
///
/// ```
/// use dyno_task::answers::detection::{Detection, suppress};
///
/// let best = Detection { edges: [0.0, 0.0, 1.0, 1.0], score: 0.9, class: 1 };
/// let other = Detection { score: 0.8, ..best };
/// assert_eq!(suppress(vec![other, best], 0.5, 10), [best]);
/// ```
pub fn suppress(mut detections: Vec<Detection>, max_overlap: f32, keep: usize) -> Vec<Detection> {
    detections.retain(|found| !found.score.is_nan());
    detections.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut best: Vec<Detection> = Vec::new();
    for found in detections {
        if best.len() == keep {
            break;
        }
        let hides = |better: &Detection| {
            better.class == found.class && overlap(better.edges, found.edges) > max_overlap
        };
        if !best.iter().any(hides) {
            best.push(found);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detection(edges: [f32; 4], score: f32, class: u32) -> Detection {
        Detection { edges, score, class }
    }

    #[test]
    fn boxes_hide_those_of_their_class_that_overlap_them() {
        // The second overlaps the first by 1/3, the third by 9/11.
        let first = detection([0.0, 0.0, 1.0, 1.0], 0.9, 1);
        let second = detection([0.0, 0.5, 1.0, 1.5], 0.8, 1);
        let third = detection([0.0, 0.1, 1.0, 1.1], 0.7, 1);
        let other = detection([0.0, 0.1, 1.0, 1.1], 0.6, 2);
        let all = vec![other, third, second, first, detection([0.0; 4], f32::NAN, 1)];
        assert_eq!(suppress(all.clone(), 0.5, 10), [first, second, other]);
        assert_eq!(suppress(all.clone(), 0.3, 10), [first, other]);
        assert_eq!(suppress(all, 0.5, 1), [first]);
    }

    #[test]
    fn an_answer_is_seven_floats_a_box() {
        let bytes = payload(7, &[detection([0.1, 0.2, 0.3, 0.4], 0.5, 44)]);
        let values: Vec<f32> = bytes.as_chunks().0.iter().map(|c| f32::from_le_bytes(*c)).collect();
        assert_eq!(values, [7.0, 0.1, 0.2, 0.3, 0.4, 0.5, 44.0]);
    }
}
