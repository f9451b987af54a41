//! Types of elements.

use std::fmt;

use half::{bf16, f16};

macro_rules! elements {
    ($($variant:ident: $name:literal, $bits:literal;)+) => {
        /// Type of a tensor's elements.
        ///
        /// Formats and protocols have their own names or numbers for these types. The conversions are
        /// in the modules that read the formats.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the names state it")]
        pub enum Element {
            $($variant,)+
        }

        impl Element {
            /// All types.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns NumPy's name, such as `float32`, or that of the package `ml_dtypes`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the width of one element in bits.
            pub const fn bits(self) -> usize {
                match self {
                    $(Self::$variant => $bits,)+
                }
            }
        }
    };
}

elements! {
    F32: "float32", 32;
    F64: "float64", 64;
    F16: "float16", 16;
    BF16: "bfloat16", 16;
    I64: "int64", 64;
    I32: "int32", 32;
    I16: "int16", 16;
    I8: "int8", 8;
    U64: "uint64", 64;
    U32: "uint32", 32;
    U16: "uint16", 16;
    U8: "uint8", 8;
    Bool: "bool", 8;
    F8E4M3: "float8_e4m3fn", 8;
    F8E4M3Fnuz: "float8_e4m3fnuz", 8;
    F8E5M2: "float8_e5m2", 8;
    F8E5M2Fnuz: "float8_e5m2fnuz", 8;
    F8E8M0: "float8_e8m0fnu", 8;
    F4E2M1: "float4_e2m1fn", 4;
    I4: "int4", 4;
    U4: "uint4", 4;
    I2: "int2", 2;
    U2: "uint2", 2;
}

