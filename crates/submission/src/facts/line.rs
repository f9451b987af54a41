//! Fast parser for lines of a detail log in LoadGen's own form, about ten times as fast as a
//! JSON parser.
//!
//! It accepts only valid JSON with fields in LoadGen's order, plain ASCII, and a value that is a
//! number, a text, a boolean or a list of non-negative integers. For other lines [`read`]
//! returns `None`, and the caller uses a JSON parser.

use memchr::{memchr, memchr2};

/// A line in LoadGen's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Key, in ASCII.
    pub(super) key: &'a [u8],
    /// Value as written, in ASCII. A list, which no check uses, is replaced with `[]`.
    pub(super) value: &'a [u8],
    pub(super) is_error: bool,
}

/// Parses the text after the marker; returns `None` if it has another form.
pub(super) fn read(json: &[u8]) -> Option<Line<'_>> {
    let mut rest = Cursor(json.trim_ascii_end());
    rest.skip(b" {\"key\": \"")?;
    let key = rest.plain()?;
    rest.skip(b", \"value\": ")?;
    let value = rest.value()?;
    rest.skip(b", \"time_ms\": ")?;
    rest.number()?;
    rest.skip(b", \"namespace\": \"mlperf::logging\", \"event_type\": \"")?;
    rest.plain()?;
    rest.skip(b", \"metadata\": {\"is_error\": ")?;
    let is_error = rest.flag()?;
    rest.skip(b", \"is_warning\": ")?;
    rest.flag()?;
    rest.skip(b", \"file\": \"")?;
    rest.plain()?;
    for name in [&b", \"line_no\": "[..], b", \"pid\": ", b", \"tid\": "] {
        rest.skip(name)?;
        rest.whole()?;
    }
    (rest.0 == b"}}").then_some(Line { key, value, is_error })
}

/// Unparsed part of a line.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn skip(&mut self, expected: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }

    /// Returns the next `count` bytes.
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Returns a text without escapes up to its closing quote, and skips the quote.
    fn plain(&mut self) -> Option<&'a [u8]> {
        let text = self.take(memchr(b'"', self.0)?)?;
        self.take(1)?;
        let fits = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'\\';
        text.iter().fold(true, |all, byte| all & fits(byte)).then_some(text)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.0.first()? {
            b't' => self.skip(b"true").map(|()| true),
            _ => self.skip(b"false").map(|()| false),
        }
    }

    fn digits(&mut self) -> Option<&'a [u8]> {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.take(count).filter(|digits| !digits.is_empty())
    }

    fn whole(&mut self) -> Option<&'a [u8]> {
        self.digits().filter(|digits| digits.len() == 1 || digits[0] != b'0')
    }

    fn number(&mut self) -> Option<&'a [u8]> {
        let all = self.0;
        let _ = self.skip(b"-");
        self.whole()?;
        if self.skip(b".").is_some() {
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.0.first() {
            self.take(1)?;
            if let Some(b'+' | b'-') = self.0.first() {
                self.take(1)?;
            }
            self.digits()?;
        }
        Some(&all[..all.len() - self.0.len()])
    }

    /// Returns a text with its quotes.
    fn text(&mut self) -> Option<&'a [u8]> {
        let all = self.0;
        self.skip(b"\"")?;
        loop {
            let part = self.take(memchr2(b'"', b'\\', self.0)?)?;
            if !part.iter().fold(true, |all, byte| all & matches!(byte, b' '..=b'~')) {
                return None;
            }
            if self.take(1)? == b"\"" {
                return Some(&all[..all.len() - self.0.len()]);
            }
            let escaped = self.take(1)?;
            matches!(escaped[0], b'n' | b't' | b'r' | b'"' | b'\\' | b'/').then_some(())?;
        }
    }

    fn value(&mut self) -> Option<&'a [u8]> {
        let all = self.0;
        match self.0.first()? {
            b'"' => self.text(),
            b'[' => {
                self.take(1)?;
                let list = self.take(memchr(b']', self.0)?)?;
                self.take(1)?;
                is_list_of_whole_numbers(list).then_some(b"[]")
            }
            b't' | b'f' => self.flag().map(|_| &all[..all.len() - self.0.len()]),
            _ => self.number(),
        }
    }
}

