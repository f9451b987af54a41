//! Text and truth of values in the official checkers, which are written in Python.

use std::borrow::Cow;

use serde_json::Value;

/// First character of a text that stands for a number which Python reads but JSON does not
/// allow.
const NO_JSON: char = '\0';

/// Doubles [`NO_JSON`] at the start of each text, so that no text of the document is mistaken
/// for such a number.
pub fn with_marks(json: &str) -> Cow<'_, str> {
    const BEGINS: &str = r#""\u0000"#;
    if json.contains(BEGINS) {
        json.replace(BEGINS, r#""\u0000\u0000"#).into()
    } else {
        json.into()
    }
}

/// Converts JSON with Python's extensions to plain JSON; returns `None` if nothing changes.
/// `NaN`, `Infinity`, `-Infinity` and overflowing numbers become texts that [`number`]
/// recognizes. Call [`with_marks`] first.
pub fn json(text: &str) -> Option<String> {
    let mut converted = String::with_capacity(text.len() + 16);
    let (mut rest, mut is_text) = (text, false);
    while let Some(next) = rest.chars().next() {
        let token = ["NaN", "Infinity", "-Infinity"].into_iter().find(|one| rest.starts_with(one));
        let length = match token.filter(|_| !is_text) {
            Some(token) => {
                converted += &format!("\"\\u0000{token}\"");
                token.len()
            }
            None if is_text && next == '\\' => {
                let (length, escape) = escape(rest);
                converted += escape;
                length
            }
            None if !is_text && (next == '-' || next.is_ascii_digit()) => {
                let is_number_char = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
                let token = &rest[..rest.find(|c| !is_number_char(c)).unwrap_or(rest.len())];
                match token.parse() {
                    Ok(f64::INFINITY) => converted += "\"\\u0000Infinity\"",
                    Ok(f64::NEG_INFINITY) => converted += "\"\\u0000-Infinity\"",
                    _ => converted += token,
                }
                token.len()
            }
            None => {
                is_text ^= next == '"';
                converted.push(next);
                next.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    (converted != text).then_some(converted)
}

/// Returns the length of the escape at the start of a text, and the escape for plain JSON. Python
/// accepts half of a surrogate pair, which becomes a replacement character.
fn escape(text: &str) -> (usize, &str) {
    const LENGTH: usize = 6;
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)
    };
    match unit(text) {
        Some(0xd800..=0xdbff) => match text.get(LENGTH..).and_then(unit) {
            Some(0xdc00..=0xdfff) => (2 * LENGTH, &text[..2 * LENGTH]),
            _ => (LENGTH, "\\ufffd"),
        },
        Some(0xdc00..=0xdfff) => (LENGTH, "\\ufffd"),
        _ => {
            let length = 1 + text.chars().nth(1).map_or(0, char::len_utf8);
            (length, &text[..length])
        }
    }
}

/// Parses a text that stands for a number which JSON does not allow.
fn no_json(text: &str) -> Option<f64> {
    text.strip_prefix(NO_JSON)?.parse().ok()
}

/// Returns a text as it was written, without the mark.
fn unmarked(text: &str) -> &str {
    text.strip_prefix(NO_JSON).unwrap_or(text)
}

/// Formats a number as Python does: the shortest digits that round-trip, with a decimal point.
pub fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    // `{:?}` keeps the point; numbers for which it would write an exponent are handled above.
    format!("{value:?}")
}

/// Formats a value as Python's `str` does.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) if number.is_f64() => float(number.as_f64().unwrap_or(f64::NAN)),
        Value::Number(number) => number.to_string(),
        Value::String(text) => no_json(text).map_or_else(|| unmarked(text).to_owned(), float),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(quoted).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("'{name}': {}", quoted(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) if no_json(text).is_none() => format!("'{}'", unmarked(text)),
        value => self::text(value),
    }
}

/// Formats a value as Python's `json.dumps` does.
pub fn dumps(value: &Value) -> String {
    let list = |texts: Vec<String>| texts.join(", ");
    match value {
        Value::Null | Value::Bool(_) => value.to_string(),
        Value::Number(_) => self::text(value),
        Value::String(text) => match no_json(text) {
            Some(number) if number.is_nan() => "NaN".to_owned(),
            Some(number) => if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
            None => ascii_json(unmarked(text)),
        },
        Value::Array(values) => format!("[{}]", list(values.iter().map(dumps).collect())),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| format!("{}: {}", ascii_json(unmarked(name)), dumps(value)));
            format!("{{{}}}", list(fields.collect()))
        }
    }
}

/// Formats a text as a JSON string in which all characters that are not printable ASCII are escaped.
fn ascii_json(text: &str) -> String {
    let escaped = |character: char| match character {
        ' '..='~' => character.to_string(),
        _ => character
            .encode_utf16(&mut [0; 2])
            .iter()
            .map(|unit| format!("\\u{unit:04x}"))
            .collect(),
    };
    Value::from(text).to_string().chars().map(escaped).collect()
}

