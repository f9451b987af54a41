//! JSON strings, dates, and fast formatting of integers.

use crate::clock::{CivilTime, WallTime};

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

/// Appends an integer in decimal. A trace has a dozen integers per query, and `write!` takes three
/// times as long.
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

/// Formats a time in UTC as `2026-11-21T01:16:16Z`.
pub fn iso_datetime(at: WallTime) -> String {
    let CivilTime { year, month, day, hour, minute, second, .. } = at.utc();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Formats a time in UTC as `11-21-2026 01:16:16.119`, for power loggers.
pub fn power_datetime(at: WallTime) -> String {
    let CivilTime { year, month, day, hour, minute, second, millisecond } = at.utc();
    format!("{month:02}-{day:02}-{year:04} {hour:02}:{minute:02}:{second:02}.{millisecond:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

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
