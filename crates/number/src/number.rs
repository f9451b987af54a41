//! A value with its format, and arithmetic between formats.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Mul};

use crate::codec::{Conversion, NanError};
use crate::format::{Format, Kind};

/// A value with its format, like the thesis' class `Number`.
///
/// A sum or product has the format of the operand with the wider range (see [`wider`]). It is
/// computed in `f64` and rounded once more to that format. For F32 and F16 this gives the results
/// of IEEE 754; products of fractions of up to 25 bits are exact before the rounding. If the result
/// is NaN and the wider format has no NaN, the result is F32.
///
/// Assignment in Rust copies value and format; [`Number::set`] keeps the format, like named objects
/// do (SPEC A11).
/// ```
/// use dyno_number::{Format, Number};
/// let weight = Number::new(0.3, Format::fixed(4, 0)?)?;
/// assert_eq!(weight.to_f32(), 0.25);
/// let product = weight * Number::from(3.0);
/// assert_eq!((product.to_f32(), product.format()), (0.75, Format::F32));
/// let mut sum = weight;
/// sum.set(Number::from(0.7) + weight)?;
/// assert_eq!((sum.to_f32(), sum.format()), (0.875, weight.format()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Number {
    code: u32,
    format: Format,
}

impl Number {
    /// Rounds `x` to a value of the format by the default conversion.
    ///
    /// # Errors
    /// `x` is NaN, and the format has none.
    pub fn new(x: f64, format: Format) -> Result<Self, NanError> {
        Ok(Self { code: format.encode(x)?, format })
    }

    /// Returns the number with this code. Bits above those of the format are dropped.
    pub fn from_code(code: u32, format: Format) -> Self {
        Self { code: code & format.mask(), format }
    }

    /// Sets the value to that of `other` and keeps the format.
    ///
    /// # Errors
    /// `other` is NaN, and the format has none. The value does not change then.
    pub fn set(&mut self, other: Number) -> Result<(), NanError> {
        self.code = self.format.encode(other.to_f64())?;
        Ok(())
    }

    /// Returns the value in another format.
    ///
    /// # Errors
    /// The value is NaN, and the format has none.
    pub fn convert(self, format: Format, how: Conversion) -> Result<Self, NanError> {
        Ok(Self { code: format.encode_with(self.to_f64(), how)?, format })
    }

    /// Returns the code.
    pub fn code(self) -> u32 {
        self.code
    }

    /// Returns the format.
    pub fn format(self) -> Format {
        self.format
    }

    /// Returns the exact value.
    pub fn to_f64(self) -> f64 {
        self.format.decode(self.code)
    }

    /// Returns the nearest `f32`. It is exact if the fraction has at most 23 bits and the exponents
    /// are within those of `f32`.
    pub fn to_f32(self) -> f32 {
        self.to_f64() as f32
    }

    /// Returns the value without its fraction, saturating; 0 for NaN (SPEC A10).
    pub fn to_i32(self) -> i32 {
        self.to_f64() as i32
    }

    /// Rounds a result to the wider format of the operands, or to F32 if it is NaN and that format
    /// has none.
    fn result(self, other: Self, x: f64) -> Self {
        let format = wider(self.format, other.format);
        let made = Self::new(x, format).or_else(|_| Self::new(x, Format::F32));
        made.expect("F32 has NaN")
    }
}

/// Returns the format of a sum or product (SPEC A8). FLOAT wins over EXP. Otherwise the format with
/// the larger ratio of its largest value to its least magnitude wins; then the longer fraction;
/// then the left one.
pub fn wider(left: Format, right: Format) -> Format {
    match (left.kind(), right.kind()) {
        (Kind::Float, Kind::Exp) => return left,
        (Kind::Exp, Kind::Float) => return right,
        _ => {}
    }
    let range = |format: Format| format.max_value() / format.min_positive();
    let order = range(left).total_cmp(&range(right));
    match order.then(left.fraction_bits().cmp(&right.fraction_bits())) {
        Ordering::Less => right,
        Ordering::Equal | Ordering::Greater => left,
    }
}

impl From<f32> for Number {
    /// Converts to F32, like a variable that is assigned a number of the language.
    fn from(x: f32) -> Self {
        Self { code: x.to_bits(), format: Format::F32 }
    }
}

