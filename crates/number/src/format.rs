//! What a format is: its tuple, its families and their default biases.

mod name;

use std::fmt;

/// A number format: a word of a sign, an exponent and a fraction, and what its codes are worth.
///
/// With E and F the exponent's and the fraction's bits as unsigned integers, a code is worth
/// - (1 + F·2^-n_f)·2^(E-B) where E is not 0, and F·2^-n_f·2^(1-B) where it is (equation II.1),
/// - F·2^-n_f·2^-B where there is no exponent (SPEC A1),
/// - 2^-B where there is neither (SPEC A3),
///
/// times -1 if the sign is set. A larger bias makes a smaller range and finer steps. [`Special`] tells
/// which codes are worth something else.
///
/// It prints as `I3(-2)`, `E4(3)`, `F32` or by its name, and is read from that again:
/// ```
/// use dyno_number::Format;
/// let format: Format = "I3(-2)".parse()?;
/// assert_eq!(format, Format::fixed(3, -2)?);
/// assert_eq!(format.bits(), 3);
/// assert_eq!(format.to_string(), "I3(-2)");
/// assert_eq!(Format::exp(4)?.to_string(), "E4(3)");
/// assert_eq!(Format::float(32)?, Format::F32);
/// # Ok::<(), dyno_number::FormatError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Format {
    // 0 or 1
    sign_bits: u8,
    // 0..=8
    exponent_bits: u8,
    // 0..=31; all three together 1..=32
    fraction_bits: u8,
    // -512..=512
    bias: i16,
    special: Special,
}

/// The family of a format: which of exponent and fraction it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Both.
    Float,
    /// A fraction alone: equal steps.
    Fixed,
    /// An exponent alone: zero and powers of two.
    Exp,
    /// Neither: a sign.
    Binary,
}

/// Codes that are not worth what the tuple says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    /// None, and minus zero is never made: the thesis' formats.
    Finite,
    /// None, and zero has a sign, as in formats of the Open Compute Project with 4 and 6 bits.
    SignedZero,
    /// The largest exponent is infinity and NaN, as in IEEE 754.
    Ieee,
    /// All ones after the sign are NaN, and there is no infinity (`fn`).
    Nan,
    /// The code of minus zero is NaN, and there is neither minus zero nor infinity (`fnuz`).
    NanForMinusZero,
    /// Powers of two without zero: exponent 0 is one as all others, and all ones are NaN, as in scales of
    /// blocks (`E8M0`).
    Powers,
    /// Two's complement instead of sign and magnitude.
    Complement,
}

impl Format {
    /// The widest exponent.
    pub const MAX_EXPONENT_BITS: u32 = 8;
    /// The widest fraction.
    pub const MAX_FRACTION_BITS: u32 = 31;
    /// Biases go from minus this to this: all values of all formats are exact in `f64`.
    pub const MAX_BIAS: i32 = 512;

    /// binary32 of IEEE 754.
    pub const F32: Self = Self::constant(1, 8, 23, 127, Special::Ieee);
    /// binary16 of IEEE 754.
    pub const F16: Self = Self::constant(1, 5, 10, 15, Special::Ieee);
    /// The upper half of binary32.
    pub const BF16: Self = Self::constant(1, 8, 7, 127, Special::Ieee);
    /// What NVIDIA's products keep of binary32.
    pub const TF32: Self = Self::constant(1, 8, 10, 127, Special::Ieee);
    /// The FP11 of MLPerf's lists; all its codes are finite.
    pub const FP11: Self = Self::constant(1, 5, 5, 15, Special::Finite);
    /// Of the Open Compute Project, up to 448.
    pub const FP8_E4M3FN: Self = Self::constant(1, 4, 3, 7, Special::Nan);
    /// Of the Open Compute Project, up to 57,344.
    pub const FP8_E5M2: Self = Self::constant(1, 5, 2, 15, Special::Ieee);
    /// Of AMD and Graphcore, up to 240.
    pub const FP8_E4M3FNUZ: Self = Self::constant(1, 4, 3, 8, Special::NanForMinusZero);
    /// Of AMD and Graphcore, up to 57,344.
    pub const FP8_E5M2FNUZ: Self = Self::constant(1, 5, 2, 16, Special::NanForMinusZero);
    /// Of the Open Compute Project, up to 28.
    pub const FP6_E3M2: Self = Self::constant(1, 3, 2, 3, Special::SignedZero);
    /// Of the Open Compute Project, up to 7.5.
    pub const FP6_E2M3: Self = Self::constant(1, 2, 3, 1, Special::SignedZero);
    /// Of the Open Compute Project: 0, 0.5, 1, 1.5, 2, 3, 4 and 6.
    pub const FP4_E2M1: Self = Self::constant(1, 2, 1, 1, Special::SignedZero);
    /// Scales of blocks: 2^-127 to 2^127.
    pub const E8M0: Self = Self::constant(0, 8, 0, 127, Special::Powers);
    /// Whole numbers from -128 to 127.
    pub const INT8: Self = Self::constant(1, 0, 7, -7, Special::Complement);
    /// Whole numbers from -8 to 7.
    pub const INT4: Self = Self::constant(1, 0, 3, -3, Special::Complement);
    /// Whole numbers from 0 to 255.
    pub const UINT8: Self = Self::constant(0, 0, 8, -8, Special::Finite);
    /// Whole numbers from 0 to 15.
    pub const UINT4: Self = Self::constant(0, 0, 4, -4, Special::Finite);
    /// Sixty-fourths from -2 to 127/64: the elements of MXINT8.
    pub const MXINT8: Self = Self::constant(1, 0, 7, -1, Special::Complement);

