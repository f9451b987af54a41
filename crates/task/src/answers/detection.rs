//! Boxes of detectors as answers: seven floats each.
//!
//! Source: the accuracy scripts of the reference's vision benchmarks, which read the
//! sample's index, the box as top, left, bottom, right of 0 to 1, score and class.

/// A box with its edges as fractions of the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detection {
    /// Top, left, bottom, right.
    pub edges: [f32; 4],
    /// From 0 to 1.
    pub score: f32,
    /// As the ground truth numbers them.
    pub class: u32,
}

/// The answer for a sample: its index as float, the edges, score and class of each box,
/// little-endian.
#[must_use]
pub fn payload(index: u64, detections: &[Detection]) -> Vec<u8> {
    let values = detections.iter().flat_map(|found| {
        let [top, left, bottom, right] = found.edges;
        [index as f32, top, left, bottom, right, found.score, found.class as f32]
    });
    values.flat_map(f32::to_le_bytes).collect()
}

/// Overlap of two boxes as a share of what they cover together; 0 where they cover nothing.
fn overlap(a: [f32; 4], b: [f32; 4]) -> f32 {
    let area = |edges: [f32; 4]| (edges[2] - edges[0]).max(0.0) * (edges[3] - edges[1]).max(0.0);
    let both = [a[0].max(b[0]), a[1].max(b[1]), a[2].min(b[2]), a[3].min(b[3])];
    let (both, of) = (area(both), area(a) + area(b));
    if both > 0.0 { both / (of - both) } else { 0.0 }
}

/// Of each class the boxes that overlap none of a higher score by more than `most`; the
/// `keep` best of all classes, the best first. Equal scores stay in their order; scores
/// that are no number are dropped.
#[must_use]
pub fn suppress(mut detections: Vec<Detection>, max_overlap: f32, keep: usize) -> Vec<Detection> {
    detections.retain(|found| !found.score.is_nan());
    detections.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut kept: Vec<Detection> = Vec::new();
    for found in detections {
        if kept.len() == keep {
            break;
        }
        let hides = |better: &Detection| {
            better.class == found.class && overlap(better.edges, found.edges) > max_overlap
        };
        if !kept.iter().any(hides) {
            kept.push(found);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(edges: [f32; 4], score: f32, class: u32) -> Detection {
        Detection { edges, score, class }
    }

    #[test]
    fn boxes_hide_those_of_their_class_that_overlap_them() {
        // The second overlaps the first by 1/3, the third by 9/11.
        let first = found([0.0, 0.0, 1.0, 1.0], 0.9, 1);
        let second = found([0.0, 0.5, 1.0, 1.5], 0.8, 1);
        let third = found([0.0, 0.1, 1.0, 1.1], 0.7, 1);
        let other = found([0.0, 0.1, 1.0, 1.1], 0.6, 2);
        let all = vec![other, third, second, first, found([0.0; 4], f32::NAN, 1)];
        assert_eq!(suppress(all.clone(), 0.5, 10), [first, second, other]);
        assert_eq!(suppress(all.clone(), 0.3, 10), [first, other]);
        assert_eq!(suppress(all, 0.5, 1), [first]);
    }

    #[test]
    fn an_answer_is_seven_floats_a_box() {
        let bytes = payload(7, &[found([0.1, 0.2, 0.3, 0.4], 0.5, 44)]);
        let values: Vec<f32> = bytes.as_chunks().0.iter().map(|c| f32::from_le_bytes(*c)).collect();
        assert_eq!(values, [7.0, 0.1, 0.2, 0.3, 0.4, 0.5, 44.0]);
    }
}
