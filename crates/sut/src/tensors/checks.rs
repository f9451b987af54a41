//! Checks of files: numbers must be finite, labels must be classes.

use std::path::Path;

use dyno_tensors::npy::Npy;

use super::{Element, Elements, Scalar, TensorError, each_type};

/// Rejects NaN and infinities.
///
/// # Errors
/// [`TensorError::NotFinite`] with the position of the first one.
pub(super) fn check_finite(
    path: &Path,
    shape: &[usize],
    elements: &Elements<'_>,
) -> Result<(), TensorError> {
    fn first<T: Scalar>(all: &[T]) -> Option<(usize, f64)> {
        // Integers are always finite.
        let all = all.iter().map(|x| x.to_f64()).enumerate();
        all.filter(|_| T::TYPE.is_real()).find(|(_, x)| !x.is_finite())
    }
    match each_type!(elements, all => first(all)) {
        None => Ok(()),
        Some((at, value)) => {
            let mut text = if value.is_nan() { "NaN".into() } else { value.to_string() };
            if elements.element() == Element::BF16 {
                text += " (files of uint16 are read as bfloat16)";
            }
            let (path, index) = (path.to_path_buf(), position(at, shape));
            Err(TensorError::NotFinite { path, index, value: text })
        }
    }
}

/// Returns the class of each sample.
///
/// # Errors
/// [`TensorError::LabelShape`] for arrays that are not a list, and [`TensorError::Label`] for
/// labels that are not whole numbers from 0.
pub(super) fn labels(path: &Path, file: &Npy) -> Result<Vec<i64>, TensorError> {
    if !matches!(file.shape[..], [_] | [_, 1]) {
        let (path, shape) = (path.to_path_buf(), file.shape.clone());
        return Err(if shape.is_empty() {
            TensorError::Scalar { path }
        } else {
            TensorError::LabelShape { path, shape }
        });
    }
    let wrong = |index: usize, found: String| TensorError::Label {
        path: path.to_path_buf(),
        index,
        found,
        classes: None,
    };
    let all: Vec<i64> = match file.elements.to_i64() {
        Some(all) => all.into_owned(),
        None => file
            .elements
            .to_f64()
            .into_iter()
            .enumerate()
            .map(|(index, value)| {
                let is_whole = value.fract() == 0.0 && value.abs() < MOST_EXACT;
                if is_whole { Ok(value as i64) } else { Err(wrong(index, value.to_string())) }
            })
            .collect::<Result<_, _>>()?,
    };
    match all.iter().position(|label| *label < 0) {
        Some(index) => Err(wrong(index, all[index].to_string())),
        None => Ok(all),
    }
}

/// Largest number up to which `f64` represents all whole numbers.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// Returns the indices of an element from its position in the file.
fn position(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|length| {
            let within = at % length;
            at /= length;
            within
        })
        .collect();
    index.reverse();
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy(shape: &[usize], elements: Elements<'static>) -> Npy {
        Npy { shape: shape.to_vec(), elements }
    }

    #[test]
    fn the_first_number_that_is_not_finite_is_named_by_its_indices() {
        let check = |shape: &[usize], elements: Elements<'static>| {
            check_finite(Path::new("x.npy"), shape, &elements).map_err(|error| error.to_string())
        };
        assert_eq!(check(&[2, 3], Elements::F32(vec![0.0; 6].into())), Ok(()));
        assert_eq!(check(&[2], Elements::I64(vec![i64::MAX, i64::MIN].into())), Ok(()));
        let mut all = vec![0.0_f32; 12];
        (all[7], all[9]) = (f32::NAN, f32::INFINITY);
        let found = check(&[2, 3, 2], Elements::F32(all.into())).unwrap_err();
        assert!(found.contains("x.npy: NaN at [1, 0, 1]"), "{found}");
        let halves = vec![half::f16::ONE, half::f16::NEG_INFINITY];
        let found = check(&[2, 1], Elements::F16(halves.into())).unwrap_err();
        assert!(found.contains("-inf at [1, 0]"), "{found}");
    }

    #[test]
    fn labels_are_whole_numbers_from_zero_on() {
        let read = |shape: &[usize], elements: Elements<'static>| {
            labels(Path::new("y.npy"), &npy(shape, elements)).map_err(|error| error.to_string())
        };
        assert_eq!(read(&[3], Elements::U8(vec![0, 2, 1].into())), Ok(vec![0, 2, 1]));
        assert_eq!(read(&[2, 1], Elements::F32(vec![3.0, 0.0].into())), Ok(vec![3, 0]));
        for (elements, index, value) in [
            (Elements::I64(vec![1, 2, -5].into()), 2, "-5"),
            (Elements::F64(vec![1.0, 0.5, 2.0].into()), 1, "0.5"),
            (Elements::F32(vec![f32::NAN, 0.5, 2.0].into()), 0, "NaN"),
        ] {
            let found = read(&[3], elements).unwrap_err();
            assert!(found.contains(&format!("y.npy: label {value} at [{index}]")), "{found}");
        }
        let one_hot = read(&[2, 3], Elements::F64(vec![0.0; 6].into())).unwrap_err();
        assert!(one_hot.contains("[2, 3]") && one_hot.contains("argmax"), "{one_hot}");
    }
}
