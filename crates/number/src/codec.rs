//! Converts one value to its code in a format, and one code to its value.

use dyno_loadgen::rng::{GOLDEN_RATIO, mix};
use thiserror::Error;

use crate::format::{Format, Kind, Special};

/// Rounding and overflow rules of a conversion. The default is [`Rounding::NearestEven`] and
/// [`Overflow::Usual`].
///
/// ```
/// use dyno_number::{Conversion, Format, Overflow, Rounding};
/// let truncating = Conversion { rounding: Rounding::TowardZero, overflow: Overflow::Usual };
/// assert_eq!(Format::INT8.quantise_with(2.9, truncating)?, 2.0);
/// assert_eq!(Format::INT8.quantise(2.9)?, 3.0);
/// # Ok::<(), dyno_number::NanError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conversion {
    /// Rule that chooses between the two neighboring values.
    pub rounding: Rounding,
    /// Rule for values beyond the largest finite one.
    pub overflow: Overflow,
}

/// Rule that chooses between the two values of a format next to a number (SPEC A4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// The nearer value. A tie goes to the even code, so half of the least magnitude becomes 0.
    #[default]
    NearestEven,
    /// The value nearer to zero.
    TowardZero,
    /// The value that is nearer in its logarithm, as in LogQuant. Between powers of two the
    /// boundary is √2 times the lower one; between 0 and the least magnitude it is half of that
    /// magnitude.
    NearestLog,
    /// A random choice: the nearer a value is, the more probable. Equal seeds give equal results.
    Stochastic {
        /// Seed of the draw; [`Rounding::for_index`] derives one for each element of a slice.
        seed: u64,
    },
}

/// Rule for values beyond the largest finite one, including infinities (SPEC A5 and A6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// [`Overflow::Infinite`] in formats of at least 16 bits that have infinities (F32, F16, bf16,
    /// TF32), as in processors; [`Overflow::Saturate`] in all others.
    #[default]
    Usual,
    /// The largest finite value, with the sign of the number.
    Saturate,
    /// Infinity. Formats without infinities give NaN, and formats without both give the largest
    /// finite value. A finite number that is rounded toward zero stays finite.
    Infinite,
}

impl Conversion {
    /// Returns the conversion of the element at `index` of a slice; see [`Rounding::for_index`].
    #[must_use]
    pub fn for_index(self, index: usize) -> Self {
        Self { rounding: self.rounding.for_index(index), ..self }
    }
}

impl Rounding {
    /// Returns the rule of the element at `index` of a slice. Only [`Rounding::Stochastic`]
    /// changes: it gets a seed of its own.
    #[must_use]
    pub fn for_index(self, index: usize) -> Self {
        match self {
            Self::Stochastic { seed } => {
                Self::Stochastic { seed: mixed(seed.wrapping_add(mixed(index as u64))) }
            }
            other => other,
        }
    }
}

/// Mixes the bits of a number.
fn mixed(x: u64) -> u64 {
    mix(x.wrapping_add(GOLDEN_RATIO))
}

/// Error: a value is NaN, and its format has no NaN (SPEC A5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected numbers, which {format} has alone, found NaN at {index}")]
pub struct NanError {
    /// Format without NaN.
    pub format: Format,
    /// Index of the first NaN in a slice; 0 for a single value.
    pub index: usize,
}

impl Format {
    /// Returns the code of a value by the default conversion.
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

