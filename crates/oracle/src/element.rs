//! Types of elements, with the rounding and wrapping that each of them does.

use std::fmt;

/// Type of the elements of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// IEEE binary16.
    Float16,
    /// The upper half of a binary32.
    BFloat16,
    /// IEEE binary32.
    Float32,
    /// IEEE binary64.
    Float64,
    /// Signed, 4 bits.
    Int4,
    /// Unsigned, 4 bits.
    UInt4,
    /// Signed, 8 bits.
    Int8,
    /// Signed, 16 bits.
    Int16,
    /// Signed, 32 bits.
    Int32,
    /// Signed, 64 bits.
    Int64,
    /// Unsigned, 8 bits.
    UInt8,
    /// Unsigned, 16 bits.
    UInt16,
    /// Unsigned, 32 bits.
    UInt32,
    /// Unsigned, 64 bits. Values from 2⁶³ are not supported.
    UInt64,
    /// Truth values: 0 and 1.
    Bool,
}

use Element::{
    BFloat16, Bool, Float16, Float32, Float64, Int4, Int8, Int16, Int32, Int64, UInt4, UInt8,
    UInt16, UInt32, UInt64,
};

/// Each type with its code in `TensorProto.DataType`, its name in the standard, and its bits.
const TABLE: [(Element, i32, &str, usize); 15] = [
    (Float32, 1, "float", 32),
    (UInt8, 2, "uint8", 8),
    (Int8, 3, "int8", 8),
    (UInt16, 4, "uint16", 16),
    (Int16, 5, "int16", 16),
    (Int32, 6, "int32", 32),
    (Int64, 7, "int64", 64),
    (Bool, 9, "bool", 8),
    (Float16, 10, "float16", 16),
    (Float64, 11, "double", 64),
    (UInt32, 12, "uint32", 32),
    (UInt64, 13, "uint64", 64),
    (BFloat16, 16, "bfloat16", 16),
    (UInt4, 21, "uint4", 4),
    (Int4, 22, "int4", 4),
];

impl Element {
    /// Returns the type with this code of `TensorProto.DataType`; `None` for types that the oracle does
    /// not compute: strings, complex numbers, floats of 8 and fewer bits, and integers of 2 bits.
    pub fn from_code(code: i64) -> Option<Element> {
        TABLE.iter().find(|row| i64::from(row.1) == code).map(|row| row.0)
    }

    fn row(self) -> (Element, i32, &'static str, usize) {
        TABLE[TABLE.iter().position(|row| row.0 == self).unwrap_or(0)]
    }

    /// Returns the code in `TensorProto.DataType`.
    pub fn code(self) -> i32 {
        self.row().1
    }

    /// Returns the number of bits of one element in a file.
    pub fn bits(self) -> usize {
        self.row().3
    }

    /// Returns whether the type is one of the four floating-point types.
    pub fn is_float(self) -> bool {
        matches!(self, Float16 | BFloat16 | Float32 | Float64)
    }

    /// Returns the largest finite value of a floating-point type.
    pub fn largest(self) -> f64 {
        match self {
            Float16 => 65504.0,
            BFloat16 => f64::from(f32::from_bits(0x7f7f_0000)),
            Float32 => f64::from(f32::MAX),
            _ => f64::MAX,
        }
    }

    /// Returns the value of this floating-point type that is nearest, ties to even.
    pub fn round(self, value: f64) -> f64 {
        match self {
            Float16 => round_to(value, 10, -14, self.largest()),
            BFloat16 => round_to(value, 7, -126, self.largest()),
            Float32 => f64::from(value as f32),
            _ => value,
        }
    }

    /// Returns the value of this integer type with the same low bits: what overflow leaves.
    pub fn wrap(self, value: i64) -> i64 {
        match self {
            Int4 => ((value & 15) ^ 8) - 8,
            UInt4 => value & 15,
            Int8 => i64::from(value as i8),
            Int16 => i64::from(value as i16),
            Int32 => i64::from(value as i32),
            UInt8 => i64::from(value as u8),
            UInt16 => i64::from(value as u16),
            UInt32 => i64::from(value as u32),
            Bool => i64::from(value != 0),
            _ => value,
        }
    }

    /// Returns the smallest and the largest value of an integer type; for `uint64` the largest that is
    /// supported.
    pub fn limits(self) -> (i64, i64) {
        match self {
            Int4 => (-8, 7),
            UInt4 => (0, 15),
            Int8 => (-128, 127),
            Int16 => (-32768, 32767),
            Int32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            UInt8 => (0, 255),
            UInt16 => (0, 65535),
            UInt32 => (0, i64::from(u32::MAX)),
            UInt64 => (0, i64::MAX),
            Bool => (0, 1),
            _ => (i64::MIN, i64::MAX),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().2)
    }
}

/// Rounds to a format with `fraction` bits after the point, whose smallest normal number is 2^`lowest`.
fn round_to(value: f64, fraction: i32, lowest: i32, largest: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let biased = i32::try_from(value.to_bits() >> 52 & 0x7ff).unwrap_or(0);
    let quantum = 2f64.powi((biased - 1023).max(lowest) - fraction);
    let rounded = (value / quantum).round_ties_even() * quantum;
    if rounded.abs() > largest { f64::INFINITY.copysign(value) } else { rounded }
}

/// Returns the value of the 16 bits of a binary16.
pub(crate) fn from_half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let fraction = f64::from(bits & 0x3ff);
    match bits >> 10 & 0x1f {
        0 => sign * fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        exponent => sign * (1024.0 + fraction) * 2f64.powi(i32::from(exponent) - 25),
    }
}

/// Returns the 16 bits of a binary16, which the value must be.
pub(crate) fn to_half(value: f64) -> u16 {
    // There are few: the one with the value is found by halving.
    let (mut low, mut high) = (0, 0x7c00);
    while low < high {
        let middle = (low + high) / 2;
        if from_half(middle) < value.abs() { low = middle + 1 } else { high = middle }
    }
    let bits = if value.is_nan() { 0x7e00 } else { low };
    if value.is_sign_negative() { bits | 0x8000 } else { bits }
}

/// Returns the value of the 16 bits of a bfloat16.
pub(crate) fn from_bfloat(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_binary16_is_its_own_rounding_and_midpoints_go_to_even() {
        for bits in 0..=u16::MAX {
            let value = from_half(bits);
            assert!(value.is_nan() || Float16.round(value) == value, "{bits:#x}");
            assert!(value.is_nan() || to_half(value) == bits, "{bits:#x}");
        }
        assert_eq!(Float16.round(1.0 + 2f64.powi(-11)), 1.0);
        assert_eq!(Float16.round(1.0 + 3.0 * 2f64.powi(-11)), 1.0 + 2f64.powi(-9));
        assert_eq!(Float16.round(65519.9), 65504.0);
        assert_eq!(Float16.round(-65520.0), f64::NEG_INFINITY);
        assert_eq!(Float16.round(2f64.powi(-25)), 0.0);
        assert_eq!(BFloat16.round(1.0 + 2f64.powi(-8)), 1.0);
    }

    #[test]
    fn integers_wrap_as_their_types_do() {
        assert_eq!([Int8, UInt8, Int64].map(|element| element.wrap(200)), [-56, 200, 200]);
        assert_eq!(UInt32.wrap(-1), 4_294_967_295);
        assert_eq!([7, 8, 15].map(|value| Int4.wrap(value)), [7, -8, -1]);
        assert_eq!(UInt4.wrap(-1), 15);
    }
}
