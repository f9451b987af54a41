//! Answers of two interleaved outputs.
//!
//! Source: `onnxruntime_SUT.py` of the reference's benchmark BERT, which stacks the outputs
//! of its model along a new last axis.

use dyno_sut::onnx::Answer;

/// Returns the conversion that interleaves the elements of the first two outputs as float32: one
/// pair per token.
pub fn answer() -> Answer {
    Answer::from_fn(|outputs, position, bytes| {
        let [first, second, ..] = outputs.all() else {
            return Err(format!("expected two outputs, found {}", outputs.all().len()));
        };
        let parts = [first.part(position)?, second.part(position)?];
        let [first, second] = [0, 1].map(|at| parts[at].elements.to_f32());
        pair(&first, &second, bytes).map(|()| 0)
    })
}

fn pair(first: &[f32], second: &[f32], bytes: &mut Vec<u8>) -> Result<(), String> {
    if first.len() != second.len() || first.is_empty() {
        let first = first.len();
        let second = second.len();
        return Err(format!("expected as many starts as ends, found {first} and {second}"));
    }
    for (first, second) in first.iter().zip(second) {
        bytes.extend_from_slice(&first.to_le_bytes());
        bytes.extend_from_slice(&second.to_le_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_and_ends_are_in_turn_and_as_many() {
        let mut bytes = vec![7];
        assert_eq!(pair(&[1.0, 2.0], &[-1.0, -2.0], &mut bytes), Ok(()));
        let expected = [1.0_f32, -1.0, 2.0, -2.0].map(f32::to_le_bytes).concat();
        assert_eq!(bytes, [&[7], &expected[..]].concat());
        let error = pair(&[1.0], &[], &mut bytes).unwrap_err();
        assert_eq!(error, "expected as many starts as ends, found 1 and 0");
        assert!(pair(&[], &[], &mut bytes).is_err());
    }
}
