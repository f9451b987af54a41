//! Numbers and strings as the reference prints them, and fast integers.

use crate::clock::{CivilTime, WallTime};

/// `%g` with 6 significant digits: the default format of a C++ stream.
///
/// Rust and glibc both round the exact binary value half to even, so the digits
/// agree; only the choice of notation is ours to make.
#[must_use]
pub fn general(value: f64) -> String {
    const DIGITS: i32 = 6;
    if value.is_nan() {
        // Its sign means nothing and depends on the compiler.
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let scientific = format!("{:.*e}", (DIGITS - 1) as usize, value);
    let (mantissa, exponent) = scientific.split_once('e').expect("`e` format has an exponent");
    let exponent: i32 = exponent.parse().expect("`e` format has a decimal exponent");
    if (-4..DIGITS).contains(&exponent) {
        let decimals = usize::try_from(DIGITS - 1 - exponent).expect("exponent is below DIGITS");
        without_trailing_zeros(&format!("{value:.decimals$}")).to_string()
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", without_trailing_zeros(mantissa), exponent.abs())
    }
}

fn without_trailing_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// `%.2f`, with C's spelling of what is not finite.
#[must_use]
pub fn fixed2(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { general(value) }
}

/// Appends a JSON string with its quotes.
pub fn push_json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for c in text.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            c if c < ' ' => out.extend_from_slice(format!("\\u{:04x}", u32::from(c)).as_bytes()),
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut i = 0;
    while i < 100 {
        pairs[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
        i += 1;
    }
    pairs
};

/// Appends an integer in decimal. A trace has a dozen per query, and `write!`
/// costs three times as much.
pub fn push_u64(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    while value >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(value % 100) as usize]);
        value /= 100;
    }
    let last = PAIRS[value as usize];
    if value >= 10 {
        at -= 1;
        digits[at] = last[1];
        at -= 1;
        digits[at] = last[0];
    } else {
        at -= 1;
        digits[at] = last[1];
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends `ns / unit`, a point, and the remainder with `decimals` digits;
/// `unit` is 10 to the power of `decimals`.
fn push_decimal(out: &mut Vec<u8>, ns: u64, unit: u64, decimals: usize) {
    push_u64(out, ns / unit);
    out.push(b'.');
    let mut rest = ns % unit;
    let start = out.len();
    out.resize(start + decimals, b'0');
    for digit in out[start..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// Appends nanoseconds as microseconds with three decimals.
pub fn push_microseconds(out: &mut Vec<u8>, ns: u64) {
    push_decimal(out, ns, 1_000, 3);
}

/// Appends nanoseconds as milliseconds with six decimals.
pub fn push_milliseconds(out: &mut Vec<u8>, ns: u64) {
    push_decimal(out, ns, 1_000_000, 6);
}

/// `2026-11-21T01:16:16Z`, in UTC.
#[must_use]
pub fn iso_datetime(at: WallTime) -> String {
    let CivilTime { year, month, day, hour, minute, second, .. } = at.utc();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `11-21-2026 01:16:16.119`, in UTC: the form that power loggers read.
#[must_use]
pub fn power_datetime(at: WallTime) -> String {
    let CivilTime { year, month, day, hour, minute, second, millisecond } = at.utc();
    format!("{month:02}-{day:02}-{year:04} {hour:02}:{minute:02}:{second:02}.{millisecond:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_equals_printf_percent_g() {
        // Expected values printed by glibc 2.36 with printf("%g").
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (200.0, "200"),
            (203.009, "203.009"),
            (1.162_96e-6, "1.16296e-06"),
            (833.333_333_333, "833.333"),
            (0.99, "0.99"),
            (0.999_999_5, "1"),
            (0.999_999_499, "0.999999"),
            (100_000.0, "100000"),
            (999_999.4, "999999"),
            (999_999.5, "1e+06"),
            (1_000_000.0, "1e+06"),
            (1_234_567.0, "1.23457e+06"),
            (0.0001, "0.0001"),
            (0.000_099_999_94, "9.99999e-05"),
            (0.000_099_999_96, "0.0001"),
            (1e-5, "1e-05"),
            (200_002.5, "200002"),
            (100_001.5, "100002"),
            (1.797_693_134_862_315_7e308, "1.79769e+308"),
            (5e-324, "4.94066e-324"),
            (-12_345_678.9, "-1.23457e+07"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(general(value), expected, "{value:e}");
        }
        assert_eq!(general(f64::NAN.copysign(-1.0)), "nan");
    }

    #[test]
    fn fixed_formats_round_half_to_even_on_exact_ties() {
        assert_eq!(fixed2(0.125), "0.12");
        assert_eq!(fixed2(0.375), "0.38");
        assert_eq!(fixed2(1e15), "1000000000000000.00");
        assert_eq!(fixed2(f64::INFINITY), "inf");
    }

    #[test]
    fn integers_and_decimals_of_every_length() {
        for value in [0, 7, 10, 42, 99, 100, 12_345, 999_999, 1_000_000, u64::MAX] {
            let mut out = Vec::new();
            push_u64(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
        }
        let mut out = Vec::new();
        push_microseconds(&mut out, 1_234_056);
        out.push(b' ');
        push_milliseconds(&mut out, 317_067_522);
        assert_eq!(out, b"1234.056 317.067522");
    }

    #[test]
    fn strings_are_json() {
        let text = "a \"b\"\\ \n\t\u{1} \u{e9}\u{1f600}";
        let mut out = Vec::new();
        push_json_string(&mut out, text);
        let back: String = serde_json::from_slice(&out).unwrap();
        assert_eq!(back, text);
    }

    #[test]
    fn dates_in_both_forms() {
        let at = WallTime { unix_ns: 1_795_223_776_119_000_000 };
        assert_eq!(iso_datetime(at), "2026-11-21T01:16:16Z");
        assert_eq!(power_datetime(at), "11-21-2026 01:16:16.119");
    }
}
