//! Answers of text encoders: embeddings.
//!
//! Source: `1_Pooling` and `2_Normalize` of the model all-MiniLM-L6-v2, as its package
//! describes them.

use dyno_sut::onnx::Answer;
use dyno_sut::onnx::answer::Part;

/// Returns the conversion to an embedding: the mean of a text's token vectors, scaled to length 1,
/// as float32. If the first output is one vector per text, that vector is scaled.
pub fn answer() -> Answer {
    Answer::from_fn(|outputs, position, bytes| {
        let vector = vector(&outputs.first()?.part(position)?)?;
        bytes.extend(vector.into_iter().flat_map(f32::to_le_bytes));
        Ok(0)
    })
}

/// Returns the scaled mean of all rows; texts are not padded.
fn vector(part: &Part<'_>) -> Result<Vec<f32>, String> {
    let values = part.elements.to_f32();
    let columns = match *part.shape {
        [columns] | [_, columns] if columns > 0 && !values.is_empty() => columns,
        _ => {
            let shape = part.shape;
            return Err(format!("expected a vector for each token or text, found shape {shape:?}"));
        }
    };
    let mut sum = vec![0.0_f64; columns];
    for row in values.chunks_exact(columns) {
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    let length = sum.iter().map(|value| value * value).sum::<f64>().sqrt();
    Ok(sum.into_iter().map(|value| (value / length) as f32).collect())
}

#[cfg(test)]
mod tests {
    use dyno_sut::tensors::Elements;

    use super::*;

    fn vector_of(shape: &[usize], values: &[f32]) -> Result<Vec<f32>, String> {
        vector(&Part { shape, elements: Elements::F32(values.to_vec().into()) })
    }

    #[test]
    fn the_mean_of_tokens_has_length_1() {
        assert_eq!(vector_of(&[2, 2], &[1.0, 2.0, 5.0, 6.0]).unwrap(), [0.6, 0.8]);
        assert_eq!(vector_of(&[2], &[-3.0, 4.0]).unwrap(), [-0.6, 0.8]);
        // A zero vector has no direction; the metric reports it.
        assert!(vector_of(&[1, 2], &[0.0, 0.0]).unwrap()[0].is_nan());
    }

    #[test]
    fn other_shapes_than_vectors_fail() {
        let error = vector_of(&[1, 2, 2], &[0.0; 4]).unwrap_err();
        assert_eq!(error, "expected a vector for each token or text, found shape [1, 2, 2]");
        assert!(vector_of(&[], &[1.0]).is_err());
        assert!(vector_of(&[0, 384], &[]).is_err());
    }
}
