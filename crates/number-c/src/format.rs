//! Formats, and numbers in them.

use std::ffi::{c_char, c_int};

use dyno_c_border::{array, array_mut, put, shared, text};
use dyno_number::{Conversion, Format, Overflow, Rounding, Special, wider};

use crate::error::{
    Error, dyno_number_result,
    dyno_number_result::{DYNO_NUMBER_ERROR_FORMAT, DYNO_NUMBER_ERROR_SIZE},
    result,
};

/// Meaning of the codes that do not follow from the tuple, for `special`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum dyno_number_special {
    /// No special codes, and minus zero is never produced: FLOAT, FIXED, EXP and BIN.
    DYNO_NUMBER_FINITE = 0,
    /// No special codes, and zero has a sign: FP6 and FP4 of the Open Compute Project.
    DYNO_NUMBER_SIGNED_ZERO = 1,
    /// The largest exponent encodes infinity and NaN.
    DYNO_NUMBER_IEEE = 2,
    /// All ones after the sign encode NaN; there is no infinity.
    DYNO_NUMBER_NAN = 3,
    /// The code of minus zero encodes NaN; there is no infinity.
    DYNO_NUMBER_NAN_FOR_MINUS_ZERO = 4,
    /// Powers of two without zero; all ones encode NaN.
    DYNO_NUMBER_POWERS = 5,
    /// Two's complement.
    DYNO_NUMBER_COMPLEMENT = 6,
}

use dyno_number_special::{
    DYNO_NUMBER_COMPLEMENT, DYNO_NUMBER_FINITE, DYNO_NUMBER_IEEE, DYNO_NUMBER_NAN,
    DYNO_NUMBER_NAN_FOR_MINUS_ZERO, DYNO_NUMBER_POWERS, DYNO_NUMBER_SIGNED_ZERO,
};

const SPECIALS: [(dyno_number_special, Special); 7] = [
    (DYNO_NUMBER_FINITE, Special::Finite),
    (DYNO_NUMBER_SIGNED_ZERO, Special::SignedZero),
    (DYNO_NUMBER_IEEE, Special::Ieee),
    (DYNO_NUMBER_NAN, Special::Nan),
    (DYNO_NUMBER_NAN_FOR_MINUS_ZERO, Special::NanForMinusZero),
    (DYNO_NUMBER_POWERS, Special::Powers),
    (DYNO_NUMBER_COMPLEMENT, Special::Complement),
];

/// Number format: the bits of the sign (0 or 1), the exponent (0 to 8) and the fraction (0 to 31), at
/// most 32 in total, and the bias of the exponent (-512 to 512).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct dyno_number_format {
    /// Bits of the sign, n_s in the thesis.
    pub sign_bits: u8,
    /// Bits of the exponent, n_e in the thesis.
    pub exponent_bits: u8,
    /// Bits of the fraction, n_f in the thesis.
    pub fraction_bits: u8,
    /// A `dyno_number_special`.
    pub special: u8,
    /// Bias of the exponent, B in the thesis.
    pub bias: i32,
}

impl dyno_number_format {
    pub fn from_format(format: Format) -> Self {
        let special = SPECIALS.iter().find(|(_, special)| *special == format.special());
        Self {
            sign_bits: u8::from(format.has_sign()),
            exponent_bits: format.exponent_bits() as u8,
            fraction_bits: format.fraction_bits() as u8,
            special: special.map_or(0, |(code, _)| *code as u8),
            bias: format.bias(),
        }
    }

    fn format(self) -> Result<Format, Error> {
        let wrong = |what: &str, found: u8, expected: &str| {
            let text = format!("`{what}` is {found}, expected {expected}");
            Err(Error::new(DYNO_NUMBER_ERROR_FORMAT, text))
        };
        if self.sign_bits > 1 {
            return wrong("sign_bits", self.sign_bits, "0 or 1");
        }
        let Some((_, special)) = SPECIALS.get(usize::from(self.special)) else {
            return wrong("special", self.special, "0 to 6");
        };
        let (exponent, fraction) = (self.exponent_bits.into(), self.fraction_bits.into());
        Ok(Format::new(self.sign_bits == 1, exponent, fraction, self.bias, *special)?)
    }
}

