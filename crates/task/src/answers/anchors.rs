//! Boxes of detectors that output offsets from anchors: decoding and non-maximum suppression, both
//! timed.
//!
//! Source of the offsets: Liu et al., SSD: Single Shot MultiBox Detector, ECCV 2016.

use dyno_sut::onnx::Answer;

use super::detection::{Detection, payload, suppress};

/// A reference box, in fractions of the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Anchor {
    /// Distance of the center from the left and from the top.
    pub center: [f32; 2],
    /// Width and height.
    pub size: [f32; 2],
}

/// Anchors of a detector and the settings of its suppression.
#[derive(Debug, Clone, PartialEq)]
pub struct Anchors {
    /// The anchors, in the order of the outputs.
    pub all: Vec<Anchor>,
    /// Factors of the offsets of centers and of the logarithms of sizes.
    pub variances: [f32; 2],
    /// Boxes with a lower score are dropped.
    pub least: f32,
    /// Overlap above which a box suppresses boxes of its class with lower scores.
    pub overlap: f32,
    /// Maximum number of boxes in an answer.
    pub keep: usize,
}

impl Anchor {
    /// Returns top, left, bottom and right of the box with these offsets: of the center to the
    /// right and down, and the logarithms of the factors of width and height.
    fn shift(&self, [right, down, wider, higher]: [f32; 4], variances: [f32; 2]) -> [f32; 4] {
        let [center_variance, size_variance] = variances;
        let [width, height] = self.size;
        let x = self.center[0] + right * center_variance * width;
        let y = self.center[1] + down * center_variance * height;
        let (width, height) =
            (width * (wider * size_variance).exp(), height * (higher * size_variance).exp());
        [y - height / 2.0, x - width / 2.0, y + height / 2.0, x + width / 2.0]
            .map(|edge| edge.clamp(0.0, 1.0))
    }
}

impl Anchors {
    /// Returns the boxes of a picture; the class of a box is the index of its score.
    ///
    /// # Errors
    /// The number of offsets is not four per anchor, or the numbers of scores differ between
    /// anchors.
    pub fn detections(&self, scores: &[f32], offsets: &[f32]) -> Result<Vec<Detection>, String> {
        let count = self.all.len();
        let classes = scores.len() / count.max(1);
        let (offsets, rest) = offsets.as_chunks::<4>();
        if offsets.len() != count || !rest.is_empty() || classes * count != scores.len() {
            let found = scores.len();
            let values = 4 * offsets.len() + rest.len();
            return Err(format!(
                "expected scores and four offsets for {count} anchors, found {found} scores and \
                 {values} offsets"
            ));
        }
        let mut found = Vec::new();
        let each = self.all.iter().zip(offsets).zip(scores.chunks_exact(classes.max(1)));
        for ((anchor, offsets), scores) in each {
            for (class, &score) in (0..).zip(scores) {
                if score >= self.least {
                    let edges = anchor.shift(*offsets, self.variances);
                    found.push(Detection { edges, score, class });
                }
            }
        }
        Ok(suppress(found, self.overlap, self.keep))
    }

    /// Returns the conversion of the outputs of these names to an answer.
    pub fn answer(self, scores: &'static str, offsets: &'static str) -> Answer {
        Answer::from_fn(move |outputs, position, bytes| {
            let scores = outputs.named(scores)?.part(position)?.elements;
            let offsets = outputs.named(offsets)?.part(position)?.elements;
            let found = self.detections(&scores.to_f32(), &offsets.to_f32())?;
            bytes.extend_from_slice(&payload(outputs.index(position)?, &found));
            Ok(0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Anchors {
        let anchor = |x| Anchor { center: [x, 0.5], size: [0.2, 0.4] };
        let all = vec![anchor(0.3), anchor(0.7)];
        Anchors { all, variances: [0.1, 0.2], least: 0.1, overlap: 0.5, keep: 10 }
    }

    #[test]
    fn offsets_move_anchors_and_stretch_them() {
        // A fifth of 0.2 to the right, half of 0.4 up; twice as wide.
        let offsets = [2.0, -5.0, 2.0_f32.ln() / 0.2, 0.0, 0.0, 0.0, 0.0, 0.0];
        let found = two().detections(&[0.9, 0.05, 0.05, 0.8], &offsets).unwrap();
        let near = |a: [f32; 4], b: [f32; 4]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
        assert_eq!(found.len(), 2);
        assert!(near(found[0].edges, [0.1, 0.14, 0.5, 0.54]), "{found:?}");
        assert!(near(found[1].edges, [0.3, 0.6, 0.7, 0.8]), "{found:?}");
        assert_eq!((found[0].class, found[1].class, found[1].score), (0, 1, 0.8));
    }

    #[test]
    fn outputs_of_other_anchors_are_rejected() {
        let anchors = two();
        for (scores, offsets) in [(3, 8), (4, 7), (4, 12), (4, 0)] {
            let error = anchors.detections(&vec![0.5; scores], &vec![0.0; offsets]).unwrap_err();
            let found = format!("for 2 anchors, found {scores} scores and {offsets} offsets");
            assert!(error.ends_with(&found), "{error}");
        }
        assert_eq!(anchors.detections(&[], &[0.0; 8]), Ok(vec![]), "no classes, no boxes");
    }
}