    /// Returns the code of a value. The value is rounded exactly once, whatever its exponent.
    ///
    /// # Errors
    /// The value is NaN, and the format has none.
    pub fn encode_with(self, x: f64, how: Conversion) -> Result<u32, NanError> {
        let is_negative = x.is_sign_negative();
        if x.is_nan() {
            return self.nan(is_negative).ok_or(NanError { format: self, index: 0 });
        }
        if is_negative && !self.has_sign() {
            return Ok(0);
        }
        if self.kind() == Kind::Binary {
            // SPEC A3: zero counts as positive.
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

    /// Returns the exact value of a code. Bits above those of the format are ignored.
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

    /// Rounds a number to a value of the format by the default conversion.
    ///
    /// A value beyond the range or precision of `f32` becomes the nearest `f32`. This concerns only
    /// formats with larger exponents or longer fractions than `f32`.
    ///
    /// # Errors
    /// The number is NaN, and the format has none.
    pub fn quantise(self, x: f32) -> Result<f32, NanError> {
        self.quantise_with(x, Conversion::default())
    }

    /// Rounds a number to a value of the format by the given conversion; see [`Format::quantise`].
    ///
    /// # Errors
    /// The number is NaN, and the format has none.
    pub fn quantise_with(self, x: f32, how: Conversion) -> Result<f32, NanError> {
        if self.changes_nothing(how) {
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

    /// Returns whether the conversion keeps every `f32`, including the payload of NaN.
    pub(crate) fn changes_nothing(self, how: Conversion) -> bool {
        self == Self::F32 && how.overflow != Overflow::Saturate
    }

    /// Returns the largest finite value.
    pub fn max_value(self) -> f64 {
        self.magnitude(self.largest(false))
    }

    /// Returns the least value above zero.
    pub fn min_positive(self) -> f64 {
        match self.special() {
            Special::Powers => self.magnitude(0),
            _ if self.kind() == Kind::Binary => self.magnitude(0),
            _ => self.magnitude(1),
        }
    }

    /// Returns a mask of the bits of a code.
    pub(crate) fn mask(self) -> u32 {
        u32::MAX >> (32 - self.bits())
    }

    /// Returns n_f + B: the steps of formats without an exponent are 2 to minus this power.
    fn step(self) -> i32 {
        self.fraction_bits() as i32 + self.bias()
    }

    /// Returns the code, without its sign, of the finite value with the largest magnitude. Below
    /// zero, [`Special::Complement`] has one magnitude more.
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

    /// Returns the code of NaN with the given sign, if the format has NaN.
    fn nan(self, is_negative: bool) -> Option<u32> {
        match self.special() {
            Special::Finite | Special::SignedZero | Special::Complement => None,
            // Quiet NaN: the first bit of the fraction is set.
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

    /// Returns whether the format has infinities.
    pub fn has_infinity(self) -> bool {
        self.special() == Special::Ieee
    }

    /// Returns whether the format has NaN.
    pub fn has_nan(self) -> bool {
        self.nan(false).is_some()
    }

    /// Returns the code for values beyond the largest finite one; `None` if they saturate.
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

    /// Returns the value of a code without its sign.
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

    /// Returns the code, without its sign, of a finite value of at least 0, as if exponents were
    /// unlimited.
    fn rounded(self, x: f64, rounding: Rounding) -> u64 {
        if x == 0.0 {
            return 0;
        }
        let (whole, exponent) = parts(x);
        let first = match (self.kind(), self.special()) {
            // Steps have the same size everywhere.
            (Kind::Fixed | Kind::Binary, _) => {
                return steps(whole, exponent + self.step(), 0, rounding);
            }
            (_, Special::Powers) => -self.bias(),
            _ => 1 - self.bias(),
        };
        // Below 2^first, steps are as large as just above it.
        let binade = (exponent + whole.ilog2() as i32).max(first);
        let n = self.fraction_bits();
        let above = i64::from(binade - first) << n;
        // The first code is zero, except in formats of powers of two without zero.
        let base = above - i64::from(self.special() == Special::Powers);
        let count = steps(whole, exponent + n as i32 - binade, base, rounding);
        (base + count as i64).max(0) as u64
    }

    /// Combines the code of a magnitude with a sign. Zero gets a sign only in formats with two
    /// zeros.
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

/// Splits a finite value above zero into an integer and the exponent of a power of two.
fn parts(x: f64) -> (u64, i32) {
    let bits = x.to_bits();
    let (exponent, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
    if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) }
}

/// Returns 2 to a power from -1022 to 1023.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// More steps than any format has.
const BEYOND: u64 = 1 << 40;

/// Rounds `whole`·2^`exponent` to an integer, at most [`BEYOND`]. Ties depend on the parity of its
/// code, which is `base` larger.
fn steps(whole: u64, exponent: i32, base: i64, rounding: Rounding) -> u64 {
    if exponent >= 0 {
        let fits = exponent as u32 <= whole.leading_zeros();
        return if fits { (whole << exponent).min(BEYOND) } else { BEYOND };
    }
    let shift = exponent.unsigned_abs();
    if shift >= 64 {
        // Less than 2^-10 of a step: only a random draw can round up.
        return match rounding {
            Rounding::Stochastic { seed } => u64::from(draw(seed) < part(whole, shift)),
            _ => 0,
        };
    }
    let below = whole >> shift;
    let one = 1_u64 << shift;
    let rest = whole - (below << shift);
    let is_odd = (base + below as i64) & 1 == 1;
    let is_nearer = || rest > one / 2 || rest == one / 2 && is_odd;
    let is_up = match rounding {
        Rounding::TowardZero => false,
        Rounding::NearestEven => is_nearer(),
        Rounding::NearestLog if below == 0 => is_nearer(),
        Rounding::NearestLog => {
            // The value rounds up above the geometric mean of its neighbors. `below * (below + 1)`
            // is not a square, so there is no tie.
            let (whole, below) = (u128::from(whole), u128::from(below));
            whole * whole > (below * (below + 1)) << (2 * shift)
        }
        Rounding::Stochastic { seed } => draw(seed) < part(rest, shift),
    };
    (below + u64::from(is_up)).min(BEYOND)
}

/// Returns a random number of 32 bits.
fn draw(seed: u64) -> u128 {
    u128::from(mixed(seed) >> 32)
}

/// Returns `rest` / 2^`shift` in units of 2^-32.
fn part(rest: u64, shift: u32) -> u128 {
    (u128::from(rest) << 32).checked_shr(shift).unwrap_or(0)
}

#[cfg(test)]
mod tests;
