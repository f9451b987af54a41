//! One value: its code in a format, and what a code is worth.

use std::fmt;

use crate::format::{Format, Kind, Special};

/// How values become codes. The default is the nearest, ties to the even code, and
/// [`Overflow::Usual`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conversion {
    /// Which of two neighbours is taken.
    pub rounding: Rounding,
    /// What becomes of values beyond the largest.
    pub overflow: Overflow,
}

/// Which of a value's two neighbours is taken (SPEC A4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// The nearer; of two as near, the one whose code is even. So half of the least magnitude is 0.
    #[default]
    NearestEven,
    /// The one nearer to zero.
    TowardZero,
    /// The nearer by its logarithm, as LogQuant's: between powers of two the border is √2 times the lower.
    /// Between 0 and the least magnitude it is half of the latter.
    NearestLog,
    /// The one farther from zero as probably as the value is near to it. The same seed draws the same.
    Stochastic {
        /// Of the draw; [`Rounding::at`] makes those of a slice.
        seed: u64,
    },
}

/// What becomes of values beyond the largest finite one, infinities included (SPEC A5 and A6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// [`Overflow::Infinite`] in formats of 16 bits and more that have infinities (F32, F16, bf16, TF32), as
    /// processors have it; [`Overflow::Saturate`] in all others.
    #[default]
    Usual,
    /// The largest finite value, with the sign.
    Saturate,
    /// Infinity; NaN where there is none, and the largest finite value where there is neither. What is finite
    /// and rounded toward zero stays finite.
    Infinite,
}

impl Conversion {
    /// For the element of this index, by [`Rounding::at`].
    #[must_use]
    pub fn at(self, index: usize) -> Self {
        Self { rounding: self.rounding.at(index), ..self }
    }
}

impl Rounding {
    /// For the element of this index: another draw, for the other rules the same.
    #[must_use]
    pub fn at(self, index: usize) -> Self {
        match self {
            Self::Stochastic { seed } => {
                Self::Stochastic { seed: mixed(seed.wrapping_add(mixed(index as u64))) }
            }
            other => other,
        }
    }
}

/// SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// NaN for a format that has none (SPEC A5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NanError {
    /// Which has none.
    pub format: Format,
    /// Of the element that is NaN; 0 for a single value.
    pub index: usize,
}

impl fmt::Display for NanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected numbers, which {} has alone, found NaN at {}", self.format, self.index)
    }
}

impl std::error::Error for NanError {}

impl Format {
    /// The code of a value, by the default conversion.
    ///
    /// ```
    /// use dyno_number::Format;
    /// let format = Format::fixed(3, -2)?;
    /// // Sign and magnitude: codes 0 to 3 are 0 to 3, and 4 to 7 their negatives.
    /// assert_eq!(format.encode(-2.2), Ok(0b110));
    /// assert_eq!(format.decode(0b110), -2.0);
    /// assert_eq!(format.encode(1e9), Ok(0b011), "saturates");
    /// assert!(format.encode(f64::NAN).is_err());
    /// # Ok::<(), dyno_number::FormatError>(())
    /// ```
    ///
    /// # Errors
    /// The value is NaN, and the format has none.
    pub fn encode(self, x: f64) -> Result<u32, NanError> {
        self.encode_with(x, Conversion::default())
    }

    /// The code of a value. Exact: the value is rounded once, whatever its exponent.
    ///
    /// # Errors
    /// As [`Format::encode`].
    pub fn encode_with(self, x: f64, how: Conversion) -> Result<u32, NanError> {
        let is_negative = x.is_sign_negative();
        if x.is_nan() {
            return self.nan(is_negative).ok_or(NanError { format: self, index: 0 });
        }
        if is_negative && !self.has_sign() {
            return Ok(0);
        }
        if self.kind() == Kind::Binary {
            // SPEC A3: the sign of 0 is +.
            return Ok(u32::from(x < 0.0));
        }
        let magnitude =
            if x.is_infinite() { u64::MAX } else { self.rounded(x.abs(), how.rounding) };
        let largest = self.largest(is_negative);
        if magnitude <= u64::from(largest) {
            return Ok(self.signed(magnitude as u32, is_negative));
        }
        let stays = x.is_finite() && how.rounding == Rounding::TowardZero;
        let beyond = if stays { None } else { self.beyond(how.overflow, is_negative) };
        Ok(beyond.unwrap_or_else(|| self.signed(largest, is_negative)))
    }

