//! Numbers as C parses them: the longest prefix that is a number.
//!
//! The values of configuration files are those of `strtoull` and `strtod`, so that
//! `010` is 8, `0x1F` is 31 and `1e3` is 1000 or 1, depending on the key.
//! Source: ISO C11, 7.22.1.3 and 7.22.1.4, in the "C" locale.

/// Parses like `strtoull` with base 0: returns the value of the longest prefix that is a whole
/// number, and its length in bytes (0 if there is none).
///
/// A value that does not fit gives [`u64::MAX`]; `-1` gives it, too, because a sign negates modulo
/// 2^64.
pub(super) fn strtoull(text: &str) -> (u64, usize) {
    let bytes = text.as_bytes();
    let (negative, start) = sign(bytes);
    let (radix, start) = match bytes.get(start..) {
        Some([b'0', b'x' | b'X', digit, ..]) if digit.is_ascii_hexdigit() => (16, start + 2),
        Some([b'0', ..]) => (8, start),
        _ => (10, start),
    };
    let end = start + prefix(&bytes[start..], |b| (b as char).is_digit(radix));
    if end == start {
        return (0, 0);
    }
    // There are only digits, so that the only error is overflow.
    match u64::from_str_radix(&text[start..end], radix) {
        Ok(value) if negative => (value.wrapping_neg(), end),
        Ok(value) => (value, end),
        Err(_) => (u64::MAX, end),
    }
}

/// Parses like `strtod`: returns the value of the longest prefix that is a number, and its length
/// in bytes (0 if there is none). Hexadecimal numbers, infinity and NaN are accepted.
pub(super) fn strtod(text: &str) -> (f64, usize) {
    let bytes = text.as_bytes();
    let (negative, start) = sign(bytes);
    let rest = &bytes[start..];
    let (value, length) = named(rest)
        .or_else(|| hexadecimal(rest))
        .or_else(|| decimal(rest, &text[start..]))
        .unwrap_or((0.0, 0));
    if length == 0 {
        return (0.0, 0);
    }
    (if negative { -value } else { value }, start + length)
}

/// Returns whether there is a minus, and the length of the sign.
fn sign(bytes: &[u8]) -> (bool, usize) {
    match bytes.first() {
        Some(b'-') => (true, 1),
        Some(b'+') => (false, 1),
        _ => (false, 0),
    }
}

fn prefix(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|&&b| belongs(b)).count()
}

fn named(bytes: &[u8]) -> Option<(f64, usize)> {
    let begins = |word: &str| {
        bytes.get(..word.len()).is_some_and(|b| b.eq_ignore_ascii_case(word.as_bytes()))
    };
    if begins("infinity") {
        return Some((f64::INFINITY, 8));
    }
    if begins("inf") {
        return Some((f64::INFINITY, 3));
    }
    if !begins("nan") {
        return None;
    }
    // The payload of `nan(...)` is ignored.
    let payload = match bytes.get(3) {
        Some(b'(') => prefix(&bytes[4..], |b| b.is_ascii_alphanumeric() || b == b'_'),
        _ => return Some((f64::NAN, 3)),
    };
    let closed = bytes.get(4 + payload) == Some(&b')');
    Some((f64::NAN, if closed { 5 + payload } else { 3 }))
}

fn decimal(bytes: &[u8], text: &str) -> Option<(f64, usize)> {
    let whole = prefix(bytes, |b| b.is_ascii_digit());
    let mut end = whole;
    let mut digits = whole;
    if bytes.get(end) == Some(&b'.') {
        let fraction = prefix(&bytes[end + 1..], |b| b.is_ascii_digit());
        digits += fraction;
        end += 1 + fraction;
    }
    if digits == 0 {
        return None;
    }
    end += exponent(&bytes[end..], b'e').map_or(0, |(_, length)| length);
    text[..end].parse().ok().map(|value| (value, end))
}

fn hexadecimal(bytes: &[u8]) -> Option<(f64, usize)> {
    let [b'0', b'x' | b'X', ..] = bytes else { return None };
    // 60 bits and a sticky bit are enough to round to the 53 bits of a double.
    let (mut mantissa, mut sticky, mut power) = (0u64, false, 0i64);
    let (mut digits, mut fraction, mut end) = (0, false, 2);
    while let Some(&byte) = bytes.get(end) {
        if byte == b'.' && !fraction {
            fraction = true;
        } else if let Some(digit) = (byte as char).to_digit(16) {
            digits += 1;
            if mantissa >> 60 == 0 {
                mantissa = mantissa << 4 | u64::from(digit);
                power -= if fraction { 4 } else { 0 };
            } else {
                sticky |= digit != 0;
                power += if fraction { 0 } else { 4 };
            }
        } else {
            break;
        }
        end += 1;
    }
    if digits == 0 {
        return None;
    }
    if let Some((given, length)) = exponent(&bytes[end..], b'p') {
        power += given;
        end += length;
    }
    let value = (mantissa | u64::from(sticky)) as f64;
    Some((times_power_of_two(value, power), end))
}

/// Returns the exponent after `letter` and its length including the letter, if there is one.
fn exponent(bytes: &[u8], letter: u8) -> Option<(i64, usize)> {
    if !bytes.first()?.eq_ignore_ascii_case(&letter) {
        return None;
    }
    let (negative, signed) = sign(&bytes[1..]);
    let digits = prefix(&bytes[1 + signed..], |b| b.is_ascii_digit());
    let magnitude = bytes[1 + signed..][..digits].iter().fold(0i64, |sum, digit| {
        sum.saturating_mul(10).saturating_add(i64::from(digit - b'0')).min(1 << 40)
    });
    (digits > 0).then_some((if negative { -magnitude } else { magnitude }, 1 + signed + digits))
}

/// Multiplies by a power of two. Exact, except that results below 2^-1022 may differ in the last
/// bit.
fn times_power_of_two(mut value: f64, power: i64) -> f64 {
    // Beyond this every finite double is 0 or infinite.
    let mut left = power.clamp(-4000, 4000);
    while left != 0 {
        let step = left.clamp(-1000, 1000);
        value *= 2f64.powi(i32::try_from(step).expect("clamped to 1000"));
        left -= step;
    }
    value
}
