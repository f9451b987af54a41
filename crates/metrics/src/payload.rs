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
#[must_use]
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
/// [`AnswerError::Length`] if the answer ends within an element.
pub fn wholes(
    element: Element,
    answer: &[u8],
) -> Result<impl ExactSizeIterator<Item = i64> + Clone, AnswerError> {
    whole_number_of(element, answer)?;
    Ok(answer.chunks_exact(element.size()).map(move |bytes| element.whole(bytes)))
}

/// Returns the integer of an answer with a single element.
///
/// # Errors
/// [`AnswerError::Length`] if the answer has another length.
pub fn whole(element: Element, answer: &[u8]) -> Result<i64, AnswerError> {
    if answer.len() != element.size() {
        let expected = format!("{} ({})", element.size(), element.name());
        return Err(AnswerError::Length { expected, found: answer.len() });
    }
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
    fn a_part_of_an_element_is_no_answer() {
        let error = reals(Element::F32, &[0; 6]).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), "expected a multiple of 4 bytes, found 6");
        let error = whole(Element::I64, &[0; 4]).unwrap_err();
        assert_eq!(error.to_string(), "expected 8 (int64) bytes, found 4");
    }
}