impl Element {
    /// Returns the type of this name, as [`Element::name`] spells it.
    ///
    /// ```
    /// use dyno_tensors::Element;
    ///
    /// assert_eq!(Element::from_name("bfloat16"), Some(Element::BF16));
    /// assert_eq!(Element::from_name("BF16"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|element| element.name() == name)
    }

    /// Returns the size of a single element in bytes.
    ///
    /// In tensors, elements of less than a byte share bytes: see [`Element::bytes_of`].
    pub const fn size(self) -> usize {
        self.bits().div_ceil(8)
    }

    /// Returns the size of a tensor of `count` elements in bytes; saturates.
    ///
    /// The first of several elements in a byte has the lowest bits.
    ///
    /// ```
    /// use dyno_tensors::Element;
    ///
    /// assert_eq!(Element::F32.bytes_of(3), 12);
    /// assert_eq!(Element::I4.bytes_of(3), 2);
    /// ```
    pub const fn bytes_of(self, count: u64) -> u64 {
        match self.bits() {
            bits @ 0..8 => count.div_ceil(8 / bits as u64),
            bits => count.saturating_mul(bits as u64 / 8),
        }
    }

    /// Returns the size of a tensor of this shape in bytes, or `None` if it overflows.
    pub fn bytes_of_shape(self, shape: &[usize]) -> Option<usize> {
        let count = shape.iter().try_fold(1_usize, |product, n| product.checked_mul(*n))?;
        match self.bits() {
            bits @ 0..8 => Some(count.div_ceil(8 / bits)),
            bits => count.checked_mul(bits / 8),
        }
    }

    /// Returns whether it is a floating-point type.
    pub const fn is_real(self) -> bool {
        matches!(
            self,
            Self::F32
                | Self::F64
                | Self::F16
                | Self::BF16
                | Self::F8E4M3
                | Self::F8E4M3Fnuz
                | Self::F8E5M2
                | Self::F8E5M2Fnuz
                | Self::F8E8M0
                | Self::F4E2M1
        )
    }

    /// Returns the element that [`Element::size`] bytes hold in little-endian order, as a real number.
    ///
    /// Integers are exact up to 2^53.
    ///
    /// # Panics
    /// If there are fewer or more bytes, and for floats of fewer than 16 bits and integers of fewer than 8.
    pub fn real(self, bytes: &[u8]) -> f64 {
        match self {
            Self::F16 => f16::from_le_bytes(exactly(bytes)).to_f64(),
            Self::BF16 => bf16::from_le_bytes(exactly(bytes)).to_f64(),
            Self::F32 => f64::from(f32::from_le_bytes(exactly(bytes))),
            Self::F64 => f64::from_le_bytes(exactly(bytes)),
            Self::U64 => u64::from_le_bytes(exactly(bytes)) as f64,
            _ => self.whole(bytes) as f64,
        }
    }

    /// Returns the element that [`Element::size`] bytes hold in little-endian order, as an integer.
    ///
    /// Fractions are truncated towards zero, as by NumPy's `int`. Numbers out of range saturate, and NaN
    /// is 0.
    ///
    /// # Panics
    /// As [`Element::real`] does.
    pub fn whole(self, bytes: &[u8]) -> i64 {
        match self {
            Self::I8 => i64::from(i8::from_le_bytes(exactly(bytes))),
            Self::U8 => i64::from(u8::from_le_bytes(exactly(bytes))),
            Self::Bool => i64::from(u8::from_le_bytes(exactly(bytes)) != 0),
            Self::I16 => i64::from(i16::from_le_bytes(exactly(bytes))),
            Self::U16 => i64::from(u16::from_le_bytes(exactly(bytes))),
            Self::I32 => i64::from(i32::from_le_bytes(exactly(bytes))),
            Self::U32 => i64::from(u32::from_le_bytes(exactly(bytes))),
            Self::I64 => i64::from_le_bytes(exactly(bytes)),
            Self::U64 => i64::try_from(u64::from_le_bytes(exactly(bytes))).unwrap_or(i64::MAX),
            Self::F16 | Self::BF16 | Self::F32 | Self::F64 => self.real(bytes) as i64,
            _ => panic!("elements of {self} have no numbers in Rust"),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Converts a slice of the length that [`Element::size`] requires.
fn exactly<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("there are as many bytes as the element has")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_have_the_values_of_the_standard() {
        // Values from IEEE 754-2008: least and greatest of either kind.
        let cases = [
            (0x0000_u16, 0.0),
            (0x0001, 2_f64.powi(-24)),
            (0x03ff, 1023.0 * 2_f64.powi(-24)),
            (0x0400, 2_f64.powi(-14)),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65_504.0),
            (0xfc00, f64::NEG_INFINITY),
        ];
        for (bits, value) in cases {
            assert_eq!(Element::F16.real(&bits.to_le_bytes()), value, "{bits:#06x}");
        }
        assert!(Element::F16.real(&0x7e00_u16.to_le_bytes()).is_nan());
    }

    #[test]
    fn elements_are_little_endian_and_fractions_are_truncated() {
        assert_eq!(Element::F32.whole(&(-2.75_f32).to_le_bytes()), -2);
        assert_eq!(Element::F64.whole(&f64::NAN.to_le_bytes()), 0);
        assert_eq!((Element::I8.whole(&[0xff]), Element::U8.whole(&[0xff])), (-1, 255));
        assert_eq!((Element::I16.real(&[0xfe, 0xff]), Element::U16.real(&[1, 2])), (-2.0, 513.0));
        assert_eq!(Element::U64.whole(&[0xff; 8]), i64::MAX);
        assert_eq!(Element::U64.real(&[0xff; 8]), 2_f64.powi(64));
        assert_eq!((Element::BF16.real(&[0x80, 0x3f]), Element::Bool.real(&[7])), (1.0, 1.0));
    }

    #[test]
    fn sizes_count_shared_bytes_and_overflow_nowhere() {
        for element in Element::ALL {
            assert_eq!(Element::from_name(element.name()), Some(*element));
            assert_eq!(element.bytes_of(8), element.bits() as u64);
            assert_eq!(element.bytes_of_shape(&[2, 4]), Some(element.bits()));
            assert_eq!(element.bytes_of_shape(&[usize::MAX, 2]), None, "{element}");
        }
        assert_eq!(Element::F64.bytes_of(u64::MAX), u64::MAX);
        assert_eq!(Element::F16.bytes_of_shape(&[usize::MAX]), None);
        assert_eq!((Element::U2.bytes_of(5), Element::U2.size()), (2, 1));
    }
}
