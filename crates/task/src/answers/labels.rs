//! Answers of segmentation: the class of each place, such as the voxels of a volume.

use dyno_sut::onnx::Answer;

/// Returns the conversion of the first output `[classes, places...]` to the class with the greatest
/// score at each place, the first of equal ones, as a byte.
pub fn answer() -> Answer {
    Answer::from_fn(|outputs, position, bytes| {
        let part = outputs.first()?.part(position)?;
        let classes = part.shape.first().copied().unwrap_or(0);
        let found = labels(&part.elements.to_f32(), classes).map_err(|why| {
            outputs.index(position).map_or(why.clone(), |index| format!("sample {index}: {why}"))
        })?;
        bytes.extend_from_slice(&found);
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
/// There are no classes, more than 256, or the number of scores is not a multiple of theirs; or a score
/// is NaN, so that its place has no class.
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
    if let Some(at) = scores.iter().position(|score| score.is_nan()) {
        let (class, place) = (at / places, at % places);
        return Err(format!("the score of class {class} at place {place} is NaN"));
    }
    let mut best = scores[..places].to_vec();
    let mut labels = vec![0; places];
    // Class by class, in the order of memory.
    for (class, scores) in (1..=u8::MAX).zip(scores.chunks_exact(places).skip(1)) {
        for ((best, label), score) in best.iter_mut().zip(&mut labels).zip(scores) {
            if *score > *best {
                (*best, *label) = (*score, class);
            }
        }
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::sut::{QuerySample, ResponseId};
    use dyno_sut::onnx::Outputs;
    use dyno_sut::onnx::answer::Output;
    use dyno_sut::tensors::Elements;

    use super::*;

    #[test]
    fn each_place_has_the_class_of_its_greatest_score() {
        let scores = [[0.1, 0.9, 0.2], [0.3, 0.9, 0.1], [0.2, 0.8, 0.4]];
        assert_eq!(labels(scores.as_flattened(), 3), Ok(vec![1, 0, 2]));
        assert_eq!(labels(&[], 3), Ok(vec![]));
    }

    #[test]
    fn a_place_with_nan_has_no_class() {
        let scores = [[0.1, 0.9], [0.3, f32::NAN]];
        let expected = "the score of class 1 at place 1 is NaN";
        assert_eq!(labels(scores.as_flattened(), 2), Err(expected.to_owned()));
        // The error of a call names the sample.
        let samples = [QuerySample { id: ResponseId(1), index: 7 }];
        let elements = Ok(Elements::F32(scores.as_flattened().into()));
        let output = Output { name: "y", shape: vec![1, 2, 2], elements, samples: 1 };
        let outputs = Outputs::new([output]).for_samples(&samples);
        let Answer::Function(make) = answer() else { panic!("expected a function") };
        let error = make(&outputs, 0, &mut Vec::new()).unwrap_err();
        assert_eq!(error, format!("sample 7: {expected}"));
    }

    #[test]
    fn scores_of_no_whole_number_of_places_are_rejected() {
        for (count, classes) in [(4, 3), (4, 0), (514, 257)] {
            let error = labels(&vec![0.0; count], classes).unwrap_err();
            assert!(error.ends_with(&format!("found {count} of {classes} classes")), "{error}");
        }
    }
}
