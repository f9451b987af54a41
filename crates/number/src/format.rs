//! Number formats: the tuple, its families and their default biases.

mod name;

use thiserror::Error;

/// A number format: how many bits the sign, exponent and fraction have, and what value each code
/// stands for.
///
/// Let E and F be the bits of the exponent and of the fraction as unsigned integers. A code has the
/// value
/// - (1 + F·2^-n_f)·2^(E-B) if E is not 0, and F·2^-n_f·2^(1-B) if it is (equation II.1),
/// - F·2^-n_f·2^-B if there is no exponent (SPEC A1),
/// - 2^-B if there is neither exponent nor fraction (SPEC A3),
///
/// times -1 if the sign is set. A larger bias gives a smaller range and finer steps. [`Special`]
/// lists the codes with other values.
///
/// A format prints as `I3(-2)`, `E4(3)`, `F32` or by its name, and parses from the same text:
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

/// Family of a format: whether it has an exponent, a fraction, both or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Exponent and fraction.
    Float,
    /// Only a fraction: steps of equal size.
    Fixed,
    /// Only an exponent: zero and powers of two.
    Exp,
    /// Neither: only a sign.
    Binary,
}

/// Codes whose value the tuple does not determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    /// None. Minus zero is never produced. These are the thesis' formats.
    Finite,
    /// None. Zero has a sign, as in the formats of the Open Compute Project with 4 and 6 bits.
    SignedZero,
    /// The largest exponent stands for infinity and NaN, as in IEEE 754.
    Ieee,
    /// All ones after the sign are NaN; there is no infinity (`fn`).
    Nan,
    /// The code of minus zero is NaN; there is neither minus zero nor infinity (`fnuz`).
    NanForMinusZero,
    /// Powers of two without zero: exponent 0 is an ordinary exponent, and all ones are NaN, as in
    /// the scales of blocks (`E8M0`).
    Powers,
    /// Two's complement instead of sign and magnitude.
    Complement,
}

impl Format {
    /// Maximum number of exponent bits.
    pub const MAX_EXPONENT_BITS: u32 = 8;
    /// Maximum number of fraction bits.
    pub const MAX_FRACTION_BITS: u32 = 31;
    /// Maximum magnitude of a bias. Within it, `f64` holds all values of all formats exactly.
    pub const MAX_BIAS: i32 = 512;

    /// binary32 of IEEE 754.
    pub const F32: Self = Self::constant(1, 8, 23, 127, Special::Ieee);
    /// binary16 of IEEE 754.
    pub const F16: Self = Self::constant(1, 5, 10, 15, Special::Ieee);
    /// bfloat16, the upper half of binary32.
    pub const BF16: Self = Self::constant(1, 8, 7, 127, Special::Ieee);
    /// TF32, the part of binary32 that NVIDIA's tensor cores multiply.
    pub const TF32: Self = Self::constant(1, 8, 10, 127, Special::Ieee);
    /// The FP11 of MLPerf's lists; all its codes are finite.
    pub const FP11: Self = Self::constant(1, 5, 5, 15, Special::Finite);
    /// FP8 E4M3FN of the Open Compute Project; values up to 448.
    pub const FP8_E4M3FN: Self = Self::constant(1, 4, 3, 7, Special::Nan);
    /// FP8 E5M2 of the Open Compute Project; values up to 57,344.
    pub const FP8_E5M2: Self = Self::constant(1, 5, 2, 15, Special::Ieee);
    /// FP8 E4M3FNUZ of AMD and Graphcore; values up to 240.
    pub const FP8_E4M3FNUZ: Self = Self::constant(1, 4, 3, 8, Special::NanForMinusZero);
    /// FP8 E5M2FNUZ of AMD and Graphcore; values up to 57,344.
    pub const FP8_E5M2FNUZ: Self = Self::constant(1, 5, 2, 16, Special::NanForMinusZero);
    /// FP6 E3M2 of the Open Compute Project; values up to 28.
    pub const FP6_E3M2: Self = Self::constant(1, 3, 2, 3, Special::SignedZero);
    /// FP6 E2M3 of the Open Compute Project; values up to 7.5.
    pub const FP6_E2M3: Self = Self::constant(1, 2, 3, 1, Special::SignedZero);
    /// FP4 E2M1 of the Open Compute Project: 0, 0.5, 1, 1.5, 2, 3, 4 and 6.
    pub const FP4_E2M1: Self = Self::constant(1, 2, 1, 1, Special::SignedZero);
    /// Scales of blocks: powers of two from 2^-127 to 2^127.
    pub const E8M0: Self = Self::constant(0, 8, 0, 127, Special::Powers);
    /// Integers from -128 to 127.
    pub const INT8: Self = Self::constant(1, 0, 7, -7, Special::Complement);
    /// Integers from -8 to 7.
    pub const INT4: Self = Self::constant(1, 0, 3, -3, Special::Complement);
    /// Integers from 0 to 255.
    pub const UINT8: Self = Self::constant(0, 0, 8, -8, Special::Finite);
    /// Integers from 0 to 15.
    pub const UINT4: Self = Self::constant(0, 0, 4, -4, Special::Finite);
    /// Elements of MXINT8: multiples of 1/64 from -2 to 127/64.
    pub const MXINT8: Self = Self::constant(1, 0, 7, -1, Special::Complement);