impl From<i32> for Number {
    /// Converts to F32, rounding if necessary.
    fn from(x: i32) -> Self {
        Self::from(x as f32)
    }
}

impl Add for Number {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.result(other, self.to_f64() + other.to_f64())
    }
}

impl Mul for Number {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        self.result(other, self.to_f64() * other.to_f64())
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_f64(), f)
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.to_f64(), self.format)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn format(name: &str) -> Format {
        name.parse().expect("a format of these tests")
    }

    #[test]
    fn the_wider_range_wins() {
        let check = |left, right, expected| {
            assert_eq!(wider(format(left), format(right)), format(expected), "{left} {right}");
        };
        check("I8", "F16", "F16");
        check("F32", "I32", "F32");
        // FLOAT wins although the range of E9 is 2^254 and that of FP8 is 2^18.
        check("E9", "fp8-e4m3fn", "fp8-e4m3fn");
        check("fp4-e2m1", "E9", "fp4-e2m1");
        check("I4", "I8(3)", "I8(3)");
        check("I4", "E4", "E4");
        // Both ranges are 15. Then the longer fraction wins, then the left one.
        check("U4(0)", "I5(-2)", "U4(0)");
        check("I3(-2)", "I3(4)", "I3(-2)");
        check("bf16", "F32", "F32");
        check("BIN", "I2", "I2");
    }

    #[test]
    fn numbers_of_the_language_are_f32() {
        assert_eq!(Number::from(16_777_217).to_f32(), 16_777_216.0);
        assert_eq!(Number::from(0.1).format(), Format::F32);
        let x = |x| Number::from(x).to_i32();
        assert_eq!(
            [x(2.9), x(-2.9), x(1e30), x(-1e30), x(f32::NAN)],
            [2, -2, i32::MAX, i32::MIN, 0]
        );
    }

    #[test]
    fn nan_is_kept() {
        let nan = Number::new(f64::NAN, Format::FP8_E4M3FN).unwrap();
        let one = Number::new(1.0, format("I32")).unwrap();
        let sum = nan + one;
        assert!(sum.to_f32().is_nan());
        assert_eq!(sum.format(), Format::F32, "I32 is wider and has no NaN");
        let mut keeps = one;
        assert_eq!(keeps.set(nan).unwrap_err().format, one.format());
        assert_eq!(keeps.to_f32(), Number::new(1.0, format("I32")).unwrap().to_f32());
    }

    proptest! {
        /// Results equal those of the processor, including rounding.
        #[test]
        fn sums_and_products_of_f32_are_those_of_f32(a in any::<u32>(), b in any::<u32>()) {
            let [x, y] = [a, b].map(f32::from_bits);
            let [left, right] = [x, y].map(Number::from);
            for (found, expected) in [(left + right, x + y), (left * right, x * y)] {
                if expected.is_nan() {
                    prop_assert!(found.to_f32().is_nan());
                } else {
                    prop_assert_eq!(found.to_f32().to_bits(), expected.to_bits());
                }
            }
        }

        /// Results are the nearest code to the exact sum or product.
        #[test]
        fn sums_and_products_of_few_bits_are_rounded_once(
            a in any::<u32>(), b in any::<u32>(),
            which in prop::sample::select(vec!["I8(-2)", "E5", "bf16", "fp6-e3m2", "F16", "fp11"]),
        ) {
            let format = format(which);
            let [x, y] = [a, b].map(|code| Number::from_code(code, format));
            let (exact_sum, exact_product) = (x.to_f64() + y.to_f64(), x.to_f64() * y.to_f64());
            if exact_sum.is_finite() && exact_product.is_finite() {
                prop_assert_eq!((x + y).code(), format.encode(exact_sum).unwrap());
                prop_assert_eq!((x * y).code(), format.encode(exact_product).unwrap());
                prop_assert_eq!((x + y).format(), format);
            }
        }
    }

    #[test]
    fn a_value_prints_as_a_number() {
        let x = Number::new(0.3, format("I4")).unwrap();
        assert_eq!(format!("{x} {x:?} {}", x.code()), "0.25 0.25 in I4(0) 2");
        let how = Conversion::default();
        assert_eq!(x.convert(Format::FP4_E2M1, how).unwrap().to_string(), "0");
        assert_eq!(Number::from_code(0xfffe, Format::FP4_E2M1).to_f32(), -4.0);
    }
}