/// How a number between two values of a format is rounded, for `rounding`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum dyno_number_rounding {
    /// To the nearest value; in a tie, to the one with an even code.
    DYNO_NUMBER_NEAREST_EVEN = 0,
    /// Toward zero.
    DYNO_NUMBER_TOWARD_ZERO = 1,
    /// To the nearest value by logarithm.
    DYNO_NUMBER_NEAREST_LOG = 2,
    /// Stochastic: to either value, the nearer one with a higher probability. The same `seed` gives the
    /// same results.
    DYNO_NUMBER_STOCHASTIC = 3,
}

/// Result for numbers beyond the largest value, for `overflow`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum dyno_number_overflow {
    /// Infinity in formats of IEEE 754 with at least 16 bits, the largest value in all others.
    DYNO_NUMBER_USUAL = 0,
    /// The largest value.
    DYNO_NUMBER_SATURATE = 1,
    /// Infinity; NaN if the format has no infinity; the largest value if it has neither.
    DYNO_NUMBER_INFINITE = 2,
}

use dyno_number_overflow::{DYNO_NUMBER_INFINITE, DYNO_NUMBER_SATURATE, DYNO_NUMBER_USUAL};
use dyno_number_rounding::{
    DYNO_NUMBER_NEAREST_EVEN, DYNO_NUMBER_NEAREST_LOG, DYNO_NUMBER_STOCHASTIC,
    DYNO_NUMBER_TOWARD_ZERO,
};

/// Options of a conversion. All zeros are the defaults, like NULL.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dyno_number_conversion {
    /// A `dyno_number_rounding`.
    pub rounding: c_int,
    /// A `dyno_number_overflow`.
    pub overflow: c_int,
    /// Seed of `DYNO_NUMBER_STOCHASTIC`.
    pub seed: u64,
}

/// Reads a conversion; NULL means the defaults.
///
/// # Errors
/// The rounding or the overflow does not exist.
///
/// # Safety
/// `conversion` is NULL or points to a conversion.
unsafe fn conversion(conversion: *const dyno_number_conversion) -> Result<Conversion, Error> {
    // SAFETY: the caller vouches for whatever is not NULL.
    let Some(given) = (unsafe { conversion.as_ref() }) else { return Ok(Conversion::default()) };
    let wrong = |what: &str, found: c_int, most: usize| {
        let text = format!("`{what}` is {found}, expected 0 to {}", most - 1);
        Error::new(DYNO_NUMBER_ERROR_FORMAT, text)
    };
    let roundings = [
        (DYNO_NUMBER_NEAREST_EVEN, Rounding::NearestEven),
        (DYNO_NUMBER_TOWARD_ZERO, Rounding::TowardZero),
        (DYNO_NUMBER_NEAREST_LOG, Rounding::NearestLog),
        (DYNO_NUMBER_STOCHASTIC, Rounding::Stochastic { seed: given.seed }),
    ];
    let overflows = [
        (DYNO_NUMBER_USUAL, Overflow::Usual),
        (DYNO_NUMBER_SATURATE, Overflow::Saturate),
        (DYNO_NUMBER_INFINITE, Overflow::Infinite),
    ];
    let rounding = roundings.iter().find(|(code, _)| *code as c_int == given.rounding);
    let overflow = overflows.iter().find(|(code, _)| *code as c_int == given.overflow);
    let (_, rounding) =
        *rounding.ok_or_else(|| wrong("rounding", given.rounding, roundings.len()))?;
    let (_, overflow) =
        *overflow.ok_or_else(|| wrong("overflow", given.overflow, overflows.len()))?;
    Ok(Conversion { rounding, overflow })
}

/// Reads the name of a format, such as `I3(-2)`, `E4`, `F32`, `fp8-e4m3fn`, `<1,4,3,7>`.
///
/// # Safety
/// `text` is NULL or ends with NUL; `format` is NULL or points to writable memory for a format.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_number_format_read(
    text: *const c_char,
    format: *mut dyno_number_format,
) -> dyno_number_result {
    result(|| {
        // SAFETY: the caller vouches for both.
        unsafe {
            let read: Format = self::text(text, "text")?.parse()?;
            Ok(put(format, "format", dyno_number_format::from_format(read))?)
        }
    })
}