    const fn constant(s: u8, e: u8, f: u8, bias: i16, special: Special) -> Self {
        Self { sign_bits: s, exponent_bits: e, fraction_bits: f, bias, special }
    }

    /// The format of this tuple: a sign or none, bits of the exponent (0 to 8) and of the fraction (0 to
    /// 31), and the bias.
    ///
    /// # Errors
    /// More than 32 bits or none, a part or a bias beyond its limits, or special codes that the tuple has
    /// no room for.
    pub fn new(
        has_sign: bool,
        exponent_bits: u32,
        fraction_bits: u32,
        bias: i32,
        special: Special,
    ) -> Result<Self, FormatError> {
        let sign_bits = u32::from(has_sign);
        if exponent_bits > Self::MAX_EXPONENT_BITS {
            return Err(FormatError::Exponent(exponent_bits));
        }
        let bits = sign_bits.saturating_add(exponent_bits).saturating_add(fraction_bits);
        if fraction_bits > Self::MAX_FRACTION_BITS || !(1..=32).contains(&bits) {
            return Err(FormatError::Bits { family: "a format", least: 1, most: 32, found: bits });
        }
        if bias.abs() > Self::MAX_BIAS {
            return Err(FormatError::Bias(bias));
        }
        let fits = match special {
            Special::Finite => true,
            Special::SignedZero | Special::NanForMinusZero => has_sign && exponent_bits > 0,
            Special::Ieee => exponent_bits > 1 && fraction_bits > 0,
            Special::Nan => exponent_bits > 0 && fraction_bits > 0,
            Special::Powers => !has_sign && exponent_bits > 1 && fraction_bits == 0,
            Special::Complement => has_sign && exponent_bits == 0 && fraction_bits > 0,
        };
        if !fits {
            return Err(FormatError::Special(special));
        }
        Ok(Self {
            sign_bits: sign_bits as u8,
            exponent_bits: exponent_bits as u8,
            fraction_bits: fraction_bits as u8,
            bias: bias as i16,
            special,
        })
    }

    /// FLOAT of 4 to 32 bits: sign, exponent and fraction, with the exponent's usual width and bias.
    ///
    /// 32 and 16 bits are those of IEEE 754, infinities and NaN included (SPEC A6). The exponent has 2 bits
    /// of 4 and 5, 3 of 6 and 7, 4 of 8, 5 of 9 to 18, and 8 of 19 and more (SPEC A7): 8 is E4M3, 11
    /// FP11 and 19 TF32.
    ///
    /// # Errors
    /// The width.
    pub fn float(bits: u32) -> Result<Self, FormatError> {
        let exponent_bits = match bits {
            4 | 5 => 2,
            6 | 7 => 3,
            8 => 4,
            9..=18 => 5,
            19..=32 => 8,
            _ => {
                return Err(FormatError::Bits { family: "FLOAT", least: 4, most: 32, found: bits });
            }
        };
        Self::float_with(bits, exponent_bits, default_bias(exponent_bits))
    }

    /// FLOAT with an exponent of that many bits and this bias.
    ///
    /// Those that are binary32 with a shorter fraction have its infinities and NaN, because their largest
    /// exponent is worth more than `f32` holds; so has binary16. Codes of all others are finite.
    ///
    /// # Errors
    /// There is no room for the fraction, or the bias is beyond its limits.
    pub fn float_with(bits: u32, exponent_bits: u32, bias: i32) -> Result<Self, FormatError> {
        let room = bits.checked_sub(exponent_bits.saturating_add(1));
        let fraction_bits = room.filter(|room| *room > 0 && exponent_bits > 0);
        let Some(fraction_bits) = fraction_bits else {
            return Err(FormatError::Exponent(exponent_bits));
        };
        let is_ieee = matches!((exponent_bits, fraction_bits, bias), (8, _, 127) | (5, 10, 15));
        let special = if is_ieee { Special::Ieee } else { Special::Finite };
        Self::new(true, exponent_bits, fraction_bits, bias, special)
    }

    /// FIXED of 1 to 32 bits: sign and magnitude in steps of 2^-(bits - 1)·2^-bias, so less than 2^-bias.
    /// The default bias is 0.
    ///
    /// # Errors
    /// The width or the bias is beyond its limits.
    pub fn fixed(bits: u32, bias: i32) -> Result<Self, FormatError> {
        if !(1..=32).contains(&bits) {
            return Err(FormatError::Bits { family: "FIXED", least: 1, most: 32, found: bits });
        }
        Self::new(true, 0, bits - 1, bias, Special::Finite)
    }

