//! Samples whose padding is removed.

use dyno_loadgen::qsl::SampleIndex;

use super::{SampleTensor, Scalar, Source, Tensor, each_type};

/// Padded samples, and the length of each along the first axis.
#[derive(Debug)]
pub(super) struct TrimmedSamples {
    name: String,
    inputs: Vec<String>,
    tensors: Vec<Tensor>,
    lengths: Vec<usize>,
}

impl TrimmedSamples {
    /// Returns a source of these samples.
    ///
    /// # Panics
    /// If the number of lengths differs from the number of samples.
    pub(super) fn new(name: String, tensors: Vec<Tensor>, lengths: Vec<usize>) -> Self {
        let alike = |tensor: &Tensor| tensor.elements.len() == lengths.len() * tensor.sample_len();
        assert!(tensors.iter().all(alike), "a length for each sample");
        let inputs = tensors.iter().map(|tensor| tensor.name.clone()).collect();
        Self { name, inputs, tensors, lengths }
    }

    /// Returns the maximum length, which all inputs have.
    pub(super) fn most(tensors: &[Tensor]) -> usize {
        let first = tensors.iter().filter_map(|tensor| tensor.sample_shape.first());
        first.min().copied().unwrap_or(0)
    }
}

impl Source for TrimmedSamples {
    fn name(&self) -> &str {
        &self.name
    }

    fn count(&self) -> usize {
        self.lengths.len()
    }

    fn inputs(&self) -> &[String] {
        &self.inputs
    }

    fn sample(&self, index: SampleIndex) -> Result<Vec<SampleTensor>, String> {
        let index = index as usize;
        let length = *self.lengths.get(index).ok_or("there is no such sample")?;
        let cut = |tensor: &Tensor| {
            let mut shape = tensor.sample_shape.clone();
            // An input without axes is one number, which stays.
            shape.iter_mut().take(1).for_each(|first| *first = length);
            let from = index * tensor.sample_len();
            let range = from..from + shape.iter().product::<usize>();
            let elements =
                each_type!(&tensor.elements, all => Scalar::wrap(all[range].to_vec().into()));
            SampleTensor { shape, elements }
        };
        Ok(self.tensors.iter().map(cut).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Elements, TensorError, TensorLibrary};
    use super::*;

    fn library() -> TensorLibrary {
        let tensor = |name: &str, sample_shape: Vec<usize>, numbers: Vec<i64>| Tensor {
            name: name.into(),
            sample_shape,
            elements: Elements::I64(numbers.into()),
        };
        let tokens = tensor("tokens", vec![3], vec![1, 2, 3, 4, 5, 0, 6, 0, 0]);
        let pairs = tensor("pairs", vec![3, 2], (0..18).collect());
        let kinds = tensor("kind", Vec::new(), vec![7, 8, 9]);
        TensorLibrary::new("words", vec![tokens, pairs, kinds], Some(vec![0, 1, 2])).unwrap()
    }

    #[test]
    fn padding_is_cut_off_all_inputs() {
        let library = library().without_padding(&[3, 2, 1]).unwrap();
        assert_eq!(library.labels(), Some(&[0, 1, 2][..]));
        let found = library.sample(1).unwrap();
        let found: Vec<_> =
            found.iter().map(|(_, input)| (input.shape.clone(), input.elements.to_f64())).collect();
        let expected = [
            (vec![2], vec![4.0, 5.0]),
            (vec![2, 2], vec![6.0, 7.0, 8.0, 9.0]),
            (vec![], vec![8.0]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn lengths_that_no_sample_has_are_told() {
        let refused = |lengths: &[usize]| library().without_padding(lengths).unwrap_err();
        assert_eq!(refused(&[1, 2]), TensorError::LengthCount { samples: 3, lengths: 2 });
        assert_eq!(refused(&[1, 2, 4]), TensorError::Length { most: 3, found: 4 });
        assert_eq!(refused(&[0, 2, 3]).to_string(), "expected lengths from 1 to 3, found 0");
    }
}