/// Writes the name of a format with a NUL at its end into `room` bytes; 64 suffice for every format.
///
/// # Safety
/// `format` is NULL or points to a format, `to` to `room` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_number_format_print(
    format: *const dyno_number_format,
    to: *mut c_char,
    room: usize,
) -> dyno_number_result {
    result(|| {
        // SAFETY: the caller vouches for both; bytes of either sign are as long.
        let (format, to) =
            unsafe { (shared(format, "format")?, array_mut(to.cast::<u8>(), room, "to")?) };
        let text = format.format()?.to_string();
        let Some(place) = to.get_mut(..=text.len()) else {
            let text = format!("`room` is {room}, expected {} for {text}", text.len() + 1);
            return Err(Error::new(DYNO_NUMBER_ERROR_SIZE, text));
        };
        place[..text.len()].copy_from_slice(text.as_bytes());
        place[text.len()] = 0;
        Ok(())
    })
}

/// Returns the number of bits of a code; 0 if `format` is not a format.
///
/// # Safety
/// `format` is NULL or points to a format.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_number_format_bits(format: *const dyno_number_format) -> c_int {
    crate::error::caught(0, || {
        // SAFETY: the caller vouches for it.
        Ok(unsafe { shared(format, "format") }?.format()?.bits() as c_int)
    })
}

/// Writes the format of the sum or product of numbers in two formats.
///
/// # Safety
/// `left` and `right` are NULL or point to a format, `to` to writable memory for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_number_wider(
    left: *const dyno_number_format,
    right: *const dyno_number_format,
    to: *mut dyno_number_format,
) -> dyno_number_result {
    result(|| {
        // SAFETY: the caller vouches for all three.
        unsafe {
            let (left, right) = (shared(left, "left")?, shared(right, "right")?);
            let wider = wider(left.format()?, right.format()?);
            Ok(put(to, "to", dyno_number_format::from_format(wider))?)
        }
    })
}

/// Writes `x` rounded to a value of the format with the default conversion.
///
/// # Safety
/// `format` is NULL or points to a format, `to` to writable memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_number_round(
    format: *const dyno_number_format,
    x: f64,
    to: *mut f64,
) -> dyno_number_result {
    result(|| {
        // SAFETY: the caller vouches for both.
        unsafe {
            let format = shared(format, "format")?.format()?;
            Ok(put(to, "to", format.decode(format.encode(x)?))?)
        }
    })
}

/// Rounds `count` numbers in place to values of the format. After `DYNO_NUMBER_ERROR_NAN`, all numbers
/// but NaN are rounded.
///
/// # Safety
/// `format` and `conversion` are NULL or point to one of their type (a NULL `conversion` means the
/// defaults), `numbers` to `count` writable numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_number_quantise(
    format: *const dyno_number_format,
    conversion: *const dyno_number_conversion,
    numbers: *mut f32,
    count: usize,
) -> dyno_number_result {
    result(|| {
        // SAFETY: the caller vouches for all three.
        let (format, how, numbers) = unsafe {
            (
                shared(format, "format")?.format()?,
                self::conversion(conversion)?,
                array_mut(numbers, count, "numbers")?,
            )
        };
        Ok(format.quantise_slice(numbers, how)?)
    })
}

/// Writes the codes of `count` numbers.
///
/// # Safety
/// The conditions of `dyno_number_quantise`; `codes` points to writable memory for `count` codes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_number_encode(
    format: *const dyno_number_format,
    conversion: *const dyno_number_conversion,
    numbers: *const f32,
    count: usize,
    codes: *mut u32,
) -> dyno_number_result {
    result(|| {
        // SAFETY: the caller vouches for all four.
        let (format, how, numbers, codes) = unsafe {
            (
                shared(format, "format")?.format()?,
                self::conversion(conversion)?,
                array(numbers, count, "numbers")?,
                array_mut(codes, count, "codes")?,
            )
        };
        codes.copy_from_slice(&format.encode_slice(numbers, how)?);
        Ok(())
    })
}

/// Writes the values of `count` codes.
///
/// # Safety
/// `format` is NULL or points to a format, `codes` to `count` codes, `numbers` to writable memory for as
/// many numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_number_decode(
    format: *const dyno_number_format,
    codes: *const u32,
    count: usize,
    numbers: *mut f32,
) -> dyno_number_result {
    result(|| {
        // SAFETY: the caller vouches for all three.
        let (format, codes, numbers) = unsafe {
            (
                shared(format, "format")?.format()?,
                array(codes, count, "codes")?,
                array_mut(numbers, count, "numbers")?,
            )
        };
        numbers.copy_from_slice(&format.decode_slice(codes));
        Ok(())
    })
}
