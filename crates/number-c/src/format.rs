//! Formats, and numbers in them.

use std::ffi::{c_char, c_int};

use dyno_c_border::{array, array_mut, put, shared, text};
use dyno_number::{Conversion, Format, Overflow, Rounding, Special, wider};

use crate::error::{
    Error, dyno_number_result,
    dyno_number_result::{DYNO_NUMBER_ERROR_FORMAT, DYNO_NUMBER_ERROR_SIZE},
    result,
};

/// Codes that are not worth what the tuple says; a value of `special`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum dyno_number_special {
    /// None, and minus zero is never made: FLOAT, FIXED, EXP and BIN.
    DYNO_NUMBER_FINITE = 0,
    /// None, and zero has a sign: FP6 and FP4 of the Open Compute Project.
    DYNO_NUMBER_SIGNED_ZERO = 1,
    /// The largest exponent is infinity and NaN.
    DYNO_NUMBER_IEEE = 2,
    /// All ones after the sign are NaN, and there is no infinity.
    DYNO_NUMBER_NAN = 3,
    /// The code of minus zero is NaN, and there is no infinity.
    DYNO_NUMBER_NAN_FOR_MINUS_ZERO = 4,
    /// Powers of two without zero; all ones are NaN.
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

/// A format: bits of the sign (0 or 1), of the exponent (0 to 8) and of the fraction (0 to 31), 32 at most
/// together, and the exponent's bias (-512 to 512).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct dyno_number_format {
    /// n_s.
    pub sign_bits: u8,
    /// n_e.
    pub exponent_bits: u8,
    /// n_f.
    pub fraction_bits: u8,
    /// One of `dyno_number_special`.
    pub special: u8,
    /// B.
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

/// Which of a number's two neighbours is taken; a value of `rounding`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum dyno_number_rounding {
    /// The nearer; of two as near, the one whose code is even.
    DYNO_NUMBER_NEAREST_EVEN = 0,
    /// The one nearer to zero.
    DYNO_NUMBER_TOWARD_ZERO = 1,
    /// The nearer by its logarithm.
    DYNO_NUMBER_NEAREST_LOG = 2,
    /// By a draw, the nearer more probably. The same `seed` draws the same.
    DYNO_NUMBER_STOCHASTIC = 3,
}

/// What becomes of numbers beyond the largest; a value of `overflow`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum dyno_number_overflow {
    /// Infinity in formats of IEEE 754 with 16 bits and more, the largest number in all others.
    DYNO_NUMBER_USUAL = 0,
    /// The largest number.
    DYNO_NUMBER_SATURATE = 1,
    /// Infinity, or NaN where there is none, or the largest number where there is neither.
    DYNO_NUMBER_INFINITE = 2,
}

use dyno_number_overflow::{DYNO_NUMBER_INFINITE, DYNO_NUMBER_SATURATE, DYNO_NUMBER_USUAL};
use dyno_number_rounding::{
    DYNO_NUMBER_NEAREST_EVEN, DYNO_NUMBER_NEAREST_LOG, DYNO_NUMBER_STOCHASTIC,
    DYNO_NUMBER_TOWARD_ZERO,
};

/// How numbers are rounded. All zeros are the default, as is NULL.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dyno_number_conversion {
    /// One of `dyno_number_rounding`.
    pub rounding: c_int,
    /// One of `dyno_number_overflow`.
    pub overflow: c_int,
    /// Of `DYNO_NUMBER_STOCHASTIC`.
    pub seed: u64,
}

/// Reads a conversion; NULL is the default.
///
/// # Errors
/// There is no such rounding or overflow.
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

/// Reads a format as it prints: `I3(-2)`, `E4`, `F32`, `fp8-e4m3fn`, `<1,4,3,7>`.
///
/// # Safety
/// `text` is NULL or ends with NUL; `format` is NULL or leads to a place for one.
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

/// Writes a format as it prints, with NUL at the end, into `room` bytes; 64 are enough for all.
///
/// # Safety
/// `format` is NULL or leads to one, `to` to `room` bytes.
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

/// All bits of a code; 0 of what is no format.
///
/// # Safety
/// `format` is NULL or leads to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_number_format_bits(format: *const dyno_number_format) -> c_int {
    crate::error::caught(0, || {
        // SAFETY: the caller vouches for it.
        Ok(unsafe { shared(format, "format") }?.format()?.bits() as c_int)
    })
}

/// The format of a sum or product of numbers in two formats.
///
/// # Safety
/// `left` and `right` are NULL or lead to a format, `to` to a place for one.
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

/// The value of a format in place of `x`, by the default conversion.
///
/// # Safety
/// `format` is NULL or leads to one, `to` to a place for a number.
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

/// Puts the values of a format in place of `count` numbers. After `DYNO_NUMBER_ERROR_NAN`, all but NaN are
/// quantised.
///
/// # Safety
/// `format` is NULL or leads to one, `conversion` as well (NULL is the default), `numbers` to `count`.
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

/// The codes of `count` numbers.
///
/// # Safety
/// As `dyno_number_quantise`, and `codes` leads to `count` places for codes.
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

/// What `count` codes are worth.
///
/// # Safety
/// `format` is NULL or leads to one, `codes` to `count`, `numbers` to as many places.
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
