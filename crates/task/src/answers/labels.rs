//! Answers of segmentation: the class of each place, such as the voxels of a volume.

use dyno_sut::onnx::Answer;

/// Returns the conversion of the first output `[classes, places...]` to the class with the greatest
/// score at each place, the first of equal ones, as a byte.
#[must_use]
pub fn answer() -> Answer {
    Answer::from_fn(|outputs, position, bytes| {
        let part = outputs.first()?.part(position)?;
        let classes = part.shape.first().copied().unwrap_or(0);
        bytes.extend_from_slice(&labels(&part.elements.to_f32(), classes)?);
        Ok(0)
    })
}

/// Returns the class of each place; the scores of a class lie together.
///
/// ```
/// use dyno_task::answers::labels::labels;
///
/// // Two classes at three places.
/// assert_eq!(labels(&[0.1, 0.9, 0.2, 0.3, 0.1, 0.4], 2), Ok(vec![1, 0, 1]));
/// ```
///
/// # Errors
/// There are no classes, more than 256, or the number of scores is not a multiple of theirs.
pub fn labels(scores: &[f32], classes: usize) -> Result<Vec<u8>, String> {
    if !(1..=256).contains(&classes) || !scores.len().is_multiple_of(classes) {
        let found = scores.len();
        return Err(format!(
            "expected scores of 1 to 256 classes for each place, found {found} of {classes} classes"
        ));
    }
    let places = scores.len() / classes;
    if places == 0 {
        return Ok(Vec::new());
    }
    let mut best = scores[..places].to_vec();
    let mut labels = vec![0; places];
    // Class by class, in the order of memory.
    for (class, scores) in (1..=u8::MAX).zip(scores.chunks_exact(places).skip(1)) {
        for ((best, label), score) in best.iter_mut().zip(&mut labels).zip(scores) {
            // NaN is never the greatest score.
            if *score > *best || best.is_nan() {
                (*best, *label) = (*score, class);
            }
        }
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_the_class_of_its_greatest_score() {
        let scores = [[0.1, 0.9, 0.2, f32::NAN], [0.3, 0.9, 0.1, 0.0], [0.2, 0.8, 0.4, -1.0]];
        assert_eq!(labels(scores.as_flattened(), 3), Ok(vec![1, 0, 2, 1]));
        assert_eq!(labels(&[], 3), Ok(vec![]));
    }

    #[test]
    fn scores_of_no_whole_number_of_places_are_rejected() {
        for (count, classes) in [(4, 3), (4, 0), (514, 257)] {
            let error = labels(&vec![0.0; count], classes).unwrap_err();
            assert!(error.ends_with(&format!("found {count} of {classes} classes")), "{error}");
        }
    }
}
