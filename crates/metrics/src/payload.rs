//! Answers as arrays of numbers, or as text.

use super::AnswerError;

pub use dyno_tensors::Element;

/// Types of the elements of answers, little-endian.
pub const ELEMENTS: [Element; 8] = [
    Element::I8,
    Element::U8,
    Element::I16,
    Element::I32,
    Element::I64,
    Element::F16,
    Element::F32,
    Element::F64,
];

/// Returns the type with this name in NumPy, if answers can hold it.
///
/// ```
/// use dyno_metrics::payload::{Element, element_named};
///
/// assert_eq!(element_named("float16"), Some(Element::F16));
/// assert_eq!(element_named("complex64"), None);
/// ```
pub fn element_named(name: &str) -> Option<Element> {
    ELEMENTS.into_iter().find(|element| element.name() == name)
}

/// Appends the elements in `bytes` to `values`. Ignores an incomplete element at the end.
pub(crate) fn append_reals(element: Element, bytes: &[u8], values: &mut Vec<f64>) {
    match element {
        Element::F32 => {
            let all = bytes.as_chunks().0.iter();
            values.extend(all.map(|bytes| f64::from(f32::from_le_bytes(*bytes))));
        }
        Element::F64 => {
            values.extend(bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)));
        }
        _ => values.extend(bytes.chunks_exact(element.size()).map(|bytes| element.real(bytes))),
    }
}

fn whole_number_of(element: Element, answer: &[u8]) -> Result<(), AnswerError> {
    if answer.len().is_multiple_of(element.size()) {
        return Ok(());
    }
    let expected = format!("a multiple of {}", element.size());
    Err(AnswerError::Length { expected, found: answer.len() })
}

/// Rejects an answer with an element that `is_wrong`. Integers are always numbers.
fn reject(
    element: Element,
    answer: &[u8],
    is_wrong: impl Fn(f64) -> bool,
) -> Result<(), AnswerError> {
    if !matches!(element, Element::F16 | Element::BF16 | Element::F32 | Element::F64) {
        return Ok(());
    }
    let mut numbers = answer.chunks_exact(element.size()).map(|bytes| element.real(bytes));
    let Some(wrong) = numbers.find(|number| is_wrong(*number)) else { return Ok(()) };
    Err(AnswerError::Content { expected: "numbers".to_owned(), found: wrong.to_string() })
}

/// Rejects an answer with NaN or an infinity.
///
/// # Errors
/// [`AnswerError::Content`] with the first such element.
pub(crate) fn require_finite(element: Element, answer: &[u8]) -> Result<(), AnswerError> {
    reject(element, answer, |number| !number.is_finite())
}

/// Rejects an answer with NaN or infinity. Minus infinity excludes a choice and is valid.
///
/// # Errors
/// [`AnswerError::Content`] with the first such element.
pub(crate) fn require_logits(element: Element, answer: &[u8]) -> Result<(), AnswerError> {
    reject(element, answer, |number| number.is_nan() || number == f64::INFINITY)
}

/// Returns the elements of an answer as real numbers.
///
/// # Errors
/// [`AnswerError::Length`] if the answer ends within an element.
///
/// ```
/// use dyno_metrics::payload::{Element, reals};
///
/// let halves: Vec<f64> = reals(Element::F16, &[0x00, 0x3c, 0x00, 0xc0]).unwrap().collect();
/// assert_eq!(halves, [1.0, -2.0]);
/// assert!(reals(Element::F16, &[0]).is_err());
/// ```
pub fn reals(
    element: Element,
    answer: &[u8],
) -> Result<impl ExactSizeIterator<Item = f64> + Clone, AnswerError> {
    whole_number_of(element, answer)?;
    Ok(answer.chunks_exact(element.size()).map(move |bytes| element.real(bytes)))
}

/// Returns the elements of an answer as integers, truncated toward zero.
///
/// # Errors
/// [`AnswerError::Length`] if the answer ends within an element, [`AnswerError::Content`] if an
/// element is NaN or infinite.
pub fn wholes(
    element: Element,
    answer: &[u8],
) -> Result<impl ExactSizeIterator<Item = i64> + Clone, AnswerError> {
    whole_number_of(element, answer)?;
    require_finite(element, answer)?;
    Ok(answer.chunks_exact(element.size()).map(move |bytes| element.whole(bytes)))
}

/// Returns the integer of an answer with a single element.
///
/// # Errors
/// [`AnswerError::Length`] if the answer has another length, [`AnswerError::Content`] if the
/// element is NaN or infinite.
pub fn whole(element: Element, answer: &[u8]) -> Result<i64, AnswerError> {
    if answer.len() != element.size() {
        let expected = format!("{} ({})", element.size(), element.name());
        return Err(AnswerError::Length { expected, found: answer.len() });
    }
    require_finite(element, answer)?;
    Ok(element.whole(answer))
}

/// Returns the text of an answer.
///
/// # Errors
/// [`AnswerError::Content`] if the answer is not UTF-8.
pub fn text(answer: &[u8]) -> Result<&str, AnswerError> {
    std::str::from_utf8(answer).map_err(|error| AnswerError::Content {
        expected: "UTF-8".to_owned(),
        found: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_little_endian_and_fractions_are_cut_off() {
        let answer = [(-2.75_f32).to_le_bytes(), 7.0_f32.to_le_bytes()].concat();
        let whole_numbers: Vec<i64> = wholes(Element::F32, &answer).unwrap().collect();
        let real_numbers: Vec<f64> = reals(Element::F32, &answer).unwrap().collect();
        assert_eq!((whole_numbers, real_numbers), (vec![-2, 7], vec![-2.75, 7.0]));
        assert_eq!(wholes(Element::I8, &[0xff, 1]).unwrap().collect::<Vec<_>>(), [-1, 1]);
        assert_eq!(wholes(Element::U8, &[0xff]).unwrap().collect::<Vec<_>>(), [255]);
    }

    #[test]
    fn nan_and_infinities_are_no_integers() {
        for (wrong, found) in
            [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")]
        {
            let error = whole(Element::F32, &wrong.to_le_bytes()).unwrap_err();
            assert_eq!(error.to_string(), format!("expected numbers, found {found}"));
            let answer = [1.0, wrong].map(f32::to_le_bytes).concat();
            assert!(wholes(Element::F32, &answer).is_err());
        }
        assert!(require_logits(Element::F32, &f32::NEG_INFINITY.to_le_bytes()).is_ok());
        assert!(require_logits(Element::F32, &f32::INFINITY.to_le_bytes()).is_err());
        // All bits set are NaN in floating-point types only.
        assert_eq!(whole(Element::I32, &[0xff; 4]), Ok(-1));
    }

    #[test]
    fn a_part_of_an_element_is_no_answer() {
        let error = reals(Element::F32, &[0; 6]).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), "expected a multiple of 4 bytes, found 6");
        let error = whole(Element::I64, &[0; 4]).unwrap_err();
        assert_eq!(error.to_string(), "expected 8 (int64) bytes, found 4");
    }
}
