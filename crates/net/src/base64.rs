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

/// Returns the number of bytes that a text holds in Base64, with padding; `None` if it is not Base64.
pub(crate) fn decoded_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let padding = bytes.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = &bytes[..bytes.len() - padding];
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let is_whole = bytes.len().is_multiple_of(4) && padding <= 2 && digits.iter().all(is_digit);
    is_whole.then_some(digits.len() * 3 / 4)
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
        }
        for odd in ["Zg", "Zg=", "Z===", "Zm9v\n", "Zm-_", "Z=9v", "===="] {
            assert_eq!(decoded_length(odd), None, "{odd}");
        }
    }
}