    /// What a code is worth, exactly. Bits above those of the format are not looked at.
    #[must_use]
    pub fn decode(self, code: u32) -> f64 {
        let code = code & self.mask();
        if self.special() == Special::Complement {
            let unused = 32 - self.bits();
            let whole = (code << unused).cast_signed() >> unused;
            return f64::from(whole) * power_of_two(-self.step());
        }
        let is_negative = self.has_sign() && code >> (self.bits() - 1) == 1;
        let magnitude = code & (self.mask() >> u32::from(self.has_sign()));
        let largest = self.largest(is_negative);
        let x = match self.special() {
            Special::NanForMinusZero if is_negative && magnitude == 0 => f64::NAN,
            Special::Ieee if magnitude == largest + 1 => f64::INFINITY,
            _ if magnitude > largest => f64::NAN,
            _ => self.magnitude(magnitude),
        };
        if is_negative { -x } else { x }
    }

    /// The value of the format that takes the place of a number, by the default conversion.
    ///
    /// A value that `f32` cannot hold is the nearest that it can: only formats whose exponents go beyond
    /// those of `f32`, or whose fraction is longer, have such.
    ///
    /// # Errors
    /// As [`Format::encode`].
    pub fn quantise(self, x: f32) -> Result<f32, NanError> {
        self.quantise_with(x, Conversion::default())
    }

    /// As [`Format::quantise`], by another conversion.
    ///
    /// # Errors
    /// As [`Format::encode`].
    pub fn quantise_with(self, x: f32, how: Conversion) -> Result<f32, NanError> {
        if self == Self::F32 && how.overflow == Overflow::Usual {
            return Ok(x);
        }
        let y = self.decode(self.encode_with(f64::from(x), how)?);
        let limit = f64::from(f32::MAX);
        if y.is_finite() && y.abs() > limit {
            let how = Conversion { rounding: Rounding::TowardZero, overflow: how.overflow };
            return Ok(self.decode(self.encode_with(limit.copysign(y), how)?) as f32);
        }
        Ok(y as f32)
    }

    /// The largest finite value.
    #[must_use]
    pub fn max_value(self) -> f64 {
        self.magnitude(self.largest(false))
    }

    /// The least value above zero.
    #[must_use]
    pub fn min_positive(self) -> f64 {
        match self.special() {
            Special::Powers => self.magnitude(0),
            _ if self.kind() == Kind::Binary => self.magnitude(0),
            _ => self.magnitude(1),
        }
    }

    /// Ones of all its bits.
    pub(crate) fn mask(self) -> u32 {
        u32::MAX >> (32 - self.bits())
    }

    /// The exponent of two of equal steps, negated: n_f + B of formats without an exponent.
    fn step(self) -> i32 {
        self.fraction_bits() as i32 + self.bias()
    }

    /// The code without its sign of the largest finite value: of magnitudes, of which
    /// [`Special::Complement`] has one more below zero.
    pub(crate) fn largest(self, is_negative: bool) -> u32 {
        let (e, n) = (self.exponent_bits(), self.fraction_bits());
        let all = ((1_u64 << (e + n)) - 1) as u32;
        match self.special() {
            Special::Finite | Special::SignedZero | Special::NanForMinusZero => all,
            Special::Ieee => (((1 << e) - 1) << n) - 1,
            Special::Nan | Special::Powers => all - 1,
            Special::Complement => all + u32::from(is_negative),
        }
    }

    /// The code of NaN with that sign, if there is one.
    fn nan(self, is_negative: bool) -> Option<u32> {
        match self.special() {
            Special::Finite | Special::SignedZero | Special::Complement => None,
            // A quiet one: the first bit of the fraction is set.
            Special::Ieee => {
                let quiet = 1 << (self.fraction_bits() - 1);
                Some(self.signed((self.largest(false) + 1) | quiet, is_negative))
            }
            Special::Nan | Special::Powers => {
                Some(self.signed(self.largest(false) + 1, is_negative))
            }
            Special::NanForMinusZero => Some(1 << (self.bits() - 1)),
        }
    }

    /// Whether it has infinities.
    #[must_use]
    pub fn has_infinity(self) -> bool {
        self.special() == Special::Ieee
    }

    /// Whether it has NaN.
    #[must_use]
    pub fn has_nan(self) -> bool {
        self.nan(false).is_some()
    }

    /// The code that values beyond the largest become, if they do not saturate.
    fn beyond(self, overflow: Overflow, is_negative: bool) -> Option<u32> {
        let is_infinite = match overflow {
            Overflow::Usual => self.has_infinity() && self.bits() >= 16,
            Overflow::Saturate => false,
            Overflow::Infinite => true,
        };
        match self.special() {
            _ if !is_infinite => None,
            Special::Ieee => Some(self.signed(self.largest(false) + 1, is_negative)),
            _ => self.nan(is_negative),
        }
    }