/// Whether a value is true in Python: not empty and not zero.
pub fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(values) => !values.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// Converts a text as Python's `float` does: with blanks around it, and with single underscores
/// between digits.
pub fn float_of(text: &str) -> Option<f64> {
    let text = text.trim_matches(is_space);
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let bytes = text.as_bytes();
    let between_digits = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        is_digit(before) && is_digit(bytes.get(at + 1))
    };
    let mut places = text.match_indices('_').map(|(at, _)| at);
    if !places.all(between_digits) {
        return None;
    }
    text.replace('_', "").parse().ok()
}

/// Converts numbers and texts to an integer as Python's `int` does.
pub fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(flag) => Some(i64::from(*flag)),
        Value::String(text) => text.trim_matches(is_space).parse().ok(),
        #[expect(clippy::cast_possible_truncation, reason = "this is what `int` does")]
        value => value.as_i64().or_else(|| value.as_f64().map(|number| number as i64)),
    }
}

/// Whether Python's `str.strip` removes a character.
pub fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\x1c'..='\x1f').contains(&character)
}

/// Returns a value as a number for comparison; booleans count as 0 and 1.
pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::String(text) => no_json(text),
        value => value.as_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_reads_numbers_that_json_has_not() {
        let read = |text: &str| serde_json::from_str::<Value>(&json(text).unwrap()).unwrap();
        let value = read(r#"{"a": NaN, "b": [-Infinity, Infinity], "c \" NaN": "NaN"}"#);
        assert!(number(&value["a"]).unwrap().is_nan());
        assert_eq!(number(&value["b"][0]), Some(f64::NEG_INFINITY));
        assert_eq!((text(&value["a"]), text(&value["b"])), ("nan".into(), "[-inf, inf]".into()));
        assert_eq!((&value["c \" NaN"], number(&value["c \" NaN"])), (&Value::from("NaN"), None));
        assert_eq!((json("{\"NaN\": 1}"), json("")), (None, None));
        assert!(serde_json::from_str::<Value>(&json("NaNNaN").unwrap()).is_err());
    }

    #[test]
    fn no_text_is_a_number_and_what_is_too_large_is_infinite() {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        for own in [r#""\u00005""#, r#""\u0000NaN""#, r#""\u0000\u0000-Infinity""#] {
            let value = read(&with_marks(own));
            assert_eq!((number(&value), text(&value).into()), (None, read(own)), "{own}");
        }
        let json = json(&with_marks(r#"["\u0000NaN", 1e999, -1e999, 1e-999, "1e999"]"#)).unwrap();
        let value = read(&json);
        let infinite = [f64::INFINITY, f64::NEG_INFINITY];
        assert_eq!([1, 2].map(|at| number(&value[at]).unwrap()), infinite);
        assert_eq!((number(&value[3]), number(&value[0])), (Some(0.0), None));
        assert_eq!(text(&value), "['\0NaN', inf, -inf, 0.0, '1e999']");
    }

    /// The texts are those of Python's `json.dumps(json.loads(text))`.
    #[test]
    fn json_is_written_as_in_python() {
        for (text, written) in [
            ("[1,2.0,1e20,true,null]", "[1, 2.0, 1e+20, true, null]"),
            (r#"{"a":{"b":"x, \"y\""}}"#, r#"{"a": {"b": "x, \"y\""}}"#),
            (r#"{"é":"\n\u007f😀"}"#, r#"{"\u00e9": "\n\u007f\ud83d\ude00"}"#),
        ] {
            let value = serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(dumps(&value), written, "{text}");
        }
    }

    #[test]
    fn a_text_is_a_number_as_in_python() {
        for (text, number) in [
            (" 12 ", Some(12.0)),
            ("1_000.5", Some(1000.5)),
            ("1e400", Some(f64::INFINITY)),
            ("-Infinity\x1f", Some(f64::NEG_INFINITY)),
            ("_1", None),
            ("1__0", None),
            ("1_.5", None),
            ("1 0", None),
            ("", None),
        ] {
            assert_eq!(float_of(text), number, "{text:?}");
        }
        assert!(float_of("nan").unwrap().is_nan());
    }

    #[test]
    fn half_of_a_surrogate_pair_is_read_by_python_alone() {
        let read = |text: &str| serde_json::from_str::<Value>(&json(text).unwrap()).unwrap();
        assert_eq!(read(r#"["\ud800", "\udc00x", "\ud800\n"]"#)[1], "\u{fffd}x");
        assert_eq!(json(r#"["\ud83d\ude00", "\\ud800"]"#), None, "a pair, and a backslash");
    }

    #[test]
    fn numbers_print_as_in_python() {
        let cases = [
            (27185.5, "27185.5"),
            (5.0, "5.0"),
            (0.0, "0.0"),
            (155.14234758628498, "155.14234758628498"),
            (1e16, "1e+16"),
            (1.5e-7, "1.5e-07"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (1e15, "1000000000000000.0"),
        ];
        for (value, text) in cases {
            assert_eq!(float(value), text);
        }
    }
}
