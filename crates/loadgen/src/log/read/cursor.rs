//! Parser of the JSON elements in the logs.

/// Position in a line.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    /// Returns the next byte that is not white space, without consuming it.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.get(self.at).copied() {
                Some(byte) if byte.is_ascii_whitespace() => self.at += 1,
                next => return next,
            }
        }
    }

    /// Skips white space and consumes `byte` if it is next.
    #[inline]
    pub fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Consumes a string without escapes and returns its content.
    pub fn plain_string(&mut self) -> Option<&'a [u8]> {
        if !self.eat(b'"') {
            return None;
        }
        let body = self.rest();
        let end = body.iter().position(|b| matches!(b, b'"' | b'\\'))?;
        if body[end] == b'\\' {
            return None;
        }
        self.at += end + 1;
        Some(&body[..end])
    }

    /// Consumes and decodes a JSON string; `None` if it is invalid.
    pub fn string(&mut self) -> Option<String> {
        if !self.eat(b'"') {
            return None;
        }
        let mut out = Vec::new();
        loop {
            let byte = *self.rest().first()?;
            self.at += 1;
            match byte {
                b'"' => return String::from_utf8(out).ok(),
                b'\\' => {
                    let c = self.escape()?;
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                0..0x20 => return None,
                _ => out.push(byte),
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let byte = *self.rest().first()?;
        self.at += 1;
        Some(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => {
                let first = self.hex4()?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first);
                }
                if self.rest().get(..2)? != b"\\u" {
                    return None;
                }
                self.at += 2;
                let second = self.hex4()?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
                return char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + second);
            }
            _ => return None,
        })
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = std::str::from_utf8(self.rest().get(..4)?).ok()?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }

    /// Consumes everything up to a comma, a bracket, a brace or a space: a number
    /// or a bare word.
    pub fn word(&mut self) -> Option<&'a str> {
        self.peek()?;
        let rest = self.rest();
        let end = rest
            .iter()
            .position(|b| matches!(b, b',' | b']' | b'}' | b'"' | b':') || b.is_ascii_whitespace())
            .unwrap_or(rest.len());
        self.at += end;
        std::str::from_utf8(&rest[..end]).ok().filter(|word| !word.is_empty())
    }

    /// Consumes a whole number.
    pub fn integer<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.word()?.parse().ok()
    }

    /// Returns whether only white space is left.
    pub fn at_end(&mut self) -> bool {
        self.peek().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_decode_as_json_says() {
        let decode = |text: &str| Cursor::new(text.as_bytes()).string();
        assert_eq!(decode(r#""a\"\\\/\n\u00e9\ud83d\ude00""#).unwrap(), "a\"\\/\n\u{e9}\u{1f600}");
        for bad in [r#""\ud83d""#, r#""\u12g4""#, r#""\x""#, r#""open"#, "\"a\nb\"", r#""\u+123""#]
        {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_json_string_reads_as_serde_reads_it(text: String) {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(Cursor::new(json.as_bytes()).string(), Some(text));
        }
    }
}
