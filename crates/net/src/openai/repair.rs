//! JSON that is invalid for reasons that do not concern its content.

use serde::Deserialize;

use crate::oip::with_quoted_numbers;

/// Parses JSON. If its syntax is invalid, this parses what [`repaired`] returns, which is kept in `repair`.
/// The last of several members with one name counts, as in Python and JavaScript. Returns `None` if the JSON
/// is still invalid, is cut off, or has members of other types.
pub(super) fn parsed<'a, T: Deserialize<'a>>(json: &'a [u8], repair: &'a mut Vec<u8>) -> Option<T> {
    match serde_json::from_slice(json) {
        Ok(value) => return Some(value),
        Err(error) if error.is_syntax() => *repair = repaired(json),
        Err(error) if has_members_twice(&error) => *repair = without_duplicates(json)?,
        Err(_) => return None,
    }
    serde_json::from_slice(repair).ok()
}

/// Returns whether the error is that a member occurs twice. The library has no other sign of it.
fn has_members_twice(error: &serde_json::Error) -> bool {
    error.is_data() && error.to_string().starts_with("duplicate field")
}

/// Returns JSON with the last of several members with one name.
fn without_duplicates(json: &[u8]) -> Option<Vec<u8>> {
    let value: serde_json::Value = serde_json::from_slice(json).ok()?;
    serde_json::to_vec(&value).ok()
}

/// Returns the content of a list in JSON, which is valid JSON if the list has one element; other JSON
/// unchanged. A request for one answer may come back as a list of one, and so do errors of some gateways.
pub(super) fn without_list(json: &[u8]) -> &[u8] {
    match json.trim_ascii() {
        [b'[', inside @ .., b']'] => inside,
        json => json,
    }
}

/// Returns JSON with U+FFFD in place of halves of characters, and with strings in place of numbers that are
/// not finite. Servers write halves of byte tokens, gateways cut texts within a surrogate pair, and
/// logarithms of probabilities may be infinite.
fn repaired(json: &[u8]) -> Vec<u8> {
    let text = without_lone_surrogates(&String::from_utf8_lossy(json));
    with_quoted_numbers(text.as_bytes()).unwrap_or_else(|| text.into_bytes())
}

/// Bytes of the escape of a UTF-16 unit, such as `\ud83d`.
const UNIT: usize = 6;

fn without_lone_surrogates(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let length = match (unit(escape), escape.get(UNIT..).and_then(unit)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 2 * UNIT,
            (Some(0xd800..0xe000), _) => {
                out.push('\u{fffd}');
                rest = &escape[UNIT..];
                continue;
            }
            _ => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    out.push_str(rest);
    out
}

/// Returns the UTF-16 unit of an escape at the begin of a text.
fn unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_syntax_is_repaired() {
        for (json, expected, is_repaired) in [
            ("[\"a\"]", Some("a"), false),
            ("[\"\\ud83d\"]", Some("\u{fffd}"), true),
            ("[NaN]", Some("NaN"), true),
            ("[7]", None, false),
            ("[\"a\"", None, false),
        ] {
            let mut repair = Vec::new();
            let found: Option<Vec<String>> = parsed(json.as_bytes(), &mut repair);
            assert_eq!(found, expected.map(|text| vec![text.to_owned()]), "{json}");
            assert_eq!(!repair.is_empty(), is_repaired, "{json}");
        }
    }

    #[test]
    fn the_last_of_several_members_counts() {
        #[derive(Deserialize, PartialEq, Debug)]
        struct Members {
            a: Option<u32>,
            b: Option<u32>,
        }
        for (json, expected) in [
            (r#"{"a":1,"b":2,"a":3}"#, Some(Members { a: Some(3), b: Some(2) })),
            (r#"{"a":1,"a":null}"#, Some(Members { a: None, b: None })),
            (r#"{"a":1,"a":"x"}"#, None),
            (r#"{"a":1,"a":2"#, None),
        ] {
            let mut repair = Vec::new();
            assert_eq!(parsed(json.as_bytes(), &mut repair), expected, "{json}");
        }
    }

    #[test]
    fn half_a_pair_is_replaced_and_nothing_else() {
        for (text, expected) in [
            (r#""a\ud83d""#, "\"a\u{fffd}\""),
            (r#""\ude00b""#, "\"\u{fffd}b\""),
            (r#""\ud83d\ud83d\ude00\u0041""#, "\"\u{fffd}\\ud83d\\ude00\\u0041\""),
            (r#""\\ud83d\n\"é\é""#, r#""\\ud83d\n\"é\é""#),
            (r"\ud83", r"\ud83"),
            (r"\", r"\"),
        ] {
            assert_eq!(without_lone_surrogates(text), expected);
        }
    }
}
