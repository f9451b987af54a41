//! Classes of classifiers as answers.
//!
//! Source: `PostProcessArgMax` and `PostProcessCommon` of the reference's vision
//! benchmarks, which add the same number to every class before they answer.

use dyno_sut::onnx::Answer;
use dyno_sut::top1::argmax;

/// The class that the sample's part of an output, by default the first, tells, as the labels
/// number it: the position of the greatest score, or the element itself if it is a single
/// integer.
#[must_use]
pub fn answer(offset: i64, output: Option<String>) -> Answer {
    Answer::made(move |outputs, position, bytes| {
        let output = output.as_deref().map_or_else(|| outputs.first(), |name| outputs.named(name));
        let class = output?.part(position)?.elements.class();
        bytes.extend_from_slice(&payload(numbered(class, offset)));
        Ok(0)
    })
}

/// The class with the greatest score, as the labels number it: `offset` is added to its
/// position, -1 where the model has a class 0 for the background that labels do not have.
/// That one becomes -1 itself, which is no label.
#[must_use]
pub fn best(scores: &[f32], offset: i64) -> i64 {
    numbered(i64::try_from(argmax(scores)).unwrap_or(i64::MAX), offset)
}

/// A class that the model itself chose, as the labels number it.
#[must_use]
pub fn numbered(class: i64, offset: i64) -> i64 {
    class.saturating_add(offset)
}

/// The answer: eight bytes, little-endian, which accuracy scripts read as `int64`.
#[must_use]
pub fn payload(class: i64) -> [u8; 8] {
    class.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_numbered_as_the_labels_are() {
        let scores = [0.1, 0.2, 0.9, 0.9];
        assert_eq!([best(&scores, 0), best(&scores, -1), best(&[1.0, 0.0], -1)], [2, 1, -1]);
        assert_eq!([numbered(66, -1), numbered(i64::MIN, -1)], [65, i64::MIN]);
        assert_eq!(dyno_sut::top1::decode(&payload(best(&scores, -1))), Some(1));
    }
}