/// Whether the bytes are a list such as `1,20,300`. Such lists make up most of a log, so the
/// code is written to be vectorized.
fn is_list_of_whole_numbers(list: &[u8]) -> bool {
    let digit = |byte: u8| byte.wrapping_sub(b'0') < 10;
    let fits = |byte: u8| digit(byte) | (byte == b',');
    let ([first, .., last] | [first @ last]) = list else { return false };
    if !(digit(*first) && digit(*last)) || *first == b'0' && list.get(1).is_some_and(|b| digit(*b))
    {
        return false;
    }
    // Checks three adjacent bytes at once: no comma follows a comma, and no digit follows a
    // leading zero.
    let (Some(seconds), Some(thirds)) = (list.get(1..), list.get(2..)) else {
        return list.iter().all(|byte| fits(*byte));
    };
    let all = list.iter().fold(true, |all, byte| all & fits(*byte));
    let three = list.iter().zip(seconds).zip(thirds);
    all & three.fold(true, |all, ((a, b), c)| {
        let comma = *a == b',';
        all & !(comma & ((*b == b',') | ((*b == b'0') & digit(*c))))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Formats a line as LoadGen does.
    fn written(value: &str) -> String {
        format!(
            " {{\"key\": \"a_key\", \"value\": {value}, \"time_ms\": 12.5, \"namespace\": \
             \"mlperf::logging\", \"event_type\": \"POINT_IN_TIME\", \"metadata\": \
             {{\"is_error\": true, \"is_warning\": false, \"file\": \"a.cc\", \"line_no\": 1, \
             \"pid\": 2, \"tid\": 3}}}}\n"
        )
    }

    #[test]
    fn lines_of_the_load_generator_need_no_parser() {
        let values =
            ["0", "-1.5e-3", "true", "false", "\"a \\n b\"", "18446744073709551615", "\"\""];
        for value in values {
            let line = written(value);
            let read = read(line.as_bytes());
            assert_eq!(
                read,
                Some(Line { key: b"a_key", value: value.as_bytes(), is_error: true }),
                "{value}"
            );
        }
        for list in ["[0]", "[7]", "[10,20]", "[1,0,2]", "[0,1,10,0]"] {
            let line = written(list);
            assert_eq!(read(line.as_bytes()).map(|line| line.value), Some(&b"[]"[..]), "{list}");
        }
    }

    #[test]
    fn what_is_no_json_or_of_another_form_is_left_to_a_parser() {
        let values = [
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "nan",
            "null",
            "tru",
            "\"\\u0041\"",
            "\"\u{e9}\"",
            "\"a\tb\"",
            "[]",
            "[,]",
            "[1,]",
            "[,1]",
            "[1,,2]",
            "[01]",
            "[1,00]",
            "[1,01]",
            "[1,2,03,4]",
            "[1.5]",
            "[1, 2]",
            "[-1]",
            "[[1]]",
            "{}",
            "",
            "1 ",
        ];
        for value in values {
            assert_eq!(read(written(value).as_bytes()), None, "{value}");
        }
        assert_eq!(read(written("1").trim_end().trim_end_matches('}').as_bytes()), None);
        assert_eq!(read(b""), None);
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_a_parser_reads(
            value in "[0-9,]{1,9}|-?[0-9.eE+-]{1,6}|\\[[0-9,]{0,9}\\]|\"[ -~]{0,6}\"|true|false|null",
            at in 0_usize..250,
            byte in prop_oneof![Just(None), any::<u8>().prop_map(Some), Just(Some(b'"'))],
        ) {
            let mut line = written(&value).into_bytes();
            if let (Some(place), Some(byte)) = (line.get_mut(at), byte) {
                *place = byte;
            }
            if let Some(read) = read(&line) {
                let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&line).is_ok();
                prop_assert!(is_json);
                // A number may be too large to be one.
                let Ok(parsed) = serde_json::from_slice::<Value>(&line) else { return Ok(()) };
                prop_assert_eq!(parsed["key"].as_str().map(str::as_bytes), Some(read.key));
                prop_assert_eq!(&parsed["metadata"]["is_error"], read.is_error);
                if parsed["value"].is_array() {
                    prop_assert_eq!(read.value, b"[]");
                } else {
                    let value: Value = serde_json::from_slice(read.value).unwrap();
                    prop_assert_eq!(&parsed["value"], &value);
                }
            }
        }
    }
}