    /// EXP of 2 to 9 bits with its default bias, 2^(bits - 2) - 1: zero, and 2^(E-B) for E from 1 to
    /// 2^(bits - 1) - 1, with a sign.
    ///
    /// # Errors
    /// The width.
    pub fn exp(bits: u32) -> Result<Self, FormatError> {
        Self::exp_with(bits, default_bias(bits.saturating_sub(1).min(Self::MAX_EXPONENT_BITS)))
    }

    /// EXP with another bias.
    ///
    /// # Errors
    /// The width or the bias is beyond its limits.
    pub fn exp_with(bits: u32, bias: i32) -> Result<Self, FormatError> {
        if !(2..=9).contains(&bits) {
            return Err(FormatError::Bits { family: "EXP", least: 2, most: 9, found: bits });
        }
        Self::new(true, bits - 1, 0, bias, Special::Finite)
    }

    /// BIN: 2^-bias or its negative. It is FIXED(1); the default bias is 0.
    ///
    /// # Errors
    /// The bias is beyond its limits.
    pub fn binary(bias: i32) -> Result<Self, FormatError> {
        Self::fixed(1, bias)
    }

    /// With another bias, and so another range. FLOAT(32) and its like become formats whose codes are all
    /// finite.
    ///
    /// # Errors
    /// The bias is beyond its limits.
    pub fn with_bias(self, bias: i32) -> Result<Self, FormatError> {
        let (exponent, fraction) = (self.exponent_bits(), self.fraction_bits());
        if self.is_family(Kind::Float) {
            return Self::float_with(self.bits(), exponent, bias);
        }
        Self::new(self.has_sign(), exponent, fraction, bias, self.special)
    }

    /// Of the FLOAT, FIXED, EXP or BIN of the thesis, with a sign, as a constructor makes them.
    fn is_family(self, kind: Kind) -> bool {
        let made = match self.kind() {
            Kind::Float => Self::float_with(self.bits(), self.exponent_bits(), self.bias()),
            Kind::Exp => Self::exp_with(self.bits(), self.bias()),
            Kind::Fixed | Kind::Binary => Self::fixed(self.bits(), self.bias()),
        };
        kind == self.kind() && made == Ok(self)
    }

    /// All bits of a code, 1 to 32.
    #[must_use]
    pub fn bits(self) -> u32 {
        u32::from(self.sign_bits) + self.exponent_bits() + self.fraction_bits()
    }

    /// Whether there are negative numbers.
    #[must_use]
    pub fn has_sign(self) -> bool {
        self.sign_bits == 1
    }

    /// n_e, 0 to 8.
    #[must_use]
    pub fn exponent_bits(self) -> u32 {
        u32::from(self.exponent_bits)
    }

    /// n_f, 0 to 31. With [`Special::Complement`], all bits but the first.
    #[must_use]
    pub fn fraction_bits(self) -> u32 {
        u32::from(self.fraction_bits)
    }

    /// B, -512 to 512.
    #[must_use]
    pub fn bias(self) -> i32 {
        i32::from(self.bias)
    }

    /// Which codes are not what the tuple says.
    #[must_use]
    pub fn special(self) -> Special {
        self.special
    }

    /// The family.
    #[must_use]
    pub fn kind(self) -> Kind {
        match (self.exponent_bits, self.fraction_bits) {
            (0, 0) => Kind::Binary,
            (0, _) => Kind::Fixed,
            (_, 0) => Kind::Exp,
            _ => Kind::Float,
        }
    }
}

/// 2^(n_e - 1) - 1, of FLOAT and of EXP.
pub(crate) fn default_bias(exponent_bits: u32) -> i32 {
    (1 << exponent_bits.saturating_sub(1)) - 1
}

/// A format that there is not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// A width that the family has not.
    Bits {
        /// Such as FIXED.
        family: &'static str,
        /// Its fewest bits.
        least: u32,
        /// Its most.
        most: u32,
        /// What was asked for.
        found: u32,
    },
    /// An exponent of so many bits is too wide, or leaves no fraction.
    Exponent(u32),
    /// A bias beyond [`Format::MAX_BIAS`].
    Bias(i32),
    /// Special codes that the tuple has no room for.
    Special(Special),
    /// A text that names no format.
    Name(String),
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bits { family, least, most, found } => {
                write!(f, "expected {least} to {most} bits of {family}, found {found}")
            }
            Self::Exponent(found) => {
                write!(
                    f,
                    "expected 1 to 8 bits of exponent that leave a sign and a fraction, found {found}"
                )
            }
            Self::Bias(found) => write!(f, "expected a bias from -512 to 512, found {found}"),
            Self::Special(special) => {
                write!(f, "expected a sign, an exponent and a fraction with room for {special:?}")
            }
            Self::Name(found) => write!(
                f,
                "expected a format such as I3(-2), E4(3), F32, <1,4,3,7> or {}, found {found:?}",
                name::example()
            ),
        }
    }
}

impl std::error::Error for FormatError {}

#[cfg(test)]
mod tests;