    /// What a code without a sign is worth.
    fn magnitude(self, code: u32) -> f64 {
        let n = self.fraction_bits();
        match self.kind() {
            Kind::Binary => power_of_two(-self.bias()),
            Kind::Fixed => f64::from(code) * power_of_two(-self.step()),
            _ if self.special() == Special::Powers => power_of_two(code as i32 - self.bias()),
            Kind::Float | Kind::Exp => {
                let (exponent, fraction) = (code >> n, code & ((1 << n) - 1));
                let whole = if exponent == 0 { fraction } else { fraction | 1 << n };
                let exponent = exponent.max(1) as i32;
                f64::from(whole) * power_of_two(exponent - self.step())
            }
        }
    }

    /// The code without its sign of a finite value that is not negative, as if exponents had no end.
    fn rounded(self, x: f64, rounding: Rounding) -> u64 {
        if x == 0.0 {
            return 0;
        }
        let (whole, exponent) = parts(x);
        let first = match (self.kind(), self.special()) {
            // Steps are equal everywhere.
            (Kind::Fixed | Kind::Binary, _) => {
                return steps(whole, exponent + self.step(), 0, rounding);
            }
            (_, Special::Powers) => -self.bias(),
            _ => 1 - self.bias(),
        };
        // Below 2^first, steps are as just above it.
        let binade = (exponent + whole.ilog2() as i32).max(first);
        let n = self.fraction_bits();
        let above = i64::from(binade - first) << n;
        // Codes of powers of two without zero begin with 0, all others with zero's.
        let base = above - i64::from(self.special() == Special::Powers);
        let count = steps(whole, exponent + n as i32 - binade, base, rounding);
        (base + count as i64).max(0) as u64
    }

    /// The code of a magnitude and a sign. Zeros have one only where the format has two.
    fn signed(self, magnitude: u32, is_negative: bool) -> u32 {
        if !self.has_sign() {
            return magnitude;
        }
        let sign = u32::from(is_negative) << (self.bits() - 1);
        match self.special() {
            Special::Complement if is_negative => magnitude.wrapping_neg() & self.mask(),
            Special::Complement => magnitude,
            Special::Finite | Special::NanForMinusZero if magnitude == 0 => 0,
            _ => magnitude | sign,
        }
    }
}

/// A finite value above zero as a whole number times a power of two.
fn parts(x: f64) -> (u64, i32) {
    let bits = x.to_bits();
    let (exponent, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
    if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) }
}

/// 2 to a power from -1022 to 1023.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// More steps than any format has.
const BEYOND: u64 = 1 << 40;

/// `whole`·2^`exponent` rounded to a whole number, at most [`BEYOND`]. It stands for the code `base` more.
fn steps(whole: u64, exponent: i32, base: i64, rounding: Rounding) -> u64 {
    if exponent >= 0 {
        let fits = exponent as u32 <= whole.leading_zeros();
        return if fits { (whole << exponent).min(BEYOND) } else { BEYOND };
    }
    let shift = exponent.unsigned_abs();
    if shift >= 64 {
        // Less than 2^-10 of a step: none but a draw takes the upper neighbour.
        return match rounding {
            Rounding::Stochastic { seed } => u64::from(draw(seed) < part(whole, shift)),
            _ => 0,
        };
    }
    let (below, one) = (whole >> shift, 1_u64 << shift);
    let rest = whole - (below << shift);
    let is_odd = (base + below as i64) & 1 == 1;
    let is_nearer = || rest > one / 2 || rest == one / 2 && is_odd;
    let is_up = match rounding {
        Rounding::TowardZero => false,
        Rounding::NearestEven => is_nearer(),
        Rounding::NearestLog if below == 0 => is_nearer(),
        Rounding::NearestLog => {
            // Beyond the geometric mean of both: no whole number squared is below * (below + 1).
            let (whole, below) = (u128::from(whole), u128::from(below));
            whole * whole > (below * (below + 1)) << (2 * shift)
        }
        Rounding::Stochastic { seed } => draw(seed) < part(rest, shift),
    };
    (below + u64::from(is_up)).min(BEYOND)
}

/// A number of 32 bits.
fn draw(seed: u64) -> u128 {
    u128::from(mixed(seed) >> 32)
}

/// How many in 2^32 `rest` is of 2^`shift`.
fn part(rest: u64, shift: u32) -> u128 {
    (u128::from(rest) << 32).checked_shr(shift).unwrap_or(0)
}

#[cfg(test)]
mod tests;
