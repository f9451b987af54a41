//! Base64 of images, recordings and logins.

/// Returns bytes in Base64 (RFC 4648, section 4).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 63;
            out.push(if digit > group.len() { '=' } else { DIGITS[value as usize].into() });
        }
    }
    out
}

/// Returns the number of bytes that a text holds in Base64; `None` if it is not Base64. Padding may be
/// missing, the digits may be those of URLs (RFC 4648, section 5), and lines may end within (RFC 2045), as
/// common decoders accept.
pub(crate) fn decoded_length(text: &str) -> Option<usize> {
    let bytes = text.trim_ascii().as_bytes();
    let count = |part: &[u8], is_counted: fn(&u8) -> bool| {
        part.iter().filter(|byte| is_counted(byte)).count()
    };
    let padding = bytes.iter().rev().take_while(|byte| **byte == b'=').count();
    let body = &bytes[..bytes.len() - padding];
    let digits = count(body, |byte| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte));
    let line_ends = count(body, |byte| matches!(byte, b'\r' | b'\n'));
    let is_padded = padding <= 2 && (digits + padding).is_multiple_of(4);
    let has_any = |digits: &[u8]| body.iter().any(|byte| digits.contains(byte));
    let is_mixed = has_any(b"+/") && has_any(b"-_");
    let is_whole = digits + line_ends == body.len() && digits % 4 != 1 && !is_mixed;
    (is_whole && (padding == 0 || is_padded)).then_some(digits * 3 / 4)
}

/// Returns the bytes that a text holds in Base64, as [`decoded_length`] counts them.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let length = decoded_length(text)?;
    let mut bytes = Vec::with_capacity(length + 3);
    let (mut bits, mut digits) = (0_u32, 0_u32);
    for digit in text.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            // Padding, and ends of lines.
            _ => continue,
        };
        (bits, digits) = (bits << 6 | u32::from(value), digits + 1);
        if digits == 4 {
            bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
            (bits, digits) = (0, 0);
        }
    }
    // The last group may have two or three digits.
    bits <<= 6 * (4 - digits);
    bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
    bytes.truncate(length);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        // Test vectors of RFC 4648, section 10.
        for (text, expected) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(text.as_bytes()), expected);
            assert_eq!(decoded_length(expected), Some(text.len()));
            assert_eq!(decode(expected).as_deref(), Some(text.as_bytes()));
        }
        for odd in ["Z", "Zg=", "Zg===", "Z===", "Zm9v=", "Z=9v", "Zm 9v", "+-__", "====", "Zm9*"] {
            assert_eq!((decoded_length(odd), decode(odd)), (None, None), "{odd}");
        }
        for (loose, length) in [("Zg", 1), ("Zm8", 2), ("Zm-_", 3), ("-_8=", 2), ("Zm\r\n9v\n", 3)]
        {
            assert_eq!(decoded_length(loose), Some(length), "{loose}");
            assert_eq!(decode(loose).unwrap().len(), length, "{loose}");
        }
        let all: Vec<u8> = (0..=255).collect();
        for length in 0..=256 {
            assert_eq!(decode(&base64(&all[..length])).unwrap(), all[..length]);
        }
    }
}