    const fn constant(s: u8, e: u8, f: u8, bias: i16, special: Special) -> Self {
        Self { sign_bits: s, exponent_bits: e, fraction_bits: f, bias, special }
    }

    /// Returns the format with a sign or without, the given bits of the exponent (0 to 8) and of
    /// the fraction (0 to 31), and the given bias.
    ///
    /// # Errors
    /// The format has no bits or more than 32, a part or the bias exceeds its limits, or the tuple
    /// has no room for the special codes.
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

    /// Returns a FLOAT of 4 to 32 bits: sign, exponent and fraction, with the usual exponent width
    /// and bias.
    ///
    /// FLOAT(32) and FLOAT(16) are those of IEEE 754 with infinities and NaN (SPEC A6). The
    /// exponent has 2 bits in formats of 4 and 5 bits, 3 in 6 and 7, 4 in 8, 5 in 9 to 18, and 8 in
    /// 19 and more (SPEC A7). So 8 bits are E4M3, 11 are FP11 and 19 are TF32.
    ///
    /// # Errors
    /// The number of bits is not from 4 to 32.
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

    /// Returns a FLOAT with the given exponent bits and bias.
    ///
    /// binary16, and formats that are binary32 with a shorter fraction, have infinities and NaN:
    /// the largest exponent of the latter exceeds `f32`. All codes of other formats are finite.
    ///
    /// # Errors
    /// There is no room for the fraction, or the bias exceeds its limits.
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

    /// Returns a FIXED of 1 to 32 bits: sign and magnitude in steps of 2^-(bits - 1)·2^-bias. Its
    /// magnitudes are below 2^-bias. The default bias is 0.
    ///
    /// # Errors
    /// The number of bits or the bias exceeds its limits.
    pub fn fixed(bits: u32, bias: i32) -> Result<Self, FormatError> {
        if !(1..=32).contains(&bits) {
            return Err(FormatError::Bits { family: "FIXED", least: 1, most: 32, found: bits });
        }
        Self::new(true, 0, bits - 1, bias, Special::Finite)
    }

    /// Returns an EXP of 2 to 9 bits with its default bias, 2^(bits - 2) - 1. Its magnitudes are
    /// zero, and 2^(E-B) for E from 1 to 2^(bits - 1) - 1.
    ///
    /// # Errors
    /// The number of bits is not from 2 to 9.
    pub fn exp(bits: u32) -> Result<Self, FormatError> {
        Self::exp_with(bits, default_bias(bits.saturating_sub(1).min(Self::MAX_EXPONENT_BITS)))
    }

    /// Returns an EXP with the given bias.
    ///
    /// # Errors
    /// The number of bits or the bias exceeds its limits.
    pub fn exp_with(bits: u32, bias: i32) -> Result<Self, FormatError> {
        if !(2..=9).contains(&bits) {
            return Err(FormatError::Bits { family: "EXP", least: 2, most: 9, found: bits });
        }
        Self::new(true, bits - 1, 0, bias, Special::Finite)
    }

