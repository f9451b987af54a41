//! Answers of classifiers.
//!
//! Source: `PostProcessArgMax` and `PostProcessCommon` of the reference's vision
//! benchmarks, which add the same number to every class before they answer.

use dyno_sut::onnx::Answer;

/// Returns the conversion of an output (by default the first) to a class in the numbering of the
/// labels: the index of the greatest score, or the element itself if it is a single integer.
/// `offset` is added.
pub fn answer(offset: i64, output: Option<String>) -> Answer {
    Answer::from_fn(move |outputs, position, bytes| {
        let output = output.as_deref().map_or_else(|| outputs.first(), |name| outputs.named(name));
        // Scores with NaN have no class, so their answer has no bytes.
        if let Some(class) = output?.part(position)?.elements.class() {
            bytes.extend_from_slice(&payload(numbered(class, offset)));
        }
        Ok(0)
    })
}

/// Returns a class in the numbering of the labels. `offset` is added to its index: -1 if the model has
/// a background class 0 that the labels lack. The background itself becomes -1, which is not a label.
///
/// ```
/// use dyno_task::answers::class::{numbered, payload};
///
/// assert_eq!(numbered(1, -1), 0);
/// assert_eq!(payload(7), [7, 0, 0, 0, 0, 0, 0, 0]);
/// ```
pub fn numbered(class: i64, offset: i64) -> i64 {
    class.saturating_add(offset)
}

/// Returns the bytes of an answer: `int64`, little-endian, as accuracy scripts read it.
pub fn payload(class: i64) -> [u8; 8] {
    class.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_numbered_as_the_labels_are() {
        assert_eq!([numbered(2, 0), numbered(2, -1), numbered(0, -1)], [2, 1, -1]);
        assert_eq!([numbered(66, -1), numbered(i64::MIN, -1)], [65, i64::MIN]);
        assert_eq!(dyno_sut::top1::decode(&payload(numbered(2, -1))), Some(1));
    }
}
