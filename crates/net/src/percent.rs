//! Percent-encoding (RFC 3986, section 2.1).

use std::fmt::{self, Write as _};

/// UTF-8 text with all characters but the unreserved ones as `%XX`, for queries and segments of paths.
pub(crate) struct PercentEncoding<'a>(pub &'a [u8]);

impl fmt::Display for PercentEncoding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0 {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    f.write_char(char::from(byte))?;
                }
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

/// Decodes a percent-encoded text. Invalid sequences stay as they are.
pub fn decoded(field: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let pair = after.first_chunk::<2>().filter(|_| byte == b'%');
        let code = pair.and_then(|&[high, low]| Some(digit(high)? * 16 + digit(low)?));
        match code {
            Some(code) => {
                out.push(code as u8);
                rest = &after[2..];
            }
            None => {
                out.push(byte);
                rest = after;
            }
        }
    }
    out
}
