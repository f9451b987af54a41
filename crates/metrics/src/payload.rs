//! Answers as numbers: what the `data` of an entry is an array of.

use super::AnswerError;

/// What an answer is an array of, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// 8 bits with a sign.
    Int8,
    /// 8 bits without.
    Uint8,
    /// 16 bits with a sign.
    Int16,
    /// 32 bits with a sign.
    Int32,
    /// 64 bits with a sign.
    Int64,
    /// IEEE 754, 16 bits.
    Float16,
    /// IEEE 754, 32 bits.
    Float32,
    /// IEEE 754, 64 bits.
    Float64,
}

impl Element {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Int8,
        Self::Uint8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Float16,
        Self::Float32,
        Self::Float64,
    ];

    /// As NumPy names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Uint8 => "uint8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float16 => "float16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
        }
    }

    /// The type of this name in NumPy.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|element| element.name() == name)
    }

    /// Bytes.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Float16 => 2,
            Self::Int32 | Self::Float32 => 4,
            Self::Int64 | Self::Float64 => 8,
        }
    }

    /// Returns the element that [`Element::size`] bytes hold; whole numbers are exact up to 2^53.
    ///
    /// # Panics
    /// If there are fewer or more bytes.
    #[must_use]
    pub fn real(self, bytes: &[u8]) -> f64 {
        match self {
            Self::Float16 => half(u16::from_le_bytes(exactly(bytes))),
            Self::Float32 => f64::from(f32::from_le_bytes(exactly(bytes))),
            Self::Float64 => f64::from_le_bytes(exactly(bytes)),
            _ => self.whole(bytes) as f64,
        }
    }

    /// Adds the elements of some bytes to others. What is behind the last whole one is left out.
    pub(crate) fn reals(self, bytes: &[u8], to: &mut Vec<f64>) {
        match self {
            Self::Float32 => {
                to.extend(bytes.as_chunks().0.iter().map(|of| f64::from(f32::from_le_bytes(*of))));
            }
            Self::Float64 => {
                to.extend(bytes.as_chunks().0.iter().map(|of| f64::from_le_bytes(*of)));
            }
            _ => to.extend(bytes.chunks_exact(self.size()).map(|of| self.real(of))),
        }
    }

    /// An element of [`Element::size`] bytes, towards zero as NumPy's `int` does.
    pub(super) fn whole(self, bytes: &[u8]) -> i64 {
        match self {
            Self::Int8 => i64::from(bytes[0].cast_signed()),
            Self::Uint8 => i64::from(bytes[0]),
            Self::Int16 => i64::from(i16::from_le_bytes(exactly(bytes))),
            Self::Int32 => i64::from(i32::from_le_bytes(exactly(bytes))),
            Self::Int64 => i64::from_le_bytes(exactly(bytes)),
            Self::Float16 | Self::Float32 | Self::Float64 => self.real(bytes) as i64,
        }
    }
}

/// Bytes of a chunk whose length [`Element::size`] has given.
fn exactly<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("chunks have the size of the element")
}

/// A number of IEEE 754 binary16.
fn half(bits: u16) -> f64 {
    // The same number in 32 bits but for the bias of its exponent, which a product mends, of
    // subnormal numbers, too.
    const BIAS: f32 = (1_u128 << (127 - 15)) as f32;
    let (sign, magnitude) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7fff));
    let is_number = magnitude < 0x7c00;
    let number = f32::from_bits(sign | magnitude << 13) * BIAS;
    let other = f32::from_bits(sign | 0x7f80_0000 | magnitude << 13);
    f64::from(if is_number { number } else { other })
}

fn whole_number_of(element: Element, answer: &[u8]) -> Result<(), AnswerError> {
    if answer.len().is_multiple_of(element.size()) {
        return Ok(());
    }
    let expected = format!("a multiple of {}", element.size());
    Err(AnswerError::Length { expected, found: answer.len() })
}

/// The elements of an answer as real numbers.
///
/// # Errors
/// The answer holds a part of an element.
pub fn reals(
    element: Element,
    answer: &[u8],
) -> Result<impl ExactSizeIterator<Item = f64> + Clone, AnswerError> {
    whole_number_of(element, answer)?;
    Ok(answer.chunks_exact(element.size()).map(move |bytes| element.real(bytes)))
}

/// The elements of an answer as whole numbers; fractions are cut off.
///
/// # Errors
/// The answer holds a part of an element.
pub fn wholes(
    element: Element,
    answer: &[u8],
) -> Result<impl ExactSizeIterator<Item = i64> + Clone, AnswerError> {
    whole_number_of(element, answer)?;
    Ok(answer.chunks_exact(element.size()).map(move |bytes| element.whole(bytes)))
}

/// An answer that is a single whole number.
///
/// # Errors
/// It is of another length.
pub fn whole(element: Element, answer: &[u8]) -> Result<i64, AnswerError> {
    if answer.len() != element.size() {
        let expected = format!("{} ({})", element.size(), element.name());
        return Err(AnswerError::Length { expected, found: answer.len() });
    }
    Ok(element.whole(answer))
}

/// An answer that is text.
///
/// # Errors
/// It is no UTF-8.
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
    fn halves_have_the_values_of_the_standard() {
        // Values from IEEE 754-2008: least and greatest of either kind.
        let cases = [
            (0x0000, 0.0),
            (0x0001, 2_f64.powi(-24)),
            (0x03ff, 1023.0 * 2_f64.powi(-24)),
            (0x0400, 2_f64.powi(-14)),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65_504.0),
            (0xfc00, f64::NEG_INFINITY),
        ];
        for (bits, value) in cases {
            assert_eq!(half(bits), value, "{bits:#06x}");
        }
        assert!(half(0x7e00).is_nan());
    }

    #[test]
    fn elements_are_little_endian_and_fractions_are_cut_off() {
        let answer = [(-2.75_f32).to_le_bytes(), 7.0_f32.to_le_bytes()].concat();
        let whole_numbers: Vec<i64> = wholes(Element::Float32, &answer).unwrap().collect();
        let real_numbers: Vec<f64> = reals(Element::Float32, &answer).unwrap().collect();
        assert_eq!((whole_numbers, real_numbers), (vec![-2, 7], vec![-2.75, 7.0]));
        assert_eq!(wholes(Element::Int8, &[0xff, 1]).unwrap().collect::<Vec<_>>(), [-1, 1]);
        assert_eq!(wholes(Element::Uint8, &[0xff]).unwrap().collect::<Vec<_>>(), [255]);
    }

    #[test]
    fn a_part_of_an_element_is_no_answer() {
        let error = reals(Element::Float32, &[0; 6]).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), "expected a multiple of 4 bytes, found 6");
        let error = whole(Element::Int64, &[0; 4]).unwrap_err();
        assert_eq!(error.to_string(), "expected 8 (int64) bytes, found 4");
    }
}