    /// Returns BIN, whose values are 2^-bias and its negative. It equals FIXED(1). The default bias
    /// is 0.
    ///
    /// # Errors
    /// The bias exceeds its limits.
    pub fn binary(bias: i32) -> Result<Self, FormatError> {
        Self::fixed(1, bias)
    }

    /// Returns the format with another bias, which changes its range. A FLOAT with infinities, such
    /// as FLOAT(32), may become a format whose codes are all finite; see [`Format::float_with`].
    ///
    /// # Errors
    /// The bias exceeds its limits.
    pub fn with_bias(self, bias: i32) -> Result<Self, FormatError> {
        let (exponent, fraction) = (self.exponent_bits(), self.fraction_bits());
        if self.is_family(Kind::Float) {
            return Self::float_with(self.bits(), exponent, bias);
        }
        Self::new(self.has_sign(), exponent, fraction, bias, self.special)
    }

    /// Returns whether the format is a FLOAT, FIXED, EXP or BIN of the thesis, as its constructor
    /// makes it.
    fn is_family(self, kind: Kind) -> bool {
        let made = match self.kind() {
            Kind::Float => Self::float_with(self.bits(), self.exponent_bits(), self.bias()),
            Kind::Exp => Self::exp_with(self.bits(), self.bias()),
            Kind::Fixed | Kind::Binary => Self::fixed(self.bits(), self.bias()),
        };
        kind == self.kind() && made == Ok(self)
    }

    /// Returns the number of bits of a code, 1 to 32.
    pub fn bits(self) -> u32 {
        u32::from(self.sign_bits) + self.exponent_bits() + self.fraction_bits()
    }

    /// Returns whether the format has a sign.
    pub fn has_sign(self) -> bool {
        self.sign_bits == 1
    }

    /// Returns n_e, the exponent bits, 0 to 8.
    pub fn exponent_bits(self) -> u32 {
        u32::from(self.exponent_bits)
    }

    /// Returns n_f, the fraction bits, 0 to 31. With [`Special::Complement`] these are all bits but
    /// the first.
    pub fn fraction_bits(self) -> u32 {
        u32::from(self.fraction_bits)
    }

    /// Returns B, the bias, -512 to 512.
    pub fn bias(self) -> i32 {
        i32::from(self.bias)
    }

    /// Returns which codes have values that the tuple does not determine.
    pub fn special(self) -> Special {
        self.special
    }

    /// Returns the family.
    pub fn kind(self) -> Kind {
        match (self.exponent_bits, self.fraction_bits) {
            (0, 0) => Kind::Binary,
            (0, _) => Kind::Fixed,
            (_, 0) => Kind::Exp,
            _ => Kind::Float,
        }
    }
}

/// Returns 2^(n_e - 1) - 1, the default bias of FLOAT and EXP.
pub(crate) fn default_bias(exponent_bits: u32) -> i32 {
    (1 << exponent_bits.saturating_sub(1)) - 1
}

/// Error: there is no such format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The family has no format of this width.
    #[error("expected {least} to {most} bits of {family}, found {found}")]
    Bits {
        /// Name of the family, such as FIXED.
        family: &'static str,
        /// Fewest bits of the family.
        least: u32,
        /// Most bits of the family.
        most: u32,
        /// Requested bits.
        found: u32,
    },
    /// The exponent has more than 8 bits, or leaves no room for a fraction.
    #[error("expected 1 to 8 bits of exponent that leave a sign and a fraction, found {0}")]
    Exponent(u32),
    /// The bias exceeds [`Format::MAX_BIAS`].
    #[error("expected a bias from -512 to 512, found {0}")]
    Bias(i32),
    /// The tuple has no room for these special codes.
    #[error("expected a sign, an exponent and a fraction with room for {0:?}")]
    Special(Special),
    /// The text does not name a format.
    #[error(
        "expected a format such as I3(-2), E4(3), F32, <1,4,3,7> or {example}, found {0:?}",
        example = name::example()
    )]
    Name(String),
}

#[cfg(test)]
mod tests;
